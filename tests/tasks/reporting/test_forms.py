"""The report as JSON and as Markdown: they say what the page says, and names break neither."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.storage.files import write_file
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.pipeline.report import report_files
from chaffinch.tasks.promotion.promote import note_need
from chaffinch.tasks.reporting.text import visible
from tests.documents import ROOT
from tests.tasks.methods.test_auto import table_of
from tests.tasks.reporting.synthetic_report import (
    Page,
    explained,
    numbered,
    ranked,
    synthetic,
    with_contract,
)

pytestmark = pytest.mark.usefixtures("undrawn")
HOSTILE = "a|b\n`c` <script>*d*</script> | [e](f) \\"
LONGEST_COMMENT = 65_536  # characters that GitHub takes


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> chaffinch.SelectionResult:
    return chaffinch.select(
        table_of(),
        "y",
        model=ModelSettings(name="linear", tuning="none"),
        store=tmp_path_factory.mktemp("store"),
    )


@pytest.mark.parametrize("n", [12, 300])
def test_tables_sections_and_sentences_of_the_json_are_those_of_the_page(n: int) -> None:
    forms = report_files(explained(ranked(synthetic(numbered(n), n // 3))))
    page, found = Page(forms["report.html"]), json.loads(forms["report.json"])
    assert [section["heading"] for section in found["sections"]] == page.headings[1:]
    blocks = [block for section in found["sections"] for block in section["blocks"]]
    tables = {one["caption"]: [one["columns"], *one["rows"]] for one in blocks if "rows" in one}
    assert tables == page.tables
    texts = [block["text"] for block in blocks if "text" in block] + found["sentences"]
    texts += [block["caption"] for block in blocks if block["kind"] == "figure"]
    assert len(texts) > 15
    for text in texts:
        assert re.sub(r"\s+", "", text) in re.sub(r"\s+", "", page.text)
    assert (found["verdict"], found["run"]) == ("better", "breast_cancer-3b1f09ac")
    for figure in found["figures"]:
        assert f"{figure['name']} {figure['selected']} {figure['all_features']}" in page.text
    assert len(found["columns"]) == n + 1


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    schema = json.loads((ROOT / "storage" / "report.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize("kind", ["auto", "correlation", "gbmo", "sequential_forward", "afs_bm"])
def test_a_report_holds_to_the_schema_whatever_the_method(kind, schema, tmp_path) -> None:
    X = table_of()
    table = X.assign(
        kind=np.where(np.arange(len(X)) % 3, "red", "blue"),
        flag=np.arange(len(X)) % 2 > 0,
        name=[f"row {row}" for row in range(len(X))],
    )
    found = chaffinch.select(
        table, "y", model=ModelSettings(name="linear", tuning="none"), method=kind
    )
    report = json.loads(found.report(tmp_path / "report.json").read_bytes())
    jsonschema.validate(report, schema)
    assert report.keys() == schema["properties"].keys()
    columns = {column["column"]: column for column in report["columns"]}
    assert columns.keys() == {*table.columns}
    properties = schema["$defs"]["column"]["properties"]
    assert {name for column in columns.values() for name in column} <= properties.keys()
    assert {"type", "distinct", "missing", "counts"} < columns["kind"].keys()
    assert sum(columns["kind"]["counts"]) == sum(columns["y"]["counts"]) == len(table)
    assert "association" not in columns["name"]
    assert columns["flag"]["association"] >= 0


def test_every_kind_of_block_is_in_the_schema_and_holds_to_it(schema) -> None:
    content = explained(ranked(synthetic(numbered(300), 100)))
    report = json.loads(report_files(content)["report.json"])
    jsonschema.validate(report, schema)
    named = set(schema["$defs"]["block"]["properties"])
    for block in (block for section in report["sections"] for block in section["blocks"]):
        assert block.keys() <= named
        for key in block.keys() - {"kind"}:
            lacking = {name: value for name, value in block.items() if name != key}
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**report, "sections": [_of(lacking)]}, schema)


def _of(block: dict[str, Any]) -> dict[str, Any]:
    return {"heading": "Features", "blocks": [block]}


def test_all_columns_are_in_the_json_of_a_wide_table_and_few_in_the_markdown() -> None:
    names = [f"{i} ".ljust(100, "ä") for i in range(10_000)]
    forms = report_files(explained(ranked(synthetic(names, 700))))
    columns = json.loads(forms["report.json"])["columns"]
    assert len(columns) == 10_001
    assert all(value is not None for column in columns for value in column.values())
    lines = forms["report.json"].decode().splitlines()
    begin = lines.index('"columns":[') + 1
    assert [json.loads(line.rstrip(",")) for line in lines[begin : begin + 10_001]] == columns
    assert len(forms["report.md"].decode()) < LONGEST_COMMENT


def test_what_the_model_explains_is_on_the_first_screen_of_every_form() -> None:
    content = synthetic(numbered(6), 2)
    comparison = {**content.contract.to_dict()["comparison"], "explained": [0.2111, 0.4]}
    forms = report_files(with_contract(content, comparison=comparison))
    explained = "The kept features explain 21.1 % to 40 % of a constant"
    (line,) = (
        line for line in json.loads(forms["report.json"])["summary"] if line["label"] == "Explained"
    )
    assert line["text"].startswith(explained)
    for form, heading in (
        ("report.html", ">How sure the verdict is</h2>"),
        ("report.md", "## How"),
    ):
        first_screen, is_there, _ = forms[form].decode().partition(heading)
        assert is_there
        assert explained in first_screen


def test_names_break_no_table_of_the_markdown_and_run_nothing() -> None:
    content = synthetic([HOSTILE, "b", "c"], 3)
    target = {**content.contract.to_dict()["target"], "name": HOSTILE, "classes": [HOSTILE]}
    content = with_contract(content, target=target, loss=HOSTILE)
    content = explained(replace(content, source=HOSTILE, warnings=[HOSTILE]))
    text = report_files(content)["report.md"].decode()
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", visible(HOSTILE))
    assert text.count(escaped) > 5
    assert "<script" not in re.sub(r"\\<", "", text)
    width = None
    for line in text.splitlines():
        cells = re.split(r"(?<!\\)(?:\\\\)*\|", line) if line.startswith("|") else None
        assert not (cells and width) or len(cells) == width, line
        width = len(cells) if cells else None


def test_the_markdown_has_the_verdict_and_then_the_sections_of_the_page(result, tmp_path) -> None:
    text = result.report(tmp_path / "report.md").read_text()
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == page.headings[1:]
    assert f"\n\n**Verdict: {result.comparison['verdict']}.**\n\n" in text
    assert text.index("**Verdict") < text.index("| Features kept | ") < text.index("## Features")


def test_the_files_are_named_with_their_hashes_and_read_back(result, tmp_path) -> None:
    run = Store.of(result.folder).existing(result.run)
    record = run.record("write_report")
    assert sorted(record.files) == ["report.html", "report.json", "report.md"]
    for name in record.files:
        kept = (result.folder / name).read_bytes()
        assert record.read(name) == kept
        assert result.report(tmp_path / name).read_bytes() == kept


def test_a_need_of_a_decision_stands_in_every_form(result) -> None:
    run = Store.of(result.folder).existing(result.run)
    before = {name: (run.folder / name).read_bytes() for name in run.record("write_report").files}
    note_need(run, "orders", "a column <is> gone")
    assert json.loads((run.folder / "report.json").read_bytes())["needs_decision"] == (
        "a column <is> gone"
    )
    assert "needed a decision: a column \\<is\\> gone." in (run.folder / "report.md").read_text()
    assert (
        b"needed a decision: a column &lt;is&gt; gone." in (run.folder / "report.html").read_bytes()
    )
    assert chaffinch.load_run(run.name, store=run.folder.parents[1]).run == run.name
    note_need(run, "orders", "")
    for name, form in before.items():
        assert (run.folder / name).read_bytes() == form


def test_a_run_of_an_earlier_release_opens_and_has_html_alone(result, tmp_path) -> None:
    run = Store.of(result.folder).existing(result.run)
    record = run.record("write_report")
    store = Store.open(tmp_path / "earlier")
    older = store.run(run.name)
    for path in run.folder.rglob("*"):
        name = str(path.relative_to(run.folder))
        if path.is_file() and not path.name.startswith(".") and "write_report" not in name:
            write_file(older.folder / name, path.read_bytes())
    with older.stage("write_report", record.key) as writer:
        writer.write("report.html", record.read("report.html"))
    loaded = chaffinch.load_run(run.name, store=store.path)
    assert loaded.report(tmp_path / "page.html").read_bytes() == record.read("report.html")
    with pytest.raises(InputError, match=r"earlier release, which wrote no report\.json"):
        loaded.report(tmp_path / "report.json")
    assert loaded.why().equals(result.why())
    note_need(older, "orders", "a column is gone")
    assert (older.folder / "report.html").read_bytes() != record.read("report.html")

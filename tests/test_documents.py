"""README and docs hold: snippets run, commands and settings parse, links lead somewhere."""

import gzip
import re
import shlex

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn import datasets
from sklearn.utils import Bunch

import chaffinch
from chaffinch.flows.cli.commands import cli
from chaffinch.flows.cli.settings_file import COMMANDS, read_settings, settings_by_table
from chaffinch.tasks.selection.models import MODELS
from chaffinch.tasks.settings.method import class_of, declared, kinds
from chaffinch.tasks.settings.selection import ExecutionSettings, ModelSettings, SelectionSettings
from chaffinch.tasks.statistics.metrics import METRICS
from tests.documents import (
    INTERNAL,
    PAGES,
    ROOT,
    anchors,
    blocks,
    commands,
    links,
    name_of,
    paths,
    python,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Enter a folder with the snippets' tables; make scikit-learn's smaller, and tune nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("chaffinch.tasks.methods.fitting._MOST_CANDIDATES", 1)
    monkeypatch.setattr(datasets, "load_breast_cancer", part_of_breast_cancer)
    random = np.random.default_rng(0)
    for name in ("orders.parquet", "newer.parquet"):
        table = pd.DataFrame(random.normal(size=(80, 4)), columns=list("abcd"))
        table.assign(price=3 * table["a"] - 2 * table["b"]).to_parquet(name)
    X = random.normal(size=(300, 20)) * (random.random((300, 20)) < 0.3)
    for day, rows in enumerate(np.array_split(X, 2), 1):
        with gzip.open(f"day-{day}.svmlight.gz", "wb") as file:
            datasets.dump_svmlight_file(rows, rows[:, 3] - rows[:, 7], file, zero_based=False)


def part_of_breast_cancer(*, return_X_y=False, whole=datasets.load_breast_cancer, as_frame):
    """Return every fourth row, the ten means, three errors and three worst values."""
    assert as_frame
    table = whole(as_frame=True).frame.iloc[::4]
    table = table[[*table.columns[:13], *table.columns[20:23], "target"]].reset_index(drop=True)
    if return_X_y:
        return table.drop(columns="target"), table["target"]
    return Bunch(frame=table)


@pytest.mark.parametrize(("page", "snippets"), python(with_prefect=False), ids=name_of)
@pytest.mark.usefixtures("folder", "undrawn", "few_resamples")
def test_the_python_snippets_of_a_page_run_in_their_order(page, snippets):
    names = {}
    for code in snippets:
        exec(compile(code, name_of(page), "exec"), names)  # noqa: S102


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 1200


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_has_the_options_that_it_is_given(page):
    for line in commands(page):
        words = shlex.split(line, comments=True)
        words = words[1 : words.index(">") if ">" in words else None]
        command = cli.commands[words[0]]
        command.make_context(words[0], words[1:])


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=name_of)
def test_every_file_of_settings_is_one(page, tmp_path):
    for text in blocks(page, "toml"):
        (tmp_path / "selection.toml").write_text(text)
        for settings in settings_by_table(read_settings(str(tmp_path / "selection.toml")), "serve"):
            groups = {"execution": ExecutionSettings, **COMMANDS}
            assert settings.pop("data")
            for group in settings.keys() & groups:
                groups[group].model_validate(settings.pop(group))
            SelectionSettings.model_validate(settings)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")], ids=name_of)
def test_every_ci_job_is_yaml(page):
    for text in blocks(page, "yaml"):
        assert yaml.safe_load(text)["jobs"]


def test_the_guide_to_methods_has_each_with_its_needs():
    guide = (ROOT / "docs" / "methods" / "index.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+) \|([^|]*)\|", guide, re.MULTILINE)
    assert sorted(kind for kind, *_ in rows) == sorted(kinds())
    for kind, finds, needs in rows:
        by_default = class_of(kind).model_fields["n_features"].default
        may_find = by_default is None and "min_score" not in class_of(kind).model_fields
        limit = declared(kind).traits.limits_size
        assert finds == ("yes" if limit else "unless given" if may_find else "no"), kind
        assert ("no weights" in needs) is not declared(kind).traits.takes_weights, kind


def test_every_method_is_named_where_users_choose_one():
    for text in ((ROOT / "README.md").read_text(), chaffinch.select.__doc__):
        assert [kind for kind in kinds() if not re.search(f'`"?{kind}"?`', text)] == []


def test_every_model_is_named_where_users_choose_one():
    pages = [ROOT / "README.md", ROOT / "docs" / "command-line.md"]
    for text in (*(page.read_text() for page in pages), chaffinch.select.__doc__):
        assert [name for name in MODELS if not re.search(f'`"?{name}"?`', text)] == []
    assert ModelSettings.model_fields["name"].description.startswith(", ".join(MODELS))


def test_every_metric_is_named_where_they_are_listed():
    listed = chaffinch.SelectionResult.metrics.__doc__
    listed += (ROOT / "storage" / "README.md").read_text()
    titles = (ROOT / "docs" / "verdict.md").read_text().lower()
    for name, title in METRICS.items():
        assert f'``"{name}"``' in listed
        assert f"`{name}`" in listed
        assert title.lower() in titles


def test_the_reference_has_the_public_names_and_no_others():
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.rst"))
    listed = re.findall(r"^\.\. auto(?!module)\w+:: chaffinch\.([\w.]+)$", pages, re.MULTILINE)
    modules = ("exports", "methods", "qualities")
    public = {*chaffinch.__all__} - {*modules, "__version__"}
    public |= {f"{one}.{name}" for one in modules for name in getattr(chaffinch, one).__all__}
    assert sorted(listed) == sorted(public)


@pytest.mark.parametrize("page", [*PAGES, *INTERNAL], ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_path_in_backticks_is_one_of_the_repository():
    """It may leave out the first folders, as in `baselines/filters.py`."""
    rooms = ("deployments", "examples", "flows", "src", "storage", "tasks", "tests")
    known = [f"/{room}" for room in rooms]
    known += [str(path) for room in rooms for path in (ROOT / room).rglob("*")]
    named = [(name_of(page), one) for page in (*PAGES, *INTERNAL) for one in paths(page)]
    assert [
        named_so for named_so in named if not any(k.endswith(f"/{named_so[1]}") for k in known)
    ] == []

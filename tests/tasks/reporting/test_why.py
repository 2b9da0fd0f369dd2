"""Why a column was kept, dropped or left out: one sentence for page, terminal, Python and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import ModelSettings
from chaffinch.errors import InputError
from chaffinch.flows.cli.commands import cli
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.text import bound_of_share, interval, number
from chaffinch.tasks.reporting.why import columns_of
from chaffinch.tasks.results.result import reasons_of
from tests.tasks.reporting.synthetic_report import (
    Page,
    explained,
    numbered,
    ranked,
    synthetic,
    with_contract,
)
from tests.tasks.snapshots import check_snapshot

LINEAR = ModelSettings(name="linear", tuning="none")
pytestmark = pytest.mark.usefixtures("undrawn")


def table() -> pd.DataFrame:
    """A table of which the reason is known for every column."""
    random = np.random.default_rng(7)
    X = random.normal(size=(600, 10))
    names = ["strong", "middle", "weak", "asked_for", *(f"noise_{place}" for place in range(6))]
    table = pd.DataFrame(X, columns=names)
    table["copy_of_strong"] = table["strong"] + 0.001 * random.normal(size=600)
    table["constant"], table["dropped"] = 1.0, random.normal(size=600)
    table["customer"] = [f"customer {row}" for row in range(600)]
    table.loc[:59, "middle"] = np.nan
    y = 3 * X[:, 0] + 2 * np.nan_to_num(table["middle"]) + 0.3 * X[:, 2]
    return table.assign(price=y + 0.5 * random.normal(size=600))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> chaffinch.SelectionResult:
    return chaffinch.select(
        table(),
        "price",
        model=LINEAR,
        keep=["asked_for"],
        drop=["dropped"],
        store=tmp_path_factory.mktemp("store"),
    )


@pytest.fixture(scope="module")
def why(result: chaffinch.SelectionResult) -> pd.DataFrame:
    return result.why().set_index("column")


def test_every_column_of_the_table_has_one_sentence(why, result) -> None:
    assert sorted(why.index) == sorted(table().columns)
    assert why["why"].str.match(r"[A-Z][^\n]*\.$").all()
    assert sorted(why.index[why["state"] == "kept"]) == sorted(result.features)


def test_the_reason_is_the_one_that_is_known(why) -> None:
    stands, copy = sorted(
        ["strong", "copy_of_strong"], key=lambda name: why["state"][name] != "kept"
    )
    assert why["group"].dropna().to_dict() == {stands: stands, copy: stands}
    assert why["why"][copy] == f"Near copy of {stands!r}, which stands for it."
    assert why["why"][stands].startswith("Rank 1 " if why["rank"][stands] == 1 else "Without it, ")
    assert why["why"][stands].endswith(f"; it stands for {copy!r}, a near copy of it.")
    assert why["why"]["asked_for"] == "It is on the keep list."
    assert why["why"]["dropped"] == "It is on the drop list."
    assert why["why"]["constant"] == "Left out before the search: constant."
    assert why["why"]["customer"].startswith("Left out before the search: identifier: every value")
    assert why["why"]["price"] == "It is the target column."
    assert why["state"]["price"] == "target"


def test_what_takes_nothing_off_the_loss_says_so(why, result) -> None:
    run = Store.of(result.folder).existing(result.run)
    left_first = run.record("optimise_mask").result["left_first"]
    assert left_first["near_copies"] == 1
    so_many = left_first["of_no_use"], left_first["nothing_off"]
    begins = "Of no use on held-out rows: it takes", "By its attribution, it takes nothing off the"
    assert so_many == tuple(why["why"].str.startswith(begin).sum() for begin in begins)
    assert sum(so_many) > 1
    assert set(why.index[why["why"].str.startswith(begins)]) < {f"noise_{i}" for i in range(6)}


def test_type_missing_share_rank_and_folds_are_those_of_the_run(why, result) -> None:
    assert why["missing"]["middle"] == pytest.approx(0.1)
    assert why["type"]["strong"] == "number"
    assert (why["type"]["customer"], why["distinct"]["customer"]) == ("category", 600)
    ranks = why["rank"].dropna().astype(int)
    assert ranks.to_dict() == result.ranks
    shares = result.stability["share_of_folds"]
    assert why["share_of_folds"].dropna().to_dict() == shares
    order = [name for name in why.index if name in ranks.index]
    kept = {state: [n for n in order if why["state"][n] == state] for state in ("kept", "dropped")}
    for names in kept.values():
        assert names == sorted(names, key=result.ranks.__getitem__)


@pytest.mark.parametrize("n_kept", [1, 2])
def test_a_feature_names_what_the_most_features_without_it_lose(n_kept) -> None:
    result = chaffinch.select(
        table().drop(columns="copy_of_strong"), "price", model=LINEAR, n_features=n_kept
    )
    bounds = result.curve.set_index("n_features")["share_lost_at_most"]
    by_rank = {rank: name for name, rank in result.ranks.items()}
    why = result.why().set_index("column")["why"]
    least = n_kept + 1
    lost = f"at most {bound_of_share(bounds[n_kept])} of what all features explain"
    kept, lose = ("1 is", "loses") if n_kept == 1 else (f"{n_kept} are", "lose")
    assert why[by_rank[least]].startswith(
        f"Rank {least} of {len(result.candidates)}; the first {kept} kept and {lose} {lost}"
    )
    for rank in range(2, least):
        size = max(size for size in bounds.index if size < rank)
        loses = f"lose{'s' * (size == 1)} at most {bound_of_share(bounds[size])}"
        assert why[by_rank[rank]].startswith(f"Without it, the best {size} {loses} of what all")


def test_terminal_report_and_json_say_the_same(why, result, tmp_path) -> None:
    store = ["--store", str(result.folder.parents[1])]
    printed = CliRunner().invoke(cli, ["why", result.run, *store]).stdout.splitlines()
    for line, (name, column) in zip(printed, why.iterrows(), strict=True):
        begin = f"{name} ({column['state']}): {column['why']}"
        assert line.startswith(begin)
        price = line.removeprefix(begin)
        assert bool(price) == (column["state"] == "kept")
        assert (bound_of_share(column["price"]) in price) == bool(price)
    asked = ["why", result.run, "constant", "--json", *store]
    (row,) = json.loads(CliRunner().invoke(cli, asked).stdout)
    columns = json.loads(result.report(tmp_path / "r.json").read_bytes())["columns"]
    assert row in columns
    assert [column["why"] for column in columns] == why["why"].tolist()
    page = Page(result.report(tmp_path / "r.html").read_bytes())
    kept, dropped = (
        next(rows for caption, rows in page.tables.items() if caption.startswith(begin))
        for begin in ("Kept features", "Dropped columns")
    )
    assert kept[0][:2] == ["Feature", "Why"]
    shown = {row[0]: row[1] for row in [*kept[1:], *dropped[1:]]}
    assert shown == why["why"].drop("price").to_dict()


def test_a_column_that_is_not_there_is_refused_with_the_nearest(result) -> None:
    asked = ["why", result.run, "strange", "--store", str(result.folder.parents[1])]
    error = CliRunner().invoke(cli, asked).exception
    assert isinstance(error, InputError)
    assert "there is no column 'strange'; nearest: " in str(error)


def with_settings(content: ReportContent, **settings: Any) -> ReportContent:
    return with_contract(content, settings={**content.contract.settings, **settings})


def without_steps(content: ReportContent, *, but: str = "") -> ReportContent:
    """Return the content with no step of any feature, or of that one alone."""
    entries = {
        key: [
            {**entry, "step": entry.get("step") if entry["name"] == but else None}
            for entry in content.contract.to_dict()[key]
        ]
        for key in ("features", "dropped")
    }
    return with_contract(content, **entries)


SIX, FOUR = synthetic(numbered(6), 2), synthetic(numbered(4), 4)
LOWEST = {**ranked(SIX).contract.settings["method"], "min_score": 105}
REASONS = {
    "a search by steps": SIX,
    "a ranking": ranked(SIX),
    "a lowest score": with_settings(ranked(SIX), method=LOWEST),
    "a whole set": without_steps(replace(SIX, path=[], masks=[(1, 2, 0.5)])),
    "all kept": FOUR,
    "some outlast the search": without_steps(FOUR, but="feature 0"),
    "constraints": with_settings(SIX, constraints={"groups": [], "budget": 3.0}),
    "groups that leave first": replace(
        synthetic(numbered(8), 2, method="auto"),
        left_first={"of_no_use": 1, "near_copies": 2, "nothing_off": 1},
        near_copies=[["feature 1", "feature 2", "feature 4"]],
    ),
    "stand-ins and prices": explained(SIX),
}


def test_near_copies_are_a_group_of_the_kept_one_or_else_of_the_best() -> None:
    copies = [["feature 0", "feature 6", "feature 5", "feature 7"], ["feature 2", "feature 3"]]
    columns = columns_of(replace(synthetic(numbered(8), 2), near_copies=copies))
    assert {column.column: column.group for column in columns if column.group} == {
        **dict.fromkeys(copies[0], "feature 7"),
        **dict.fromkeys(copies[1], "feature 3"),
    }


def test_the_reason_of_every_column_in_words() -> None:
    lines = []
    for name, content in REASONS.items():
        lines += [f"# {name}"] + [
            f"{one.column}, rank {one.rank}: {one.why} {one.price_in_words}".rstrip()
            for one in columns_of(content)
        ]
    check_snapshot("reasons of columns", lines)


def test_a_kept_column_has_one_price_with_one_interval_everywhere(why, result, tmp_path) -> None:
    run = Store.of(result.folder).existing(result.run)
    explanation = json.loads((run.folder / "explanation.json").read_bytes())
    (measured,) = (
        one for one in explanation["importance"]["features"] if one["feature"] == "middle"
    )
    price, rise, ends = measured["price"], measured["rise"], measured["interval"]
    (reason,) = (one for one in reasons_of(run) if one.column == "middle")
    assert reason.price_in_words == (
        f"Its price is at most {bound_of_share(price)} of what the model explains: masking "
        f"it changes the loss by {number(rise, '+')} {interval(ends)}."
    )
    assert why[["price", "loss_rise"]].loc["middle"].tolist() == [price, rise]
    assert why["loss_rise_interval"]["middle"] == ends
    of_result = result.importance.set_index("feature").loc["middle"]
    assert of_result.tolist() == [price, rise, *ends]
    result.report(tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_bytes())
    (column,) = (one for one in report["columns"] if one["column"] == "middle")
    assert (column["price"], column["loss_rise_interval"]) == (price, ends)
    tables = [
        (block["columns"], row)
        for section in report["sections"]
        for block in section["blocks"]
        if block["kind"] == "table" and "Price" in block["columns"]
        for row in block["rows"]
        if row[0] == "middle"
    ]
    assert [row[columns.index("Price")] for columns, row in tables] == [bound_of_share(price)] * 2
    assert not why["price"][why["state"] != "kept"].notna().any()

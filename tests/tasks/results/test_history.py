"""The history of a store: what each night found, what came and went, and what needs a person."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris

import chaffinch
from chaffinch import InputError, StorageError
from chaffinch.flows.cli.commands import cli
from chaffinch.storage.runs.decisions import (
    needed_decision,
    note_decision,
    note_open,
    noted_decision,
)
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import source_of
from chaffinch.tasks.pipeline.run import select_features
from chaffinch.tasks.results.history import History, HistoryRow, history_of
from chaffinch.tasks.results.history_page import render_history
from chaffinch.tasks.settings.selection import ExecutionSettings, ModelSettings, SelectionSettings
from tests.synthetic import good_table
from tests.tasks.reporting.synthetic_report import Page
from tests.tasks.results.made_store import begun, night
from tests.tasks.snapshots import check_snapshot

LINEAR = ModelSettings(name="linear", tuning="none")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Four nights of orders, of which one can no longer be read, and one of another table."""
    store = Store.open(tmp_path_factory.mktemp("shop"))
    first = night(store, 0, [0, 1, 2])
    contract = (first.folder / "selection.json").read_bytes()
    store.promotions.promote("shop", contract, first.name, "by hand", "looked at it")
    night(store, 1, [0, 1], loss=0.6, moved=[], decision="a column is gone")
    store.promotions.promote("shop", contract, first.name, "by hand", "it is back")
    damaged = night(store, 2, [0])
    (damaged.folder / "selection.json").write_text("{}")
    night(store, 3, [0, 1, 2], loss=0.4, moved=["feature 1"], decision="another scale <b>")
    begun(store, 4)
    night(store, 5, [5], source="<b>clicks.csv")
    return store


@pytest.fixture(scope="module")
def page(store: Store) -> Page:
    return Page(render_history(history_of(store)))


def say(store: Store, *command: str) -> str:
    ended = CliRunner().invoke(cli, [*command, "--store", str(store.path)], catch_exceptions=False)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return ended.stdout


def test_each_run_is_a_row_with_what_it_found(store: Store) -> None:
    found = chaffinch.run_history("shop", store=store.path).set_index("run")
    assert list(found.index) == [f"orders-{number}" for number in (0, 1, 2, 3, 4)]
    assert list(found["state"]) == [*["finished"] * 2, "damaged", "finished", "unfinished"]
    assert list(found["loss_selected"].dropna()) == [0.5, 0.6, 0.4]
    assert found["features"]["orders-1"] == ("feature 0", "feature 1")
    assert found["created"]["orders-0"] == pd.Timestamp("2026-01-01 02:00", tz="UTC")
    assert found["moved"]["orders-0"] is None
    assert found["moved"]["orders-3"] == ("feature 1",)
    assert "selection.json" in found["problem"]["orders-2"]
    assert list(found.index[found["is_in_use"]]) == ["orders-0"]


def test_runs_of_a_table_belong_to_the_name_that_one_was_promoted_under(store: Store) -> None:
    whole = chaffinch.run_history(store=store.path)
    assert sorted(set(whole["data_set"])) == ["b_clicks", "shop"]
    with pytest.raises(InputError, match="no data set 'shops'; nearest: shop"):
        chaffinch.run_history("shops", store=store.path)


def test_a_decision_is_open_until_something_is_promoted(store: Store) -> None:
    found = chaffinch.run_history("shop", store=store.path).set_index("run")
    assert dict(found["decision"][found["decision"] != ""]) == {
        "orders-1": "a column is gone",
        "orders-3": "another scale <b>",
    }
    assert list(found.index[found["is_open"]]) == ["orders-3"]


def test_a_decision_that_a_person_answered_is_kept_with_the_answer(tmp_path) -> None:
    store = Store.open(tmp_path)
    run = night(store, 0, [0], decision="a column is gone")
    assert needed_decision(run) == "a column is gone"
    note_decision(run, "shop", "a column is gone", "Not promoted as shop: it comes back")
    note_decision(run, "shop", "")  # started again, where nothing is to be decided
    assert needed_decision(run) == ""
    tables = Page(render_history(history_of(store))).tables
    assert not [name for name in tables if name.startswith("Open")]
    (made,) = tables["Decisions that were made (1)"][1:]
    assert made[1] == "a column is gone; answered: Not promoted as shop: it comes back"
    note_decision(run, "shop", "a column is gone", "Promoted as shop")  # of a second flow run
    needed = noted_decision(run)
    assert needed.answer == "Not promoted as shop: it comes back; Promoted as shop"


def test_an_unfinished_run_is_open_until_a_newer_one_of_its_data_set_has_finished(tmp_path) -> None:
    store = Store.open(tmp_path)
    night(store, 0, [0])
    begun(store, 1)
    (waiting,) = Page(render_history(history_of(store))).tables["Open (1)"][1:]
    assert waiting[3] == "orders-1"
    night(store, 2, [0])
    assert "Nothing: no decision is open" in Page(render_history(history_of(store))).text


def test_a_run_that_the_gate_lets_be_is_of_the_data_set_that_it_was_judged_under(tmp_path) -> None:
    run = night(Store.open(tmp_path), 0, [0], source="orders-2026-11-30.parquet")
    assert history_of(Store.open(tmp_path)).rows[0].data_set != "shop"
    note_decision(run, "shop", "")
    (row,) = history_of(Store.open(tmp_path)).rows
    assert (row.data_set, row.decision, row.is_open) == ("shop", "", False)
    assert needed_decision(run) == ""


def test_a_run_that_strict_stopped_is_listed_with_the_reason(tmp_path) -> None:
    settings = SelectionSettings(target="churned")
    execution = ExecutionSettings(store=tmp_path, cluster="none", strict=True)
    with pytest.raises(InputError) as refusal:
        select_features(source_of(good_table().assign(one=1)), settings, execution)
    (row,) = history_of(Store.open(tmp_path)).rows
    assert (row.state, row.problem) == ("refused", str(refusal.value))
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()] == [row.run]


def test_a_refused_run_is_open_with_the_reason_until_it_is_given_again(tmp_path) -> None:
    with pytest.raises(InputError) as refusal:
        chaffinch.select(good_table(), "churned", model="MultinomialNB", store=tmp_path)
    (run,) = Store.open(tmp_path).runs()
    (refused,) = Page(render_history(history_of(Store.open(tmp_path)))).tables["Open (1)"][1:]
    assert refused[1::2] == [f"It was refused: {refusal.value}", run.name]

    def interrupt(stage: str, *_: int) -> None:
        if stage == "train_base_model":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chaffinch.select(
            good_table(), "churned", model="MultinomialNB", store=tmp_path, verbose=interrupt
        )
    assert history_of(Store.open(tmp_path)).rows[0].state == "unfinished"


def test_a_refused_table_of_a_data_set_in_use_is_open_until_one_is_read(tmp_path) -> None:
    table, store = tmp_path / "orders.parquet", Store.open(tmp_path / "store")
    settings = {"method": "anova_f", "model": LINEAR, "n_features": 2, "store": store.path}

    def refused(change) -> str:
        change(good_table())
        with pytest.raises(InputError) as refusal:
            chaffinch.select(table, "churned", **settings)
        return str(refusal.value)

    refused(lambda rows: rows.drop(columns="churned").to_parquet(table))
    assert not history_of(store).rows  # nothing of this name is in use
    good_table().to_parquet(table)
    first = chaffinch.select(table, "churned", **settings)
    chaffinch.promote(first.run, name="orders", store=store.path)
    for change in (
        lambda rows: rows.drop(columns="churned").to_parquet(table),
        lambda rows: rows.assign(churned=1).to_parquet(table),
        lambda rows: table.unlink(),
    ):
        reason = refused(change)
        row = history_of(store).rows[-1]
        assert (row.data_set, row.run, row.state, row.problem) == ("orders", "", "refused", reason)
        (shown,) = Page(render_history(history_of(store))).tables["Open (1)"][1:]
        assert shown[1:3] == [f"It was refused: {reason}", "orders"]
    good_table().to_parquet(table)
    chaffinch.select(table, "churned", **settings)
    assert [row.state for row in history_of(store).rows] == ["finished"]
    with pytest.raises(InputError):  # by a stage, which notes it with the run
        chaffinch.select(table, "churned", model="MultinomialNB", store=store.path)
    assert [row.state for row in history_of(store).rows] == ["finished", "refused"]
    assert history_of(store).rows[-1].run
    (store.path / "refusals" / "orders.json").write_text("{")
    damaged = history_of(store).rows[-1]
    assert (damaged.data_set, damaged.state) == ("orders", "damaged")
    (shown, _) = Page(render_history(history_of(store))).tables["Open (2)"][1:]
    assert shown[1].startswith("It cannot be read: ")


def test_a_run_whose_settings_are_gone_is_damaged(tmp_path) -> None:
    store = Store.open(tmp_path)
    run = night(store, 0, [0])
    content = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps(content | {"description": {"name": "y"}}))
    (row,) = json.loads(say(store, "runs", "--json"))
    assert row["state"] == "damaged"
    with pytest.raises(
        StorageError, match=r"^run '.*' is damaged \(KeyError\('settings'\)\); remo"
    ):
        chaffinch.load_run(run.name, store=store.path)


def test_a_damaged_note_of_a_decision_is_replaced_and_ends_no_run(tmp_path) -> None:
    run = night(Store.open(tmp_path), 0, [0], decision="a column is gone")
    (run.folder / "decision.json").write_text("{")
    note_open(run)
    assert "it is not known yet" in needed_decision(run)


def test_the_words_and_figures_of_the_page(store: Store, page: Page) -> None:
    """But for the folder's name and the time of the promotions, which is now."""
    lines = "\n".join(page.lines).replace(store.path.name, "shop")
    for one in chaffinch.promotions("shop", store=store.path):
        lines = lines.replace(one.promoted[:16].replace("T", " "), "now")
    check_snapshot("history", lines.splitlines())


def test_the_last_month_is_told_in_a_sentence(tmp_path) -> None:
    """From the last run that is a month older than the newest."""
    store = Store.open(tmp_path)
    for number in range(40):  # months have 28 days
        decision = "is gone" if number in (9, 20) else ""
        night(store, number, [number // 20, 5], loss=number, decision=decision, name="orders")
    text = Page(render_history(history_of(store))).text
    assert (
        "From 13 Jan 2026 to 12 Feb 2026: came: feature 1; went: feature 0; the log loss of the "
        "kept columns was 12 and is 39, each on its own rows; 1 run needed a person."
    ) in text
    assert "put in use: " not in text


def test_a_first_month_has_its_first_run_and_a_rollback_is_called_so(tmp_path) -> None:
    store = Store.open(tmp_path)
    runs = [night(store, n, [n], decision="is new" * (n == 0), name="orders") for n in range(2)]
    for run in runs:
        contract = (run.folder / "selection.json").read_bytes()
        store.promotions.promote("orders", contract, run.name, "by hand", "")
    store.promotions.rollback("orders", "")
    text = Page(render_history(history_of(store))).text
    assert "; 1 run needed a person; put in use: " in text
    assert f"{runs[0].name}, {runs[1].name}, {runs[0].name} (rollback)." in text


def test_the_page_runs_no_name_and_links_to_reports_that_are_there(
    store: Store, page: Page
) -> None:
    assert page.open == []
    assert not {"b", "img"} & {tag for tag, _ in page.elements}
    assert len(page.of("script")) == 1  # of the tables
    links = {str(one["href"]) for one in page.of("a") if not str(one["href"]).startswith("#")}
    assert len(links) == 4
    for link in links:
        assert (store.path / link).is_file(), link


def test_the_command_writes_the_page_and_prints_the_same(store: Store, page: Page) -> None:
    assert say(store, "history", "--html") == f"Wrote {store.path / 'index.html'}\n"
    written = (store.path / "index.html").read_bytes()
    assert written == render_history(history_of(store))  # with a page, and in another process
    printed = say(store, "history", "shop")
    for words in ("another scale <b>", "Columns that come and go (1):", "●○●", "orders-4"):
        assert words in printed
    assert "\N{HORIZONTAL ELLIPSIS}" not in printed  # a run is named in full, for the next command
    rows = json.loads(say(store, "history", "shop", "--json"))
    assert [row["run"] for row in rows] == [f"orders-{number}" for number in range(5)]
    assert rows[3]["moved"] == ["feature 1"]
    ended = CliRunner().invoke(cli, ["history", "shop", "--html", "--store", str(store.path)])
    assert isinstance(ended.exception, InputError)


def test_a_damaged_history_of_promotions_is_named_and_the_rest_is_there(tmp_path) -> None:
    store = Store.open(tmp_path)
    run = night(store, 0, [0])
    contract = (run.folder / "selection.json").read_bytes()
    store.promotions.promote("orders", contract, run.name, "by hand", "")
    (store.path / "promotions" / "orders.json").write_text("{")
    page = Page(render_history(history_of(store)))
    (row,) = page.tables["Open (1)"][1:]
    assert row[2] == "orders"
    assert row[1].startswith("What is promoted cannot be read: ")
    assert "orders-0" in [row[0] for row in page.tables["Runs, newest first (1)"][1:]]


@pytest.mark.parametrize("damage", [b"{}", None])
def test_a_contract_in_use_that_cannot_be_read_needs_a_person(damage, tmp_path) -> None:
    store = Store.open(tmp_path)
    run = night(store, 0, [0])
    contract = (run.folder / "selection.json").read_bytes()
    store.promotions.promote("orders", contract, run.name, "by hand", "")
    (promoted,) = (store.path / "promotions" / "contracts").iterdir()
    promoted.write_bytes(damage) if damage else promoted.unlink()
    (row,) = Page(render_history(history_of(store))).tables["Open (1)"][1:]
    assert row[1].startswith("What is promoted cannot be read: ")
    assert row[2] == "orders"


def test_of_a_damaged_run_in_use_no_columns_are_named(tmp_path) -> None:
    store = Store.open(tmp_path)
    run = night(store, 0, [0])
    contract = (run.folder / "selection.json").read_bytes()
    store.promotions.promote("orders", contract, run.name, "by hand", "")
    (run.folder / "selection.json").write_text("{}")
    text = Page(render_history(history_of(store))).text
    assert "In use is the contract of orders-0 , since" in text
    assert "It keeps" not in text


def test_a_run_that_another_program_wrote_badly_is_a_row_as_well(tmp_path) -> None:
    store = Store.open(tmp_path)
    night(store, 0, [0])
    for number, text in enumerate(('{"created": "some day"', "{}", "[]", ""), start=1):
        document = (begun(store, number).folder / "run.json").read_text()
        (store.path / "runs" / f"orders-{number}" / "run.json").write_text(text or document[:-9])
    whole = (begun(store, 5).folder / "run.json").read_text()
    (store.path / "runs" / "orders-5" / "run.json").write_text(whole.replace("2026-", "some "))
    found = chaffinch.run_history(store=store.path).set_index("run")
    assert found["state"].value_counts().to_dict() == {"damaged": 5, "finished": 1}
    assert "orders-0" in Page(render_history(history_of(store))).text


def test_a_thousand_runs_make_a_small_page() -> None:
    names = tuple(f"feature {place}".ljust(60, "x") for place in range(40))
    rows = [
        HistoryRow(
            "orders",
            f"orders-{night}",
            f"{1000 + night}-01-01T02:00:00+00:00",
            "finished",
            loss="log_loss",
            loss_selected=night / 7,
            loss_all_features=night / 8,
            features=names[night % 7 :],
            candidates=99,
            decision="a promoted column is gone " * 8,
            is_open=True,
        )
        for night in range(1000)
    ]
    page = render_history(History("store", tuple(rows)))
    assert len(page) < 1_000_000
    assert "Runs, newest first (200 of 1,000)" in Page(page).tables


def test_a_run_that_a_gate_has_judged_belongs_to_the_name_of_its_promotion(tmp_path) -> None:
    table, names = tmp_path / "orders-2.csv", {"correlation": None, "anova_f": "orders"}
    load_iris(as_frame=True).frame.to_csv(table, index=False)
    for kind, name in names.items():
        method = {"kind": kind, "n_features": 2}
        settings = SelectionSettings(target="target", model=LINEAR, method=method)
        execution = ExecutionSettings(store=tmp_path / "store", cluster="none")
        select_features(source_of(table), settings, execution, promoted_as=name)
    found = chaffinch.run_history(store=tmp_path / "store")
    assert set(found["data_set"]) == {"orders", "orders-2"}


def test_runs_belong_to_the_contract_that_they_were_compared_with(tmp_path) -> None:
    """Also where another run of the file was promoted under a second name."""
    table, store = tmp_path / "orders.csv", tmp_path / "store"
    load_iris(as_frame=True).frame.to_csv(table, index=False)

    def night(kind: str) -> str:
        method = {"kind": kind, "n_features": 2}
        return chaffinch.select(str(table), "target", model=LINEAR, method=method, store=store).run

    chaffinch.promote(night("correlation"), "orders", store=store)
    chaffinch.promote(night("anova_f"), "staging", store=store)
    quiet = night("mutual_information")
    found = chaffinch.run_history(store=store).set_index("run")["data_set"]
    assert found[quiet] == "orders"


def test_a_run_that_was_killed_before_it_was_known_who_decides_is_open(tmp_path) -> None:
    store = Store.open(tmp_path)
    run = night(store, 0, [0])
    note_open(run)
    assert needed_decision(run).startswith("it is not known yet whether a person has to decide")
    note_decision(run, "orders", "a column is gone")
    note_open(run)  # started again: what is known stays
    assert needed_decision(run) == "a column is gone"
    note_decision(run, "orders", "")
    assert needed_decision(run) == ""

"""`chaffinch run`, `compare` and `reselect` in this process, with a Prefect server that is there.

What takes a program of its own is in test_command_line.py.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import ModelSettings
from chaffinch.tasks.statistics.verdict import VERDICTS
from tests.contracts.test_warnings import NUMBERS, TELLS, leaking_table
from tests.flows.cli.programs import in_process
from tests.synthetic import good_table

pytestmark = pytest.mark.e2e

QUICK = ("--tuning", "none", "--cluster", "none")
LINEAR = ModelSettings(name="linear", tuning="none")


def test_run_with_names_that_need_quotes_prints_json_alone(server, tmp_path):
    names = {"noise_1": "noise, loud", "noise_2": 'noise "2"', "age": "Alter (Jahre)"}
    table = good_table().rename(columns=names)
    table.to_csv(tmp_path / "table.csv", index=False)
    done = in_process(
        "run", tmp_path / "table.csv", "--target", "churned", "--method", "flbmo",
        "--n-features", 3, "--keep", '"noise, loud",Alter (Jahre)', "--drop", '"noise ""2"""',
        *QUICK, "--store", tmp_path / "store", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    contract = json.loads(done.stdout)
    assert {"Alter (Jahre)", "noise, loud"} < {f["name"] for f in contract["features"]}
    assert len(contract["features"]) == 3
    assert {"name": 'noise "2"', "reason": "left out as asked"} in contract["dropped"]
    assert contract["settings"]["columns"]["keep"] == ["Alter (Jahre)", "noise, loud"]
    folder = Path(contract["folder"])
    assert (folder.name, folder.parent) == (contract["run"], tmp_path / "store" / "runs")

    again = in_process("show", contract["run"], "--store", tmp_path / "store", "--json")
    assert (again.returncode, again.stderr) == (0, "")
    assert json.loads(again.stdout) == contract
    assert json.loads((folder / "selection.json").read_text()).items() <= contract.items()


def test_run_says_warnings_on_standard_error_in_a_line_each(server, tmp_path):
    leaking_table().to_csv(tmp_path / "table.csv", index=False)
    asked = ("--target", "churned", *QUICK, "--store", tmp_path / "store", "--json")
    done = in_process("run", tmp_path / "table.csv", *asked)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("Warning")]
    assert said == [f"Warning: {TELLS}", f"Warning: {NUMBERS}"]
    assert json.loads(done.stdout)["warnings"] == [TELLS, NUMBERS]


def test_compare_says_them_on_standard_error_however_quiet(server, tmp_path):
    leaking_table().to_csv(tmp_path / "left.csv", index=False)
    done = in_process(
        "compare", tmp_path / "left.csv", "--target", "churned", "--methods", "anova_f",
        "--models", "linear", "--folds", "2", "--seeds", "1", "--cluster", "none",
        "--store", tmp_path / "store", "--quiet", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"Warning: left: {TELLS}", f"Warning: left: {NUMBERS}"]
    assert json.loads(done.stdout)["warnings"] == [f"left: {TELLS}", f"left: {NUMBERS}"]


def test_what_was_compared_is_not_measured_twice_and_its_name_is_suggested(server, table, tmp_path):
    store = tmp_path / "store"
    asked = ("--methods", "anova_f,flbmo", "--models", "linear", "--folds", "2", "--seeds", "1")
    command = ("compare", table, "--target", "yield", *asked, "--sizes", "1,0.5", "--store", store)
    first = in_process(*command, "--cluster", "none")
    assert first.returncode == 0, first.stderr
    measured = {path: path.stat().st_mtime_ns for path in (store / "cells" / "stages").iterdir()}
    again = in_process(*command, "--cluster", "none", "--json")
    after = {path: path.stat().st_mtime_ns for path in (store / "cells" / "stages").iterdir()}
    assert after == measured
    found = json.loads(again.stdout)
    assert len(found["results"]) == 2 * (2 + 2 * 3)
    (compared,) = found["tables"]
    verdicts = {outcome["verdict"] for outcome in compared["outcomes"][1:]}
    assert verdicts <= {*VERDICTS}
    assert {ranking["over"] for ranking in found["rankings"]} == {"cells"}
    name = found["comparison"]
    wrong = f"{name}x"
    shown = in_process("show", wrong, "--store", store)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert f"no run or comparison '{wrong}' in " in shown.stderr
    assert f"; nearest: {name}" in shown.stderr


def test_a_ranking_of_features_that_are_made_of_earlier_rows(server, tmp_path):
    random = np.random.default_rng(0)
    values = random.normal(size=202).cumsum()
    path, store = tmp_path / "days.csv", tmp_path / "past"
    rows = np.column_stack([np.arange(200), random.normal(size=200), values[2:]])
    np.savetxt(path, rows, "%.6f", ",", header="day,noise,y", comments="")
    asked = ("--lags", "1,2", "--rolling", "4", "--time", "day", "--shares", "50,20,20,10")
    more = ("--method", "anova_f", *QUICK, "--n-features", 2, "--model", "linear")
    ended = in_process("run", path, "--target", "y", *asked, *more, "--store", store, "--json")
    assert ended.returncode == 0, ended.stderr
    contract = json.loads(ended.stdout)
    made = ["y_lag_1", "y_lag_2", "y_mean_4", "y_deviation_4"]
    assert contract["candidates"] == sorted(["noise", *made])
    assert contract["dataset"]["rows_by_part"]["test"] == 20
    kept = [feature["name"] for feature in contract["features"]]
    assert "y_lag_1" in kept
    assert contract["settings"]["method"] == {
        "kind": "anova_f",
        "n_features": [2],
        "min_score": None,
    }
    assert {entry["reason"] for entry in contract["dropped"]} == {"removed by anova_f"}
    result = chaffinch.load_run(contract["run"], store=store)
    assert list(result.path.columns) == ["step", "feature", "score", "features_left"]
    assert result.path["score"].is_monotonic_increasing
    assert max(result.scores, key=result.scores.get) in kept
    plain = chaffinch.select(
        path, "y", model=LINEAR, time="day", history={"lags": [2, 1], "rolling": [4]},
        settings={"shares": (50, 20, 20, 10)}, method="anova_f", n_features=2,
    )  # fmt: skip
    assert plain.run == contract["run"]


def test_strict_ends_at_warnings_with_an_exit_code_of_its_own_and_trains_nothing(server, tmp_path):
    store, path = tmp_path / "store", tmp_path / "dated.parquet"
    dated = good_table().assign(at=pd.Timestamp("2026-01-01"))
    dated.to_parquet(path)
    use = (
        "to use one, give columns={'dates': 'parts'} (--dates parts), or name it as the time "
        "column or as categorical"
    )
    told = f"left out: 'at' (timestamps: {use})"
    strict = ("--cluster", "none", "--strict", "--store", store)
    compared = ("--target", "churned", "--methods", "anova_f", "--models", "linear", "--folds", 2)
    ended = in_process("compare", path, *compared, *strict)
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    last = "Error: 1 warning, refused by --strict"
    assert ended.stderr.splitlines()[-2:] == [f"Warning: dated: {told}", last]
    assert [*store.rglob("results.parquet")] == []

    asked = ("--target", "churned", "--model", "linear", "--json")
    ended = in_process("run", path, *asked, *strict)
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    assert ended.stderr.splitlines()[-2:] == [f"Warning: {told}", last]
    assert [*store.rglob("*train_base_model*")] == []
    (refused,) = chaffinch.run_history(store=store).itertuples()
    assert (refused.state, refused.problem) == ("refused", f"strict refuses 1 warning: {told}")

    former = chaffinch.select(dated.drop(columns="at"), "churned", model=LINEAR, store=store)
    ended = in_process("reselect", former.run, path, *strict)
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    assert "left out: 'at' (timestamps" in ended.stderr.splitlines()[-2]


def test_bad_input_that_a_stage_finds_is_one_line_after_its_own(tmp_path):
    good_table().to_csv(tmp_path / "good.csv", index=False)
    asked = ("--target", "churned", "--model", "MultinomialNB", "--cluster", "none", "--no-prefect")
    ended = in_process("run", tmp_path / "good.csv", *asked, "--store", tmp_path / "store")
    assert (ended.returncode, ended.stdout) == (2, "")
    *_, before, last = ended.stderr.splitlines()
    assert before == "4/9 tune and train the model"
    assert last.startswith("Error: model MultinomialNB cannot be fitted")

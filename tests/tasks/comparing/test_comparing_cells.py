"""A cell of a comparison: what is selected knows nothing of the rows that it is scored on."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from chaffinch.errors import InputError
from chaffinch.methods import Pefs
from chaffinch.tasks.comparing import cells
from chaffinch.tasks.comparing.cells import Compared, as_table, measure
from chaffinch.tasks.comparing.plan import Cell
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.data.splitting.splits import PARTS
from chaffinch.tasks.methods import pefs
from chaffinch.tasks.methods.fitting import Recipe
from chaffinch.tasks.pipeline.selection_run import LoadedTable
from chaffinch.tasks.selection.pefs.search import Search
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.selection import ModelSettings
from tests.tasks.comparing.synthetic_comparison import compared_in_memory
from tests.tasks.snapshots import check_sentence

LINEAR = ModelSettings(name="linear", tuning="none")
TREES = ModelSettings(name="lightgbm", tuning="none", parameters={"n_estimators": 10})
STUMPS = ModelSettings(
    name="lightgbm",
    tuning="none",
    parameters={"n_estimators": 5, "num_leaves": 2, "min_child_samples": 3},
)
METHODS = ("gbmo", "flbmo", "correlation", "mutual_information", "mrmr", "relieff", "permutation")


@pytest.fixture
def loaded(tmp_path):
    """Return a function that makes a comparison of a table in memory."""

    def load(table: pd.DataFrame, **settings: object) -> Compared:
        asked = ComparisonSettings(
            target="y", **{"methods": METHODS, "models": [LINEAR], "seeds": 1, **settings}
        )
        return compared_in_memory(table, asked, tmp_path)

    return load


def numbers(n: int, d: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(random.normal(size=(n, d)).round(6), columns=[f"x{j}" for j in range(d)])


def everything(compared: Compared, cell: Cell) -> dict[str, dict]:
    return measure(compared, (cell, compared.plan.methods))


def selected(results: dict[str, dict]) -> dict[str, list]:
    return {
        name: [(found["size"], found["features"]) for found in result["sets"]]
        for name, result in results.items()
    }


def test_metrics_of_each_set_are_those_of_the_rows_outside(loaded) -> None:
    table = numbers(90, 4)
    table["y"] = table["x0"] + np.random.default_rng(1).normal(size=90)
    compared = loaded(table, methods=("correlation",), folds=3, sizes=(2,))
    cell = Cell(0, 0, 0, 0)
    sets = [found for result in everything(compared, cell).values() for found in result["sets"]]
    assert len(sets) == 4  # all features, a constant, and two of the ranking
    for found in sets:
        assert found["rmse"] == pytest.approx(found["loss"] ** 0.5)
        assert found["mae"] < found["rmse"]
        assert (found["r2"] > 0.1) == bool(found["features"])
    table["y"] = np.where(table["y"] > 0, "yes", "no")
    compared = loaded(table, methods=("correlation",), folds=3)
    results = {(cell, name): found for name, found in everything(compared, cell).items()}
    rows = as_table(compared.plan, results).to_pylist()
    assert len(rows) == 3
    for row in rows:
        assert row["log_loss"] == row["loss"]
        assert (row["roc_auc"] == 0.5) == (row["method"] == "none")
        assert row["r2"] is None


@pytest.mark.parametrize("model", [LINEAR, TREES], ids=lambda model: model.name)
def test_whatever_the_rows_outside_hold_the_same_is_selected(loaded, model) -> None:
    table = numbers(150, 8)
    table["y"] = table["x0"] + table["x1"] ** 2 + np.random.default_rng(1).normal(size=150)
    compared = loaded(table, models=[model], folds=3, sizes=(2, 0.5))
    rows, roles = compared.tables[0].rows, compared.tables[0].roles
    for fold in (0, 2) if model is LINEAR else (1,):
        cell = Cell(0, 0, 0, fold)
        outside = compared.splits(cell).test
        X, y = rows.X.copy(), rows.y.copy()
        y[outside] = 1000 * np.random.default_rng(fold).normal(size=len(outside))
        X[outside, 7] = y[outside]  # the target leaks, but only there
        X[outside, 0] = np.nan
        other = LoadedTable(replace(rows, X=X, y=y), replace(roles, y=y))
        seen = everything(compared, cell)
        blind = everything(Compared(compared.plan, (other,)), cell)
        assert selected(blind) == selected(seen)
        for name in compared.plan.methods:
            assert [s["loss"] for s in blind[name]["sets"]] != [
                s["loss"] for s in seen[name]["sets"]
            ]


@pytest.mark.e2e
def test_no_method_beats_chance_on_noise(loaded) -> None:
    losses: dict[str, list[float]] = {}
    for seed in range(20):
        table = numbers(60, 60, seed)
        table["y"] = np.random.default_rng(seed).permutation(["no", "yes"] * 30)
        for model, methods in ((LINEAR, METHODS[:-1]), (STUMPS, METHODS[-1:])):
            compared = loaded(table, folds=2, sizes=(3,), models=[model], methods=methods)
            for name, result in everything(compared, Cell(0, 0, 0, seed % 2)).items():
                losses.setdefault(name, []).extend(s["loss"] for s in result["sets"])
    assert losses.keys() == {"all", "none", *METHODS}
    for name, found in losses.items():
        # a ranking by all 60 rows would bring 3 features to .65
        assert np.mean(found) >= np.log(2) - 1e-9, name


def test_sets_are_scored_at_each_size_that_was_asked_for(loaded) -> None:
    table = numbers(120, 8).assign(y=lambda t: t["x0"])
    compared = loaded(table, folds=2, sizes=(3, 0.5, 8), methods=["flbmo", "anova_f"])
    results = everything(compared, Cell(0, 0, 0, 1))
    for name in ("flbmo", "anova_f"):
        sets = results[name]["sets"]
        assert [found["size"] for found in sets] == [None, 3, 4, 8]
        assert [len(found["features"]) for found in sets[1:]] == [3, 4, 8]
        assert sets[3]["loss"] == results["all"]["sets"][0]["loss"]
    assert results["all"]["sets"][0]["features"] == [f"x{j}" for j in range(8)]
    assert results["none"]["sets"][0]["features"] == []


def test_searches_by_pefs_are_steered_to_each_size(loaded) -> None:
    table = numbers(80, 8).assign(y=lambda t: t["x0"] - t["x1"])
    options = {"hidden_layer_sizes": (8,), "most_sweeps": 2}
    swept, steered = Pefs(penalties=(0.3,), **options), Pefs(n_features=(2, 4), **options)
    scored = []
    for method in (swept, steered):
        compared = loaded(table, folds=2, sizes=(2, 4), methods=[method])
        scored.append(everything(compared, Cell(0, 0, 0, 1))["pefs"]["sets"])
    assert [one["size"] for one in scored[0]] == [None, 2, 4]
    for one, other in zip(*(sets[1:] for sets in scored), strict=True):
        assert (one["features"], one["loss"]) == (other["features"], other["loss"])


@pytest.fixture
def work(monkeypatch) -> SimpleNamespace:
    """Return how many sweeps and fits were made, where a sweep takes a second and a fit 100."""
    made = SimpleNamespace(sweeps=0, fits=0, by_search={})
    clock = SimpleNamespace(perf_counter=lambda: made.sweeps + 100.0 * made.fits)
    fit, sweep = Recipe.fit, Search.sweep

    def fitted(recipe, rows, schema):
        made.fits += 1
        return fit(recipe, rows, schema)

    def swept(search):
        made.sweeps += 1
        rules = search.rules
        asked = rules.penalty if rules.n_features is None else rules.n_features
        made.by_search[asked] = made.by_search.get(asked, 0) + 1
        sweep(search)

    for module in (cells, pefs):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(Recipe, "fit", fitted)
    monkeypatch.setattr(Search, "sweep", swept)
    return made


PENALTIES = (0.05, 0.6)
STEERED = {"hidden_layer_sizes": (8,), "most_sweeps": 4}


def test_each_set_of_pefs_has_the_seconds_of_its_own_searches_alone(loaded, work) -> None:
    table = numbers(80, 8).assign(y=lambda t: t["x0"] - t["x1"])
    method = Pefs(penalties=PENALTIES, seeds=2, **STEERED)
    compared = loaded(table, folds=2, sizes=(1, 2, 5, 8), methods=[method])
    sets = everything(compared, Cell(0, 0, 0, 1))["pefs"]["sets"]
    own, *of_sizes = (one["selection_seconds"] for one in sets)
    refits = 100 * len(PENALTIES)  # which the choice among the penalties takes
    assert own == pytest.approx(refits + sum(work.by_search[one] for one in PENALTIES))
    # of all features there is nothing to search
    assert of_sizes == pytest.approx([work.by_search.get(size, 0) for size in (1, 2, 5, 8)])
    assert of_sizes[-1] == 0
    assert min(of_sizes[:-1]) >= 4


def test_no_size_waits_for_the_choice_of_the_own(loaded, work) -> None:
    table = numbers(120, 8).assign(y=lambda t: t["x0"])
    compared = loaded(table, folds=2, sizes=(3,), methods=["correlation"])
    own, of_size = everything(compared, Cell(0, 0, 0, 1))["correlation"]["sets"]
    assert own["selection_seconds"] >= 200  # a refit of each size that it chooses among
    assert of_size["selection_seconds"] == 0


@pytest.mark.parametrize("weight", [None, "w"])
def test_the_constant_is_the_mean_of_what_the_others_are_fitted_on(loaded, weight) -> None:
    table = numbers(80, 3).assign(y=np.arange(80.0), w=np.arange(1.0, 81))
    columns = {"weight": "w"} if weight else {"drop": ["w"]}
    compared = loaded(table, folds=2, methods=["correlation"], columns=ColumnSettings(**columns))
    cell = Cell(0, 0, 0, 0)
    splits, rows = compared.splits(cell), compared.tables[0].rows
    fitted = np.concatenate((splits.train, splits.mask_validation, splits.model_validation))
    weights = np.ones(80) if rows.weight is None else rows.weight
    mean = np.average(rows.y[fitted], weights=weights[fitted])
    outside = splits.test
    expected = np.average((rows.y[outside] - mean) ** 2, weights=weights[outside])
    loss = everything(compared, cell)["none"]["sets"][0]["loss"]
    assert loss == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("columns", [{"group": "g"}, {"time": "t"}], ids=["groups", "time"])
def test_groups_stay_whole_and_the_future_outside(loaded, columns) -> None:
    random = np.random.default_rng(0)
    table = numbers(200, 4).assign(g=random.integers(0, 25, 200), t=random.integers(0, 90, 200))
    table["y"] = table["x0"] + random.normal(size=200)
    dropped = "t" if "group" in columns else "g"
    compared = loaded(
        table, folds=4, columns=ColumnSettings(drop=[dropped], **columns), methods=["anova_f"]
    )
    roles = compared.tables[0].roles
    tested = []
    for fold in range(4):
        splits = compared.splits(Cell(0, 0, 0, fold))
        inside = np.concatenate((splits.train, splits.mask_validation, splits.model_validation))
        assert len(np.intersect1d(inside, splits.test)) == 0
        tested.append(splits.test)
        if roles.groups is not None:
            parts = [roles.groups[part] for part in map(vars(splits).get, PARTS)]
            assert sum(len(set(part)) for part in parts) == len(set(roles.groups))
        else:
            times = [roles.times[part] for part in map(vars(splits).get, PARTS)]
            for early, late in pairwise(times):
                assert early.max() < late.min()
    assert len(np.unique(np.concatenate(tested))) == sum(map(len, tested))


def test_what_cannot_be_used_takes_no_other_with_it(loaded) -> None:
    table = numbers(60, 3).assign(y=["no", "yes"] * 30, same=1.0)
    table["x1"] = table["x2"] = table["x0"]
    compared = loaded(table, folds=2, methods=["gbmo", "correlation"], models=[TREES])
    results = everything(compared, Cell(0, 0, 0, 0))
    assert "makes no use of any" in results["gbmo"]["error"]
    assert results["gbmo"]["sets"] == []
    assert results["all"]["error"] is None
    assert results["correlation"]["sets"]


@pytest.mark.parametrize("columns", [{}, {"group": "x1"}], ids=["rows", "groups"])
@pytest.mark.parametrize("n_classes", [0, 2])
def test_seeds_deal_the_folds_again(loaded, columns, n_classes) -> None:
    table = numbers(120, 6).assign(y=lambda t: t["x0"] > 0 if n_classes else t["x0"])
    table["x1"] = np.arange(120) % 30
    compared = loaded(table, folds=3, seeds=4, columns=ColumnSettings(**columns))
    tested = {
        tuple(compared.splits(Cell(0, 0, seed, fold)).test)
        for seed in range(4)
        for fold in range(3)
    }
    assert len(tested) == 12


def test_in_time_order_there_is_one_way_to_deal_them(loaded) -> None:
    table = numbers(120, 3).assign(y=lambda t: t["x0"], t=np.arange(120))
    compared = loaded(table, folds=3, seeds=4, columns=ColumnSettings(time="t"))
    assert compared.plan.cells == [Cell(0, 0, 0, fold) for fold in range(3)]
    assert compared.plan.planned.cells == ((0, 0), (0, 1), (0, 2))


@pytest.mark.parametrize(
    "given",
    [
        {"methods": ["gbmo", "gbmo"]},
        {"methods": ["best"]},
        {"models": ["linear", "linear"]},
        {"folds": 1},
        {"sizes": [0]},
        {"sizes": [True]},
        {"sizes": [1.0]},
        {"sizes": ["1.5"]},
        {"sizes": ["x" * 5000]},
        {"methods": ["mrmr"], "columns": ColumnSettings(weight="w")},
    ],
)
def test_what_cannot_be_compared_is_refused(given) -> None:
    with pytest.raises(InputError) as refusal:
        ComparisonSettings(target="y", **given)
    check_sentence("refusals/settings of a comparison", str(given)[:90], refusal.value)


def test_of_the_default_methods_those_that_take_no_weights_are_left_out_where_there_are_some():
    weighted = ComparisonSettings(target="y", columns=ColumnSettings(weight="w"))
    names = [method.kind for method in weighted.methods]
    assert names == [m.kind for m in ComparisonSettings(target="y").methods if m.kind != "anova_f"]

"""What is said of the time a comparison takes: by a clock of our own, which only work moves on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from chaffinch.tasks.comparing import cells
from chaffinch.tasks.comparing import estimate as trial
from chaffinch.tasks.comparing.cells import Asked, Compared, measure
from chaffinch.tasks.comparing.estimate import estimate
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.methods.fitting import Recipe
from chaffinch.tasks.selection.pefs.search import Search
from chaffinch.tasks.selection.robust_elimination import sizes_down
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.methods import AfsBm, Pefs
from chaffinch.tasks.settings.selection import ModelSettings
from tests.tasks.comparing.made_up_comparison import compared_in_memory

LINEAR = ModelSettings(name="linear", tuning="none")


@pytest.fixture
def load(tmp_path):
    """Return a function that makes a comparison of a table in memory."""

    def loaded(table: pd.DataFrame, **settings: object) -> Compared:
        asked = ComparisonSettings(
            target="y", **{"models": [LINEAR], "folds": 2, "seeds": 1, **settings}
        )
        return compared_in_memory(table, asked, tmp_path)

    return loaded


class Work:
    """What is fitted and searched, and a clock that these move on by the seconds they are given.

    Attributes
    ----------
    fits : list of (int, int)
        Rows and columns of each fit.
    searches : list of (str, Rows, Schema)
        Method, training rows and schema of each search.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fits: list = []
        self.searches: list = []
        self.seconds_of_a_fit = lambda before: 1.0
        self.seconds_by_columns = self.seconds_of_a_search = 0.0
        self._now = 0.0
        clock = SimpleNamespace(perf_counter=lambda: self._now)
        self.seconds_of_a_sweep = 0.0
        fit, search, sweep = Recipe.fit, cells.search, Search.sweep

        def fitted(recipe, rows, schema):
            self._now += self.seconds_of_a_fit(len(self.fits))
            self._now += self.seconds_by_columns * rows.X.shape[1]
            self.fits.append(rows.X.shape)
            return fit(recipe, rows, schema)

        def searched(method, material):
            self._now += self.seconds_of_a_search
            self.searches.append((method, material.rows("train"), material.schema))
            return search(method, material)

        def swept(search):
            self._now += self.seconds_of_a_sweep
            sweep(search)

        monkeypatch.setattr(Search, "sweep", swept)
        for module in (cells, trial):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(Recipe, "fit", fitted)
        monkeypatch.setattr(cells, "search", searched)


@pytest.fixture
def work(monkeypatch) -> Work:
    return Work(monkeypatch)


def table(n: int = 120, d: int = 6) -> pd.DataFrame:
    random = np.random.default_rng(0)
    made = pd.DataFrame(random.normal(size=(n, d)).round(6), columns=[f"x{j}" for j in range(d)])
    return made.assign(y=lambda t: t["x0"] + random.normal(size=n))


def everything(compared: Compared) -> list[Asked]:
    return [Asked(cell, compared.plan.methods) for cell in compared.plan.cells]


def test_what_the_first_fit_loads_is_no_part_of_any_other(load, work) -> None:
    work.seconds_of_a_fit = lambda before: 1.0 if before else 1000.0
    compared = load(table(), methods=["anova_f"])
    found = estimate(compared, everything(compared), 1)
    # in each of two cells: the base model, all features, the choice among four sizes, its winner
    assert found.fits == 2 * (1 + 1 + 4 + 1)
    assert 5 < found.seconds < 40


def test_what_a_search_does_beside_fits_counts_in_every_cell(load, work) -> None:
    compared = load(table(), methods=["mrmr"])
    without = estimate(compared, everything(compared), 1).seconds
    work.seconds_of_a_search = 50.0
    with_search = estimate(compared, everything(compared), 1).seconds
    assert with_search - without == pytest.approx(2 * 50)
    assert estimate(compared, everything(compared), 2).seconds == pytest.approx(with_search / 2)


def test_searches_that_are_all_fits_are_counted_and_not_tried(load, work) -> None:
    methods = ["rfe", "rfecv", "sequential_forward", "particle_swarm", "robust_elimination"]
    compared = load(table(), methods=methods)
    found = estimate(compared, everything(compared), 1)
    assert work.searches == []
    assert len(work.fits) < 10
    assert found.seconds > found.fits / 2
    alone = load(table(), methods=["robust_elimination"])
    one_cell = estimate(alone, everything(alone)[:1], 1)
    # base model, all features and the winner; five folds, in one stage to one feature, then at
    # each size on the way down
    n_sizes = len(sizes_down(len(alone.plan.sources[0].description.features), 1))
    assert one_cell.fits == 1 + 1 + 1 + 5 * (1 + n_sizes)


def test_fits_on_few_columns_are_taken_for_quicker(load, work) -> None:
    compared = load(table(120, 40), methods=["sequential_forward"])
    work.seconds_of_a_fit = lambda before: 1.0
    alike = estimate(compared, everything(compared), 1)
    work.seconds_by_columns = 1 / 40
    by_columns = estimate(compared, everything(compared), 1)
    assert by_columns.fits == alike.fits
    # up to half of the columns are added, one by one
    assert 0.2 < (by_columns.seconds - alike.seconds) / alike.seconds < 0.3


@pytest.mark.parametrize("n_classes", [0, 2])
def test_searches_are_tried_on_some_rows_and_columns_of_a_large_table(load, work, n_classes):
    large = table(9000, 90)
    if n_classes:
        large["y"] = np.where(np.arange(9000) < 40, "rare", "common")
    compared = load(
        large, methods=["correlation"], columns=ColumnSettings(keep=("x1", "x3")), sizes=[80]
    )
    work.seconds_of_a_search = 1.0
    tried = trial.pace(compared, compared.plan.cells[0], compared.plan.methods)
    (_, first, _), (_, rows, schema) = work.searches
    assert len(first) < len(rows) <= 1002
    assert 40 <= len(schema.features) <= 42
    assert {"x1", "x3"} <= set(schema.features)
    assert not n_classes or set(rows.y) == {0, 1}
    n_train = len(compared.splits(compared.plan.cells[0]).train)
    expected = n_train / len(rows) * 90 / len(schema.features)
    assert tried.searches["correlation"] >= expected
    assert max(n_rows for n_rows, _ in work.fits) == n_train  # a fit is timed on all rows


def test_a_search_is_taken_for_longer_by_what_it_has_more_to_do(load, work) -> None:
    compared = load(table(200, 80), methods=["anova_f", "mrmr", AfsBm(slacks=(0.01, 0.1, 0.2))])
    work.seconds_of_a_fit = lambda before: 0.0
    work.seconds_of_a_search = 1.0
    tried = trial.pace(compared, compared.plan.cells[0], compared.plan.methods)
    assert tried.searches == {"anova_f": 2.0, "mrmr": 4.0, "afs_bm": 3 * 4.0}
    pefs = Pefs(penalties=(0.1, 0.2), seeds=3, most_sweeps=20, hidden_layer_sizes=(4,))
    compared = load(table(200, 20), methods=[pefs])
    tried = trial.pace(compared, compared.plan.cells[0], compared.plan.methods)
    assert tried.searches["pefs"] == pytest.approx(2 * 3 * 20 / 2)
    assert work.searches[-1][0].most_sweeps == 2


def test_the_searches_of_pefs_for_each_size_are_counted_and_timed(load, work) -> None:
    work.seconds_of_a_fit = lambda before: 0.0
    work.seconds_of_a_search = 1.0
    pefs = Pefs(penalties=(0.1, 0.2), seeds=3, most_sweeps=20, hidden_layer_sizes=(4,))
    found = {}
    # of 20 and of those that are kept there is nothing to search; fewer than are kept cannot be
    keep = ColumnSettings(keep=("x1", "x3"))
    for sizes in ((), (5, 9), (1, 2, 5, 9, 20)):
        compared = load(table(200, 20), methods=[pefs], sizes=sizes, columns=keep)
        found[sizes] = estimate(compared, everything(compared), 1)
    without, with_sizes, others = found.values()
    # in each of two cells three searches for each of two penalties or sizes, of 20 sweeps, not 2
    assert without.seconds == pytest.approx(2 * 3 * 2 * 20 / 2)
    assert with_sizes.seconds == others.seconds == pytest.approx(2 * without.seconds)
    assert without.fits == 2 * (1 + 1 + 2 * 3 + 2 + 1)
    assert with_sizes.fits == without.fits + 2 * (2 * 3 + 2)
    # those that the method is steered to by itself are searched once
    steered = Pefs(n_features=(5, 9), seeds=3, most_sweeps=20, hidden_layer_sizes=(4,))
    compared = load(table(200, 20), methods=[steered], sizes=(5, 9), columns=keep)
    assert estimate(compared, everything(compared), 1).seconds == pytest.approx(without.seconds)


def test_a_search_to_more_features_than_are_tried_takes_its_time(load, work) -> None:
    work.seconds_of_a_search = 1.0
    asked = {"most_sweeps": 20, "hidden_layer_sizes": (4,)}
    seconds = []
    for method in (Pefs(n_features=(60,), **asked), Pefs(penalties=(0.1,), **asked)):
        compared = load(table(200, 80), methods=[method])
        tried = trial.pace(compared, compared.plan.cells[0], compared.plan.methods)
        seconds.append(tried.searches["pefs"])
    assert seconds[0] == pytest.approx(seconds[1])


@pytest.mark.parametrize("sizes", [(), (2, 5, 8)])
def test_what_is_said_of_pefs_is_about_what_it_takes(load, work, sizes) -> None:
    work.seconds_of_a_fit = lambda before: 0.0
    work.seconds_of_a_sweep = 1.0
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "y"})
    compared = load(wine, methods=[Pefs(hidden_layer_sizes=(32,))], sizes=sizes)
    (cell, _) = everything(compared)
    said = estimate(compared, [cell], 1).seconds
    began = cells.time.perf_counter()
    measure(compared, cell)
    taken = cells.time.perf_counter() - began
    assert taken / 3 < said < taken * 3


def test_what_cannot_be_used_takes_no_time_and_no_other_with_it(load, work) -> None:
    compared = load(table(), methods=["tree_shap", "mrmr"])
    work.seconds_of_a_search = 1.0
    tried = trial.pace(compared, compared.plan.cells[0], compared.plan.methods)
    assert list(tried.searches) == ["mrmr"]

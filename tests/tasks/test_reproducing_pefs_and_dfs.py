"""PEFS, Figure 1, and DFS, Figures 2 and 4: every part of their protocols, and by command."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.feature_selection import f_classif
from sklearn.metrics import mutual_info_score

import chaffinch
from chaffinch import InputError
from chaffinch.flows.cli import main
from chaffinch.tasks.reproducing import dfs_figure_2, pefs_digits, pefs_figure_1
from chaffinch.tasks.reproducing.dfs_figure_2 import Problem, auc, chosen, correlated, measured
from chaffinch.tasks.reproducing.experiments import EXPERIMENTS
from chaffinch.tasks.reproducing.pefs_figure_1 import Effort, experiment, interpolated
from chaffinch.tasks.reproducing.pefs_protocol import (
    Cut,
    by_lasso,
    by_pefs,
    error_of_a_network,
    order_of_mrmr,
)
from chaffinch.tasks.selection.vocabulary import Rows, Schema

ADULT = "pefs-figure-1-adult"


def numbers(d, n_classes=2) -> Schema:
    return Schema(tuple(map(str, range(d))), (0,) * d, n_classes)


def three_of_ten(n_rows=400, seed=0):
    """Return ten columns, of which 2, 5 and 7 make the three classes."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(n_rows, 10)), random.integers(0, 3, n_rows)
    X[np.arange(n_rows), np.array([2, 5, 7])[y]] += 4
    return X, y


def only(*features, d=10) -> np.ndarray:
    return np.isin(np.arange(d), features)


def test_a_fifth_of_the_rows_is_for_the_test_with_as_much_of_each_class() -> None:
    X, y = np.arange(200.0).reshape(100, 2), np.repeat([0, 1], [80, 20])
    cut, other = Cut.of((X, y), 0), Cut.of((X, y), 1)
    assert (len(cut.train), len(cut.test)) == (80, 20)
    assert [Cut.of((X, y), seed).test.y.sum() for seed in range(5)] == [4] * 5
    assert sorted([*cut.train.X[:, 0], *cut.test.X[:, 0]]) == X[:, 0].tolist()
    assert cut.test.X.tolist() != other.test.X.tolist()
    assert cut.error_of_none == 20.0


def test_the_network_is_trained_anew_on_what_is_kept_alone() -> None:
    cut = Cut.of(three_of_ten(), 0)
    assert error_of_a_network(cut, only(2, 5, 7), 0, 100) < 10
    assert error_of_a_network(cut, only(0, 1, 3), 0, 100) > 50
    assert error_of_a_network(cut, only(), 0, 100) == cut.error_of_none
    cut.train.X[:, 0], cut.test.X[:, 0] = 1e6, -1e6  # what is not kept plays no part
    assert error_of_a_network(cut, only(2, 5, 7), 0, 100) < 10


def test_pefs_and_lasso_find_what_tells_the_classes_and_leave_a_model_of_it() -> None:
    cut = Cut.of(three_of_ten(), 0)
    for point in (by_pefs(cut, 0.1, 6, 0), by_lasso(cut, 0.05, 0)):
        assert point.mask[[2, 5, 7]].all()
        assert point.own_error < 10
    assert by_lasso(cut, 10.0, 0).mask.sum() > by_lasso(cut, 0.05, 0).mask.sum()
    assert not by_lasso(cut, 1e-6, 0).mask.any()


def test_mrmr_is_the_greedy_choice_by_information_in_bins() -> None:
    random = np.random.default_rng(3)
    X = random.integers(0, 3, (300, 12)).astype(float)
    X[:, 4] = X[:, 9]  # a copy shares all that it tells
    y = (X[:, 9] + X[:, 1] > 2).astype(int)
    order, left = [], list(range(12))
    while left:
        merit = [
            mutual_info_score(X[:, j], y)
            - (np.mean([mutual_info_score(X[:, j], X[:, i]) for i in order]) if order else 0.0)
            for j in left
        ]
        order.append(left.pop(int(np.argmax(np.round(merit, 12)))))
    found = order_of_mrmr(Rows(X, y), numbers(12)).tolist()
    assert found == order
    assert found.index(9) > 1 or found.index(4) > 1  # never both at once


def test_a_column_of_0_and_1_tells_even_where_one_of_them_is_rare() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 4))
    X[:, 2] = np.arange(500) >= 25  # a bin of equal frequency would hold every row
    assert order_of_mrmr(Rows(X, X[:, 2].astype(int)), numbers(4))[0] == 2


def test_curves_are_straight_lines_between_points_by_their_share() -> None:
    shares, errors = [0, 40, 20, 20, 100], [50.0, 10.0, 22.0, 18.0, 16.0]
    at = [0, 10, 20, 30, 40, 70, 100]
    assert interpolated(shares, errors, at).tolist() == [50, 35, 20, 15, 10, 13, 16]


def test_text_becomes_the_columns_of_the_paper(tmp_path) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(400, 6)), columns=list("abcdef"))
    for number, size in enumerate((7, 16, 7, 14, 6, 5, 2, 41)):  # 98 values in all
        table[f"text {number}"] = [f"value {i % size}" for i in random.permutation(400)]
    table["split"], table["target"] = "train", [" <=50K", " >50K"] * 200
    table.to_csv(tmp_path / "adult.csv", index=False)
    X, y = EXPERIMENTS[ADULT].read(tmp_path)
    assert (X.shape, y.tolist()) == ((400, 104), [0, 1] * 200)
    assert (X[:, :6] == table[list("abcdef")]).all(axis=None)
    assert (X[:, 6:].sum(axis=1) == 8).all()

    def refused(changed) -> str:
        changed.to_csv(tmp_path / "adult.csv", index=False)
        with pytest.raises(InputError) as error:
            EXPERIMENTS[ADULT].read(tmp_path)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "must have 14 features" in refused(table.assign(more=1.0))
    assert "must have 104 columns" in refused(table.assign(a=["x", "y"] * 200))
    assert "must have 2 classes in 'target' but has 400" in refused(table.assign(target=range(400)))
    assert "lack no value but does so in 1 rows" in refused(table.assign(b=[np.nan] + [0.0] * 399))


def test_digits_have_a_column_of_noise_for_each_pixel() -> None:
    X, y = pefs_digits.digits_and_noise(0)
    pixels, digit = load_digits(return_X_y=True)
    assert X.shape == (1797, 128)
    assert (X[:, :64] == pixels).all()
    assert (y == digit).all()
    noise = X[:, 64:]
    assert (noise.mean(), noise.std()) == (pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))
    again, other = (pefs_digits.digits_and_noise(seed)[0] for seed in (0, 1))
    assert (again == X).all()
    assert (other[:, 64:] != noise).all()


def test_on_digits_every_figure_is_measured_by_a_seed_alone() -> None:
    effort = Effort(penalties=(0.1,), most_sweeps=1, strengths=(0.03,), steps=2, at=(20, 50))
    found = pefs_digits.measure_digits(None, 0, effort=effort)
    assert found["mRMR, 50% kept", "kept, %"] == 50
    assert found["all features", "kept, %"] == 100
    digits = EXPERIMENTS["pefs-figure-1-digits-and-noise"]
    assert digits.read(None) is None
    places = {figure.place for figure in digits.figures}
    assert {place for place in found if "PEFS less" not in place[0]} <= places


@pytest.mark.e2e
def test_pefs_is_set_against_its_rivals_by_command(tmp_path, monkeypatch, capfd) -> None:
    X, y = three_of_ten()
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(10)])
    table.assign(target=y).to_csv(tmp_path / "usps.csv", index=False)
    effort = Effort(
        penalties=(0.1, 1.0), most_sweeps=4, strengths=(1e-6, 0.05), steps=40, at=(10, 30)
    )
    made_up = experiment("usps", 10, 3, "so and so.", effort)
    found = by_command(made_up, tmp_path, monkeypatch, capfd)
    assert found["PEFS, epsilon = 1", "kept, %"] == 0
    assert found["mRMR, 30% kept", "kept, %"] == 30
    for name in ("PEFS, epsilon = 0.1", "mRMR, 30% kept", "ReliefF, 30% kept", "LASSO, C = 0.05"):
        assert found[name, "test error, %"] < 15 < found["LASSO, C = 1e-06", "test error, %"]
    at_10 = found["PEFS less mRMR", "at 10 %"]
    nothing, (share, error) = (
        found["PEFS, epsilon = 1", "test error, %"],
        (found["PEFS, epsilon = 0.1", column] for column in ("kept, %", "test error, %")),
    )
    assert share > 10
    line = nothing + (error - nothing) * 10 / share
    assert at_10 == pytest.approx(line - found["mRMR, 10% kept", "test error, %"])
    for row in ("PEFS less mRMR", "own: PEFS less LASSO"):
        at_each = [found[row, "at 10 %"], found[row, "at 30 %"]]
        assert found[row, "mean of these"] == pytest.approx(np.mean(at_each))


def by_command(made_up, folder, monkeypatch, capfd) -> dict:
    """Return the figures of one seed, as the command prints them."""
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setitem(EXPERIMENTS, made_up.name, made_up)
    command = ["chaffinch", "reproduce", made_up.name, "--seeds", "1", "--cluster", "none"]
    monkeypatch.setattr(sys, "argv", [*command, "--data", str(folder), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capfd.readouterr()
    assert end.value.code == 0, err
    contents = json.loads(out)
    assert [(one["row"], one["column"]) for one in contents["figures"]] == [
        figure.place for figure in made_up.figures
    ]
    return {(one["row"], one["column"]): one["mean"] for one in contents["figures"]}


def test_the_correlated_table_is_as_it_is_said_to_be() -> None:
    X, y = correlated(0)
    assert (X.shape, set(y)) == ((2000, 800), {0, 1})
    assert np.abs(X.std(axis=0) - 1).max() < 0.1
    together = np.corrcoef(X[:, ::7], rowvar=False)
    group = np.arange(0, 800, 7) // 20
    is_same = (group[:, None] == group) & ~np.eye(len(group), dtype=bool)
    assert together[is_same].mean() == pytest.approx(0.7, abs=0.02)
    assert abs(together[group[:, None] != group].mean()) < 0.01
    by_group = f_classif(X, y)[0].reshape(40, 20).mean(axis=1)
    assert by_group[0] > 3 * by_group[9:20].max()
    assert by_group[:20].min() > by_group[20:].mean()
    assert (correlated(1)[0] != X).any()


def test_the_digits_are_scikit_learns_with_noise() -> None:
    X, y = dfs_figure_2.digits_3_and_5(0)
    pixels, digit = load_digits(return_X_y=True)
    pixels, digit = pixels[np.isin(digit, (3, 5))], digit[np.isin(digit, (3, 5))]
    assert (X.shape, y.tolist()) == ((365, 128), (digit == 5).astype(int).tolist())
    for noise in (X[:, :64] - pixels, X[:, 64:]):
        assert (noise.mean(), noise.std()) == (pytest.approx(0, abs=0.2), pytest.approx(8, abs=0.2))


def test_order_1_chooses_what_anova_does() -> None:
    X, y = correlated(0)
    rows = Rows(X[:800, ::20], y[:800])  # a column of each group
    scores = f_classif(rows.X, rows.y)[0]
    found = chosen(rows, 6, 0, {"ANOVA F": scores})
    assert set(found) == {"ANOVA F", "DFS, order 1", "DFS, order 4", "DFS, order 6"}
    assert set(found["DFS, order 1"]) == set(found["ANOVA F"]) == set(np.argsort(scores)[-6:])


def test_the_auc_is_that_of_the_test_rows_on_the_chosen_columns() -> None:
    X, y = three_of_ten()
    is_1 = (y == 1).astype(int)
    train, test = Rows(X[:200], is_1[:200]), Rows(X[200:], is_1[200:])
    assert auc(train, test, np.array([5])) > 0.95
    assert auc(train, test, np.array([0, 1])) < 0.65
    assert auc(train, Rows(test.X, 1 - test.y), np.array([5])) < 0.05
    noise = Rows(np.random.default_rng(1).normal(size=(200, 60)), is_1[:200])
    assert auc(noise, Rows(noise.X[::-1], test.y), np.arange(60)) < 0.65


def test_differences_are_means_over_the_sizes() -> None:
    X, y = correlated(0)
    found = measured(Problem(X[:300, ::10], y[:300], (3, 9), 0.5), 0, "some, ")
    assert all(row.startswith("some, ") for row, _ in found)
    differences = [
        found[f"some, {size} features", "DFS, order 6"]
        - found[f"some, {size} features", "mutual information"]
        for size in (3, 9)
    ]
    of_both = found["some, mean over sizes", "DFS, order 6 less mutual information"]
    assert of_both == pytest.approx(np.mean(differences))
    assert all(0 < value <= 1 for (row, _), value in found.items() if "features" in row)


def test_dfs_is_set_against_filters_by_command(tmp_path, monkeypatch, capfd) -> None:
    X, y = correlated(0)
    table = pd.DataFrame(X[:150, :500], columns=[f"f{j}" for j in range(500)])
    table.assign(target=np.where(y[:150] == 1, 1, -1)).to_csv(tmp_path / "madelon.csv", index=False)
    found = by_command(EXPERIMENTS["dfs-figure-2-madelon"], tmp_path, monkeypatch, capfd)
    assert all(0 <= value <= 1 for (row, _), value in found.items() if "features" in row)
    assert len(found) == 5 * 5 + 5


@pytest.mark.e2e
def test_13_of_62_rows_are_for_the_test_of_colon(tmp_path) -> None:
    """As the note says: 8 of one class and 5 of the other, so that an AUC is a multiple of 1/40."""
    colon = EXPERIMENTS["dfs-figure-2-colon"]
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(62, 2000)), columns=[f"f{j}" for j in range(2000)])
    table.assign(target=np.repeat([-1, 1], [40, 22])).to_parquet(tmp_path / "colon.parquet")
    shared = colon.read(tmp_path)
    assert shared[0].shape == (62, 2000)
    (measure,) = colon.measures
    found = measure(shared, 0)
    assert len(found) == 5 * 5 + 5
    in_steps = [40 * value for (row, _), value in found.items() if "features" in row]
    assert in_steps == pytest.approx(np.round(in_steps))


def test_tables_of_other_papers_are_looked_for_by_name(tmp_path) -> None:
    for module in (pefs_figure_1, dfs_figure_2):
        for one in module.EXPERIMENTS:
            if one.name == "dfs-figure-2-made":
                assert one.read(None) is None
                continue
            with pytest.raises(InputError, match="name the folder that holds it with --data"):
                chaffinch.reproduce(one.name)
            with pytest.raises(InputError, match=f"(?i)there is no {one.name.split('-')[-1]} in"):
                chaffinch.reproduce(one.name, data=tmp_path)

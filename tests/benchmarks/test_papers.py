"""The papers' experiments: known answers of what makes their tables and of their protocols."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.feature_selection import f_classif
from sklearn.metrics import mutual_info_score

import chaffinch
from chaffinch.tasks.selection.core import Rows
from tests.benchmarks.papers import afs_bm, alternatives, dfs, gbmo, pefs
from tests.benchmarks.papers.experiment import Figure, read_classes, read_table
from tests.benchmarks.papers.run import EXPERIMENTS, is_inside


def test_equation_22_is_cut_as_published():
    X, y = gbmo.equation_22(42)
    assert X[0, :2] == pytest.approx([0.3745401188, 0.9507143064])  # numpy's seed 42
    assert y[0] == pytest.approx((X[0, :10] ** 2 + np.sin(X[0, :10])).sum())
    assert [len(part) for part in gbmo.cut_synthetic(X, y, 42)] == [135, 81, 40, 44]


def test_equation_24_is_the_authors_table():
    X, y = afs_bm.equation_24(222)  # the first numbers of the file that their program writes
    assert (X.shape, X[0, 0], y[0]) == ((300, 100), 0.5260284260841477, 15.529562312977003)
    assert [len(part) for part in afs_bm.cut(X, y, 42)] == [150, 60, 60, 30]


def test_sonar_is_scaled_by_the_first_part_alone():
    random = np.random.default_rng(1)
    table = pd.DataFrame(random.normal(size=(200, 60))).assign(target=["rock", "mine"] * 100)
    parts = gbmo.cut_real(table, 3, has_classes=True)
    assert [len(part) for part in parts] == [90, 60, 20, 30]
    assert (parts.train.X.min(axis=0) == 0).all()
    assert (parts.train.X.max(axis=0) == 1).all()
    assert parts.test.X.min() < 0


def test_numbers_to_predict_are_scaled_by_the_first_part_too():
    random = np.random.default_rng(1)
    table = pd.DataFrame(random.normal(size=(200, 3))).assign(y=random.normal(1000, 300, 200))
    parts = gbmo.cut_real(table, 3, has_classes=False)
    assert (parts.train.y.min(), parts.train.y.max()) == (0, 1)
    every = np.concatenate([part.y for part in parts])
    correlation = np.corrcoef(every, table.sample(frac=1, random_state=3)["y"])[0, 1]
    assert correlation == pytest.approx(1)


def test_a_series_is_cut_in_time_with_the_masks_before_the_test():
    table = pd.DataFrame({"row": np.arange(200.0), "y": np.arange(200.0)})
    parts = afs_bm.cut_in_time(table)
    begins = {name: part.y[0] for name, part in parts._asdict().items()}
    assert [len(part) for part in parts] == [100, 40, 40, 20]
    assert begins["train"] < begins["model_validation"] < begins["mask_validation"] < begins["test"]
    assert (parts.train.X.min(), parts.train.X.max()) == (-1, 1)
    assert (parts.train.y[0], parts.test.y[-1]) == (-1, 1)


def test_statuses_of_each_number_of_alternatives_add_up(monkeypatch):
    monkeypatch.setattr(alternatives, "TAUS", (0.4,))
    monkeypatch.setattr(alternatives, "N_ALTERNATIVES", (1, 2))
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 9)))
    found = alternatives.measure_by_number({"some": X.assign(target=[0, 1] * 30)}, 0)
    for n in (1, 2):
        shares = [found[f"a = {n}", alternatives.PERCENT[one]] for one in alternatives.IN_TABLE_4]
        assert sum(shares) == pytest.approx(100)


def test_a_seed_is_a_fold_of_the_alternatives():
    table = pd.DataFrame({"row": np.arange(100.0), "target": ["a", "b"] * 50})
    left_out = []
    for seed in range(5):
        X, y = alternatives.training_rows(table, seed)
        assert (len(y), y.sum()) == (80, 40)
        left_out += {*range(100)} - {*X[:, 0].astype(int)}
    assert sorted(left_out) == list(range(100))


def test_what_came_of_each_alternative():
    quality = chaffinch.qualities.Univariate([9, 8, 7, 3, 2, 1])  # of the paper's examples
    sought = {"k": 2, "n_alternatives": 5, "tau": 1.0}
    found = chaffinch.find_alternatives(quality, **sought)
    proven = [*alternatives.outcomes(found, 5, is_greedy=False)]
    assert proven == ["optimal"] * 2 + ["infeasible"] * 3  # six features make three pairs
    greedy = chaffinch.find_alternatives(quality, **sought, search="greedy_replacement")
    tried = [*alternatives.outcomes(greedy, 5, is_greedy=True)]
    assert tried == ["feasible"] * 2 + ["not_solved"] * 3
    assert alternatives.normalised(found, (1, 2, 3)) == [10 / 17, 3 / 17, 0]


def test_mrmr_is_the_greedy_choice_by_information_in_bins():
    random = np.random.default_rng(3)
    X = random.integers(0, 3, (300, 12)).astype(float)
    y = (X[:, 9] + X[:, 1] > 2).astype(int)
    order, left = [], list(range(12))
    while left:
        merit = [
            mutual_info_score(X[:, j], y)
            - (np.mean([mutual_info_score(X[:, j], X[:, i]) for i in order]) if order else 0.0)
            for j in left
        ]
        order.append(left.pop(int(np.argmax(np.round(merit, 12)))))
    assert pefs.order_of_mrmr(Rows(X, y)).tolist() == order


def test_curves_are_straight_lines_between_points_by_their_share():
    shares, errors = [0, 40, 20, 20, 100], [50.0, 10.0, 22.0, 18.0, 16.0]
    at = [0, 10, 20, 30, 40, 70, 100]
    assert pefs.interpolated(shares, errors, at).tolist() == [50, 35, 20, 15, 10, 13, 16]


def test_each_figure_of_pefs_is_measured():
    effort = pefs.Effort((0.1,), (0.03,), (20, 50), most_sweeps=1, steps=2)
    found = pefs.measure_digits(None, 0, effort=effort)
    assert found["mRMR, 50% kept", "kept, %"] == 50
    assert found["all features", "kept, %"] == 100
    at_each = [found["PEFS less mRMR", f"at {share} %"] for share in effort.at]
    assert found["PEFS less mRMR", "mean of these"] == pytest.approx(np.mean(at_each))


def test_the_correlated_table_has_groups_of_columns():
    X, y = dfs.correlated(0)
    assert (X.shape, set(y)) == ((2000, 800), {0, 1})
    together = np.corrcoef(X[:, ::7], rowvar=False)
    group = np.arange(0, 800, 7) // 20
    is_same = (group[:, None] == group) & ~np.eye(len(group), dtype=bool)
    assert together[is_same].mean() == pytest.approx(0.7, abs=0.02)
    assert abs(together[group[:, None] != group].mean()) < 0.01
    by_group = f_classif(X, y)[0].reshape(40, 20).mean(axis=1)
    assert by_group[0] > 3 * by_group[9:20].max()
    assert by_group[:20].min() > by_group[20:].mean()


def test_digits_have_their_noise():
    X, y = dfs.digits_3_and_5(0)
    pixels, digit = load_digits(return_X_y=True)
    pixels, digit = pixels[np.isin(digit, (3, 5))], digit[np.isin(digit, (3, 5))]
    assert (X.shape, y.tolist()) == ((365, 128), (digit == 5).astype(int).tolist())
    for noise in (X[:, :64] - pixels, X[:, 64:]):
        assert (noise.mean(), noise.std()) == (pytest.approx(0, abs=0.2), pytest.approx(8, abs=0.2))


def test_dfs_of_order_1_chooses_what_anova_does():
    X, y = dfs.correlated(0)
    rows = Rows(X[:800, ::20], y[:800])  # a column of each group
    found = dfs.chosen(rows, 6, 0, {"ANOVA F": f_classif(rows.X, rows.y)[0]})
    assert set(found["DFS, order 1"]) == set(found["ANOVA F"])


def test_a_published_figure_is_inside_to_the_digits_printed():
    ours = [1.0, 3.004]
    inside = [is_inside(Figure("", "", one), ours) for one in (1.0, 2.0, 3.0, 0.9, 3.02, None)]
    assert inside == [True, True, True, False, False, None]
    assert is_inside(Figure("", "", 3.01), ours) is False
    assert is_inside(Figure("", "", 3.0, decimals=3), [3.004]) is False
    assert is_inside(Figure("", "", 2.0, incomparable="Of other units."), ours) is None


def test_a_table_of_the_user_is_read_from_its_file_or_its_folder(tmp_path):
    table = pd.DataFrame({"target": ["b", "a"], "text": ["x", "y"], "number": [1.0, 2.0]})
    table.to_csv(tmp_path / "some.tsv", index=False, sep="\t")
    for where in (tmp_path, tmp_path / "some.tsv"):
        X, y = read_classes("some", where, n_columns=3)
        assert (X.tolist(), y.tolist()) == ([[1, 1, 0], [2, 0, 1]], [1, 0])
    with pytest.raises(SystemExit, match="must have 3 columns, 3 classes and no gaps"):
        read_classes("some", tmp_path, n_columns=3, n_classes=3)
    with pytest.raises(SystemExit, match="there is no other at"):
        read_table("other", tmp_path / "some.tsv")
    with pytest.raises(SystemExit, match="there is no table of the paper at"):
        EXPERIMENTS["alternatives-figure-5"].read(tmp_path)

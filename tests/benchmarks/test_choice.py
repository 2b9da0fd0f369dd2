"""The benchmark of what methods choose: what its figures mean, and its tables."""

import numpy as np
import pytest

from chaffinch.tasks.selection.models.runtime import single_thread
from tests.benchmarks.choice import Bench, measured, ratio, truth
from tests.benchmarks.choice_tables import tables


def test_a_ratio_is_of_losses_and_of_skill_where_the_loss_of_all_is_almost_0():
    assert ratio(0.6, 0.5, 1.0) == pytest.approx(1.2)
    assert ratio(0.002, 0.001, 1.0) == pytest.approx(1 + 0.001 / 0.999)


def test_without_a_folder_there_are_tables_enough_and_names_are_not_repeated():
    names = [name for name, _, _ in tables(None)]
    assert len(names) == len(set(names)) >= 18


@pytest.mark.parametrize("name", ["gbmo", "select_from_model", "permutation", "rfecv"])
def test_each_ranking_is_measured_at_its_own_size_and_cut_at_another(name):
    _, X, y = next(one for one in tables(None) if one[0] == "few_rows_classes")
    with single_thread():
        bench = Bench.of_table(X.iloc[:, :8], y, "lightgbm", 0)
        own, equal = measured(bench, name, [None, 3])
    assert (own["asked"], equal["asked"], equal["size"]) == (None, 3, 3)
    assert own["size"] == len(own["kept"])
    assert not own["refused"]
    assert np.isfinite([own["loss"], equal["loss"]]).all()


def test_a_copy_stands_for_the_column_that_matters():
    source = np.array([0, 0, 1, -1, -1])
    assert truth(source, [1, 3]) == {"noise_kept": 0.5, "true_kept": 0.5}
    assert truth(np.array([0, 1]), [0, 1]) == {"noise_kept": None, "true_kept": 1.0}

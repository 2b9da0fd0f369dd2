"""No method beats a constant on rows whose answers only their neighbours in other parts know.

In an epoch each kind of rows has one answer, drawn at random. Features show the kind and the epoch,
so that a model knows the answers of an epoch that it was fitted on, and of no other.
"""

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import ModelSettings
from chaffinch.methods import Pefs
from chaffinch.tasks.settings.method import class_of, kinds

QUICK = ("auto", "gbmo", "anova_f")
ONE_OF_EACH_CLASS = {class_of(kind): kind for kind in kinds() if kind not in (*QUICK, "reselect")}
METHODS = [
    *QUICK,
    *(pytest.param(kind, marks=pytest.mark.e2e) for kind in ONE_OF_EACH_CLASS.values()),
]
TREES = {"n_estimators": 30, "min_child_samples": 2}
MODEL = ModelSettings(name="lightgbm", tuning="none", parameters=TREES)
BY_CHANCE = 0.2  # of the test rows' variance; below 0 is worse than a constant


def epochs(n_epochs, length):
    """Return rows in the order of time, in epochs of a length."""
    random = np.random.default_rng(3)
    epoch = np.repeat(np.arange(n_epochs), length)
    kind = random.integers(4, size=len(epoch))
    columns = {"kind_1": kind % 2, "kind_2": kind // 2}
    columns |= {f"epoch_{j}": random.normal(size=n_epochs)[epoch] for j in range(2)}
    answers = random.normal(size=(n_epochs, 4))
    return pd.DataFrame(
        columns | {"y": answers[epoch, kind], "epoch": epoch, "hour": np.arange(len(epoch))}
    )


def explained(table, method, embargo=None, **columns):
    """Return the share of the test rows' variance that the chosen features explain."""
    left_out = {"epoch", "hour"} - {*columns.values()}
    if method == "pefs":
        method = Pefs(hidden_layer_sizes=(10,), most_sweeps=3)
    result = chaffinch.select(
        table, "y", method=method, model=MODEL, drop=left_out, columns={"embargo": embargo},
        **columns,
    )  # fmt: skip
    return result.metrics["r2"]["selected"]


@pytest.mark.parametrize("method", METHODS)
def test_groups_that_stay_together_tell_nothing(method):
    assert explained(epochs(30, 12), method, group="epoch") < BY_CHANCE


def test_groups_that_are_split_tell_all():
    assert explained(epochs(30, 12), "auto") > 2 * BY_CHANCE


@pytest.mark.parametrize("method", METHODS)
def test_rows_before_an_embargo_tell_nothing(method):
    table = epochs(5, 72)  # the test part is the last 54 rows; its epoch begins 18 rows before
    assert explained(table, method, time="hour", embargo=20) < BY_CHANCE


def test_without_an_embargo_the_rows_just_before_tell_much():
    assert explained(epochs(5, 72), "auto", time="hour") > 2 * BY_CHANCE

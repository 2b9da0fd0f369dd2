"""A logistic regression means the same beside every version of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import fit

FEW = {"C": 0.05, "max_iter": 5000}


def table(n_classes: int) -> tuple[Rows, Schema]:
    """Return rows whose class follows from the first of three features."""
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 3))
    y = np.digitize(X[:, 0] + random.normal(0, 0.3, 120), np.linspace(-0.5, 0.5, n_classes)[1:])
    return Rows(X, y), Schema(("a", "b", "c"), (0, 0, 0), n_classes)


@pytest.mark.parametrize(
    ("solver", "ratio", "n_classes"),
    [("saga", 1.0, 2), ("saga", 1.0, 3), ("saga", 0.9, 3), ("liblinear", 1, 2)],
)
def test_an_l1_ratio_leaves_features_out(solver, ratio, n_classes) -> None:
    parameters = {**FEW, "solver": solver, "l1_ratio": ratio}
    model = fit("LogisticRegression", *table(n_classes), parameters, seed=0)
    assert model.used_features.tolist() == [True, False, False]


@pytest.mark.parametrize("solver", ["lbfgs", "saga"])
def test_a_ratio_of_0_is_none(solver) -> None:
    plain, ridge = (
        fit("LogisticRegression", *table(3), {**FEW, "solver": solver, **ratio}, seed=0)
        for ratio in ({}, {"l1_ratio": 0.0})
    )
    np.testing.assert_array_equal(plain.estimator.coef_, ridge.estimator.coef_)


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8), reason="1.8 refuses to fit it"
)
def test_a_model_of_each_class_is_no_softmax() -> None:
    model = fit("LogisticRegression", *table(3), {"solver": "liblinear"}, seed=0)
    with pytest.raises(NotCovered, match="a model of each class"):
        model.dense()

"""What differs between the versions of scikit-learn that chaffinch works beside.

Each function says which lowest version lets it go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def use_l1_ratio(model: Any) -> None:
    """Let a logistic regression heed its `l1_ratio`, or `l1_ratios`; goes with 1.8.

    Earlier ones do so only with `penalty`, which later ones deprecate.
    """
    if not _is_before(1, 8):
        return
    parameters = model.get_params(deep=False)
    name = "l1_ratios" if "l1_ratios" in parameters else "l1_ratio"
    if (value := parameters[name]) is None:
        return
    ratios = value if isinstance(value, Sequence) else [value]
    # two have names of their own, which solvers other than SAGA know too
    for penalty, only in (("l2", 0), ("l1", 1)):
        if all(ratio == only for ratio in ratios):
            model.set_params(**{name: None}, penalty=penalty)
            return
    model.set_params(penalty="elasticnet")


def is_one_against_rest(model: Any) -> bool:
    """Return whether a logistic regression has a model of each of several classes; goes with 1.8.

    Later ones refuse to fit them.
    """
    return (
        _is_before(1, 8)
        and len(model.classes_) > 2
        and (model.solver == "liblinear" or getattr(model, "multi_class", None) == "ovr")
    )


def _is_before(*version: int) -> bool:
    import sklearn

    return tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < version

"""What the parameters of an estimator, and its fit, are called: seeds, threads and weights."""

from __future__ import annotations

from typing import Any

from chaffinch.tasks.selection.errors import SettingError


def make_reproducible(estimator: Any, seed: int) -> None:
    """Give the seed to every random_state and one thread to every n_jobs, in steps as well."""
    changes: dict[str, int] = {}
    for name, value in estimator.get_params(deep=True).items():
        parameter = name.rpartition("__")[2]
        if parameter == "random_state":
            changes[name] = seed
        elif parameter == "n_jobs" and value not in (None, 1):
            changes[name] = 1
    estimator.set_params(**changes)


def weight_argument(estimator: Any) -> str:
    """Return the name under which fit takes sample weights.

    Raises
    ------
    SettingError
        If it takes none.
    """
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        return f"{step}__{weight_argument(last)}"
    if not has_fit_parameter(estimator, "sample_weight"):
        raise SettingError(
            f"{type(estimator).__name__} takes no sample weights",
            "leave the weight column out or use another model",
            "use another model",
        )
    return "sample_weight"

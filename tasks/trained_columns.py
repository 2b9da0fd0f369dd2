"""Whether a table has the columns that a model was trained on, where the model knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaffinch.storage.errors import InputError

_MOST_SHOWN = 10


def check_columns(model: Any, name: str, columns: Sequence[str]) -> None:
    """Refuse columns that are others, or stand in another order, than those of the training.

    Parameters
    ----------
    model : trained model
        LightGBM's or XGBoost's, or scikit-learn's; one that was trained without names, or on
        other columns than it was given, is not checked.
    name : str
        What the model is called.
    columns : sequence of str
        Of the table.

    Raises
    ------
    InputError
        If they differ.
    """
    trained = _names_of(model)
    if trained is None or _plain(trained) == _plain(columns):
        return
    shown = ", ".join(trained[:_MOST_SHOWN])
    more = f" and {len(trained) - _MOST_SHOWN} more" if len(trained) > _MOST_SHOWN else ""
    is_order = sorted(_plain(trained)) == sorted(_plain(columns))
    wrong = "the same in another order" if is_order else "others"
    raise InputError(
        f"X must have the columns that {name} was trained on, {shown}{more}, but has {wrong}; give "
        "it those columns, in that order"
    )


def _names_of(model: Any) -> tuple[str, ...] | None:
    """Return the names of the columns a model was trained on; None if it knows none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = getattr(model, "feature_names", None)  # XGBoost's Booster
    if names is None and callable(getattr(model, "feature_name", None)):  # LightGBM's
        names = model.feature_name()
        if list(names) == [f"Column_{place}" for place in range(len(names))]:
            names = None  # its own, for want of others
    return None if names is None else tuple(str(name) for name in names)


def _plain(names: Sequence[str]) -> list[str]:
    """Return names as LightGBM keeps them, which puts underscores in place of blanks."""
    return ["_".join(name.split(" ")) for name in names]

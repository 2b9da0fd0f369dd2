"""True and false are no numbers in any setting, though they can be taken for 1 and 0."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

import chaffinch
from chaffinch import InputError
from chaffinch.methods import AfsBm, Gbmo, Pefs
from chaffinch.tasks.settings.columns import HistorySettings
from chaffinch.tasks.settings.reselection import ReselectionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, ModelSettings, SelectionSettings

TABLE = pd.DataFrame({"day": np.arange(60), "x": np.arange(60) % 7, "y": np.arange(60) % 2})


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("settings", "name", "is_list", "must"),
    [
        (ModelSettings, "folds", False, "a whole number"),
        (AfsBm, "n_features", False, "a whole number"),
        (ExecutionSettings, "workers", False, "a whole number"),
        (ReselectionSettings, "seed", False, "a whole number"),
        (ReselectionSettings, "gain", False, "a number"),
        (HistorySettings, "lags", True, "a whole number"),
        (HistorySettings, "rolling", True, "a whole number"),
        (Pefs, "hidden_layer_sizes", True, "a whole number"),
        (Pefs, "penalties", True, "a number"),
        (Gbmo, "slacks", True, "a number"),
    ],
)
def test_true_is_refused_where_a_number_is_asked_for(settings, name, is_list, must, value) -> None:
    with pytest.raises(InputError, match=f"^{name} must be {must} but is {value}$"):
        settings(**{name: [3, value] if is_list else value})
    with pytest.raises(ValidationError, match=f"{name} must be {must} but is {value}"):
        settings.model_validate({name: [3, value] if is_list else value})  # as a form does


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "afs_bm", "n_features": True}, "n_features must be a whole number but is True"),
        ({"method": "rfecv", "n_features": True}, "n_features must be a whole number but is True"),
        ({"time": "day", "history": {"lags": (True,)}}, "lags must be a whole number but is True"),
        (
            {"time": "day", "history": {"rolling": [2, True]}},
            "rolling must be a whole number but is True",
        ),
        ({"settings": {"shares": (True, 30, 30, 39)}}, "shares must be a whole number but is True"),
        (
            {"time": "day", "history": {"lags": np.array([True])}},
            "lags must be a whole number but is True",
        ),
        ({"seed": np.False_}, "seed must be a whole number but is False"),
    ],
)
def test_select_says_it_in_its_own_words(options, said) -> None:
    with pytest.raises(InputError) as error:
        chaffinch.select(TABLE, "y", **options)
    assert str(error.value) == said


def test_true_stays_what_it_is_where_it_is_asked_for() -> None:
    settings = SelectionSettings(target="y", method={"kind": "afs_bm", "tune_every_round": True})
    assert settings.method.tune_every_round is True
    assert ModelSettings(parameters={"linear_tree": True}).parameters == {"linear_tree": True}

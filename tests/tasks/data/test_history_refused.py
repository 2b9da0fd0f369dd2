"""What no history can be made of is said in one line, before any work."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError
from chaffinch.tasks.settings.columns import HistorySettings
from tests.tasks.data.synthetic_history import DAYS, LINEAR, QUICK, daily, made, two_series
from tests.tasks.snapshots import check_sentence


@pytest.fixture(scope="module")
def result():
    return chaffinch.select(daily(), "y", time="day", history={"lags": [1]}, **QUICK)


@pytest.fixture(scope="module")
def of_series():
    return chaffinch.select(SERIES, "y", **OF_SERIES)


@pytest.mark.parametrize(
    "history",
    [
        {"lags": []},
        {"lags": [0]},
        {"rolling": [1]},
        {"series": "shop", "columns": ["shop"]},
        {"series": None, "columns": ["shop"]},
        {"columns": ["yy"]},
        {"series": "shops"},
        {"series": None},
        {"lags": None},
        {"columns": "y"},
        {"columns": 5},
        {"columns": [5]},
    ],
)
def test_what_cannot_be_is_refused_in_one_line(history) -> None:
    history = {"series": "shop", "lags": [1], **history}
    with pytest.raises(InputError) as error:
        chaffinch.select(two_series(100), "y", model=LINEAR, time="day", history=history)
    check_sentence("refusals/history", history, error.value)


@pytest.mark.parametrize(
    "options",
    [
        {"time": None},
        {"history": 7},
        {"history": {"lag": [7]}},
        {"settings": {"shares": (50, 20, 20, 20)}},
        {"settings": {"shares": (100, 0, 0, 0)}},
        {"settings": {"shares": (50, 30, 20)}},
    ],
)
def test_nor_can_what_does_not_go_with_it(options) -> None:
    asked = {"time": "day", "history": {"series": "shop", "lags": [1]}, **options}
    with pytest.raises(InputError) as error:
        chaffinch.select(two_series(100), "y", model=LINEAR, **asked)
    check_sentence("refusals/beside a history", options, error.value)


SERIES = two_series(60).assign(noise=np.arange(120) % 7)
OF_SHOPS = {"lags": [1], "series": "shop"}
OF_SERIES = {**QUICK, "time": "day", "history": OF_SHOPS, "keep": ["y_lag_1"]}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("day", "time column 'day' is of type {}; give timestamps or numbers"),
        ("shop", "series column 'shop' is of type {}; give numbers or text"),
        ("y", "history column 'y' is of type {}; give numbers"),
    ],
)
def test_a_type_that_no_feature_can_have_is_told_in_the_role_of_its_column(
    of_series, name, said
) -> None:
    lasting = SERIES.assign(**{name: pd.to_timedelta(np.arange(120), unit="h")})
    for call in (
        lambda: chaffinch.with_history(lasting, "y", time="day", **OF_SHOPS),
        lambda: chaffinch.select(lasting, "y", **OF_SERIES),
        lambda: chaffinch.select(
            lasting, "noise", **OF_SERIES | {"history": {**OF_SHOPS, "columns": ["y"]}}
        ),
        lambda: chaffinch.reselect(of_series, lasting),
    ):
        with pytest.raises(InputError) as refusal:
            call()
        assert re.sub(r"duration\[.s\]", "{}", str(refusal.value)) == said


@pytest.mark.parametrize("role", ["lags", "rolling"])
@pytest.mark.parametrize("given", ["28", b"28", 5])
def test_every_door_refuses_a_number_that_is_no_list(role, given) -> None:
    for door in (
        lambda: chaffinch.select(DAYS, "y", time="day", history={role: given}),
        lambda: chaffinch.with_history(DAYS, "y", time="day", **{role: given}),
        lambda: HistorySettings(**{role: given}),
    ):
        remedy = r"(; write \[28\])?" if given == "28" else ""
        with pytest.raises(InputError, match=f"^{role} must be a list but is {given!r}{remedy}$"):
            door()


def test_lags_may_be_any_list() -> None:
    for given in ([4, 2, 3], {4, 2, 3}, range(2, 5), np.array([4, 2, 3])):
        assert HistorySettings(lags=given).lags == (2, 3, 4)


@pytest.mark.parametrize(
    "asked",
    [
        {"columns": None},
        {"columns": 5.5},
        {"columns": [5.5]},
        {"time": None},
        {"time": 5.5},
        {"series": 5.5},
        {"lags": None},
        {"columns": []},
    ],
)
def test_with_history_refuses_what_is_no_name(asked) -> None:
    given = {"columns": "y", "time": "day", "lags": (1,), **asked}
    with pytest.raises(InputError) as error:
        chaffinch.with_history(DAYS, **given)
    check_sentence("refusals/with history", asked, error.value)


def test_times_that_differ_by_less_than_a_microsecond_are_said_not_to_be_told_apart() -> None:
    moments = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(100), "ns")
    data = pd.DataFrame({"day": moments, "y": np.arange(100.0), "x": np.arange(100) % 7})
    with pytest.raises(InputError, match="times finer than a microsecond count as one"):
        made(data, lags=(1,))
    with pytest.raises(InputError, match="times finer than a microsecond count as one"):
        chaffinch.select(data, "y", model=LINEAR, time="day")


@pytest.mark.parametrize("value", [1e300, -2e30])
def test_numbers_that_models_cannot_compute_with_are_refused(value) -> None:
    data = DAYS.assign(y=[4.0, 1.0, value, 8.0])
    with pytest.raises(InputError, match=r"column 'y' must lie within .* in row 3: rescale"):
        made(data, rolling=(2,))


def test_a_name_that_is_taken_is_refused_with_what_helps_at_every_door(result) -> None:
    table = daily(seed=1).assign(y_lag_1=0.0)
    asked = {"time": "day", "history": {"lags": [1]}, "model": LINEAR}
    for call in (
        lambda: made(table, lags=(1,)),
        lambda: chaffinch.select(table, "y", **asked),
        lambda: chaffinch.select(table, "y", drop=["y_lag_1"], **asked),
        lambda: chaffinch.reselect(result, table),
        lambda: chaffinch.reselect(result, table, drop=["y_lag_1"]),
    ):
        with pytest.raises(InputError) as refusal:
            call()
        assert str(refusal.value) == (
            "history makes a column 'y_lag_1' but the table has one; rename it, or take it out of "
            "the table"
        )


def test_a_time_that_is_none_and_a_row_without_a_series_are_refused() -> None:
    for name, values, said in (
        ("day", ["x", "y", "z", "w"], "time column 'day' holds text, which has no order in time"),
        ("day", [1, None, 2, 3], "time column 'day' is missing in 1 of 4 rows, first in"),
        ("shop", ["a", None, "a", "a"], "series column 'shop' is missing in 1 of 4 rows, first in"),
    ):
        table = DAYS.assign(shop="a").assign(**{name: values})
        with pytest.raises(InputError, match=said):
            made(table, lags=(1,), series="shop")


def test_a_contract_of_an_earlier_release_is_read_unless_its_series_were_scaled(
    result, tmp_path
) -> None:
    path = tmp_path / "selection.json"
    contract = result.contract.to_dict()
    for scale in ("none", "series"):
        contract["settings"]["history"]["scale"] = scale
        path.write_text(json.dumps(contract))
        if scale == "none":
            assert chaffinch.load_contract(path).columns == result.contract.columns
            assert "y_lag_1" in chaffinch.reselect(path, daily(seed=1)).features
            continue
        with pytest.raises(InputError, match="series are not scaled any more") as refusal:
            chaffinch.load_contract(path)
        assert "\n" not in str(refusal.value)

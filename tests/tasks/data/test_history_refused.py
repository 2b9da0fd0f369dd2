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


@pytest.fixture(scope="module")
def result():
    return chaffinch.select(daily(), "y", time="day", history={"lags": [1]}, **QUICK)


@pytest.fixture(scope="module")
def of_series():
    return chaffinch.select(SERIES, "y", **OF_SERIES)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({"lags": []}, "history makes no feature; give lags, or rolling windows"),
        ({"lags": [0]}, "lags must be at least 1 but is 0"),
        ({"rolling": [1]}, "rolling must be at least 2 but is 1"),
        ({"series": "shop", "columns": ["shop"]}, "named both as series and as one that"),
        ({"series": None, "columns": ["shop"]}, "history column 'shop' must hold numbers"),
        ({"columns": ["yy"]}, "history column 'yy' is no column of the table"),
        ({"series": "shops"}, "series column 'shops' is no column of the table; did you mean"),
        ({"series": None}, "time column 'day' has the same value in rows 1 and 101, so that neit"),
        ({"lags": None}, "^lags must be a list but is None$"),
        ({"columns": "y"}, r"^columns must be a list but is 'y'; write \['y'\]$"),
        ({"columns": 5}, "^columns must be a list but is 5$"),
        ({"columns": [5]}, "^history column '5' is no column of the table"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(history, message) -> None:
    history = {"series": "shop", "lags": [1], **history}
    with pytest.raises(InputError, match=message) as error:
        chaffinch.select(two_series(100), "y", model=LINEAR, time="day", history=history)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": None}, "lags and rolling windows need time order; name the time column"),
        ({"history": 7}, "^history must be HistorySettings, or names with values, but is 7$"),
        ({"history": {"lag": [7]}}, "^there is no setting 'lag'; nearest: lags$"),
        ({"settings": {"shares": (50, 20, 20, 20)}}, "shares must add up to 100 but are 50, 20, "),
        ({"settings": {"shares": (100, 0, 0, 0)}}, "shares must be"),
        ({"settings": {"shares": (50, 30, 20)}}, "shares must be a list of at least 4 but is"),
    ],
)
def test_nor_can_what_does_not_go_with_it(options, message) -> None:
    asked = {"time": "day", "history": {"series": "shop", "lags": [1]}, **options}
    with pytest.raises(InputError, match=message) as error:
        chaffinch.select(two_series(100), "y", model=LINEAR, **asked)
    assert "\n" not in str(error.value)


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
    ("asked", "said"),
    [
        (
            {"columns": None},
            "columns must be the name of a column, or a list of names, but is None",
        ),
        ({"columns": 5.5}, "columns must be the name of a column, or a list of names, but is 5.5"),
        ({"columns": [5.5]}, "columns must be text but is 5.5"),
        ({"time": None}, "time must be the name of a column but is None"),
        ({"time": 5.5}, "time must be the name of a column but is 5.5"),
        ({"series": 5.5}, "series must be text but is 5.5"),
        ({"lags": None}, "lags must be a list but is None"),
        ({"columns": []}, "columns must name at least 1 column of numbers but names none"),
    ],
)
def test_with_history_refuses_what_is_no_name(asked, said) -> None:
    given = {"columns": "y", "time": "day", "lags": (1,), **asked}
    with pytest.raises(InputError) as error:
        chaffinch.with_history(DAYS, **given)
    assert str(error.value) == said


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


def test_a_made_feature_is_dropped_by_its_name() -> None:
    asked = {"time": "day", "history": {"lags": [1, 2]}, **QUICK}
    assert "y_lag_1" not in chaffinch.select(daily(60), "y", drop=["y_lag_1"], **asked).candidates


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

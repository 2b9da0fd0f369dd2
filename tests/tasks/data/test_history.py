"""Features made of the past: by hand, series by series, and never of the future."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.flows.cli.output import show
from tests.tasks.data.synthetic_history import DAYS, QUICK, daily, made, run_on_days, two_series
from tests.tasks.reporting.synthetic_report import Page
from tests.tasks.synthetic_runs import rows_of

pytestmark = pytest.mark.usefixtures("undrawn")

# What is made


def test_a_lag_is_the_value_so_many_rows_before_in_time_order() -> None:
    table = made(DAYS, lags=(1, 2))
    assert table["day"].tolist() == [3, 1, 2, 4]  # the rows stay where they are
    np.testing.assert_array_equal(table["y_lag_1"], [2.0, np.nan, 1.0, 4.0])
    np.testing.assert_array_equal(table["y_lag_2"], [1.0, np.nan, np.nan, 2.0])


def test_it_is_what_pandas_makes_of_each_series() -> None:
    data = two_series(40)
    table = made(
        data.sample(frac=1, random_state=0), lags=(1, 7, 28), rolling=(4, 7), series="shop"
    )
    table = table.sort_values(["shop", "day"]).reset_index(drop=True)
    past = data.groupby("shop")["y"]
    for lag in (1, 7, 28):
        np.testing.assert_array_equal(table[f"y_lag_{lag}"], past.shift(lag))
    for window in (4, 7):
        before = data.assign(y=past.shift(1)).groupby("shop")["y"].rolling(window)
        np.testing.assert_allclose(table[f"y_mean_{window}"], before.mean(), atol=1e-12)
        np.testing.assert_allclose(table[f"y_deviation_{window}"], before.std(), atol=1e-12)


@pytest.mark.parametrize("cut", range(1, 12))
def test_later_rows_change_no_feature_of_earlier_ones(cut) -> None:
    data = daily(12)
    changed = data.assign(y=data["y"].where(data["day"] < cut, -50.0))
    one, other = (made(d, lags=(1, 3), rolling=(2, 4)) for d in (data, changed))
    upto = one["day"] <= cut  # the row at the cut sees nothing of itself either
    assert other["y"][cut] == -50
    pd.testing.assert_frame_equal(one[upto].drop(columns="y"), other[upto].drop(columns="y"))


def test_what_is_missing_in_the_past_is_missing_in_what_is_made_of_it() -> None:
    data = pd.DataFrame({"day": range(5), "y": [1.0, np.nan, 3.0, 4.0, 5.0]})
    table = made(data, lags=(1,), rolling=(2,))
    np.testing.assert_array_equal(table["y_lag_1"], [np.nan, 1, np.nan, 3, 4])
    np.testing.assert_array_equal(table["y_mean_2"], [np.nan, np.nan, np.nan, np.nan, 3.5])


@pytest.mark.parametrize("window", [40, 41, 10**6, 10**30])
def test_a_window_longer_than_any_past_is_empty_at_once(window) -> None:
    """By a loop over the window, the longer ones would take minutes, hours and for ever."""
    data = two_series(40)
    table = made(data, rolling=(3, window), series="shop")
    assert table[f"y_mean_{window}"].isna().all()
    assert table[f"y_deviation_{window}"].isna().all()
    assert table["y_mean_3"].notna().sum() == 2 * 37


@pytest.mark.parametrize("window", [5_000, 150_000])
def test_a_long_window_costs_what_a_short_one_costs(window) -> None:
    """By a loop over the window, the longer one would take minutes."""
    y = np.random.default_rng(0).normal(size=300_000)
    table = made(pd.DataFrame({"day": np.arange(300_000), "y": y}), rolling=(2, window))
    assert table[f"y_mean_{window}"].notna().sum() == 300_000 - window
    for row in (window, 200_001, 299_999):
        past = y[row - window : row]
        assert table[f"y_mean_{window}"][row] == pytest.approx(past.mean(), rel=1e-9)
        assert table[f"y_deviation_{window}"][row] == pytest.approx(past.std(ddof=1), rel=1e-12)


# In a run


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_on_days(tmp_path_factory.mktemp("store"))


def test_the_lags_that_matter_are_found(result) -> None:
    assert {"y_lag_1", "y_lag_7"} <= set(result.features)
    assert len(result.candidates) == 1 + 6 + 4
    assert result.settings["history"] == {
        "lags": [1, 2, 3, 7, 14, 28], "rolling": [4, 7], "columns": [], "series": None,
    }  # fmt: skip


def test_the_parts_are_stretches_of_time_of_the_shares_asked_for(result) -> None:
    rows = {"train": 200, "mask_validation": 80, "model_validation": 80, "test": 40}
    assert result.contract["dataset"]["rows_by_part"] == rows
    ends = [set(rows_of(result, part)["day"]) for part in rows]
    assert ends == [{*range(200)}, {*range(200, 280)}, {*range(280, 360)}, {*range(360, 400)}]


def test_a_model_predicts_the_next_day_from_the_days_before(result) -> None:
    days = pd.concat([daily(), pd.DataFrame({"day": [400], "noise": [0.0], "y": [np.nan]})])
    table = chaffinch.with_history(days, "y", time="day", lags=(1, 2, 3, 7, 14, 28), rolling=(4, 7))
    assert np.isfinite(result.model.predict(table.slice(400))).all()


def test_a_reselection_makes_them_of_the_newer_rows_too(result) -> None:
    newer = chaffinch.reselect(result, daily(seed=1))
    assert {"y_lag_1", "y_lag_7"} <= set(newer.features)
    assert newer.contract["dataset"]["rows_by_part"]["test"] == 40


def test_a_file_gives_what_a_frame_gives_and_what_is_dropped_may_be_made_of(tmp_path) -> None:
    data = two_series(150).assign(price=np.arange(300.0) % 7, noise=np.arange(300) % 5)
    data.to_csv(tmp_path / "t.csv", index=False)
    results = [
        chaffinch.select(
            source, "y", **QUICK, time="day", drop=["price", "shop"], keep=["price_lag_1"],
            history={"lags": [1], "columns": ["price"], "series": "shop"},
        )
        for source in (data, tmp_path / "t.csv")
    ]  # fmt: skip
    assert results[0].candidates == ["noise", "price_lag_1"]
    assert results[0].contract == results[1].contract


@pytest.mark.parametrize("is_file", [True, False])
def test_text_that_is_called_numeric_has_a_history_as_its_numbers_have(is_file, tmp_path) -> None:
    data = two_series(100)
    data["price"] = (data["day"] * 7 % 43).where(data["day"] > 2).astype("Int64")
    padded = data.assign(
        day=data["day"].astype(str).str.zfill(5),
        price=data["price"].map(lambda price: f"{int(price):05d}", na_action="ignore"),
    )
    source = padded
    if is_file:
        source = tmp_path / "padded.csv"
        padded.to_csv(source, index=False)
    asked = {"lags": [1], "rolling": [3], "series": "shop"}
    run = {**QUICK, "time": "day", "history": {**asked, "columns": ["price"]}}
    plain = chaffinch.select(data, "y", **run)
    result = chaffinch.select(source, "y", **run, columns={"numeric": ["price", "day"]})
    assert result.contract["dataset"]["hash"] == plain.contract["dataset"]["hash"]
    of_text = chaffinch.with_history(source, "price", time="day", **asked, numeric=["price", "day"])
    of_numbers = chaffinch.with_history(data, "price", time="day", **asked)
    for name in ("price_lag_1", "price_mean_3", "price_deviation_3"):
        assert of_text[name].to_pylist() == of_numbers[name].to_pylist()


@pytest.mark.parametrize("is_file", [True, False])
def test_times_with_leading_zeros_are_times_where_they_are_called_numeric(
    is_file, tmp_path
) -> None:
    data = daily(200).assign(day=lambda rows: rows["day"].astype(str).str.zfill(4))
    data.to_csv(tmp_path / "t.csv", index=False)
    source = tmp_path / "t.csv" if is_file else data
    said = (
        "time column 'day' holds text, which has no order in time; give timestamps or numbers, or "
        "name 'day' as numeric"
    )
    asked = {"time": "day", "history": {"lags": [1]}, **QUICK}
    for refused in (
        lambda: made(source, lags=(1,)),
        lambda: chaffinch.select(source, "y", **asked),
    ):
        with pytest.raises(InputError) as refusal:
            refused()
        assert str(refusal.value) == said
    table = made(source, lags=(1,), numeric=["day"])
    np.testing.assert_array_equal(table["y_lag_1"][1:], data["y"][:-1])
    assert chaffinch.select(source, "y", columns={"numeric": ["day"]}, **asked).features
    with pytest.raises(InputError, match=r"no order in time; give timestamps or numbers, as by"):
        made(data.assign(day="d" + data["day"]), lags=(1,))


def test_text_with_leading_zeros_that_is_not_called_numeric_is_no_history() -> None:
    padded = DAYS.assign(price=["00042", "00043", "00044", "00045"])
    with pytest.raises(InputError, match=r"must hold numbers; .*, or name 'price' as numeric$"):
        made(padded, "price", lags=(1,))
    with pytest.raises(InputError, match="numeric must be a list of column names but is 'price'"):
        made(padded, "price", lags=(1,), numeric="price")
    with pytest.raises(InputError, match=r"numeric must be text but is 5\.5"):
        made(padded, "price", lags=(1,), numeric=[5.5])
    with pytest.raises(InputError, match="numeric column 'prices' is no column of the table; did"):
        made(padded, "price", lags=(1,), numeric=["prices"])


# What is said of it


def test_the_report_and_the_terminal_name_what_was_made(result, tmp_path, capsys) -> None:
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    assert ["history.columns", "y"] in page.tables["Settings"]  # as used: none were named
    made_here = "Made of earlier rows of y: y_lag_1, y_lag_2, "
    assert made_here in page.text
    show(result, as_json=False)
    assert made_here in capsys.readouterr().out


FIRST_ROWS = "in the first rows of each series the features made of earlier ones are missing"


def first_rows_said(data, history=None, **options):
    asked = {"time": "day", **QUICK, **options}
    history = {"series": "shop", "lags": [1], **(history or {})}
    result = chaffinch.select(data, "y", history=history, **asked)
    return result, [said for said in result.warnings if said.startswith(FIRST_ROWS)]


def test_a_model_that_fills_the_first_rows_across_series_is_warned_of() -> None:
    data = two_series(100)
    former, (said,) = first_rows_said(data, keep=["y_lag_1"])
    assert said.endswith("; take a model that sees what is missing, such as lightgbm")
    assert said in chaffinch.reselect(former, two_series(99)).warnings
    assert first_rows_said(data, model=ModelSettings(name="lightgbm", tuning="none"))[1] == []


def test_where_no_made_feature_is_in_the_table_nothing_is_said_of_one() -> None:
    data = two_series(100).assign(noise=np.arange(200) % 7)
    for rows, history in (
        (data, {"lags": [1000], "rolling": [1000]}),
        (data.assign(still=1.0), {"lags": [1000], "columns": ["still"]}),
        (data.assign(shop=np.arange(200)), {"lags": [1], "rolling": [2]}),
    ):
        result, said = first_rows_said(rows, history)
        assert said == []
        assert not any("_lag_" in name for name in result.candidates)

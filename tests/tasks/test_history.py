"""Features made of the past: by hand, series by series, and never of the future."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import AfsBm, InputError, ModelSettings
from chaffinch.flows.terminal import show
from chaffinch.tasks.history_settings import HistorySettings
from tests.tasks.made_up_report import Page

LINEAR = ModelSettings(name="linear", tuning="none")
DAYS = pd.DataFrame({"day": [3, 1, 2, 4], "y": [4.0, 1.0, 2.0, 8.0]})


def two_series(n=6):
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {"shop": ["a"] * n + ["b"] * n, "day": [*range(n)] * 2, "y": random.normal(size=2 * n)}
    )


def made(data, column="y", **asked):
    return chaffinch.with_history(data, column, time="day", **asked).to_pandas()


def daily(n=400, seed=0):
    """A series that goes by what it was one and seven days ago."""
    random = np.random.default_rng(seed)
    y = np.zeros(n)
    for t in range(n):
        y[t] = 0.6 * y[t - 1] * (t > 0) + 0.3 * y[t - 7] * (t > 6) + random.normal()
    return pd.DataFrame({"day": np.arange(n), "noise": random.normal(size=n), "y": y})


# What is made


def test_a_lag_is_the_value_so_many_rows_before_in_time_order() -> None:
    table = made(DAYS, lags=(1, 2))
    assert table["day"].tolist() == [3, 1, 2, 4]  # the rows stay where they are
    np.testing.assert_array_equal(table["y_lag_1"], [2.0, np.nan, 1.0, 4.0])
    np.testing.assert_array_equal(table["y_lag_2"], [1.0, np.nan, np.nan, 2.0])


def test_a_window_ends_with_the_row_before() -> None:
    table = made(DAYS, rolling=(2, 3))
    np.testing.assert_array_equal(table["y_mean_2"], [1.5, np.nan, np.nan, 3.0])
    np.testing.assert_allclose(table["y_mean_3"], [np.nan, np.nan, np.nan, 7 / 3])
    half, two = math.sqrt(0.5), math.sqrt(2)
    np.testing.assert_allclose(table["y_deviation_2"], [half, np.nan, np.nan, two])
    np.testing.assert_allclose(table["y_deviation_3"][3], np.std([1, 2, 4], ddof=1))
    names = ["day", "y", "y_mean_2", "y_deviation_2", "y_mean_3", "y_deviation_3"]
    assert list(table) == names


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


def test_no_series_sees_the_past_of_another() -> None:
    data = two_series()
    changed = data.assign(y=data["y"].where(data["shop"] == "a", 100.0))
    for table in (made(d, lags=(1, 2), rolling=(3,), series="shop") for d in (data, changed)):
        firsts = table[table["day"] == 0]
        assert firsts.filter(like="_").isna().all(axis=None)
        if table["y"].max() == 100:
            later = table
        else:
            earlier = table
    of_a = earlier["shop"] == "a"
    pd.testing.assert_frame_equal(earlier[of_a], later[of_a])


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


def test_a_value_far_from_zero_has_a_deviation_all_the_same() -> None:
    data = pd.DataFrame({"day": range(5), "y": 1e9 + np.array([0.0, 1, 0, 1, 0])})
    assert made(data, rolling=(4,))["y_deviation_4"][4] == pytest.approx(math.sqrt(1 / 3))


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, -7.3])
@pytest.mark.parametrize("window", [2, 3, 7, 28])
def test_equal_values_have_themselves_as_mean_and_no_deviation(value, window, tmp_path) -> None:
    data = pd.DataFrame({"day": range(window + 1), "y": value})
    data.to_csv(tmp_path / "t.csv", index=False)
    for source in (data, tmp_path / "t.csv"):
        table = made(source, rolling=(window,))
        assert table[f"y_mean_{window}"][window] == value
        assert table[f"y_deviation_{window}"][window] == 0


@pytest.mark.parametrize("window", [40, 41, 10**6, 20_240_101, 10**30])
def test_a_window_longer_than_any_past_is_empty_at_once(window) -> None:
    """By a loop over the window, the longer ones would take minutes, hours and for ever."""
    data = two_series(40)
    table = made(data, rolling=(3, window), series="shop")
    assert table[f"y_mean_{window}"].isna().all()
    assert table[f"y_deviation_{window}"].isna().all()
    assert table["y_mean_3"].notna().sum() == 2 * 37


def test_a_window_as_long_as_the_longest_past_is_seen_by_one_row() -> None:
    data = two_series(40)[:-1]  # the second series is shorter by a row
    table = made(data, rolling=(39,), series="shop")
    assert table["y_mean_39"].notna().tolist() == [False] * 39 + [True] + [False] * 39
    assert table["y_mean_39"][39] == pytest.approx(data["y"][:39].mean())


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
    return chaffinch.select(
        daily(), "y", method=AfsBm(), model=LINEAR, time="day", lags=[1, 2, 3, 7, 14, 28],
        rolling=[4, 7], shares=(50, 20, 20, 10), store=tmp_path_factory.mktemp("store"),
    )  # fmt: skip


def test_the_lags_that_matter_are_found(result) -> None:
    assert {"y_lag_1", "y_lag_7"} <= set(result.features)
    assert len(result.candidates) == 1 + 6 + 4
    assert result.settings["history"] == {
        "lags": [1, 2, 3, 7, 14, 28], "rolling": [4, 7], "columns": [], "series": None,
        "scale": "none",
    }  # fmt: skip


def test_the_parts_are_stretches_of_time_of_the_shares_asked_for(result) -> None:
    rows = {"train": 200, "mask_validation": 80, "model_validation": 80, "test": 40}
    assert result.contract["dataset"]["rows_by_part"] == rows
    dataset = result.contract["dataset"]["hash"][:16]
    table = pd.read_parquet(result.folder.parents[1] / "datasets" / dataset / "table.parquet")
    part = pd.read_parquet(result.folder / "splits.parquet")["part"]
    ends = [set(table["day"][part == name]) for name in rows]
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
            source, "y", model=LINEAR, time="day", series="shop", lags=[1],
            history_columns=["price"], drop=["price", "shop"], keep=["price_lag_1"],
        )
        for source in (data, tmp_path / "t.csv")
    ]  # fmt: skip
    assert results[0].candidates == ["noise", "price_lag_1"]
    assert results[0].contract == results[1].contract


@pytest.mark.parametrize("scale", ["none", "series"])
@pytest.mark.parametrize("is_file", [True, False])
def test_text_that_is_called_numeric_has_a_history_as_its_numbers_have(
    scale, is_file, tmp_path
) -> None:
    data = two_series(100)
    data["price"] = (data["day"] * 7 % 43).where(data["day"] > 2).astype("Int64")
    padded = data.assign(
        day=data["day"].astype(str).str.zfill(5),
        price=data["price"].map("{:05d}".format, na_action="ignore"),
    )
    source = padded
    if is_file:
        source = tmp_path / "padded.csv"
        padded.to_csv(source, index=False)
    asked = {"time": "day", "lags": [1], "rolling": [3], "series": "shop"}
    run = {**asked, "model": LINEAR, "history_columns": ["price"], "scale": scale}
    plain = chaffinch.select(data, "y", **run)
    result = chaffinch.select(source, "y", **run, numeric=["price", "day"])
    assert result.contract["dataset"]["hash"] == plain.contract["dataset"]["hash"]
    assert result.contract.get("scales") == plain.contract.get("scales")
    scales = result.contract.get("scales")
    of_text = chaffinch.with_history(
        source, "price", **asked, scales=scales, numeric=["price", "day"]
    )
    of_numbers = chaffinch.with_history(data, "price", **asked, scales=scales)
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
    asked = {"time": "day", "lags": [1], "model": LINEAR}
    for refused in (
        lambda: made(source, lags=(1,)),
        lambda: chaffinch.select(source, "y", **asked),
    ):
        with pytest.raises(InputError) as refusal:
            refused()
        assert str(refusal.value) == said
    table = made(source, lags=(1,), numeric=["day"])
    np.testing.assert_array_equal(table["y_lag_1"][1:], data["y"][:-1])
    assert chaffinch.select(source, "y", numeric=["day"], **asked).features
    with pytest.raises(InputError, match=r"no order in time; give timestamps or numbers$"):
        made(data.assign(day="d" + data["day"]), lags=(1,))


def test_text_with_leading_zeros_that_is_not_called_numeric_is_no_history() -> None:
    padded = DAYS.assign(price=["00042", "00043", "00044", "00045"])
    with pytest.raises(InputError, match=r"must hold numbers; .*, or name 'price' as numeric$"):
        made(padded, "price", lags=(1,))
    with pytest.raises(InputError, match="numeric must be a list of column names but is 'price'"):
        made(padded, "price", lags=(1,), numeric="price")
    with pytest.raises(InputError, match="numeric must be text but is 5"):
        made(padded, "price", lags=(1,), numeric=[5])
    with pytest.raises(InputError, match="numeric column 'prices' is no column of the table; did"):
        made(padded, "price", lags=(1,), numeric=["prices"])


# The scale of a series


def shops(n=150):
    """Two shops of very different size, of which one is open from the tenth day on."""
    random = np.random.default_rng(3)
    parts = []
    for shop, level, first in (("small", 10.0, 0), ("large", 5000.0, 10)):
        y = level * (1 + 0.1 * random.normal(size=n).cumsum() / 5)
        days = np.arange(first, n)
        parts.append(pd.DataFrame({"shop": shop, "day": days, "y": y[first:]}))
    return pd.concat(parts).assign(noise=random.normal(size=2 * n - 10))


def scaled_run(data, **options):
    return chaffinch.select(
        data, "y", model=LINEAR, time="day", series="shop", lags=[1, 2], scale="series", **options
    )


def test_each_series_is_scaled_by_its_training_rows_alone(tmp_path) -> None:
    data = shops()
    result = scaled_run(data, store=tmp_path)
    dataset = result.contract["dataset"]["hash"][:16]
    table = pd.read_parquet(tmp_path / "datasets" / dataset / "table.parquet")
    part = pd.read_parquet(result.folder / "splits.parquet")["part"]
    last = table["day"][part == "train"].max()
    for shop, rows in data.groupby("shop"):
        train = rows["y"][rows["day"] <= last]
        scale = result.contract["scales"][shop]["y"]
        assert scale["mean"] == pytest.approx(train.mean())
        assert scale["reach"] == pytest.approx((train - train.mean()).abs().max())
        mine = table[table["shop"] == shop].sort_values("day")
        expected = (rows["y"] - scale["mean"]) / scale["reach"]
        np.testing.assert_allclose(mine["y"], expected)
        np.testing.assert_array_equal(mine["y_lag_1"], mine["y"].shift(1))
        assert mine["y"][mine["day"] <= last].abs().max() == pytest.approx(1)

    after = data.assign(y=data["y"].where(data["day"] <= last, data["y"] * 3))
    assert scaled_run(after).contract["scales"] == result.contract["scales"]
    again = chaffinch.load_run(result.run, store=tmp_path)
    assert again.contract["scales"] == result.contract["scales"]


def test_series_far_apart_are_warned_of_unless_they_are_scaled_or_gaps_are_seen() -> None:
    data = shops().drop(columns="noise")
    asked = {"time": "day", "series": "shop", "lags": [1]}
    plain = chaffinch.select(data, "y", model=LINEAR, **asked)
    (said,) = plain.warnings  # that the day before tells the day is no leak
    assert said.startswith("in the first rows of each series the features made of earlier ones")
    assert said.endswith("by --scale series")
    assert chaffinch.select(data, "y", model=LINEAR, scale="series", **asked).warnings == ()
    trees = ModelSettings(name="lightgbm", tuning="none")
    assert chaffinch.select(data, "y", model=trees, **asked).warnings == ()


FIRST_ROWS = "in the first rows of each series the features made of earlier ones are missing"


def first_rows_said(warnings):
    return [said for said in warnings if said.startswith(FIRST_ROWS)]


def test_where_nothing_can_be_scaled_another_model_is_the_remedy() -> None:
    data = shops()
    classes = data.assign(y=(data["noise"] > 0).astype(int))
    asked = {"time": "day", "series": "shop", "lags": [1], "model": LINEAR}
    (said,) = first_rows_said(chaffinch.select(classes, "y", **asked).warnings)
    assert said.endswith("; take a model that sees what is missing, such as lightgbm")
    trees = {**asked, "model": ModelSettings(name="lightgbm", tuning="none")}
    assert first_rows_said(chaffinch.select(classes, "y", **trees).warnings) == []
    former = chaffinch.select(data, "y", **asked, keep=["y_lag_1"])
    (said,) = first_rows_said(chaffinch.reselect(former, data.assign(noise=0.5)).warnings)
    assert said.endswith("; take a model that sees what is missing, such as lightgbm")


@pytest.mark.parametrize(
    "options",
    [
        {"history_columns": ["w"], "weight": "w"},
        {"history_columns": ["code"], "categorical": ["code"]},
        {"history_columns": ["day"]},
        {"history_columns": ["number"], "drop": ["number"]},
    ],
)
def test_the_scale_is_a_remedy_only_where_it_is_taken(options) -> None:
    data = shops().assign(w=lambda rows: 1 + rows["day"] % 3, code=lambda rows: rows["day"] % 4)
    data = data.assign(number=lambda rows: rows["noise"] * 2)
    asked = {"time": "day", "series": "shop", "lags": [1], "model": LINEAR, **options}
    (said,) = first_rows_said(chaffinch.select(data, "y", **asked).warnings)
    if said.endswith("by --scale series"):
        assert options["history_columns"] == ["number"]
        assert chaffinch.select(data, "y", **asked, scale="series").contract["scales"]
    else:
        assert said.endswith("; take a model that sees what is missing, such as lightgbm")
        with pytest.raises(InputError, match="brought to the scale of its series; name it once"):
            chaffinch.select(data, "y", **asked, scale="series")


def test_where_no_made_feature_is_in_the_table_nothing_is_said_of_one() -> None:
    data = shops()
    asked = {"time": "day", "series": "shop", "model": LINEAR}
    for rows, options in (
        (data, {"lags": [1000], "rolling": [1000]}),
        (data.assign(still=1.0), {"lags": [1000], "history_columns": ["still"]}),
        (data.assign(shop=np.arange(len(data))), {"lags": [1], "rolling": [2]}),
    ):
        result = chaffinch.select(rows, "y", **asked, **options)
        assert first_rows_said(result.warnings) == []
        assert not any("_lag_" in name for name in result.candidates)


def test_new_rows_are_brought_to_the_scales_of_the_run() -> None:
    data = shops()
    result = scaled_run(data, keep=["y_lag_1"])
    asked = {"time": "day", "lags": (1, 2), "series": "shop"}
    table = chaffinch.with_history(data, "y", **asked, scales=result.contract["scales"])
    scale = result.contract["scales"]["large"]["y"]
    of_large = table.to_pandas().query("shop == 'large'")
    expected = (data.query("shop == 'large'")["y"] - scale["mean"]) / scale["reach"]
    np.testing.assert_allclose(of_large["y"], expected)
    assert np.isfinite(result.model.predict(table)).all()
    other = data.assign(shop="other", day=range(len(data)))
    with pytest.raises(InputError, match="series column 'shop' has 'other', of which there is no"):
        chaffinch.with_history(other, "y", **asked, scales=result.contract["scales"])


def test_the_report_and_the_terminal_say_what_is_scaled_and_what_was_made(tmp_path, capsys) -> None:
    result = scaled_run(shops(), history_columns=["y", "noise"], keep=["y_lag_1"])
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    scaled = "The target y and noise are on each series' own scale, and so are the losses and predi"
    made_here = "Made of earlier rows of noise, y: noise_lag_1, noise_lag_2, y_lag_1, y_lag_2."
    places = [page.text.index(heading) for heading in ("Verdict", "Losses of", "Columns of the ta")]
    said = [found.start() for found in re.finditer(re.escape(scaled), page.text)]
    assert len(said) == 3  # beside the verdict, the losses and the columns
    assert places[0] < said[0] < places[1] < said[1] < said[2] < places[2]
    assert made_here in page.text
    show(result, as_json=False)
    lines = capsys.readouterr().out
    assert scaled in lines
    assert made_here in lines


def test_settings_that_were_left_to_the_default_are_shown_as_used(result, tmp_path) -> None:
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    assert ["history.columns", "y"] in page.tables["Settings"]
    assert "own scale" not in page.text


def test_several_columns_in_one_call_are_scaled_once_and_a_second_time_is_refused() -> None:
    data = shops()
    result = scaled_run(data, history_columns=["y", "noise"], rolling=[2])
    scales = result.contract["scales"]
    asked = {"time": "day", "lags": (1, 2), "rolling": (2,), "series": "shop", "scales": scales}
    table = chaffinch.with_history(data, ["y", "noise"], **asked)
    frame = table.to_pandas()
    for shop, rows in frame.groupby("shop"):
        given = data.loc[data["shop"] == shop, "noise"].to_numpy()
        scale = scales[shop]["noise"]
        np.testing.assert_allclose(rows["noise"], (given - scale["mean"]) / scale["reach"])
        np.testing.assert_array_equal(rows["noise_lag_1"], rows["noise"].shift(1))
        np.testing.assert_array_equal(rows["y_lag_2"], rows["y"].shift(2))
    one_alone = chaffinch.with_history(data, "y", **asked)
    for given in (one_alone, one_alone.to_pandas()):
        with pytest.raises(InputError, match=r"has 'y_lag_1', .* seems to be on the scales alre"):
            chaffinch.with_history(given, "noise", **asked)
    with pytest.raises(InputError, match="columns must name at least 1 column of numbers but name"):
        chaffinch.with_history(data, [], **asked)


@pytest.mark.parametrize("first", [{"lags": (1,)}, {"rolling": (3,)}, {"lags": (11,)}])
@pytest.mark.parametrize("second", [{"lags": (2,)}, {"rolling": (30,)}])
def test_other_lags_or_windows_of_what_is_scaled_are_refused_too(first, second) -> None:
    data = shops()
    scales = {shop: {"y": {"mean": 5.0, "reach": 2.0}} for shop in ("small", "large")}
    asked = {"time": "day", "series": "shop", "scales": scales}
    once = chaffinch.with_history(data, "y", **asked, **first)
    for given in (once, once.to_pandas()):
        with pytest.raises(
            InputError, match=r"'y_.*on the scales already; ask for all columns, la"
        ):
            chaffinch.with_history(given, "y", **asked, **second)
    unscaled = chaffinch.with_history(data, "y", time="day", series="shop", **first)
    with pytest.raises(InputError, match="on the scales already"):  # and would mix the two
        chaffinch.with_history(unscaled, "y", **asked, **second)
    others = data.assign(noise_lag_1=0.0, y_lag=0.0, y_lag_01=0.0, my_y_mean_3=0.0, y_meanx3=0.0)
    table = chaffinch.with_history(others, "y", **asked, **second)
    assert table["y"] == once["y"]
    assert table["noise_lag_1"].to_pylist() == [0.0] * len(data)


def test_series_that_come_back_as_whole_floats_are_known_again() -> None:
    data = shops().assign(shop=lambda rows: (rows["shop"] == "large") + 1)
    scales = scaled_run(data).contract["scales"]
    asked = {"time": "day", "lags": (1,), "series": "shop", "scales": scales}
    one = chaffinch.with_history(data, "y", **asked)
    other = chaffinch.with_history(data.assign(shop=data["shop"].astype(float)), "y", **asked)
    assert one["y"] == other["y"]
    assert one["y_lag_1"] == other["y_lag_1"]


SCALE = {"mean": 0.0, "reach": 1.0}


@pytest.mark.parametrize(
    ("scales", "series", "message"),
    [
        ({"a": {"y": SCALE}}, None, "are those of series 'a' but no series column is named; give "),
        ({"": {"y": SCALE}}, "shop", "those of a run without series but the series column is 'sho"),
        ({"a": 1}, "shop", "scales must be series -> column -> mean and reach but at 'a' input"),
        ({"a": {"y": {"mean": 0, "reach": 0}}}, "shop", "at 'a' -> 'y' -> 'reach' input should be"),
        ({"a": {"y": SCALE}, "b": {}}, "shop", "must be of the same columns for each series but"),
        ({}, "shop", "scales must be series -> column -> mean and reach but dictionary should"),
        ("contract", "shop", "scales must be series -> column -> mean and reach but input should"),
    ],
)  # fmt: skip
def test_scales_that_are_none_of_these_rows_are_refused(scales, series, message) -> None:
    with pytest.raises(InputError, match=message) as error:
        made(two_series(), lags=(1,), series=series, scales=scales)
    assert "\n" not in str(error.value)


def test_a_row_without_a_series_is_named() -> None:
    with pytest.raises(InputError, match="series column 'shop' is missing in row 2: fill or remov"):
        made(
            DAYS.assign(shop=["a", None, "a", "a"]), lags=(1,), series="shop",
            scales={"a": {"y": SCALE}},
        )  # fmt: skip


@pytest.mark.parametrize("target", [[0, 1], [0.0, 1.0], ["no", "yes"], [False, True]])
def test_classes_are_not_scaled(target) -> None:
    data = two_series(100).assign(y=target * 100, x=np.arange(200.0))
    asked = {"time": "day", "series": "shop", "lags": [1], "history_columns": ["x"]}
    with pytest.raises(InputError, match="scale series is for a target of numbers") as error:
        chaffinch.select(data, "y", model=LINEAR, scale="series", **asked)
    assert "leave out scale, or set task to regression" in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_called_classes_is_not_scaled_and_what_is_called_a_quantity_is() -> None:
    data = two_series(100).assign(count=np.arange(200) % 7)
    asked = {"time": "day", "series": "shop", "lags": [1], "model": LINEAR, "scale": "series"}
    for target in ("count", "y"):
        with pytest.raises(InputError, match=r"target of numbers .* but task is classification"):
            chaffinch.select(data, target, task="classification", **asked)
    result = chaffinch.select(data, "count", task="regression", **asked)
    assert result.contract["scales"]["a"]["count"]["reach"] > 1


def test_a_series_that_begins_after_the_training_part_has_no_scale() -> None:
    data = shops()
    late = data[(data["shop"] == "small") | (data["day"] > 120)]
    with pytest.raises(InputError, match="column 'y' of series 'large' has no value in the traini"):
        scaled_run(late)


@pytest.mark.parametrize("of", ["no row", "late rows"])
@pytest.mark.parametrize("series", ["shop", None])
def test_a_column_without_a_value_to_scale_by_is_what_is_to_be_left_out(of, series) -> None:
    data = shops().assign(price=lambda rows: rows["day"].where(rows["day"] > 120, np.nan))
    if of == "no row":
        data = data.assign(price=np.nan)
    asked = {"model": LINEAR, "time": "day", "lags": [1], "scale": "series", "series": series}
    if series is None:
        data = data[data["shop"] == "small"]
    said = (
        "column 'price' has no value in the training part, in any row, to be scaled by; leave it "
        "out of the history columns, or leave out the scaling"
    )
    with pytest.raises(InputError, match=f"^{said}$"):
        chaffinch.select(data, "y", **asked, history_columns=["price", "y"])
    chaffinch.select(data, "y", **asked, history_columns=["y"])
    priced = data.assign(price=data["noise"])
    asked["history_columns"] = ["price", "y"]
    before = chaffinch.select(priced, "y", **asked, keep=["price_lag_1"])
    with pytest.raises(InputError, match="to be scaled by; give rows in which it has values, or s"):
        chaffinch.reselect(before, data)


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": None}, "lags and rolling windows need time order; name the time column"),
        ({"lags": []}, "history makes no feature; give lags, or rolling windows"),
        ({"lags": [0]}, "lags must be at least 1 but is 0"),
        ({"rolling": [1]}, "rolling must be at least 2 but is 1"),
        ({"series": "shop", "history_columns": ["shop"]}, "said to be both series and one that"),
        ({"series": None, "history_columns": ["shop"]}, "history column 'shop' must hold numbers"),
        ({"history_columns": ["yy"]}, "history column 'yy' is no column of the table"),
        ({"series": "shops"}, "series column 'shops' is no column of the table; did you mean"),
        ({"series": None}, "time column 'day' has the same value in rows 1 and 101, so that neit"),
        ({"lags": "28"}, "^lags must be a list but is '28'$"),
        ({"lags": b"28"}, "^lags must be a list but is b'28'$"),
        ({"lags": 5}, "^lags must be a list but is 5$"),
        ({"lags": 0}, "^lags must be a list but is 0$"),
        ({"lags": None}, "^lags must be a list but is None$"),
        ({"rolling": "28"}, "^rolling must be a list but is '28'$"),
        ({"rolling": 7}, "^rolling must be a list but is 7$"),
        ({"history_columns": "y"}, "^history_columns must be a list of column names but is 'y'$"),
        ({"history_columns": 5}, "^history_columns must be a list of column names but is 5$"),
        ({"history_columns": [5]}, "^columns must be text but is 5$"),
        ({"shares": (50, 20, 20, 20)}, "shares must add up to 100 but are 50, 20, 20, 20, in all"),
        ({"shares": (100, 0, 0, 0)}, "shares must be"),
        ({"shares": (50, 30, 20)}, "shares must hold at least 4 but is"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, message) -> None:
    asked = {"time": "day", "series": "shop", "lags": [1], "model": LINEAR, **options}
    with pytest.raises(InputError, match=message) as error:
        chaffinch.select(two_series(100), "y", **asked)
    assert "\n" not in str(error.value)


ROLES = {"time": "day", "series": "shop"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("day", "time column 'day' is of type {}; give timestamps or numbers"),
        ("shop", "series column 'shop' is of type {}; give numbers or text"),
        ("y", "history column 'y' is of type {}; give numbers"),
    ],
)
def test_a_type_that_no_feature_can_have_is_told_in_the_role_of_its_column(name, said) -> None:
    rows = two_series(60).assign(noise=np.arange(120) % 7)
    asked = {**ROLES, "model": LINEAR, "lags": [1], "keep": ["y_lag_1"]}
    before = chaffinch.select(rows, "y", **asked)
    lasting = rows.assign(**{name: pd.to_timedelta(np.arange(120), unit="h")})
    for call in (
        lambda: chaffinch.with_history(lasting, "y", lags=(1,), **ROLES),
        lambda: chaffinch.select(lasting, "y", **asked),
        lambda: chaffinch.select(lasting, "noise", history_columns=["y"], **asked),
        lambda: chaffinch.reselect(before, lasting),
    ):
        with pytest.raises(InputError) as refusal:
            call()
        assert re.sub(r"duration\[.s\]", "{}", str(refusal.value)) == said


@pytest.mark.parametrize("role", ["lags", "rolling"])
@pytest.mark.parametrize("given", ["28", b"28", 5])
def test_every_door_refuses_a_number_that_is_no_list(role, given) -> None:
    for door in (
        lambda: chaffinch.select(DAYS, "y", time="day", **{role: given}),
        lambda: chaffinch.with_history(DAYS, "y", time="day", **{role: given}),
        lambda: HistorySettings(**{role: given}),
    ):
        with pytest.raises(InputError, match=f"^{role} must be a list but is {given!r}$"):
            door()


@pytest.mark.parametrize("kind", [list, set, range, np.array])
def test_lags_may_be_any_list(kind) -> None:
    given = range(2, 5) if kind is range else kind([4, 2, 3])
    result = chaffinch.select(daily(120), "y", model=LINEAR, time="day", lags=given)
    assert result.settings["history"]["lags"] == [2, 3, 4]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"columns": None},
            "columns must be the name of a column, or a list of names, but is None",
        ),
        ({"columns": 5}, "columns must be the name of a column, or a list of names, but is 5"),
        ({"columns": [5]}, "columns must be text but is 5"),
        ({"time": None}, "time must be the name of a column but is None"),
        ({"time": 5}, "time must be the name of a column but is 5"),
        ({"series": 5}, "series must be text but is 5"),
        ({"lags": None}, "lags must be a list but is None"),
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
    with pytest.raises(InputError, match="times finer than a microsecond are not told apart"):
        made(data, lags=(1,))
    with pytest.raises(InputError, match="times finer than a microsecond are not told apart"):
        chaffinch.select(data, "y", model=LINEAR, time="day")


@pytest.mark.parametrize("value", [1e300, -2e30])
def test_numbers_that_models_cannot_compute_with_are_refused(value) -> None:
    data = DAYS.assign(y=[4.0, 1.0, value, 8.0])
    with pytest.raises(InputError, match=r"column 'y' must lie within .* in row 3: rescale"):
        made(data, rolling=(2,))


def test_a_name_that_is_taken_is_refused_with_what_helps_at_every_door(result) -> None:
    table = daily(seed=1).assign(y_lag_1=0.0)
    asked = {"time": "day", "lags": [1], "model": LINEAR}
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
    asked = {"time": "day", "lags": [1, 2], "model": LINEAR}
    assert "y_lag_1" not in chaffinch.select(daily(), "y", drop=["y_lag_1"], **asked).candidates


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="time column 'day' holds text, which has no order"):
        made(DAYS.assign(day=["x", "y", "z", "w"]), lags=(1,))
    with pytest.raises(InputError, match="time column 'day' is missing in row 2: fill or remove"):
        made(DAYS.assign(day=[1, None, 2, 3]), lags=(1,))

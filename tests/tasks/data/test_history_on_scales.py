"""Series brought to one scale, by their training rows alone."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.flows.cli.output import show
from tests.tasks.data.made_up_history import DAYS, LINEAR, made, run_on_days, two_series
from tests.tasks.reporting.made_up_report import Page


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_on_days(tmp_path_factory.mktemp("store"))


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
    scaled = "The target y and noise are on each series' own scale, and so are the losses, metrics "
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
    with pytest.raises(
        InputError, match="series column 'shop' is missing in 1 of 4 rows, first in"
    ):
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
    late = data[(data["shop"] == "small") | (data["day"] > 140)]
    with pytest.raises(InputError, match="column 'y' of series 'large' has no value in the traini"):
        scaled_run(late)


@pytest.mark.parametrize("of", ["no row", "late rows"])
@pytest.mark.parametrize("series", ["shop", None])
def test_a_column_without_a_value_to_scale_by_is_what_is_to_be_left_out(of, series) -> None:
    data = shops().assign(price=lambda rows: rows["day"].where(rows["day"] > 135, np.nan))
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
    with pytest.raises(InputError, match="to be scaled by; change the rows, or s"):
        chaffinch.reselect(before, data)

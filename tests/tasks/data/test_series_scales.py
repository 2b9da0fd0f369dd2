"""The scale of a series: what may be brought to it, and that the order of the rows is nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings

LINEAR = ModelSettings(name="linear", tuning="none")


def three_shops(n=60):
    """Three shops of n days each, with numbers that have no short binary form."""
    random = np.random.default_rng(5)
    parts = [
        pd.DataFrame(
            {
                "shop": shop,
                "day": np.arange(n),
                "y": level + random.normal(size=n).cumsum().round(3),
                "x": random.normal(size=n).round(3),
                "w": random.uniform(0.5, 2, size=n).round(3),
                "code": np.arange(n) % 4,
            }
        )
        for shop, level in (("a", 10.1), ("b", 1000.3), ("c", -0.7))
    ]
    return pd.concat(parts, ignore_index=True)


def scaled_run(data, target="y", **options):
    asked = {"model": LINEAR, "time": "day", "series": "shop", "lags": [1, 2], "scale": "series"}
    return chaffinch.select(data, target, **{**asked, **options})


# What may be scaled


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("y", {"history_columns": ["day", "y"]}, "'day' is named both as time and as one that is"),
        ("y", {"history_columns": ["w"], "weight": "w"}, "'w' is named both as weight and as one"),
        (
            "y", {"history_columns": ["code"], "categorical": ["code"]},
            "'code' is named both as categorical and as one that is",
        ),
        ("x", {"series": "x"}, "'x' is named both as series and as one that is"),
    ],
)  # fmt: skip
def test_what_is_scaled_has_no_other_role(target, options, said) -> None:
    """Before the table is looked for: there is none."""
    with pytest.raises(InputError, match=f"^column {said}") as error:
        scaled_run("no-such-table.csv", target, **options)
    assert str(error.value).endswith(" brought to the scale of its series; name it once")


@pytest.mark.parametrize(("role", "name"), [("time", "day"), ("series", "number")])
def test_scales_that_name_the_time_or_the_series_are_refused(role, name) -> None:
    data = three_shops().assign(number=lambda rows: rows["shop"].map({"a": 1, "b": 2, "c": 3}))
    scales = {str(k): {c: {"mean": 0.0, "reach": 2.0} for c in (name, "y")} for k in (1, 2, 3)}
    with pytest.raises(
        InputError, match=f"column '{name}' is named both as {role} and as one that"
    ):
        chaffinch.with_history(
            data, ["day", "y"], time="day", series="number", lags=(1,), scales=scales
        )


def test_what_is_not_scaled_may_be_the_time_a_weight_or_a_category_too() -> None:
    data = three_shops()
    result = scaled_run(
        data, scale="none", history_columns=["day", "w", "code"], weight="w", categorical=["code"],
        lags=[1],
    )  # fmt: skip
    assert {"day_lag_1", "w_lag_1", "code_lag_1"} <= set(result.candidates)


# In whatever order


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def test_the_same_rows_in_another_order_are_the_same_run(store) -> None:
    data = three_shops(260)
    asked = {"history_columns": ["x", "y"], "rolling": [3, 7], "store": store}
    first = scaled_run(data, **asked)
    for seed in range(3):
        shuffled = data.sample(frac=1, random_state=seed)
        again = scaled_run(shuffled, **asked)
        assert again.contract["scales"] == first.contract["scales"]
        assert again.contract["dataset"]["hash"] == first.contract["dataset"]["hash"]
        assert again.run == first.run
        made = [
            chaffinch.with_history(
                rows, ["x", "y"], time="day", series="shop", lags=(1, 2), rolling=(3, 7),
                scales=first.contract["scales"],
            ).to_pandas().sort_values(["shop", "day"], ignore_index=True)
            for rows in (data, shuffled)
        ]  # fmt: skip
        pd.testing.assert_frame_equal(*made, check_exact=True)
    # the scales of a reselection are those of its own training part, which is that of gbmo
    former = scaled_run(data, method="gbmo", **asked)
    said = chaffinch.reselect(former, data.sample(frac=1, random_state=9), store=store).warnings
    assert said[0].startswith("the newer rows are the very rows of the former run")


def test_the_mean_is_the_exact_one_and_that_of_equal_values_is_themselves() -> None:
    data = three_shops().assign(x=0.1)
    training = data["day"] < data["day"].nunique() * 85 // 100
    scales = scaled_run(data, history_columns=["x", "y"]).contract["scales"]
    for shop, rows in data[training].groupby("shop"):
        assert scales[shop]["x"] == {"mean": 0.1, "reach": 1.0}
        exact = float(sum(map(Fraction, rows["y"])) / len(rows))
        assert scales[shop]["y"]["mean"] == pytest.approx(exact, rel=4e-16)

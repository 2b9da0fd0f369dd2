"""What newer rows need, and need not, after a former run; and remedies that can be set there."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsRegressor

import chaffinch
from chaffinch import InputError, ModelSettings
from tests.tasks.made_up_runs import causes, run_of


def with_roles(seed, **columns):
    """Rows with columns that a run is told of, and that no run keeps."""
    return causes("x1", "x2", seed=seed).assign(
        junk=np.arange(600) % 9,
        code=np.arange(600) % 4,
        pad=[f"{day % 50:05d}" for day in range(600)],
        day=np.arange(600),
        **columns,
    )


ROLES = {"drop": ["junk"], "categorical": ["code"], "numeric": ["pad"]}


@pytest.mark.parametrize("history", [{}, {"time": "day", "lags": [1]}])
@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_columns_that_a_former_run_was_told_of_and_did_not_keep_need_not_be_there(
    history, kind, tmp_path
) -> None:
    before = run_of(with_roles(0), **ROLES, **history)
    assert before.features == ["x1", "x2"]
    rows = with_roles(1).drop(columns=["junk", "code", "pad"])
    source = rows if kind == "frame" else tmp_path / f"newer.{kind}"
    if kind == "csv":
        rows.to_csv(source, index=False)
    if kind == "parquet":
        rows.to_parquet(source)
    after = chaffinch.reselect(before, source)
    assert after.features == ["x1", "x2"]
    assert set(after.candidates) == set(before.candidates) - {"code", "pad"}
    told = after.settings["columns"]
    assert (told["drop"], told["categorical"], told["numeric"]) == (["junk"], ["code"], ["pad"])


def test_what_was_to_be_dropped_stays_so_when_it_is_there_again() -> None:
    before = run_of(with_roles(0), **ROLES)
    without = chaffinch.reselect(before, with_roles(1).drop(columns=["junk", "code", "pad"]))
    again = with_roles(2).assign(junk=lambda rows: rows["y"])  # it would tell the target
    after = chaffinch.reselect(without, again)
    assert "junk" not in after.candidates
    kinds = {feature["name"]: feature["type"] for feature in after.contract["features"]}
    assert kinds == {"x1": "number", "x2": "number"}


def test_what_is_asked_to_be_dropped_now_must_be_there() -> None:
    before = run_of(with_roles(0), **ROLES)
    newer = with_roles(1).drop(columns="junk")
    with pytest.raises(InputError, match="there is no column 'pads'; nearest: pad"):
        chaffinch.reselect(before, newer, drop=["pads"])
    after = chaffinch.reselect(before, newer, drop=["junk", "x8"])  # of junk the former run knew
    assert not {"junk", "x8"} & set(after.candidates)


def test_what_a_former_run_used_must_be_there_all_the_same() -> None:
    data = with_roles(0, w=1.0, shop=np.arange(600) % 3)
    before = run_of(
        data, **{**ROLES, "numeric": ["pad", "x1", "day", "w"]}, time="day", weight="w",
        lags=[1], series="shop", history_columns=["x3", "pad"], keep=["x1", "x3_lag_1"],
    )  # fmt: skip
    newer = with_roles(1, w=1.0, shop=np.arange(600) % 3)
    add = "add it to the rows, or select anew without a former run$"
    for name, said in (
        ("x1", "the newer rows lack 'x1', which the former run kept; add"),
        ("x3", f"history column 'x3' is no column of the table; {add}"),
        ("shop", f"series column 'shop' is no column of the table; {add}"),
        ("day", f"time column 'day' is no column of the table; {add}"),
        ("w", f"weight column 'w' is no column of the table; {add}"),
        (
            "y",
            "target 'y' is no column of the table; add it to the rows, or choose another target$",
        ),
    ):
        with pytest.raises(InputError, match=f"^{said}"):
            chaffinch.reselect(before, newer.drop(columns=name))
    fewer = chaffinch.reselect(before, newer.drop(columns="pad"))
    assert "x3_lag_1" in fewer.features
    assert "pad_lag_1" not in fewer.candidates


def with_shops(seed):
    """Three series, and a column beside them that a history can be made of."""
    data = causes("x1", "x3", seed=seed, day=np.arange(600), shop=np.arange(600) % 3)
    return data.assign(pad=data["x8"] + 1)


WORSE = {
    "empty": lambda pad: np.nan,
    "text": lambda pad: "low",
    "empty in a series": lambda pad: pad.where(pad.index % 3 > 0),
}


@pytest.mark.parametrize("scale", ["none", "series"])
@pytest.mark.parametrize("worse", [*WORSE, "of no type for a feature", "too large"])
def test_a_history_of_which_nothing_was_kept_stops_no_reselection(worse, scale) -> None:
    asked = {"time": "day", "series": "shop", "lags": [1], "scale": scale}
    before = run_of(with_shops(0), history_columns=["pad", "x2"], **asked)
    assert before.features == ["x1", "x3"]
    values = {"of no type for a feature": pd.Timedelta(days=1), "too large": 1e300}
    make = WORSE.get(worse, lambda pad: values[worse])
    newer = with_shops(1).assign(pad=lambda rows: make(rows["pad"]))
    after = chaffinch.reselect(before, newer, drop=["pad"] if worse in values else None)
    assert after.features == ["x1", "x3"]
    assert "x2_lag_1" in after.candidates


@pytest.mark.parametrize("keep", ["pad", "pad_lag_1"])
@pytest.mark.parametrize("worse", WORSE)
def test_what_was_kept_on_a_scale_must_be_brought_to_it_again(worse, keep) -> None:
    asked = {"time": "day", "series": "shop", "lags": [1], "scale": "series"}
    before = run_of(with_shops(0), history_columns=["pad", "x2"], keep=[keep], **asked)
    newer = with_shops(1).assign(pad=lambda rows: WORSE[worse](rows["pad"]))
    with pytest.raises(InputError, match=r"^(history )?column 'pad' .*, or select anew without a"):
        chaffinch.reselect(before, newer)
    lacks = "the newer rows lack 'pad'" if keep == "pad" else "history column 'pad' is no column of"
    with pytest.raises(InputError, match=f"^{lacks}"):
        chaffinch.reselect(before, newer.drop(columns="pad"))


def test_groups_of_the_former_run_are_to_be_added_where_they_are_not_there() -> None:
    before = run_of(causes("x1", shop=np.arange(600) % 30), group="shop")
    said = "group column 'shop' is no column of the table; add it to the rows, or select anew"
    with pytest.raises(InputError, match=f"^{said}"):
        chaffinch.reselect(before, causes("x1", seed=1))


def test_what_was_made_of_a_target_that_is_called_otherwise_now_needs_it_still() -> None:
    before = run_of(causes("x1", day=np.arange(600)), time="day", lags=[1], keep=["y_lag_1"])
    newer = causes("x1", seed=1, day=np.arange(600)).rename(columns={"y": "yes"})
    said = "history column 'y' is no column of the table; add it to the rows, or select anew"
    with pytest.raises(InputError, match=f"^{said}"):
        chaffinch.reselect(before, newer, "yes")
    assert "y_lag_1" in chaffinch.reselect(before, newer.assign(y=newer["yes"]), "yes").features


def test_a_baseline_of_what_was_not_kept_is_passed_over() -> None:
    before = run_of(with_roles(0), **ROLES, baseline={"x5": 1.5, "x1": 0.25})
    assert before.features == ["x1", "x2"]
    newer = with_roles(1)
    for rows in (newer.drop(columns="x5"), newer.assign(x5=2.0)):
        assert chaffinch.reselect(before, rows).features == ["x1", "x2"]


def test_rows_are_counted_in_the_source_where_columns_are_passed_over() -> None:
    before = run_of(with_roles(0), **ROLES)
    newer = with_roles(1).drop(columns=["junk", "code", "pad"])
    newer.loc[41, "y"] = np.nan
    with pytest.raises(InputError, match="missing in 1 of 600 rows, first in row 42: fill or remo"):
        chaffinch.reselect(before, newer)


NOT_SET_HERE = (
    "fold",
    "set task",
    "categorical",
    "numeric",
    "column or",
    "no group",
    "name",
    "scaling",
    "loss",
    "weight",
)


def in_turn(n=120):
    """Two classes that take turns, day by day."""
    return causes("x1", n=n, day=np.arange(n), w=1.0).assign(y=np.arange(n) % 2)


SHOPS = causes("x1", n=200, day=[*range(100)] * 2, shop=["a"] * 100 + ["b"] * 100)
SCALED = {"time": "day", "series": "shop", "lags": [1], "scale": "series"}


@pytest.mark.parametrize(
    ("before", "options", "newer", "said"),
    [
        (
            causes("x1", n=200, day=np.arange(200)),
            {"time": "day", "lags": [1], "scale": "series"},
            causes("x1", n=200, day=np.arange(200) % 3),
            "time column 'day' has 3 different values ",
        ),
        (
            causes("x1", n=200, day=np.arange(200)), {"time": "day"},
            causes("x1", n=200, day=np.arange(200) % 3),
            "time column 'day' has 3 different values ",
        ),
        (
            causes("x1", n=200, shop=np.arange(200)), {"group": "shop"},
            causes("x1", n=200, shop=np.arange(200) % 2),
            "group column 'shop' has 2 different valu",
        ),
        (
            causes("x1", n=200), {},
            causes("x1", n=200).assign(y=["low", "high"] * 100),
            "holds text but the task is regres",
        ),
        (
            causes("x1", n=200), {},
            causes("x1", n=200).assign(y=["07", "08"] * 100),
            "holds text but the task is regressio",
        ),
        (in_turn(), {}, causes("x1", n=200), "classes must be at most 50 whole numbers, or text: "),
        (
            in_turn(), {"time": "day"},
            in_turn().assign(y=lambda rows: rows["day"] >= 110), "class .true. has 0 rows in ",
        ),
        (
            in_turn(), {"weight": "w"},
            in_turn().assign(w="01"), "weight column .w. must hold numbers above 0 but",
        ),
        (
            in_turn(), {"time": "day"},
            in_turn().assign(day=lambda rows: rows["day"].astype(str).str.zfill(3)),
            "time column 'day' holds text, which has no order in time; give timestamps or numbers",
        ),
        (
            SHOPS, {**SCALED, "history_columns": ["x2"], "keep": ["x2_lag_1"]},
            SHOPS.assign(x2="low"),
            "history column 'x2' must hold numbers; give a column of numbers, or select anew",
        ),
        (
            SHOPS, SCALED, SHOPS.assign(shop="one"),
            "so that neither comes before the other in a history; drop one",
        ),
        (
            SHOPS, SCALED,
            SHOPS.assign(shop=SHOPS["shop"].where(SHOPS["day"] < 70, "late" + SHOPS["shop"])),
            "column 'y' of series 'latea' has no value in .*; leave out the series, or select anew",
        ),
        (
            with_roles(0), ROLES, with_roles(1).assign(pad="low"),
            "column 'pad' must hold numbers but row 1 holds 'low'; mend it or drop the column$",
        ),
        (
            with_roles(0), {**ROLES, "time": "day", "lags": [1]}, with_roles(1).assign(pad="low"),
            "column 'pad' must hold numbers but row 1 holds 'low'; mend it or drop the column$",
        ),
        (
            with_roles(0), ROLES, with_roles(1).assign(pad=pd.Timestamp("2026-01-01")),
            "column 'pad' must hold numbers but holds dates; give numbers, or drop the column$",
        ),
        (
            with_roles(0), ROLES, with_roles(1).assign(new=["1"] * 599 + ["one"]),
            "column 'new' must hold numbers but row 600 holds 'one'; mend it or drop the column$",
        ),
        (
            with_roles(0), ROLES, with_roles(1).assign(new="2,5"),
            "column 'new' is written with commas .*; write them with a decimal point alone, or dro",
        ),
        (
            in_turn(60), {"loss": "roc_auc"}, in_turn(60).assign(y=lambda rows: rows["day"] % 3),
            "^loss 'roc_auc' cannot score 3 classes; give a target that it can score, or select an",
        ),
        (
            causes("x1", n=200).assign(y=lambda rows: rows["y"] + 20),
            {"loss": "neg_mean_squared_log_error"}, causes("x1", n=200),
            "cannot score these predictions .*; give rows that it can score, or select anew ",
        ),
        (
            causes("x1", c=["a", "b"] * 300), {"keep": ["c"], "baseline": {"c": "a"}},
            causes("x1", c=["b", "d"] * 300),
            "baseline of 'c' must be one of its categories 'b' or 'd' but is 'a'; mend the column",
        ),
    ],
)  # fmt: skip
def test_a_remedy_is_one_that_a_reselection_can_set(before, options, newer, said) -> None:
    with pytest.raises(InputError, match=said) as error:
        chaffinch.reselect(run_of(before, **options), newer)
    remedy = re.split("[:;]", str(error.value))[-1]
    assert [words for words in NOT_SET_HERE if words in remedy] == []
    possible = "give|drop rare classes|drop one|drop it|drop the column|leave out the series|mend"
    assert re.search(possible, remedy)


def test_a_model_that_takes_no_weights_is_another_to_be_chosen() -> None:
    before = run_of(causes("x1", w=1.0), weight="w")
    said = "KNeighborsRegressor takes no sample weights; "
    for model in (KNeighborsRegressor(), "KNeighborsRegressor"):
        with pytest.raises(InputError, match=f"^{said}use another model, or select anew without"):
            chaffinch.reselect(before, causes("x1", w=1.0, seed=1), model=model)
        with pytest.raises(InputError, match=f"^{said}leave the weight column out or use another"):
            run_of(causes("x1", w=1.0), weight="w", model=model)


def test_what_leading_zeros_make_of_a_column_is_warned_of_with_what_can_be_done() -> None:
    newer = causes("x1", seed=1, code=[f"0{row % 30:02d}" for row in range(600)])
    (said,) = chaffinch.reselect(run_of(causes("x1")), newer).warnings
    assert said.endswith("'code'; take the zeros away from what is a quantity")


@pytest.mark.parametrize("scaled", [False, True])
def test_what_the_former_run_had_as_series_or_category_is_no_target_of_numbers(scaled) -> None:
    data = SHOPS.assign(shop=[1] * 100 + [2] * 100, told=np.arange(200) % 4, text=["a", "b"] * 100)
    before = run_of(data, **(SCALED if scaled else {}), categorical=["told"], keep=["text"])
    for name, named in (("shop", "its series"), ("told", "categorical"), ("text", "categorical")):
        if name == "shop" and not scaled:
            assert chaffinch.reselect(before, data, target=name).contract["target"]["name"] == name
            continue
        said = f"^column '{name}' cannot be the target, for the former run names it as {named}; cho"
        with pytest.raises(
            InputError, match=said if name != "text" else "'text' cannot be the tar"
        ):
            chaffinch.reselect(before, data, target=name)


def test_classes_may_be_what_the_former_run_had_as_a_category() -> None:
    data = in_turn(200).assign(told=lambda rows: rows["day"] % 3)
    after = chaffinch.reselect(run_of(data, categorical=["told"]), data, target="told")
    assert after.contract["target"]["classes"] == ["0", "1", "2"]


def test_a_fold_of_one_class_is_said_without_the_folds() -> None:
    """The first fold of the training part is fitted on its first days, which are of one class."""
    tuned = ModelSettings(name="linear")
    before = run_of(in_turn(400), time="day", model=tuned)
    newer = in_turn(400).assign(y=lambda rows: (rows["day"] >= 40) * (rows["day"] % 2))
    with pytest.raises(InputError, match=r"^fold 1 of 5 would be fitted on .*: give more rows$"):
        chaffinch.reselect(before, newer)
    with pytest.raises(InputError, match=r"^fold 1 of 5 would be fitted on .*: use fewer folds$"):
        run_of(newer, time="day", model=tuned)

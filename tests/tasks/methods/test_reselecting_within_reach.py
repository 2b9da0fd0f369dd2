"""What newer rows need after a former run, and the hint where they lack it."""

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from tests.tasks.synthetic_runs import causes, run_of


def with_roles(seed, **columns):
    """Rows with columns that a run is told of, and that no run keeps."""
    return causes("x1", "x2", seed=seed).assign(
        junk=np.arange(600) % 9,
        code=np.arange(600) % 4,
        pad=[f"{day % 50:05d}" for day in range(600)],
        day=np.arange(600),
        **columns,
    )


CHANGE_THE_ROWS = "change the rows, or select again without a former run"
ROLES = {"drop": ["junk"], "categorical": ["code"], "numeric": ["pad"]}


@pytest.fixture(scope="module")
def former() -> chaffinch.SelectionResult:
    return run_of(with_roles(0), columns=ROLES)


@pytest.mark.parametrize(
    ("kind", "history"), [("frame", {}), ("csv", {"time": "day", "history": {"lags": [1]}})]
)
def test_columns_that_a_former_run_was_told_of_and_did_not_keep_need_not_be_there(
    kind, history, tmp_path
) -> None:
    before = run_of(with_roles(0), columns=ROLES, **history)
    assert before.features == ["x1", "x2"]
    rows = with_roles(1).drop(columns=["junk", "code", "pad"])
    source = rows if kind == "frame" else tmp_path / f"newer.{kind}"
    if kind == "csv":
        rows.to_csv(source, index=False)
    after = chaffinch.reselect(before, source)
    assert after.features == ["x1", "x2"]
    assert set(after.candidates) == set(before.candidates) - {"code", "pad"}
    told = after.settings["columns"]
    assert (told["drop"], told["categorical"], told["numeric"]) == (["junk"], ["code"], ["pad"])


def test_what_was_to_be_dropped_stays_so_when_it_is_there_again(former) -> None:
    without = chaffinch.reselect(former, with_roles(1).drop(columns=["junk", "code", "pad"]))
    again = with_roles(2).assign(junk=lambda rows: rows["y"])  # it would predict the target
    after = chaffinch.reselect(without, again)
    assert "junk" not in after.candidates
    kinds = {feature["name"]: feature["type"] for feature in after.contract["features"]}
    assert kinds == {"x1": "number", "x2": "number"}


def test_what_is_asked_to_be_dropped_now_must_be_there(former) -> None:
    newer = with_roles(1).drop(columns="junk")
    with pytest.raises(InputError, match="there is no column 'pads'; nearest: pad"):
        chaffinch.reselect(former, newer, drop=["pads"])
    after = chaffinch.reselect(former, newer, drop=["junk", "x8"])  # of junk the former run knew
    assert not {"junk", "x8"} & set(after.candidates)


def test_what_a_former_run_used_must_be_there_all_the_same() -> None:
    data = with_roles(0, w=1.0, shop=np.arange(600) % 3)
    before = run_of(
        data, columns={**ROLES, "numeric": ["pad", "x1", "day", "w"]}, time="day", weight="w",
        history={"lags": [1], "columns": ["x3", "pad"], "series": "shop"},
        keep=["x1", "x3_lag_1"],
    )  # fmt: skip
    newer = with_roles(1, w=1.0, shop=np.arange(600) % 3)
    for name, said in (
        ("x1", "keep column 'x1' is no column of the table"),
        ("x3", "history column 'x3' is no column of the table"),
        ("shop", "series column 'shop' is no column of the table"),
        ("day", "time column 'day' is no column of the table"),
        ("w", "weight column 'w' is no column of the table"),
        ("y", "target 'y' is no column of the table"),
    ):
        with pytest.raises(InputError, match=f"^{said}"):
            chaffinch.reselect(before, newer.drop(columns=name))
    fewer = chaffinch.reselect(before, newer.drop(columns="pad"))
    assert "x3_lag_1" in fewer.features
    assert "pad_lag_1" not in fewer.candidates


OF_SHOPS = {"lags": [1], "series": "shop"}


def with_shops(seed):
    """Three series, and a column beside them that a history can be made of."""
    data = causes("x1", "x3", seed=seed, day=np.arange(600), shop=np.arange(600) % 3)
    return data.assign(pad=data["x8"] + 1)


@pytest.fixture(scope="module")
def of_shops() -> chaffinch.SelectionResult:
    history = {**OF_SHOPS, "columns": ["pad", "x2"]}
    before = run_of(with_shops(0), time="day", history=history)
    assert before.features == ["x1", "x3"]
    return before


WORSE = {
    "empty": lambda pad: np.nan,
    "text": lambda pad: "low",
    "empty in a series": lambda pad: pad.where(pad.index % 3 > 0),
}


@pytest.mark.parametrize("worse", [*WORSE, "of no type for a feature", "too large"])
def test_a_history_of_which_nothing_was_kept_stops_no_reselection(worse, of_shops) -> None:
    values = {"of no type for a feature": pd.Timedelta(days=1), "too large": 1e300}
    make = WORSE.get(worse, lambda pad: values[worse])
    newer = with_shops(1).assign(pad=lambda rows: make(rows["pad"]))
    after = chaffinch.reselect(of_shops, newer, drop=["pad"] if worse in values else None)
    assert after.features == ["x1", "x3"]
    assert "x2_lag_1" in after.candidates


def test_groups_of_the_former_run_are_to_be_added_where_they_are_not_there() -> None:
    before = run_of(causes("x1", shop=np.arange(600) % 30), group="shop")
    said = "group column 'shop' is no column of the table"
    with pytest.raises(InputError, match=f"^{said}"):
        chaffinch.reselect(before, causes("x1", seed=1))


def test_what_was_made_of_a_target_that_is_called_otherwise_now_needs_it_still() -> None:
    before = run_of(
        causes("x1", day=np.arange(600)), time="day", history={"lags": [1]}, keep=["y_lag_1"]
    )
    newer = causes("x1", seed=1, day=np.arange(600)).rename(columns={"y": "yes"})
    said = "history column 'y' is no column of the table"
    with pytest.raises(InputError, match=f"^{said}"):
        chaffinch.reselect(before, newer, "yes")
    assert "y_lag_1" in chaffinch.reselect(before, newer.assign(y=newer["yes"]), "yes").features


def test_a_baseline_of_what_was_not_kept_is_passed_over() -> None:
    before = run_of(with_roles(0), columns=ROLES, settings={"baseline": {"x5": 1.5, "x1": 0.25}})
    assert before.features == ["x1", "x2"]
    newer = with_roles(1)
    for rows in (newer.drop(columns="x5"), newer.assign(x5=2.0)):
        assert chaffinch.reselect(before, rows).features == ["x1", "x2"]


def in_turn(n=120):
    """Two classes that take turns, day by day."""
    return causes("x1", n=n, day=np.arange(n), w=1.0).assign(y=np.arange(n) % 2)


SHOPS = causes("x1", n=200, day=[*range(100)] * 2, shop=["a"] * 100 + ["b"] * 100)


@pytest.mark.parametrize(
    ("before", "options", "newer", "message"),
    [
        (
            causes("x1", n=200, shop=np.arange(200)), {"group": "shop"},
            causes("x1", n=200, shop=np.arange(200) % 2),
            "group column 'shop' has 2 different values",
        ),
        (
            causes("x1", n=200, day=np.arange(200)), {"time": "day"},
            causes("x1", n=200, day=np.arange(200) % 3), "has 3 different values but",
        ),
        (
            causes("x1", n=200), {}, causes("x1", n=200).assign(y=["low", "high"] * 100),
            "target 'y' holds text but the task is regression",
        ),
        (
            SHOPS, {"time": "day", "history": OF_SHOPS}, SHOPS.assign(shop="one"),
            "so that neither comes before the other in a history",
        ),
        (
            in_turn(60), {"loss": "roc_auc"}, in_turn(60).assign(y=lambda rows: rows["day"] % 3),
            "loss 'roc_auc' cannot score 3 classes",
        ),
        (
            causes("x1", n=200).assign(y=lambda rows: rows["y"] + 20),
            {"loss": "neg_mean_squared_log_error"}, causes("x1", n=200),
            "loss 'neg_mean_squared_log_error' cannot score these predictions",
        ),
        (
            in_turn(400), {"time": "day", "model": ModelSettings(name="linear")},
            in_turn(400).assign(y=lambda rows: (rows["day"] >= 40) * (rows["day"] % 2)),
            "fold 1 of 5 would be fitted on one class only",
        ),
    ],
)  # fmt: skip
def test_a_reselection_hints_at_no_setting_of_the_former_run(
    before, options, newer, message, few_resamples
):
    former = run_of(before, **options)
    with pytest.raises(InputError, match=message) as refusal:
        chaffinch.reselect(former, newer)
    assert str(refusal.value).endswith(f"; {CHANGE_THE_ROWS}")


def test_what_the_former_run_had_as_a_category_is_no_target_of_numbers() -> None:
    data = SHOPS.assign(shop=[1] * 100 + [2] * 100, told=np.arange(200) % 4, text=["a", "b"] * 100)
    before = run_of(data, columns={"categorical": ["told"]}, keep=["text"])
    for name in ("told", "text"):
        with pytest.raises(InputError, match=f"^column '{name}' cannot be the target, for the for"):
            chaffinch.reselect(before, data, target=name)
    assert chaffinch.reselect(before, data, target="shop").contract["target"]["name"] == "shop"


def test_classes_may_be_what_the_former_run_had_as_a_category() -> None:
    data = in_turn(200).assign(told=lambda rows: rows["day"] % 3)
    after = chaffinch.reselect(run_of(data, columns={"categorical": ["told"]}), data, target="told")
    assert after.contract["target"]["classes"] == ["0", "1", "2"]

"""Dates become features by their parts, at the selection and of newer rows, by every door."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.storage.datasets.date_parts import PARTS
from tests.sources import ingest

pytestmark = pytest.mark.usefixtures("undrawn")

N = 400
OPTIONS: dict[str, Any] = {
    "method": "correlation",
    "model": ModelSettings(name="linear", tuning="none"),
    "columns": {"dates": "parts"},
}


def orders(seed: int = 0) -> pd.DataFrame:
    """Return a table whose target follows the month on a circle."""
    random = np.random.default_rng(seed)
    signup = pd.Timestamp("2021-03-01") + pd.to_timedelta(random.integers(0, 900, N), unit="D")
    frame = pd.DataFrame({"signup": signup, "noise": random.normal(size=N).round(6)})
    angle = 2 * np.pi * frame["signup"].dt.month / 12
    frame["y"] = (3 * np.cos(angle) + random.normal(scale=0.1, size=N)).round(6)
    return frame


def written_as(kind: str, frame: pd.DataFrame, folder: Path) -> Any:
    text = frame.assign(signup=frame["signup"].dt.strftime("%Y-%m-%d"))
    if kind == "csv":
        text.to_csv(folder / "x.csv", index=False)
        return folder / "x.csv"
    if kind == "parquet":
        frame.assign(signup=frame["signup"].dt.date).to_parquet(folder / "x.parquet")
        return folder / "x.parquet"
    return {"pandas": frame, "polars": pl.from_pandas(frame), "text": text}.get(
        kind, pa.Table.from_pandas(frame)
    )


DOORS = ("pandas", "polars", "arrow", "text", "csv", "parquet")


def test_parts_are_those_of_pandas_where_they_vary(tmp_path: Path) -> None:
    frame = orders().assign(
        at=pd.Timestamp("2024-05-31 23:59") - pd.to_timedelta(5 * np.arange(N), unit="h")
    )
    frame.loc[3, "at"] = None
    table = ingest(frame, tmp_path, whole_dates=[]).in_source_order().to_pandas()
    at = frame["at"].dt
    expected = {"month": at.month, "weekday": at.day_of_week, "hour": at.hour}
    periods = {"month": 12, "weekday": 7, "hour": 24}
    for part, values in expected.items():
        pd.testing.assert_series_equal(table[f"at_{part}"], values, check_names=False)
        for name, of in (("sin", np.sin), ("cos", np.cos)):
            on_circle = of(2 * np.pi * values / periods[part])
            np.testing.assert_allclose(table[f"at_{part}_{name}"], on_circle, atol=1e-9)
    assert "at_year" not in table  # 2024 in every row
    assert {f"signup_{part}" for part in PARTS if "hour" not in part} <= {*table}
    assert not any(name.startswith("signup_hour") for name in table)


@pytest.mark.parametrize("door", DOORS)
def test_the_model_and_transform_make_the_parts_of_newer_rows(door: str, tmp_path: Path) -> None:
    result = chaffinch.select(orders(), "y", n_features=2, **OPTIONS)
    assert "signup_month_cos" in result.features
    again = chaffinch.select(written_as(door, orders(), tmp_path), "y", n_features=2, **OPTIONS)
    assert again.contract["features"] == result.contract["features"]
    assert result.contract.columns[0] == "signup"
    assert set(result.contract.columns) <= {"signup", "noise"}

    newer = orders(seed=1)
    expected = result.model.predict(newer)
    given = written_as(door, newer, tmp_path)
    np.testing.assert_array_equal(result.model.predict(given), expected)
    result.contract.validate(given)
    if not isinstance(given, Path):
        kept = result.transform(given)
        assert type(kept) is type(given)
        assert list(getattr(kept, "column_names", kept.columns)) == result.features
        np.testing.assert_array_equal(result.model.predict(kept), expected)


def test_by_default_they_are_left_out_and_the_warning_names_the_option() -> None:
    with pytest.warns(UserWarning, match=r"'signup' \(timestamps: to use one, give columns="):
        found = chaffinch.select(orders(), "y", **{**OPTIONS, "columns": None})
    assert found.features == ["noise"]
    assert not any("signup" in said for said in chaffinch.select(orders(), "y", **OPTIONS).warnings)


def test_a_column_with_a_role_has_no_parts_and_a_part_can_be_dropped() -> None:
    frame = orders().sort_values("signup", ignore_index=True)
    frame["paid"] = frame["signup"] + pd.Timedelta(days=40)
    found = chaffinch.select(frame, "y", time="signup", drop=["paid_year", "paid_month"], **OPTIONS)
    dropped = {column["name"]: column["reason"] for column in found.contract["dropped"]}
    assert dropped["paid_year"] == dropped["paid_month"] == "left out as asked"
    assert "paid_month_cos" in found.features
    assert not any(name.startswith("signup") for name in [*dropped, *found.features])


def test_dates_beside_lag_features_and_in_a_reselection(tmp_path: Path) -> None:
    days = orders().sort_values("signup", ignore_index=True).assign(day=range(N))
    found = chaffinch.select(
        days, "y", time="day", history={"lags": [1]}, keep=["signup_month_cos"], **OPTIONS
    )
    needed = {"signup": "signup_month_cos", "y": "y_lag_1", "day": "y_lag_1"}
    assert {*found.contract.columns} >= {c for c, name in needed.items() if name in found.features}
    found.contract.validate(days)

    former = chaffinch.select(orders(), "y", n_features=2, store=tmp_path, **OPTIONS)
    newer = chaffinch.reselect(former, orders(seed=1), store=tmp_path)
    assert newer.contract.columns == former.contract.columns


def test_a_part_whose_name_is_taken_and_newer_rows_without_dates_are_one_line() -> None:
    frame = orders()
    with pytest.raises(InputError, match=r"dates make a column 'signup_year' but the table has"):
        chaffinch.select(frame.assign(signup_year=frame.index), "y", **OPTIONS)
    found = chaffinch.select(frame, "y", n_features=2, **OPTIONS)
    for newer in (frame.assign(signup="soon"), frame.assign(signup=1.5)):
        for ask in (found.model.predict, found.contract.validate, found.transform):
            with pytest.raises(InputError, match=r"column 'signup' must hold dates, as at the sel"):
                ask(newer)
    with pytest.raises(InputError, match=r"^the table lacks 'signup', a feature"):
        found.model.predict(frame.drop(columns="signup"))
    missing = found.model.predict(frame.assign(signup=None))
    assert np.isfinite(missing).all()


@pytest.mark.parametrize("kind", ["pandas", "csv", "arrow"])
@pytest.mark.parametrize("was_zoned", [True, False])
def test_times_that_gain_or_lose_a_zone_are_warned_of(
    tmp_path: Path, kind: str, was_zoned: bool
) -> None:
    moments = pd.date_range("2024-01-01", periods=N, freq="7h")
    frame = pd.DataFrame({"at": moments, "noise": np.random.default_rng(0).normal(size=N)})
    frame["y"] = np.cos(2 * np.pi * moments.hour / 24).round(6)

    def written(zoned: bool) -> Any:
        given = frame.assign(at=moments.tz_localize("UTC") if zoned else moments)
        if kind != "csv":
            return given if kind == "pandas" else pa.Table.from_pandas(given)
        given.to_csv(tmp_path / f"{zoned}.csv", index=False)
        return tmp_path / f"{zoned}.csv"

    result = chaffinch.select(written(was_zoned), "y", **OPTIONS)
    assert "at" in result.contract.columns
    same, other = written(was_zoned), written(not was_zoned)
    result.contract.validate(same)
    result.model.predict(same)
    held, had = ("without", "had one") if was_zoned else ("with", "had none")
    said = f"^column 'at' holds times {held} a zone, and {had} at the selection"
    with pytest.warns(UserWarning, match=said):
        result.contract.validate(other)
    with pytest.warns(UserWarning, match=said):
        result.model.predict(other)
    if kind != "csv":
        result.transform(same)
        with pytest.warns(UserWarning, match=said):
            result.transform(other)

"""A column whose type cannot be a feature is left out with a warning, at every door."""

import pickle
import re
from datetime import date, datetime, time, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaffinch
from chaffinch import InputError
from chaffinch.errors import StrictError
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.storage.datasets.content_hash import content_hash, shuffle_rows
from chaffinch.storage.runs.stages import Run
from chaffinch.storage.sources import source_of
from chaffinch.tasks.comparing.run import compare_methods
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.pipeline.run import check, select_features
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from tests.tasks.synthetic_runs import LINEAR, causes, run_of

N = 200
BEGAN = datetime(2026, 1, 1)
TIMES = [BEGAN + timedelta(minutes=i) for i in range(N)]
TIMESTAMPS = (
    "timestamps: to use one, give columns={'dates': 'parts'} (--dates parts), or name it as the "
    "time column or as categorical"
)
HASH_BEFORE = "d38e5919c212f9d757c01f2f9fbee3bb6b59052b4dd66e0090c428ff062cc51d"
COLUMNS = {
    "timestamp": pa.array(TIMES),
    "timestamp[tz]": pa.array(TIMES, pa.timestamp("ns", "Asia/Tokyo")),
    "date": pa.array([moment.date() for moment in TIMES]),
    "time64[us]": pa.array([moment.time() for moment in TIMES]),
    "duration[us]": pa.array([moment - BEGAN for moment in TIMES]),
    "month_day_nano_interval": pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval()),
    "timestamp beyond the years 1 to 9999": pa.array(range(2**55, 2**55 + N), pa.timestamp("s")),
    "list<item: int64>": pa.array([[1, 2], None] * (N // 2)),
    "struct": pa.array([{"long_name_of_a_field": i, "another_long_name": 1} for i in range(N)]),
    "map<string, int64>": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"%d" % i for i in range(N)]),
    "extension<arrow.uuid>": pa.array([b"%016d" % i for i in range(N)], pa.uuid()),
}


def table_with(**columns):
    table = pa.Table.from_pandas(causes("x1", "x2", n=N), preserve_index=False)
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def test_select_leaves_each_out_and_says_so() -> None:
    table = table_with(**COLUMNS)
    result = run_of(table)
    (warning,) = result.contract["warnings"]
    assert result.warnings == (warning,)
    for kind in COLUMNS:
        is_time = kind in ("timestamp", "timestamp[tz]", "date")
        reason = TIMESTAMPS if is_time else f"type {kind}: to use one, make it numbers or text"
        assert {"name": kind, "reason": reason} in result.contract["dropped"]
        assert warning.startswith("left out: ")
        assert repr(kind) in warning
        assert reason in warning
        with pytest.raises(InputError, match=rf"^keep column '{re.escape(kind)}' is "):
            run_of(table, keep=[kind])
    assert not {*COLUMNS} & {*result.candidates}
    # neither predictions nor the contract ask for them
    without = table_with()
    assert (result.model.predict(without) == result.model.predict(table)).all()
    chaffinch.load_contract(result).validate(without)
    assert result.features == run_of(without).features


def test_a_dropped_column_is_not_warned_of() -> None:
    table = table_with(odd=COLUMNS["timestamp"])
    assert run_of(table, drop=["odd"]).warnings == ()


def test_a_file_that_was_read_before_is_refused_where_the_column_is_named(tmp_path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(table_with(took=COLUMNS["duration[us]"]), path)
    result = run_of(path, tmp_path / "store")
    assert len(result.warnings) == 1
    assert "left out: &#39;took&#39;" in (result.folder / "report.html").read_text()
    refused = "^weight column 'took' is of type duration.us.; give numbers above 0$"
    with pytest.raises(InputError, match=refused):
        run_of(path, tmp_path / "store", weight="took")
    with pytest.raises(InputError, match=r"^categorical column 'took' is of type duration.us.; "):
        run_of(path, tmp_path / "store", columns={"categorical": ["took"]})


def test_objects_of_pandas_are_left_out() -> None:
    frame = causes("x1", n=N).assign(
        took=pd.to_timedelta(np.arange(N), "s"),
        at=[time(12)] * N,
        day=[date(2026, 1, 1)] * N,
        month=pd.period_range("2026-01", periods=N, freq="M"),
        tags=[["a"]] * N,
    )
    (warning,) = run_of(frame).warnings
    for name in ("took", "at", "day", "month", "tags"):
        assert repr(name) in warning


def test_a_comparison_leaves_it_out_and_says_so(tmp_path) -> None:
    table = table_with(when=COLUMNS["timestamp"], took=COLUMNS["duration[us]"])
    found = chaffinch.compare(table, "y", methods=["anova_f"], models=[LINEAR], folds=2, seeds=1)
    assert found.warnings == (
        "Table: left out: 'took' (type duration[us]: to use one, make it numbers or text), 'when' "
        f"({TIMESTAMPS})",
    )


def test_a_reselection_leaves_new_ones_out_and_refuses_them_where_features_were() -> None:
    before = run_of(table_with())
    odd = {"when": COLUMNS["timestamp"], "tags": COLUMNS["list<item: int64>"]}
    after = chaffinch.reselect(before, table_with(**odd))
    assert any(
        "left out: 'tags' (type list" in w and f"'when' ({TIMESTAMPS})" in w for w in after.warnings
    )
    assert after.features == before.features
    for kind, told in (("timestamp", "timestamp"), ("binary", "binary")):
        newer = table_with()
        place = newer.column_names.index("x1")
        with pytest.raises(InputError) as error:
            chaffinch.reselect(before, newer.set_column(place, "x1", COLUMNS[kind]))
        assert str(error.value) == (
            f"feature 'x1' was a number in the former run but is of type {told} in the newer rows; "
            "change the rows, or select again without a former run"
        )


def test_a_strict_run_or_comparison_stops_at_warnings_before_anything_is_trained(tmp_path) -> None:
    odd, plain = table_with(when=COLUMNS["timestamp"], leak=table_with()["y"]), table_with()
    strict = ExecutionSettings(store=tmp_path, cluster="none", strict=True)
    asked = SelectionSettings(target="y", model=LINEAR, method={"kind": "flbmo", "n_features": [2]})
    compared = ComparisonSettings(
        target="y", methods=("anova_f",), models=(LINEAR,), folds=2, seeds=1
    )
    steps: list[str] = []

    def on_progress(step: str, done: int, total: int) -> None:
        steps.append(step)

    for begin in (
        lambda: check(source_of(odd), asked, strict, on_progress=on_progress),
        lambda: select_features(source_of(odd), asked, strict, on_progress=on_progress),
        lambda: compare_methods([source_of(odd)], compared, strict, on_progress=on_progress),
    ):
        with pytest.raises(StrictError, match=r"^strict refuses 2 warnings: ") as error:
            begin()
        leak, left_out = error.value.warnings
        assert "predicts the target" in leak
        assert f"left out: 'when' ({TIMESTAMPS})" in left_out
        assert str(error.value).endswith(f"{leak}; {left_out}")
        sent = pickle.loads(pickle.dumps(error.value))  # noqa: S301
        assert (str(sent), sent.warnings) == (str(error.value), error.value.warnings)
    assert set(steps) == {"ingest", "describe", "read_table"}
    (description,) = tmp_path.rglob("run.json")
    assert Run(description.parent).refusal.startswith("strict refuses 2 warnings: ")
    # what is strict is no part of what a run is, and stops no other
    names = {
        select_features(source_of(plain), asked, strict.model_copy(update={"strict": value})).name
        for value in (True, False)
    }
    assert len(names) == 1


def test_the_hash_of_a_dataset_tells_types_apart_and_is_what_it_was() -> None:
    whole = pa.table(
        {
            "a": [1.5, None, -2.0],
            "n": [3, 1, 2],
            "ok": [True, None, False],
            "c": ["x", "y", None],
            "when": [BEGAN, None, BEGAN],
        }
    )
    assert content_hash(shuffle_rows(type_columns(whole))) == HASH_BEFORE

    def hash_with(odd, order):
        table = whole.append_column("odd", odd).take(order)
        return content_hash(shuffle_rows(type_columns(table, has_others=True)))

    lists, bits = pa.array([[1], None, [2]]), pa.array([b"1", None, b"2"])
    assert hash_with(lists, [0, 1, 2]) == hash_with(lists, [2, 0, 1])
    assert hash_with(lists, [0, 1, 2]) != hash_with(bits, [0, 1, 2])

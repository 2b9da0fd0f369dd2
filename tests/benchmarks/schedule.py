"""The schedule of a run with rows in files, on 1 to 64 workers: minutes, and the limit that binds.

A default run on a table of modest size records what its process does in order: seconds of its own,
steps of the ingestion and fits that it hands to workers, results that it waits for, and fits that
it gives up. The record is replayed on simulated workers, with the seconds of a larger table: those
of steps, fits and predictions grow in proportion to the rows, up to --tuning-rows and --mask-rows
where these hold; those of the run's own process as a straight line through two recordings.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_TREES = 100
_CORES, _EFFICIENCY = 4, 0.8  # of a worker, and of the run's own machine
_BYTES_A_SECOND = 1e9 / 8
_BYTES_A_VALUE = 3.7  # of a dataset on disk: 55 GB of 150,000,000 x 100
_SPREAD, _SLOW, _SLOW_FACTOR = 0.2, 0.05, 2.0  # of the seconds of items
_LOSES_ONE_EACH, _BACK_AFTER = 3600.0, 120.0  # seconds
# Bytes for each value of the table that all items of a step read or write, whichever are more.
_MOVED = {"type_share": 8.0, "add_hashes": 2.0, "place": 8.0, "write_part": 8.0}
_OF_PARTS = ("add_hashes", "write_part")  # steps with an item for each part
_HELD_OUT = 0.85 / 5  # of the rows: a fold of what is no test part
_OF_THE_SEARCH = ("train_base_model", "optimise_mask", "choose_mask")  # stages
_UNITS = 1_000  # that the bootstrap draws from
_SHOWN = (1, 2, 4, 8, 16, 32, 64)


def write_table(path: Path, n_rows: int, n_columns: int) -> None:
    """Write normal numbers; the target depends on half of them, on each less than on the former."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_columns))
    n_used = n_columns // 2
    signal = X[:, :n_used] @ np.linspace(1, 0, n_used, endpoint=False)
    y = signal + random.normal(size=n_rows) * signal.std() > 0
    names = [*(f"x{j}" for j in range(n_columns)), "y"]
    pq.write_table(pa.table([*X.T, y.astype(np.int64)], names=names), path)


# What the run's process does, in order.
@dataclass
class Own:
    stage: str
    seconds: float
    on_all_cores: float  # of them, of predictions


@dataclass
class Item:
    name: str
    fitting: float  # seconds of fits
    other: float
    n_values: int  # that are read
    n_bytes: int  # of the result


@dataclass
class Begin:
    stream: int
    items: list[Item]


@dataclass
class Wait:
    stream: int
    item: int


@dataclass
class Drop:
    stream: int


Event = Own | Begin | Wait | Drop


@dataclass
class Record:
    """What a run did, in order; it hands to itself what it would hand to workers."""

    n_rows: int
    n_features: int
    events: list[Event] = field(default_factory=list)
    stage: str = "ingest"
    n_threads: int = 2  # shares of predictions; more would count small reads as work
    _since: float = 0.0
    _predicting: float = 0.0
    _fitting: float = 0.0
    _n_values: int = 0

    def begin(self) -> None:
        self._since, self._predicting, self._fitting = time.process_time(), 0.0, 0.0

    def end(self) -> None:
        spent = time.process_time() - self._since
        self.events.append(Own(self.stage, spent, self._predicting + self._fitting))

    def run(self, function: Callable[..., Any], shared: Any, item: Any) -> tuple[Any, Item]:
        from distributed.protocol.pickle import dumps

        self._fitting, self._n_values, began = 0.0, 0, time.process_time()
        result = function(shared, item)
        spent, fitting = time.process_time() - began, self._fitting
        name, n_bytes = function.__name__.strip("_"), len(dumps(result))
        return result, Item(name, fitting, spent - fitting, self._n_values, n_bytes)

    def map(
        self, function: Callable[..., Any], shared: Any, items: Sequence[Any], on_done: Any = None
    ) -> list[Any]:
        results = [result for _, result in self.as_done(function, shared, items)]
        if on_done is not None:
            on_done(len(items), len(items))
        return results

    def as_done(self, function: Callable[..., Any], shared: Any, items: Sequence[Any]) -> Stream:
        return Stream(self, function, shared, items)

    def on_each(self, function: Callable[..., Any], shared: Any) -> list[Any]:
        return [function(shared)]

    def masked_loss(self, model: Any, rows: Any, loss: Any, baseline: Any, _: int = 0) -> Any:
        from chaffinch.tasks.selection.masked_loss import masked_loss

        return masked_loss(model, rows, loss, baseline)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the seconds and values of fits and predictions in the block."""
        from chaffinch.tasks.methods.fitting import Recipe
        from chaffinch.tasks.selection.core import Rows

        fit, predicted_by = Recipe.fit, Rows.predicted_by

        def timed_fit(recipe: Any, rows: Any, schema: Any) -> Any:
            began = time.process_time()
            model = fit(recipe, rows, schema)
            self._fitting += time.process_time() - began
            self._n_values += rows.n_values
            return model

        def timed_prediction(rows: Any, model: Any) -> Any:
            began = time.process_time()
            predictions = predicted_by(rows, model)
            self._predicting += time.process_time() - began
            self._n_values += rows.n_values
            return predictions

        Recipe.fit, Rows.predicted_by = timed_fit, timed_prediction  # type: ignore[method-assign]
        try:
            yield
        finally:
            Recipe.fit, Rows.predicted_by = fit, predicted_by  # type: ignore[method-assign]


class Stream:
    """Results of items in their order; an item that is never waited for is timed as well."""

    def __init__(
        self, record: Record, function: Callable[..., Any], shared: Any, items: Sequence[Any]
    ) -> None:
        self._record, self._number = record, sum(isinstance(e, Begin) for e in record.events)
        self._run = lambda item: record.run(function, shared, item)
        self._items, self._begun = list(items), Begin(self._number, [])
        record.end()
        record.events.append(self._begun)
        record.begin()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> tuple[int, Any]:
        if (number := len(self._begun.items)) == len(self._items):
            raise StopIteration
        self._record.end()
        result, item = self._run(self._items[number])
        self._begun.items.append(item)
        self._record.events.append(Wait(self._number, number))
        self._record.begin()
        return number, result

    def close(self) -> None:
        if (number := len(self._begun.items)) == len(self._items):
            return
        self._record.end()
        self._record.events.append(Drop(self._number))
        self._begun.items += [self._run(item)[1] for item in self._items[number:]]
        self._record.begin()


def record(n_rows: int, n_columns: int) -> Record:
    """Return what a default run does on so many rows."""
    from chaffinch.storage.datasets import steps
    from chaffinch.storage.sources import source_of
    from chaffinch.tasks.data import stored_rows
    from chaffinch.tasks.pipeline import memory
    from chaffinch.tasks.pipeline.run import select_features
    from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
    from chaffinch.tasks.statistics import bootstrap

    memory.SHARE_IN_MEMORY, stored_rows.MOST_BYTES, stored_rows.FEW_ROWS = 0.0, 0, 0
    rows_of_a_part, steps.ROWS_PER_PART = steps.ROWS_PER_PART, n_rows // 4
    bootstrap._MOST_UNITS = _UNITS  # as of a larger table, the time does not grow with the rows
    recorded = Record(n_rows, n_columns)

    @contextmanager
    def opened(*_: Any) -> Generator[Record, None, None]:
        yield recorded

    def in_stage(step: Callable[..., Any]) -> Callable[..., Any]:
        def staged(*arguments: Any) -> Any:
            recorded.stage = step.__name__
            recorded.begin()
            try:
                return step(*arguments)
            finally:
                recorded.end()

        return staged

    memory.open_workers = opened  # type: ignore[assignment]
    parameters = {"n_estimators": _TREES}
    settings = SelectionSettings(
        target="y",
        method={"kind": "auto", "validation": "holdout"},
        model={"name": "lightgbm", "parameters": parameters},
    )
    with tempfile.TemporaryDirectory() as folder, recorded.watching():
        write_table(Path(folder) / "table.parquet", n_rows, n_columns)
        execution = ExecutionSettings(store=Path(folder) / "store", cluster="local", workers=2)
        source = source_of(Path(folder) / "table.parquet")
        run = select_features(source, settings, execution, wrap_step=in_stage)
        n_kept = len(json.loads((run.folder / "selection.json").read_text())["features"])
    steps.ROWS_PER_PART = rows_of_a_part
    print(f"recorded {n_rows:,} x {n_columns}; {n_kept} features are kept", flush=True)
    return recorded


def scaled(few: Record, many: Record, n_rows: int, search_rows: int | None = None) -> Record:
    """Return the record of a table of so many rows, with a search on all or some of them."""
    from chaffinch.storage.datasets.steps import rows_per_part
    from chaffinch.tasks.settings.selection import MASK_ROWS, ModelSettings

    n_parts = -(-n_rows // rows_per_part(n_rows))
    linear, held = n_rows / many.n_rows, _HELD_OUT * many.n_rows
    developed, most = 0.85 * many.n_rows, ModelSettings().tuning_rows
    searched = min(0.85 * n_rows, search_rows or math.inf)
    capped = min(searched / 5, MASK_ROWS) / min(held, MASK_ROWS)
    tuned = min(searched, most) / min(developed, most)
    searching, predicted = searched / developed, (searched + 0.15 * n_rows) / many.n_rows

    def item(of: Item) -> Item:
        fits = {"fold_loss": tuned, "fit": linear}.get(of.name, searching)
        others = {"fold_loss": tuned, "predict": predicted}.get(of.name, capped)
        whole = of.fitting + of.other
        share = of.fitting / whole if whole else 0.0
        n_values = of.n_values * (share * fits + (1 - share) * others)
        n_bytes = of.n_bytes * (predicted if of.name == "predict" else 1)
        return Item(of.name, of.fitting * fits, of.other * others, round(n_values), round(n_bytes))

    def items(of: Begin) -> list[Item]:
        name = of.items[0].name if of.items else ""
        if name not in _MOVED:
            return [item(one) for one in of.items]
        n_items = n_parts if name in _OF_PARTS else len(of.items)
        moved = _MOVED[name] * n_rows * many.n_features / n_items
        seconds = sum(one.other for one in of.items) * linear / n_items
        # the run's process reads the sums of the hashes
        n_bytes = 8 * n_rows / n_items if name == "add_hashes" else 0
        return [Item(name, 0.0, seconds, round(moved / _BYTES_A_VALUE), round(n_bytes))] * n_items

    at_few, at_many = _own_seconds(few), _own_seconds(many)
    grown = {}
    for stage, seconds in at_many.items():
        per_row = max(0.0, seconds - at_few.get(stage, 0.0)) / (many.n_rows - few.n_rows)
        per_row = min(per_row, seconds / many.n_rows)
        by_rows = {"evaluate": predicted, **dict.fromkeys(_OF_THE_SEARCH, searching)}
        n = many.n_rows * by_rows.get(stage, linear)
        grown[stage] = (seconds + per_row * (n - many.n_rows)) / seconds if seconds else 1.0
    events: list[Event] = []
    of_parts: set[int] = set()
    for event in many.events:
        if isinstance(event, Own):
            by = grown[event.stage]
            events.append(Own(event.stage, event.seconds * by, event.on_all_cores * by))
        elif isinstance(event, Begin):
            events.append(Begin(event.stream, items(event)))
            if event.items and event.items[0].name in _OF_PARTS:
                events += [Wait(event.stream, number) for number in range(n_parts)]
                of_parts.add(event.stream)
        elif not (isinstance(event, Wait) and event.stream in of_parts):
            events.append(event)
    return Record(n_rows, many.n_features, events)


def _own_seconds(recorded: Record) -> dict[str, float]:
    found: dict[str, float] = {}
    for event in recorded.events:
        if isinstance(event, Own):
            found[event.stage] = found.get(event.stage, 0.0) + event.seconds
    return found


_LIMITS = ("this process", "fits one after another", "workers", "network")


@dataclass
class Schedule:
    """Seconds of a run, and of them by what the run's process waits for."""

    seconds: float
    by_stage: dict[str, float]
    by_limit: dict[str, float]

    @property
    def limit(self) -> str:
        return max(self.by_limit, key=lambda name: self.by_limit[name])


def alone(recorded: Record) -> Schedule:
    """Return the schedule of one process with the cores of a worker, which reads its own disk."""
    begun = {e.stream: e.items for e in recorded.events if isinstance(e, Begin)}
    by_stage: dict[str, float] = {}
    stage = "ingest"
    for event in recorded.events:
        seconds = 0.0
        if isinstance(event, Own):
            stage, seconds = event.stage, _own(event)
        elif isinstance(event, Wait):
            item = begun[event.stream][event.item]
            # in one process the steps of an ingestion follow each other on one core
            seconds = item.other if item.name in _MOVED else _computing(item)
        by_stage[stage] = by_stage.get(stage, 0.0) + seconds
    whole = sum(by_stage.values())
    return Schedule(whole, by_stage, {"this process": whole})


def _own(event: Own) -> float:
    return event.seconds - event.on_all_cores * (1 - 1 / (_CORES * _EFFICIENCY))


def _computing(item: Item) -> float:
    return (item.fitting + item.other) / (_CORES * _EFFICIENCY)


@dataclass
class _Task:
    """An item that waits for a worker, runs or is done."""

    seconds: float
    worker: int | None = None
    since: float = math.inf
    done: float = math.inf
    is_wanted: bool = True


class Cluster:
    """Simulated workers of one fit each, in the order of asking; a lost fit begins anew."""

    def __init__(self, n_workers: int, seed: int) -> None:
        self._random = np.random.default_rng([seed, n_workers])
        self.now = 0.0
        self.busy_until = [0.0] * n_workers
        self._tasks: list[_Task] = []  # not done, in the order of asking
        self._lost_at = _LOSES_ONE_EACH

    def begin(self, item: Item) -> _Task:
        slow = _SLOW_FACTOR if self._random.random() < _SLOW else 1.0
        varied = slow * math.exp(_SPREAD * self._random.normal() - _SPREAD**2 / 2)
        reading = item.n_values * _BYTES_A_VALUE / _BYTES_A_SECOND
        task = _Task(reading + varied * _computing(item))
        self._tasks.append(task)
        return task

    def advance(self, to: float) -> None:
        """Let time pass; what workers begin and end meanwhile happens."""
        while True:
            self._assign()
            ends = [t.done for t in self._tasks if t.worker is not None]
            free = [end for end in self.busy_until if end > self.now]
            at = min([*ends, *free, self._lost_at, to], default=to)
            if at > to:
                break
            self.now = max(self.now, at)
            if at == self._lost_at:
                self._lose_one()
            self._tasks = [t for t in self._tasks if t.done > self.now]
            if at == to:
                self._assign()
                break
        self.now = max(self.now, to)

    def next_change(self) -> float:
        self._assign()
        ends = [t.done for t in self._tasks if t.worker is not None]
        return min([*ends, *(end for end in self.busy_until if end > self.now), self._lost_at])

    def _assign(self) -> None:
        for task in self._tasks:
            if task.worker is not None or not task.is_wanted:
                continue
            free = [i for i, end in enumerate(self.busy_until) if end <= self.now]
            if not free:
                return
            task.worker, task.since, task.done = free[0], self.now, self.now + task.seconds
            self.busy_until[free[0]] = task.done

    def _lose_one(self) -> None:
        lost = int(self._random.integers(len(self.busy_until)))
        for task in self._tasks:
            if task.worker == lost:
                task.worker, task.done = None, math.inf
        self.busy_until[lost] = self._lost_at + _BACK_AFTER
        self._lost_at += _LOSES_ONE_EACH

    @property
    def n_idle(self) -> int:
        return sum(end <= self.now for end in self.busy_until)


def replay(recorded: Record, n_workers: int, seed: int) -> Schedule:
    """Return the schedule of a recorded run on so many workers."""
    cluster = Cluster(n_workers, seed)
    tasks: dict[tuple[int, int], _Task] = {}
    items: dict[tuple[int, int], Item] = {}
    by_limit, by_stage = dict.fromkeys(_LIMITS, 0.0), dict[str, float]()
    stage = "ingest"
    for event in recorded.events:
        began = cluster.now
        if isinstance(event, Own):
            stage = event.stage
            cluster.advance(cluster.now + _own(event))
            by_limit["this process"] += cluster.now - began
        elif isinstance(event, Begin):
            for number, item in enumerate(event.items):
                items[event.stream, number] = item
                tasks[event.stream, number] = cluster.begin(item)
        elif isinstance(event, Drop):
            for (stream, _), task in tasks.items():
                if stream == event.stream:
                    task.is_wanted = False
        else:
            task, item = tasks[event.stream, event.item], items[event.stream, event.item]
            while task.done > cluster.now:
                before, n_idle = cluster.now, cluster.n_idle
                cluster.advance(min(cluster.next_change(), task.done))
                waited = cluster.now - before
                reading = item.n_values * _BYTES_A_VALUE / _BYTES_A_SECOND / task.seconds
                limit = "fits one after another" if n_idle else "workers"
                by_limit["network"] += min(1.0, reading) * waited
                by_limit[limit] += (1 - min(1.0, reading)) * waited
            received = item.n_bytes / _BYTES_A_SECOND
            cluster.advance(cluster.now + received)
            by_limit["network"] += received
        by_stage[stage] = by_stage.get(stage, 0.0) + cluster.now - began
    return Schedule(cluster.now, by_stage, by_limit)


def _mean(schedules: Sequence[Schedule]) -> Schedule:
    n = len(schedules)

    def means(each: Sequence[dict[str, float]]) -> dict[str, float]:
        return {name: sum(one[name] for one in each) / n for name in each[0]}

    return Schedule(
        sum(one.seconds for one in schedules) / n,
        means([one.by_stage for one in schedules]),
        means([one.by_limit for one in schedules]),
    )


def print_schedules(recorded: Record, n_seeds: int) -> None:
    """Print minutes, speed-up and limit for each number of workers."""
    from chaffinch.tasks.settings.selection import MASK_ROWS, ModelSettings

    network = f"{8 * _BYTES_A_SECOND / 1e9:g} Gbit/s"
    print(f"{recorded.n_rows:,} rows x {recorded.n_features} columns, {_TREES} trees. Assumed:")
    for line in (
        f"workers of {_CORES} cores, of which fits and predictions use {_CORES * _EFFICIENCY:.1f}; "
        "the run's own machine alike",
        f"each worker reads its rows once for a fit, {_BYTES_A_VALUE} bytes a value at {network}, "
        f"and what it returns goes over {network}, too; alone the rows are on its own disk",
        "steps of the ingestion read and write files of a shared folder, 8 bytes a value, at "
        f"{network} each way for each worker; a worker does one on each core",
        f"seconds vary by {_SPREAD:.0%}; {_SLOW:.0%} of the fits take {_SLOW_FACTOR:g} times as "
        f"long; a worker is lost each hour, and back after {_BACK_AFTER:g} s",
        f"tuning on {ModelSettings().tuning_rows:,} rows, masked losses on {MASK_ROWS:,}; the "
        f"bootstrap, some seconds, is left out; means of {n_seeds} seeds",
    ):
        print(f"- {line}")
    base = alone(recorded)
    print(f"\n{'workers':>7}{'minutes':>9}{'times':>7}  limit (share of the time)")
    print(f"{'none':>7}{base.seconds / 60:9.0f}{1:7.1f}  {_stages(base)}")
    for n_workers in _SHOWN:
        found = _mean([replay(recorded, n_workers, seed) for seed in range(n_seeds)])
        share = found.by_limit[found.limit] / found.seconds
        times = base.seconds / found.seconds
        limit = f"{found.limit} ({share:.0%})"
        print(f"{n_workers:7}{found.seconds / 60:9.0f}{times:7.1f}  {limit:32}{_stages(found)}")


def _stages(schedule: Schedule) -> str:
    long = {name: s / 60 for name, s in schedule.by_stage.items() if s >= 60}
    return ", ".join(f"{name} {minutes:.0f}" for name, minutes in long.items())


def _to_json(recorded: Record) -> dict[str, Any]:
    events = [
        {"kind": type(e).__name__, **e.__dict__}
        if not isinstance(e, Begin)
        else {"kind": "Begin", "stream": e.stream, "items": [i.__dict__ for i in e.items]}
        for e in recorded.events
    ]
    return {"n_rows": recorded.n_rows, "n_features": recorded.n_features, "events": events}


def _from_json(content: dict[str, Any]) -> Record:
    kinds = {"Own": Own, "Begin": Begin, "Wait": Wait, "Drop": Drop}
    events: list[Event] = []
    for event in content["events"]:
        kind = kinds[event.pop("kind")]
        if kind is Begin:
            event["items"] = [Item(**item) for item in event["items"]]
        events.append(kind(**event))
    return Record(content["n_rows"], content["n_features"], events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", type=int, nargs=2, default=[30_000, 90_000], help="rows")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=int, default=64_000_000, help="of the simulated table")
    parser.add_argument("--search-rows", type=int, help="by default all of them")
    parser.add_argument("--gigabits", type=float, default=1.0, help="a second, of each machine")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="file of the recordings, made if it is missing")
    asked = parser.parse_args()
    global _BYTES_A_SECOND
    _BYTES_A_SECOND = asked.gigabits * 1e9 / 8
    if asked.keep is None or not asked.keep.is_file():
        os.environ["OMP_NUM_THREADS"] = "1"  # threads that wait would count as seconds
        recordings = [record(n_rows, asked.columns) for n_rows in sorted(asked.recorded)]
        if asked.keep is not None:
            asked.keep.parent.mkdir(parents=True, exist_ok=True)
            asked.keep.write_text(json.dumps([*map(_to_json, recordings)]))
    else:
        recordings = [*map(_from_json, json.loads(asked.keep.read_text()))]
    few, many = recordings
    if asked.search_rows is not None:
        whole = alone(scaled(few, many, asked.rows)).seconds / 60
        print(f"Searched on {asked.search_rows:,} rows; on all, no workers take {whole:.0f} min.")
    print_schedules(scaled(few, many, asked.rows, asked.search_rows), asked.seeds)


if __name__ == "__main__":
    main()

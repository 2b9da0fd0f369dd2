"""A reproduction that was stopped, or is given more seeds, measures only what it lacks."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import chaffinch
from chaffinch.storage.runs import Store
from chaffinch.tasks.reproducing.experiment import Experiment, Figure
from chaffinch.tasks.reproducing.experiments import EXPERIMENTS

PLACE = ("a row", "a column")


@dataclass
class Counted:
    """An experiment of two parts that notes what it is asked, and may be stopped by a seed."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    stopped_by: int | None = None
    data: float = 0.1

    def first(self, shared: float, seed: int) -> dict[tuple[str, str], float]:
        if seed == self.stopped_by:
            raise KeyboardInterrupt
        self.asked.append(("first", seed))
        return {PLACE: seed / 3 + shared}

    def second(self, shared: float, seed: int) -> dict[tuple[str, str], float]:
        self.asked.append(("second", seed))
        return {("another row", "a column"): -seed * shared}

    @property
    def experiment(self) -> Experiment:
        return Experiment(
            name="gbmo-table-2",
            source="",
            figures=(Figure(*PLACE, 1.0), Figure("another row", "a column", None)),
            read=lambda folder: self.data,
            measures=(self.first, self.second),
            authors_seed=None,
        )


@pytest.fixture
def counted(monkeypatch) -> Counted:
    counted = Counted()
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", counted.experiment)
    return counted


def again(seeds: int, store: Path | None, told: list | None = None):
    told = [] if told is None else told
    return chaffinch.reproduce(
        "gbmo-table-2", seeds=seeds, store=store, on_progress=lambda *p: told.append(p)
    )


def test_one_that_was_stopped_goes_on_and_equals_one_that_was_not(counted, tmp_path) -> None:
    whole = again(4, None)
    counted.asked.clear()
    counted.stopped_by = 2
    with pytest.raises(KeyboardInterrupt):
        again(4, tmp_path / "store")
    assert counted.asked == [("first", 0), ("first", 1)]
    counted.asked.clear()
    counted.stopped_by = None
    told = []
    assert again(4, tmp_path / "store", told) == whole
    assert counted.asked == [("first", 2), ("first", 3), *(("second", seed) for seed in range(4))]
    assert told[0] == ("measure", 2, 8)


def test_more_seeds_measure_only_these_and_fewer_none(counted, tmp_path) -> None:
    again(2, tmp_path)
    counted.asked.clear()
    more = again(3, tmp_path)
    assert counted.asked == [("first", 2), ("second", 2)]
    assert more == again(3, None)
    counted.asked.clear()
    told = []
    again(1, tmp_path, told)
    assert counted.asked == []
    assert told == [("measure", 2, 2), ("measure", 1, 1)]


def test_what_was_measured_on_another_table_is_not_taken(counted, tmp_path) -> None:
    again(2, tmp_path)
    counted.asked.clear()
    counted.data = 0.2
    assert again(2, tmp_path) == again(2, None)
    assert counted.asked[:4] == [*(("first", s) for s in (0, 1)), *(("second", s) for s in (0, 1))]


def test_what_another_experiment_gave_is_not_taken(counted, tmp_path, monkeypatch) -> None:
    again(1, tmp_path)
    counted.asked.clear()
    other = replace(counted.experiment, name="afs-bm-tables-2-3-lightgbm")
    monkeypatch.setitem(EXPERIMENTS, other.name, other)
    chaffinch.reproduce(other.name, seeds=1, store=tmp_path)
    assert counted.asked == [("first", 0), ("second", 0)]


def test_a_record_that_was_changed_is_measured_again(counted, tmp_path) -> None:
    whole = again(2, tmp_path)
    records = sorted((Store.open(tmp_path).experiments.folder / "stages").glob("*.json"))
    assert len(records) == 4
    records[1].write_bytes(records[1].read_bytes().replace(b"0.", b"1."))
    records[2].unlink()
    counted.asked.clear()
    assert again(2, tmp_path) == whole
    assert 1 <= len(counted.asked) <= 2


def with_a_figure_more(counted) -> Experiment:
    more = ("another row", "another column")
    return replace(
        counted.experiment,
        figures=(*counted.experiment.figures, Figure(*more, None)),
        measures=(counted.first, lambda *given: {**counted.second(*given), more: 7.0}),
    )


@pytest.mark.parametrize("has_more_now", [True, False])
@pytest.mark.parametrize("seeds_before", [2, 3])
def test_what_an_experiment_of_other_figures_kept_leaves_no_trace(
    counted, tmp_path, monkeypatch, has_more_now, seeds_before
) -> None:
    before, now = counted.experiment, with_a_figure_more(counted)
    if not has_more_now:
        before, now = now, before
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", before)
    again(seeds_before, tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", now)
    found = again(3, tmp_path)
    assert found == again(3, None)
    assert [len(found.by_seed[seed]) for seed in range(3)] == [3 if has_more_now else 2] * 3
    counted.asked.clear()
    again(3, tmp_path)
    assert counted.asked == []


def test_parts_that_were_measured_in_another_order_before_a_stop_are_measured_again(
    counted, tmp_path, monkeypatch
) -> None:
    whole = again(2, None)
    other_order = replace(counted.experiment, measures=(counted.second, counted.first))
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", other_order)
    counted.stopped_by = 0
    with pytest.raises(KeyboardInterrupt):
        again(2, tmp_path)
    assert counted.asked[-2:] == [("second", 0), ("second", 1)]
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", counted.experiment)
    counted.stopped_by = None
    counted.asked.clear()
    told = []
    assert again(2, tmp_path, told) == whole
    # what is called the first part is kept, but is the second
    lacking = [("second", 0), ("second", 1)]
    assert counted.asked == [*lacking, ("first", 0), ("first", 1)]
    assert told[0] == ("measure", 2, 4)
    assert told[-2:] == [("measure", 4, 4), ("measure", 1, 1)]


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"figures": None},
        {"figures": [["a row", "a column"]]},
        {"figures": [["a row", "a column", None]]},
        {"figures": [["a row", "a column", "none"]]},
    ],
)
def test_a_record_of_another_form_is_measured_again(counted, tmp_path, result) -> None:
    whole = again(2, tmp_path)
    experiments = Store.open(tmp_path).experiments
    for path in sorted((experiments.folder / "stages").glob("*.json"))[1:3]:
        with experiments.stage(path.stem, path.stem) as writer:
            writer.result = result
    counted.asked.clear()
    assert again(2, tmp_path) == whole
    assert len(counted.asked) == 2


def test_without_a_store_nothing_is_kept(counted, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    again(1, None)
    assert list(tmp_path.iterdir()) == []

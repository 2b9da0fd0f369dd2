"""Progress of a run: its stages, its position in them, and the time left.

`RunProgress` models a run in progress. The bar in a terminal or notebook, the lines of a log and
the progress artifact of Prefect only draw it.

The time left is a figure for the whole run. It starts from the estimated seconds of each stage
(`chaffinch.tasks.pipeline.progress.estimate`). The seconds of fits are scaled by what the fits so
far took over what was estimated for them, those of the stage in progress before others. Before
there is an estimate, or while a stage of unknown length has not yet finished an item, there is no
figure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from chaffinch.tasks.settings.stage_titles import title_of

OnProgress = Callable[[str, int, int], None]
Say = Callable[[str], None]
Warn = Callable[[Sequence[str]], None]
# Stage -> the expected seconds of its items, in order; None if they are not known.
Estimate = Mapping[str, Sequence[float] | None]


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress; the default of `on_progress`."""


def no_messages(line: str) -> None:
    """Ignore a message; the default callback."""


def no_warnings(warnings: Sequence[str]) -> None:
    """Ignore warnings; the default callback, because results include the warnings."""


STEPS = (
    "ingest",
    "describe",
    "split",
    "train_base_model",
    "optimise_mask",
    "choose_mask",
    "retrain",
    "evaluate",
    "write_report",
)
_OF_ALTERNATIVES = ("search_alternatives", "score_alternatives")
_OF_CHANGES = ("judge_changes",)


def steps_of(*, with_alternatives: bool = False, with_changes: bool = False) -> tuple[str, ...]:
    """Return the steps of a selection, optionally with those of alternatives and a reselection."""
    further = (*_OF_ALTERNATIVES * with_alternatives, *_OF_CHANGES * with_changes)
    return (*STEPS[:-1], *further, STEPS[-1])


def duration(seconds: float) -> str:
    """Return seconds in words: seconds, minutes or hours."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """Receiver of a run's progress, which passes it on to a callback."""

    wants_estimate = False  # of the seconds of stages

    def __init__(self, on_progress: OnProgress = no_progress) -> None:
        self._on_progress = on_progress

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Note that a stage has begun, or that `done` of its `total` items are done."""
        self._on_progress(stage, done, total)

    def end(self, stage: str, seconds: float | None) -> None:
        """Note that a stage took some seconds; None if it was finished before this run."""
        self._on_progress(stage, 1, 1)

    def expect(self, estimate: Estimate, warning: str = "") -> None:
        """Note the expected seconds of stages, and a warning if they are many."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report the block as a stage."""
        self(name, 0, 1)
        began = time.perf_counter()
        yield
        self.end(name, time.perf_counter() - began)


def as_progress(on_progress: OnProgress) -> Progress:
    """Return a receiver that passes progress to a function, or a receiver itself."""
    return on_progress if isinstance(on_progress, Progress) else Progress(on_progress)


# The ratio of taken to estimated seconds counts as 1 for this share of all fits, and in a stage as
# that of the stages before for this share of its items: the first few say little about the rest.
_SHARE_OF_PRIOR = 0.03
# Stages that mostly fit. How wrong their estimate was says nothing about the others.
_FITTING = {"train_base_model", "optimise_mask", "choose_mask", "retrain"}
_OVERRUN = 0.25  # time left of an overdue item, as a share of the time since the last item


class RunProgress(Progress):
    """Position and time left of a run; subclasses draw them.

    Parameters
    ----------
    stages : sequence of str
        The run's stages, in order.
    clock : callable
        Returns seconds.

    Attributes
    ----------
    now : str or None
        The stage in progress.
    done, total : int
        Its items.
    """

    wants_estimate = True

    def __init__(self, stages: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.stages, self.clock = tuple(stages), clock
        self.lock = threading.RLock()  # threads draw it too
        self.now: str | None = None
        self.done, self.total = 0, 1
        self._began: dict[str, tuple[float, int]] = {}  # when, and the items done before
        self._changed = self._started = clock()
        self._took: dict[str, float | None] = {}  # of ended stages
        self._estimate: Estimate | None = None
        self._share = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        with self.lock:
            if stage in self._took:
                return  # for example, the check before the run has read the table
            is_new = stage not in self._began
            if is_new:
                self._began[stage] = self.clock(), done
            self.now, self.done, self.total, self._changed = stage, done, total, self.clock()
        # without the lock: a display reads the position under locks of its own
        if is_new:
            self.on_begin(stage)
        self.on_change()

    def end(self, stage: str, seconds: float | None) -> None:
        with self.lock:
            if stage in self._took:
                return
            self._took[stage], self._changed = seconds, self.clock()
            self.now, self.done, self.total = None, 0, 1
        self.on_end(stage, seconds)
        self.on_change()

    def expect(self, estimate: Estimate, warning: str = "") -> None:
        with self.lock:
            is_first, self._estimate = self._estimate is None, estimate
            left, passed = self.seconds_left, self.clock() - self._started
        if is_first and left is not None:
            self.on_estimate(passed + left)
        if warning:
            self.on_warning(warning)

    def on_begin(self, stage: str) -> None:
        """Draw the begin of a stage."""

    def on_end(self, stage: str, seconds: float | None) -> None:
        """Draw the end of a stage; no seconds: it was finished before this run."""

    def on_change(self) -> None:
        """Draw the present position."""

    def on_estimate(self, seconds: float) -> None:
        """Draw the estimated seconds of the run."""

    def on_warning(self, warning: str) -> None:
        """Draw a warning of a long run."""

    def numbered(self, stage: str) -> str:
        """Return the number of a stage and its title, such as ``3/9 split the rows``."""
        where = (
            f"{self.stages.index(stage) + 1}/{len(self.stages)} " if stage in self.stages else ""
        )
        return where + title_of(stage)

    def seconds_in(self, stage: str) -> float:
        """Return the seconds since a stage began."""
        return self.clock() - self._began[stage][0]

    @property
    def items(self) -> str:
        """The items done of the stage in progress, such as ``12 of 60``; empty without items."""
        return f"{self.done} of {self.total}" if self.total > 1 else ""

    @property
    def left(self) -> str:
        """The time left in words, such as ``about 2 min left``; empty if it is not known."""
        seconds = self.seconds_left
        return "" if seconds is None else f"about {duration(seconds)} left"

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the whole run still takes; None if they are not known."""
        with self.lock:
            return None if self._estimate is None else self._seconds_left(self._estimate)

    @property
    def share(self) -> float:
        """Share of the run that has passed, in 0..1; it never falls."""
        with self.lock:
            left = self.seconds_left
            n_ended = sum(stage in self._took for stage in self.stages)
            if n_ended == len(self.stages):
                share = 1.0
            elif left is None:
                share = (n_ended + self.done / max(self.total, 1)) / len(self.stages)
            else:
                passed = self.clock() - self._started
                share = passed / max(passed + left, 1e-9)
            self._share = max(self._share, min(share, 1.0))
            return self._share

    def _seconds_left(self, estimate: Estimate) -> float | None:
        known = {stage: sum(items) for stage, items in estimate.items() if items is not None}
        stage, left = self.now, 0.0
        scale = self._scale_of_fits(known)
        if stage is not None and stage in estimate:
            share, before = (
                self._share_of_items(self.done),
                self._share_of_items(self._began[stage][1]),
            )
            taken, since = self._changed - self._began[stage][0], self.clock() - self._changed
            if stage in known:
                prior = _SHARE_OF_PRIOR * known[stage]
                done = (share - before) * known[stage]
                before_it = scale if stage in _FITTING else 1.0
                passed = taken if done else 0.0
                scaled = (passed + before_it * prior) / (done + prior) if prior else before_it
                rest = scaled * known[stage] * (1 - share)
                if stage in _FITTING:
                    scale = self._scale_of_fits(known, passed, done)
            elif share == before:
                return None
            else:
                rest = taken * (1 - share) / (share - before)
            left = max(rest - since, _OVERRUN * since)
        for other in self.stages:
            if other in estimate and other != stage and other not in self._took:
                if other not in known:
                    return None
                left += known[other] * (scale if other in _FITTING else 1.0)
        return left

    def _scale_of_fits(
        self, known: Mapping[str, float], passed: float = 0.0, estimated: float = 0.0
    ) -> float:
        """Return taken over estimated seconds of ended stages that fit, and of such seconds."""
        prior = _SHARE_OF_PRIOR * sum(known.get(stage, 0.0) for stage in _FITTING)
        passed, estimated = passed + prior, estimated + prior
        for ended, seconds in self._took.items():
            if ended in known and ended in _FITTING and seconds is not None:
                passed, estimated = passed + seconds, estimated + known[ended]
        return passed / estimated if estimated else 1.0

    def _share_of_items(self, done: int) -> float:
        """Return the share of the stage in progress that some items take."""
        share = done / self.total if self.total > 1 else 0.0
        items = None if self._estimate is None else self._estimate.get(self.now or "")
        if not items or not sum(items):
            return share
        # an item that is counted may be several fits
        whole, part = divmod(share * len(items), 1)
        passed = sum(items[: int(whole)]) + part * sum(items[int(whole) : int(whole) + 1])
        return passed / sum(items)

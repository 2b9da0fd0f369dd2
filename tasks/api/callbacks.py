"""Callbacks of scikit-learn 1.9 and later: the stages of a selection as tasks of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaffinch.tasks.pipeline.progress import STEPS, OnProgress, Progress, no_progress
from chaffinch.tasks.settings.stage_titles import title_of

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before 1.9 no estimator has callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for an estimator without callbacks."""

    def with_callbacks(method: Any) -> Any:
        return method


__all__ = ["CallbackSupportMixin", "in_tasks", "with_callbacks"]


@contextmanager
def in_tasks(estimator: Any, X: Any, y: Any, verbose: Any) -> Iterator[Any]:
    """Run an estimator's callbacks around the fit in the block, and yield its `verbose`.

    Callbacks take the place of the bar; a function is called beside them.
    """
    if not getattr(estimator, "_skl_callbacks", ()):
        yield verbose
        return
    fit = estimator._init_callback_context(max_subtasks=len(STEPS))
    fit.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
    yield _FitTasks(estimator, fit, verbose if callable(verbose) else no_progress)
    # the estimator is fitted as it stands
    fit.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes={})


class _FitTasks(Progress):
    """Progress as tasks below a fit: one for each stage, and in it one for each item.

    A callback cannot stop a task. The number of items is not passed on: it is known only after the
    first item.
    """

    def __init__(self, estimator: Any, fit: Any, on_progress: OnProgress) -> None:
        super().__init__(on_progress)
        self._estimator, self._fit = estimator, fit
        self._name, self._stage, self._n_items = "", fit, 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        super().__call__(stage, done, total)
        self._begin(stage)
        for _ in range(self._n_items, done):
            item = self._stage.subcontext(task_name="item")
            item.call_on_fit_task_begin(estimator=self._estimator)
            item.call_on_fit_task_end(estimator=self._estimator)
        self._n_items = max(self._n_items, done)

    def end(self, stage: str, seconds: float | None) -> None:
        super().end(stage, seconds)
        self._begin(stage)
        self._stage.call_on_fit_task_end(estimator=self._estimator)

    def _begin(self, stage: str) -> None:
        if stage != self._name:
            self._name, self._n_items = stage, 0
            self._stage = self._fit.subcontext(task_name=title_of(stage), max_subtasks=None)
            self._stage.call_on_fit_task_begin(estimator=self._estimator)

"""The exact masked loss of a forest: every single-feature masking of a row in one visit.

All rows are visited once; one visit to a tree finds what masking each feature would change (see
`kernels.py`). These changes are stored, for every row and every feature that some tree tests. A
removal visits again only the trees that test the feature, and of these only the rows whose walks it
changes. So a whole elimination costs little more than a few visits of everything, where one
prediction per feature and removal would visit everything d^2 / 2 times.

Values are integers in units of 2^-q, with q as large as keeps every sum below 2^60. Sums are then
exact in any order: the same bits for any number of threads, no drift over removals, and a change of
exactly 0 where a feature has none. Rounding to units is finer than the library's own rounding of
its sums, unless some values are huge compared with those of ordinary rows: `coarseness` finds the
losses affected by that, and the model itself computes them.

A removal writes only the mask, until losses are next needed. Then each run of blocks is updated and
its losses are summed while its changes are in the processor's cache: with several threads memory
access would otherwise be the bottleneck.

Stored per row: 8 bytes for each used feature and output (the changes), 8 for each tree of up to 64
inner nodes (its word) and, if there are deeper ones, 8 for each column. Storing the changes,
instead of recomputing them for each removal, makes an elimination fast. The lower limit of a
removal is one pass over the changes: 8 bytes per row and kept feature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from chaffinch.errors import InputError, NotCovered
from chaffinch.tasks.selection.core import Floats, Mask, MaskedLoss, Predictor, Rows
from chaffinch.tasks.selection.losses import Loss, resolve_loss
from chaffinch.tasks.selection.masked_loss.base import Threads
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.rounding import of_rows, shows
from chaffinch.tasks.selection.masked_loss.row_blocks import Question, RowSums
from chaffinch.tasks.selection.masked_loss.trees import kernels, loss_kernels
from chaffinch.tasks.selection.masked_loss.trees.kernels import BLOCK, State
from chaffinch.tasks.selection.masked_loss.trees.packing import pack, rounding_of, tests_by_feature
from chaffinch.tasks.selection.models.forest import Forest, Integers

# Of the loss. It bounds what rows may be off by when none makes up for another; they mostly do, so
# that a loss is off by a tenth of it or less. A hundred trees of an ordinary target come to 1e-6.
MOST_ROUNDING = 5e-5
# The first rows speak for all, so that a cluster decides as a single process does.
_ROWS_TO_CHECK = 4096
_FINE = 5e-13  # of how far ordinary targets are apart


def check_unit(engine: MaskedLoss, rows: Rows, loss: Loss) -> None:
    """Raise NotCovered if a forest's unit, set by its largest values, is too coarse for other rows.

    The model would then compute nearly every loss, see `coarseness`. If the unit is coarse only
    compared with losses near 0, as on memorised rows, it computes few.
    """
    if not isinstance(engine, TreeEngine):
        return
    some = rows.take(slice(_ROWS_TO_CHECK))
    if loss.task == "regression":
        apart = np.abs(some.y - np.median(some.y))
        spread = np.quantile(apart[apart > 0], 0.25) if apart.any() else 0.0
        if engine.rounding <= _FINE * spread:
            return
    if shows(engine.rounding, loss, engine.prediction[: len(some)], some.y):
        raise NotCovered(
            f"next to its greatest values a row may be off by {engine.rounding:.2g}, too much for "
            "the losses of the other rows"
        )


def check_rounding(engine: MaskedLoss, model: Predictor, rows: Rows, loss: Loss) -> None:
    """Raise NotCovered if XGBoost's rounding is too much for a loss.

    A sum in float32 has an error of some 1e-7 of its partial sums. That is negligible compared with
    the residuals of most models. It is large where the target is far from 0 for its spread, where
    hundreds of trees each add less than such a step, or where almost no loss is left, as on
    training rows.
    """
    # a scorer has no value per row: squared error or log loss in its place
    if not model.is_single_precision or not isinstance(engine, TreeEngine):
        return
    some = rows.take(slice(_ROWS_TO_CHECK))
    by_row = loss if loss.is_mean_over_rows else resolve_loss(None, model.schema)
    own = by_row.per_row(some.y, model.predict(some.X))
    exact = by_row.per_row(some.y, engine.prediction[: len(some)])
    rounding = np.average(np.abs(exact - own), weights=some.weight)
    total = np.average(own, weights=some.weight)
    if not rounding <= MOST_ROUNDING * total:
        raise NotCovered(
            f"it adds in float32, which moves the rows' losses by {rounding:.2g} of {total:.2g}"
        )


Settle = Callable[[Floats, Mask], Floats]

# More than twice what a probability is off by: of sums in float64, and of XGBoost's in float32.
_TIE_TOLERANCE, _TIE_TOLERANCE_IN_SINGLE_PRECISION = 1e-11, 1e-5


def settle_ties(model: Predictor, rows: Rows, loss: Loss, baseline: Floats) -> Settle | None:
    """Return what makes probabilities rank as the model's own do; None where none need it.

    The engine's sums are exact, a library's are rounded, so that two scores which tie in either may
    differ by a bit in the other. In a mean over rows that is ordinary rounding. A scorer of classes
    however depends on the order. So wherever two probabilities of a class, or the two likeliest
    classes of a row, are closer than the rounding error, the model's own predictions of these rows
    replace the engine's; all other rows keep their ranks for any last bits.
    """
    if loss.is_mean_over_rows or loss.task != "classification":
        return None
    reach = _TIE_TOLERANCE_IN_SINGLE_PRECISION if model.is_single_precision else _TIE_TOLERANCE

    def settled(prediction: Floats, mask: Mask) -> Floats:
        near = np.flatnonzero(_is_near(prediction, reach))
        if len(near):
            prediction[near] = model.predict(np.where(mask, rows.X[near], baseline))
        return prediction

    return settled


def _is_near(prediction: Floats, reach: float) -> Mask:
    """Return the rows, shape (n,), with a probability close to another that must be ordered."""
    in_order = np.sort(prediction, axis=1)  # any two classes may be compared, as by a top three
    near: Mask = np.diff(in_order, axis=1).min(axis=1) <= reach
    for probability in prediction.T:
        order = np.argsort(probability)
        is_close = np.diff(probability[order]) <= reach
        near[order[1:][is_close]] = near[order[:-1][is_close]] = True
    return near


_PREPARED_ROWS = 8 * BLOCK  # rows whose columns are made at a time
_RUN_BYTES = 2**22  # of changes in a run of blocks: a processor's part of the shared cache
_RUNS = 4  # for each thread, at least: some cores may be busy
_NOT_SUMMED = -1
_KINDS = {
    ("squared_error", "identity"): loss_kernels.SQUARED,
    ("absolute_error", "identity"): loss_kernels.ABSOLUTE,
    ("log_loss", "logistic"): loss_kernels.LOGISTIC,
    ("log_loss", "logistic_single"): loss_kernels.LOGISTIC_SINGLE,
    ("log_loss", "softmax"): loss_kernels.SOFTMAX,
    ("log_loss", "probability"): loss_kernels.PROBABILITY,
}


class TreeEngine(RowSums):
    """`MaskedLoss` of a forest; `settle` is that of `settle_ties`, `threads` changes no bit."""

    rows_in_block = BLOCK

    def __init__(
        self,
        forest: Forest,
        rows: Rows,
        loss: Loss,
        baseline: Floats,
        settle: Settle | None = None,
        exactly: Callable[[Mask], Floats] | None = None,
        *,
        threads: int = 1,
    ) -> None:
        if threads < 1:
            raise InputError(f"threads must be at least 1 but is {threads}")
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        relevant = np.isin(np.arange(rows.X.shape[1]), forest.used_features)
        super().__init__(loss.name, relevant, float(weight.sum()), exactly)
        self.forest, self._rows, self._loss = forest, rows, loss
        self._of_features = baseline
        self._settle, self._used = settle, forest.used_features
        self._kind = _KINDS.get((loss.name, forest.link), _NOT_SUMMED)
        self.is_summed = self._kind != _NOT_SUMMED
        self._baseline = forest.prepare(baseline[np.newaxis])[0]
        self._unit, self._base, self._trees = pack(forest, self._baseline)
        self.rounding = rounding_of(forest)
        self._tests = tests_by_feature(self._trees, len(self._used))
        self._n_blocks = -(-len(rows) // BLOCK)
        self._y = self._in_blocks(rows.y.astype(np.float64))
        self._weight = self._in_blocks(weight)
        self._threads = Threads(threads)
        self._runs = self._runs_of_blocks()
        # by their numbers among the used features: whether it is masked in the state as well
        self._is_visited = np.zeros(len(self._used), dtype=bool)
        self._state = self._first_state()

    def joined(self, groups: Sequence[Integers]) -> TreeEngine:
        """Return a new engine in which masking a group's first feature masks the whole group.

        Its other features change nothing. A removal then costs as much as that of a feature.
        """
        d = self._rows.X.shape[1]
        first = np.arange(d)
        for group in groups:
            first[group] = group.min()
        exactly, settle = self.exactly, self._settle
        engine = TreeEngine(
            replace(self.forest, feature_of_column=first[self.forest.feature_of_column]),
            self._rows,
            self._loss,
            self._of_features,
            None if settle is None else lambda prediction, mask: settle(prediction, mask[first]),
            None if exactly is None else lambda masks: exactly(masks[:, first]),
            threads=self._threads.count,
        )
        engine.settles_ties = self.settles_ties
        return engine

    @property
    def prediction(self) -> Floats:
        """Predictions under the present mask: values (n,), or probabilities (n, n_classes)."""
        with self._lock.of_process:
            return self._predictions(self._updated_state().score)

    def block_sums(self, question: Question, masks: Mask | None = None) -> Floats:
        if question == "coarseness":  # the same for every row and mask
            off_by = of_rows(self.name, np.full(1, self.rounding))
            return np.outer(self._weight.sum(axis=1), off_by)
        if masks is not None:
            return np.hstack([self._sums_under(mask) for mask in masks])
        features = self._features(question)
        sums = np.zeros((self._n_blocks, len(features) + 1))
        if question == "moved":
            change = self._updated_state().change
            for position, used in enumerate(features.tolist()):
                sums[:, position] = change[:, used].any(axis=(1, 2))
            return sums

        def of_run(state: State, start: int, stop: int) -> None:
            self._sum(state.score, state.change, features, sums, start, stop)

        self._updated_state(of_run)
        return sums

    def _updated_state(self, then: Callable[[State, int, int], None] | None = None) -> State:
        """Return the state under the present mask; `then` is called with each run of blocks."""
        waiting = (~self._mask[self._used] & ~self._is_visited).nonzero()[0]

        def of_run(start: int, stop: int) -> None:
            for used in waiting.tolist():
                self._visit(self._state, *self._tests[used], used, start, stop)
            if then is not None:
                then(self._state, start, stop)

        if len(waiting) or then is not None:
            self._over_runs(of_run)
        self._is_visited[waiting] = True  # at last: what is interrupted is done again
        return self._state

    def _features(self, question: Question) -> Integers:
        kept = self._mask[self._used].nonzero()[0]
        return kept[:0] if question == "present" else kept

    def _score_under(self, mask: Mask) -> Integers:
        score = self._empty_score()
        masked = ~mask[self.forest.feature_of_column]

        def of_block(block: int, column: Floats) -> None:
            column[masked] = self._baseline[masked, np.newaxis]
            kernels.scores(self._trees, column, score[block])

        self._each_block(of_block)
        return score

    def _first_state(self) -> State:
        n_blocks, n_columns = self._n_blocks, len(self._baseline)
        n_words = int(self._trees.word.max(initial=-1)) + 1
        has_deep = bool((self._trees.word < 0).any())
        score = self._empty_score()
        state = State(
            score=score,
            change=np.zeros((n_blocks, len(self._used), *score.shape[1:]), np.int64),
            word=np.empty((n_blocks, n_words, BLOCK), np.uint64),
            column=np.empty((n_blocks if has_deep else 0, n_columns, BLOCK)),
        )

        def of_block(block: int, column: Floats) -> None:
            kernels.words(self._trees, column, state.word[block])
            if has_deep:
                state.column[block] = column

        self._each_block(of_block)
        every_tree = np.arange(len(self._trees.root))
        nothing = np.zeros(len(every_tree), np.uint64)
        self._over_runs(lambda *run: self._visit(state, every_tree, nothing, -1, *run))
        return state

    def _visit(
        self, state: State, visited: Integers, turned: Any, masked: int, start: int, stop: int
    ) -> None:
        """Visit trees to mask a feature, once more without effect, or, if that is -1, at first."""
        small = self._trees.word[visited] >= 0
        of_small = (visited[small], turned[small], masked < 0)
        kernels.visit_by_word(self._trees, state, *of_small, start, stop)
        if not small.all():
            tested = self._used[masked] if masked >= 0 else -1
            columns = np.flatnonzero(self.forest.feature_of_column == tested)
            of_deep = (visited[~small], masked, columns, self._baseline[columns])
            kernels.visit_by_test(self._trees, state, *of_deep, start, stop)

    def _empty_score(self) -> Integers:
        score = np.empty((self._n_blocks, len(self._base), BLOCK), np.int64)
        score[:] = self._base[:, np.newaxis]
        return score

    def _each_block(self, of_block: Callable[[int, Floats], None]) -> None:
        """Call ``of_block(block, columns (n_columns, 128))`` for every block."""
        # the baseline's columns fill the last block up

        def of_rows(begin: int) -> None:
            prepared = self.forest.prepare(self._rows.X[begin : begin + _PREPARED_ROWS])
            for at in range(0, len(prepared), BLOCK):
                rows = prepared[at : at + BLOCK]
                column = np.empty((prepared.shape[1], BLOCK))
                column[:] = self._baseline[:, np.newaxis]
                column[:, : len(rows)] = rows.T
                of_block((begin + at) // BLOCK, column)

        self._threads.each(of_rows, range(0, len(self._rows), _PREPARED_ROWS))

    def _over_runs(self, work: Callable[[int, int], None]) -> None:
        self._threads.each(lambda run: work(*run), self._runs)

    def _runs_of_blocks(self) -> list[tuple[int, int]]:
        bytes_a_block = 8 * BLOCK * max(1, len(self._used) * len(self._base))
        n_runs = max(
            -(-self._n_blocks * bytes_a_block // _RUN_BYTES),
            1 if self._threads.count == 1 else _RUNS * self._threads.count,
        )
        bounds = np.linspace(0, self._n_blocks, min(n_runs, self._n_blocks) + 1).astype(np.int64)
        return list(pairwise(bounds.tolist()))

    def _sums_under(self, mask: Mask) -> Floats:
        """Return every block's sums under a mask, shape (n_blocks, 1)."""
        score, sums = self._score_under(mask), np.empty((self._n_blocks, 1))
        no_change = np.zeros((self._n_blocks, 0, *score.shape[1:]), np.int64)
        no_features = np.zeros(0, np.int64)
        self._over_runs(lambda *run: self._sum(score, no_change, no_features, sums, *run))
        return sums

    def _sum(
        self, score: Integers, change: Integers, features: Integers, sums: Floats, *run: int
    ) -> None:
        """Write the sums of a run of blocks without each of some used features, and with all."""
        link, truth = (self._kind, self._unit, self.forest.divisor), (self._y, self._weight)
        loss_kernels.loss_sums(*link, score, change, features, *truth, sums, *run)

    def _means(self, question: Question, masks: Mask | None) -> Floats:
        if self.is_summed:
            return super()._means(question, masks)
        if masks is not None:
            return np.array([self._any_loss(self._score_under(mask), mask) for mask in masks])
        state, losses = self._updated_state(), []
        for used in self._features(question).tolist():
            mask = self._mask & (np.arange(len(self._mask)) != self._used[used])
            losses.append(self._any_loss(state.score + state.change[:, used], mask))
        return np.array([*losses, self._any_loss(state.score, self._mask)])

    def _any_loss(self, score: Integers, mask: Mask) -> float:
        prediction = self._predictions(score)
        if self.exactly is not None and shows(self.rounding, self._loss, prediction, self._rows.y):
            return float(self.exactly(mask[np.newaxis])[0])
        settled = prediction if self._settle is None else self._settle(prediction, mask)
        return self._loss(self._rows.y, settled, self._rows.weight)

    def _predictions(self, score: Integers) -> Floats:
        by_row = score.transpose(0, 2, 1).reshape(-1, score.shape[1])[: len(self._rows)]
        return self.forest.predict(by_row.astype(np.float64) * self._unit / self.forest.divisor)

    def _in_blocks(self, values: Floats) -> Floats:
        filled = np.zeros(self._n_blocks * BLOCK)
        filled[: len(values)] = values
        return filled.reshape(self._n_blocks, BLOCK)


def tree_engine(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, threads: int
) -> MaskedLoss:
    """Return the exact masked loss of a tree model; NotCovered if its trees are not known here."""
    settle = settle_ties(model, rows, loss, baseline)
    evaluator = MaskEvaluator(model, rows, loss, baseline)

    def exactly(masks: Mask) -> Floats:  # a function: a copy of the engine need not copy the model
        return evaluator(list(masks))

    engine = TreeEngine(model.forest(), rows, loss, baseline, settle, exactly, threads=threads)
    engine.settles_ties = not model.is_single_precision  # float32 sums break ties
    return engine

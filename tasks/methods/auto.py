"""The default: features ordered, and their number chosen, by cross-fitting; our own.

Every row is used for fitting, for ordering and for judging, but never twice in one model's favour.
The folds are nested. An outer fold holds rows out; the models inside it, for each inner fold,
order the features, of which near copies count as one; the model is refitted on all rows outside
for a grid of sizes, and the rows held out give the loss of each size. The rows that order the
features do not choose their number. Over all outer folds these losses are the curve that chooses
the number of features. The features are then ordered once more, on all rows. Refits begin with the
smallest sizes, and end where larger sizes are no better.

The same losses judge the choice: for each outer fold the number is chosen by the curve of the other
folds, so that the rows that judge had no part in the order, nor in the losses that chose the
number.

An outer fold is ordered by the two folds next to it. A model fitted outside the two folds f and g
serves the outer fold f, judged on g, and the outer fold g, judged on f, so that five folds need 6
such models.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ConfigDict, model_validator

from chaffinch.errors import InputError
from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.data.stored_rows import RowNumbers, packed_index
from chaffinch.tasks.methods.paths import of_ranking
from chaffinch.tasks.methods.protocol import Problem, Seen, candidates_at, unused_features_error
from chaffinch.tasks.methods.refits import AT_MOST, Refit
from chaffinch.tasks.selection.attribution import attributions, attributions_by_block
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, mask_of_size
from chaffinch.tasks.selection.elimination.cross_fitting import (
    CrossFittedOrder,
    FoldJudge,
    cross_fitted_order,
)
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.masked_loss.base import check_finite
from chaffinch.tasks.settings.base import Count, setting
from chaffinch.tasks.settings.method import MANY_ROWS, PERCENT, Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult, best_first
from chaffinch.tasks.statistics.bootstrap import widening
from chaffinch.tasks.statistics.ranks_and_stability import stability_of
from chaffinch.tasks.statistics.size_curve import Leaving, SizeCurve
from chaffinch.tasks.statistics.verdict import bound_in_words, constant_prediction
from chaffinch.tasks.workers.interface import OnDone

if TYPE_CHECKING:
    from chaffinch.tasks.settings.selection import SelectionSettings

logger = logging.getLogger(__name__)

_SUMMARY = (
    "features ordered by their masked losses and their importance in models of nested folds, and "
    "as many kept as do best on the rows held out"
)
_BY_FOLDS = "fitting, ordering and choosing the number of features, by folds"
# facts of each size
_CURVE = ("n_features", "loss", "difference", "standard_error", "share_lost", "share_lost_at_most")
_LEFT_FIRST = ("of_no_use", "near_copies", "nothing_off")
_FIRST_STEP = 0.85  # from all features to the next size
_STEP = 0.5**0.5  # from each of the others to the next
_INNER_FOLDS = 2  # more folds gave no lower loss on 26 tables
_SIZES_AT_ONCE = 2  # refitted between two looks at the curve
_BLOCKS = 20  # of a fold's rows, for the error of attributions
_Folds = tuple[int, ...]  # a fold, or two folds in order
_DEVELOPMENT: tuple[Seen, ...] = ("train", "mask_validation", "model_validation")


class Auto(Method):
    """Cross-fitted order and number of features: every row fits, orders and judges."""

    model_config = ConfigDict(title="Automatic")
    declared_traits = Traits(
        summary=f"{_SUMMARY.capitalize()}.",
        score="the feature's place in the order of leaving. What is of no use on held-out rows "
        "leaves first, then near copies of a better feature, then what by its attribution takes "
        "nothing off their loss; the others by the mean of two ranks: how much that loss rises "
        "once the feature is masked, and its importance in the models",
        score_is_place=True,
        limits_size=True,
        finds_size=True,
        folded_parts=_DEVELOPMENT,
        fewest_folds=3,  # a model is fitted on the rows outside two folds
        is_cross_fitted=True,
        reads_files=True,
        parts_used={
            **dict.fromkeys(_DEVELOPMENT, _BY_FOLDS),
            "train": f"tuning, the baseline; {_BY_FOLDS}",
            "out_of_fold": "the verdict; each row judges a choice made without it",
        },
    )

    kind: Literal["auto"] = setting("auto", f"auto: {_SUMMARY}.")
    n_features: Count | None = AT_MOST
    within_one_standard_error: bool = setting(
        False,
        "Take the smallest size whose loss exceeds the lowest by no more than the standard error "
        "of the difference. By default, only of the sizes shown to be within the tolerance.",
    )
    validation: Literal["auto", "folds", "holdout"] = setting(
        "auto",
        "folds: the rows that each fold holds out give the verdict. holdout: a test part does, and "
        "one fold alone chooses the number of features, which is faster. auto: folds, but a test "
        "part, the last of the shares, with a time column, shares of your own, or more than "
        f"{MANY_ROWS:,} rows.",
    )

    exactly: bool = setting(
        False,
        "Keep exactly n_features, and judge this number, instead of choosing one of at most so "
        "many. `chaffinch at` does it for a finished run.",
        title="Exactly so many features",
    )

    @model_validator(mode="after")
    def _check_exactly(self) -> Self:
        if self.exactly and self.n_features is None:
            raise ValueError("exactly needs n_features; give it, or leave exactly out")
        if self.exactly and self.within_one_standard_error:
            raise ValueError(
                "exactly chooses no number, so within_one_standard_error has no use; leave it out"
            )
        return self

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.n_features}" if self.exactly else self.kind

    def why_all(self, facts: Mapping[str, Any]) -> str:
        if self.exactly:
            return "as asked for"
        if self.within_one_standard_error:
            return "because no smaller number has a loss within one standard error of the lowest"
        bounds = {s["n_features"]: s["share_lost_at_most"] for s in facts["sizes"][1:]}
        closest = min(
            (n for n, bound in bounds.items() if bound is not None and bound < 1),
            key=lambda n: (bounds[n], n),
            default=None,
        )
        why = "because no smaller number is shown to lose no more than is tolerated"
        if closest is None:
            return why
        are = "1 feature loses" if closest == 1 else f"{closest} features lose"
        return (
            f"{why}; {are} at most {bound_in_words(bounds[closest])} of what all features explain"
        )

    def has_test_part(self, settings: SelectionSettings, n_rows: int) -> bool:
        if self.validation != "auto":
            return self.validation == "holdout"
        columns = settings.columns
        asks = (columns.time, columns.split) != (None, None)
        return asks or settings.shares != PERCENT or n_rows > MANY_ROWS

    def fits(
        self, n_rows: int, n_features: int, n_folds: int, of_use: int | None = None
    ) -> Sequence[int]:
        """Return the features of each fit, 0 where none is expected.

        `of_use` are worth keeping, where this is known.
        """
        most = n_features if self.n_features is None else min(self.n_features, n_features)
        sizes = [most]
        if not self.exactly:
            sizes = _sizes_down(min(most, round(_FIRST_STEP * n_features)), 1)[::-1]
            # they end where larger ones are no better, and any may be the last, but hardly one far
            # beyond what is of use
            n = n_refitted = len(sizes)
            if of_use is not None:
                n_refitted = min(n, sum(size < of_use for size in sizes) + 1 + _SIZES_AT_ONCE)
            shares = [1 - i / n_refitted for i in range(n_refitted)] + [0.0] * (n - n_refitted)
            sizes = [math.ceil(size * share) for size, share in zip(sizes, shares, strict=True)]
        # before them the models outside each fold, and outside each pair of neighbours, and the
        # orders, whose masked losses take about as long as a fit
        n_models, n_orders, n_judged = 1, 1, 1
        if not self._is_short(n_rows):
            inner = _inner_folds({f: range(n_folds) for f in range(n_folds)}, _INNER_FOLDS)
            n_models, n_orders, n_judged = n_folds + len(_pairs(inner)), n_folds + 1, n_folds
        return [n_features] * (n_models + n_orders) + [
            size for size in sizes for _ in range(n_judged)
        ]

    def _is_short(self, n_rows: int) -> bool:
        return self.validation == "holdout" or (self.validation == "auto" and n_rows > MANY_ROWS)

    def search(self, problem: Problem) -> SearchResult:
        """Order the features and choose their number inside each outer fold, then on all rows.

        Raises
        ------
        InputError
            If a model cannot be fitted on the rows outside two folds, or none uses any feature.
        """
        search = _search_of(self, problem)
        needed = _folds_to_leave_out(search)
        n_fits = len(needed) + len(search.inner) * (len(search.sizes) - 1)
        logger.info("auto fits model %s at most %d times", problem.recipe.name, n_fits)

        n_orders = len(search.inner) + (not search.is_short)

        def on_fit(n_before: int, done: int, _: int) -> None:
            problem.on_progress(n_before + done, n_fits + n_orders)

        problem.begin_final(np.ones(search.n_features, dtype=bool))
        fitted = problem.workers.map(_model, search, needed, partial(on_fit, 0))
        models = dict(zip(needed, fitted, strict=True))
        ordered = _orders(search, problem, models, partial(on_fit, len(needed)))
        orders = {fold: order.removed for fold, order in ordered.items()}
        left_first = {group: getattr(ordered[None], group) for group in _LEFT_FIRST}
        if problem.on_fits is not None:
            of_use = search.n_features - sum(left_first.values())
            n_rows, n_folds = len(search.refit.train), len(search.folds)
            problem.on_fits(self.fits(n_rows, search.n_features, n_folds, of_use))
        tolerance = None if self.within_one_standard_error else problem.settings.tolerance

        # a tolerance alone asks what is of use
        needs_attributions = tolerance is not None and not self.exactly
        held_out = _HeldOut(search, problem, models, needs_attributions=needs_attributions)
        curve, n_done = held_out.curve(), len(needed) + n_orders
        d = search.n_features
        kept = {n: n if n == d else int(search.mask(orders[None], n).sum()) for n in search.sizes}
        if self.exactly and kept[search.most] != search.most:
            most = kept[search.most]
            raise InputError(
                f"exactly {self.n_features} features were asked for but the constraints allow "
                f"{most} here; ask for {most}, or change the constraints"
            )

        def chosen(curve: SizeCurve) -> int:
            return search.most if self.exactly else curve.choose(tolerance, at_most=search.most)

        with closing(held_out.refit(orders, partial(on_fit, n_done))) as curves:
            for curve in curves:
                problem.begin_final(search.mask(orders[None], chosen(curve)))
                of_folds = [curve, *map(curve.without, search.judged)]
                if all(fold.is_settled(tolerance, at_most=search.most) for fold in of_folds):
                    break
        on_fit(n_fits, n_orders, n_orders)
        if not problem.keep and not any(model.used_features.any() for model in models.values()):
            raise unused_features_error(problem, float(curve.means[0]))

        size = chosen(curve)
        of_fold = {f: chosen(curve.without(f)) for f in search.judged}
        judged = dict.fromkeys(of_fold, d) if size == d else of_fold  # all: the same model
        differences, errors = curve.over_all_features()
        widen = _interval_factor(search)
        shares = curve.shares_lost(widen)
        folds = f"; in the folds {[*of_fold.values()]}" if of_fold else ""
        logger.info("auto keeps %d of %d features%s", size, d, folds)
        columns = (curve.sizes, curve.means.tolist(), differences.tolist(), errors.tolist())
        rows = zip(*columns, shares, strict=True)
        # under constraints several sizes may keep the same features: the chosen one, or the last
        shown = {kept[n]: n for n in [*curve.sizes, size]}
        sizes = [
            dict(zip(_CURVE, (kept[n], *row, *share), strict=True))
            for n, *row, share in rows
            if shown[kept[n]] == n
        ]
        masks = np.array([search.mask(orders[f], n) for f, n in of_fold.items()], dtype=bool)
        stability = stability_of(masks) if len(masks) else None
        names = np.array(problem.schema.features)
        return of_ranking(
            RankedPath.from_removals(d, orders[None]),
            problem.schema,
            {
                "sizes": sizes,
                "chosen": size,
                "folds": [names[mask].tolist() for mask in masks],
                "stability": None if stability is None else stability.value,
                "widen": widen,
                "unmasked_loss": float(curve.means[0]),
                "left_first": left_first,
            },
            out_of_fold=held_out.predictions_by(judged) if judged else None,
        )

    def candidates(self, result: SearchResult) -> list[Candidate]:
        chosen = result.facts["chosen"]
        return candidates_at(result, {chosen: []}, chosen)

    def report(self, result: SearchResult) -> dict[str, Any]:
        """Return each removal, the curve of sizes, and how many features each fold keeps."""
        facts = result.facts
        return {
            **super().report(result),
            "widen": facts["widen"],
            "fold_sizes": [len(fold) for fold in facts["folds"]],
            "left_first": facts.get("left_first", {}),  # of earlier releases there is none
        }


@dataclass(frozen=True)
class _Search:
    """Inputs that all fits share; a fold is named by its position in `folds`."""

    refit: Refit  # all rows; none is held out
    folds: tuple[tuple[RowNumbers, RowNumbers], ...]  # fitted on, and held out
    inner: Mapping[int, tuple[int, ...]]  # outer fold -> the folds that order its features
    sizes: tuple[int, ...]
    most: int  # features to keep
    baseline: Floats
    keep: tuple[int, ...]
    is_short: bool  # a single outer fold chooses the size, a single inner fold the order
    feasible: FeasibleMasks | None
    copies: tuple[Index, ...]  # groups of near copies
    bound: tuple[Index, ...]  # groups that constraints keep or leave together
    burden: Floats | None  # how much constraints limit each feature

    @property
    def n_features(self) -> int:
        return len(self.refit.schema.features)

    @property
    def judged(self) -> Collection[int]:
        """Outer folds whose held-out rows judge a choice of their own."""
        return () if self.is_short else self.inner

    def mask(self, order: Sequence[int], size: int) -> Mask:
        """Return the mask of a size on an order of removal; it may be smaller under constraints."""
        if self.feasible is None:
            return mask_of_size(self.n_features, order, size)
        return self.feasible.best(best_first(self.n_features, order), size, size)

    def left_out(self, fold: int) -> _Folds:
        """Return the folds left out of the models that are judged on an outer fold."""
        return _in_order(fold, *self.inner[fold]) if self.is_short else (fold,)

    def index_outside(self, folds: _Folds) -> Index:
        """Return the rows that all of the folds fit on."""
        first, *others = (self.folds[fold][0].index for fold in folds)
        for index in others:
            is_in = np.zeros(len(self.refit.train), dtype=bool)
            is_in[index] = True
            first = first[is_in[first]]
        return first

    def model(self, folds: _Folds, mask: Mask) -> FittedModel:
        """Return a model of a mask's features, fitted on the rows outside a fold or two."""
        rows, schema = self.refit.train.take(self.index_outside(folds), mask), self.refit.schema
        return self.refit.recipe.fit(rows, schema.select(mask))

    def held_out(self, fold: int) -> Rows:
        return self.refit.train.take(self.folds[fold][1].index)

    def truth(self, fold: int) -> tuple[NDArray[Any], Floats | None]:
        """Return the targets and weights of the rows that a fold holds out."""
        rows, index = self.refit.train, self.folds[fold][1].index
        return rows.y[index], None if rows.weight is None else rows.weight[index]


def _search_of(method: Auto, problem: Problem) -> _Search:
    near_copies = problem.near_copies  # which reads the rows: before they are held here
    rows = problem.rows(*_DEVELOPMENT)
    folds = tuple(
        (fit, held[: problem.settings.mask_rows]) for fit, held in problem.folds(*_DEVELOPMENT)
    )
    is_short = method._is_short(len(rows))
    # in time order the first folds are fitted on rows that hold no other fold
    inside = {
        f: [g for g in range(len(folds)) if np.isin(folds[g][1], fitted).all()]
        for f, (fitted, _) in enumerate(folds)
    }
    inner = _inner_folds(inside, 1 if is_short else _INNER_FOLDS)
    if is_short:
        inner = {max(inner): inner[max(inner)]}
    schema, keep, feasible = problem.schema, problem.keep, problem.feasible
    d, fewest = len(schema.features), max(1, len(keep))
    most = d if method.n_features is None else max(method.n_features, fewest)
    if feasible is not None:
        fewest = max(fewest, feasible.fewest or 0)
        # the model with all features is judged although no choice may have them all
        most = most if feasible.allow(np.ones(d, dtype=bool)) else min(most, d - 1)
    bound = () if feasible is None else tuple(feasible.all_or_none())
    alike = [np.setdiff1d(group, [*chain(*bound)]) for group in near_copies]
    copies = tuple(group for group in alike if len(group) > 1)
    top = most if most < d else min(d - 1, round(_FIRST_STEP * d))
    sizes = set(_sizes_down(top, fewest) if top >= fewest else ())
    if method.exactly:
        sizes = {most} - {d}
    return _Search(
        Refit(rows, rows.take(slice(0)), schema, problem.recipe, problem.loss),
        tuple((packed_index(rows, fit), packed_index(rows, held)) for fit, held in folds),
        inner,
        (d, *sorted(sizes, reverse=True)),
        most,
        problem.baseline,
        keep,
        is_short,
        feasible,
        copies,
        bound,
        None if feasible is None else feasible.burden,
    )


def _sizes_down(n_features: int, fewest: int) -> list[int]:
    """Return the numbers of features that are refitted at most, from all down to the fewest."""
    sizes = [n_features]
    while sizes[-1] > fewest:
        sizes.append(max(fewest, min(sizes[-1] - 1, round(_STEP * sizes[-1]))))
    return sizes


def _inner_folds(inside: Mapping[int, Sequence[int]], n_inner: int) -> dict[int, _Folds]:
    """Return the nearest folds of each outer fold, of those that lie inside the rows it fits on."""
    others = {f: [g for g in folds if g != f] for f, folds in inside.items()}
    return {
        f: tuple(sorted(folds, key=lambda g: abs(g - f)))[:n_inner]
        for f, folds in others.items()
        if folds
    }


def _pairs(inner: Mapping[int, _Folds]) -> list[_Folds]:
    return sorted({_in_order(f, g) for f, others in inner.items() for g in others})


def _in_order(*folds: int) -> _Folds:
    return tuple(sorted(folds))


def _folds_to_leave_out(search: _Search) -> list[_Folds]:
    """Return the folds left out of each model with all features: single folds, and pairs."""
    single = () if search.is_short else range(len(search.folds))
    return [*((f,) for f in single), *_pairs(search.inner)]


def _model(search: _Search, folds: _Folds) -> FittedModel:
    return search.model(folds, np.ones(search.n_features, dtype=bool))


def _orders(
    search: _Search, problem: Problem, models: Mapping[_Folds, FittedModel], on_order: OnDone
) -> dict[int | None, CrossFittedOrder]:
    """Return the order of removal of each outer fold, and under None that of all rows."""
    judges = {
        f: [(models[_in_order(f, g)], g) for g in others] for f, others in search.inner.items()
    }
    every = [] if search.is_short else [[(models[f,], f) for f in range(len(search.folds))]]
    items = [*judges.values(), *every]
    orders = problem.workers.map(_order, search, items, on_order)
    return {**dict(zip(judges, orders, strict=False)), None: orders[-1]}


def _order(search: _Search, judges: Sequence[tuple[FittedModel, int]]) -> CrossFittedOrder:
    judged = [_judge(search, model, fold) for model, fold in judges]
    return cross_fitted_order(judged, search.keep, search.copies, search.bound, search.burden)


def _judge(search: _Search, model: FittedModel, fold: int) -> FoldJudge:
    rows = search.held_out(fold).in_memory()
    engine = masked_loss(model, rows, search.refit.loss, search.baseline)
    importances = model.importances()
    # boosters keep gains in float32, which overflows for targets of very large values
    if importances is None or not np.isfinite(importances).all():  # use increases of the loss
        importances = np.maximum(engine.without_each() - engine.loss, 0)
    weight = float(len(rows) if rows.weight is None else rows.weight.sum())
    off_loss = attributions(model, rows, search.refit.loss)
    if off_loss is not None and not np.isfinite(off_loss).all():
        off_loss = None
    return FoldJudge(engine, weight, importances, model.used_features, off_loss)


@dataclass(frozen=True)
class _Blocks:
    """Rows in an order, and the blocks that part it; no unit, such as a group, is in two."""

    order: Index
    slices: tuple[slice, ...]

    @classmethod
    def of(cls, unit: Index) -> Self:
        """Return blocks of n rows from the unit of each row, (n,)."""
        _, number = np.unique(unit, return_inverse=True)
        n_units = int(number.max()) + 1
        block = number * min(_BLOCKS, n_units) // n_units
        ends = np.cumsum(np.bincount(block)).tolist()
        return cls(np.argsort(block, kind="stable"), tuple(map(slice, [0, *ends[:-1]], ends)))


def _taken_off(search: _Search, item: tuple[FittedModel, int, _Blocks]) -> Floats | None:
    """Return what each feature takes off the loss of a fold's rows, by block (b, d)."""
    model, fold, blocks = item
    rows = search.held_out(fold).in_memory().take(blocks.order)
    taken = attributions_by_block(model, rows, search.refit.loss, blocks.slices)
    return taken if taken is None or np.isfinite(taken).all() else None


class _HeldOut:
    """Predictions and losses of the rows that the outer folds hold out, by fold and size.

    The best constant has size 0.
    """

    def __init__(
        self,
        search: _Search,
        problem: Problem,
        models: Mapping[_Folds, FittedModel],
        *,
        needs_attributions: bool,
    ) -> None:
        self._search, self._problem = search, problem
        self._units = problem.units(*_DEVELOPMENT)
        self._predictions: dict[tuple[int, int], Floats] = {}
        self._losses: dict[tuple[int, int], Floats] = {}
        self._masks: dict[tuple[int, int], Mask] = {}
        self._blocks = {f: _Blocks.of(self._units[search.folds[f][1].index]) for f in search.inner}
        items = [(models[search.left_out(f)], f, blocks) for f, blocks in self._blocks.items()]
        self._taken_off: list[Floats | None] = []
        if needs_attributions:
            self._taken_off = problem.workers.map(_taken_off, search, items)
        for model, f, _ in items:
            self._masks[f, search.n_features] = np.ones(search.n_features, dtype=bool)
            self._add(f, search.n_features, search.held_out(f).predicted_by(model))
            self._add(f, 0, self._constant(f))

    def refit(
        self, orders: Mapping[int | None, Sequence[int]], on_fit: OnDone
    ) -> Generator[SizeCurve, None, None]:
        """Refit outside each outer fold on the features that leave last, from the smallest size.

        Yields the curve after every `_SIZES_AT_ONCE` sizes. Workers without work refit larger sizes
        meanwhile; their losses join the curve in their turn, so that the number of workers does not
        change the choice.
        """
        search = self._search
        items = [(f, size) for size in search.sizes[:0:-1] for f in search.inner]
        masks = [(f, search.mask(orders[f], size)) for f, size in items]
        n_at_once = _SIZES_AT_ONCE * len(search.inner)
        turns = [range(len(items))[i : i + n_at_once] for i in range(0, len(items), n_at_once)]
        ready: dict[int, Floats] = {}
        refitted = self._problem.workers.as_done(_refit_and_predict, search, masks)
        with closing(refitted) as results:
            for n_done, (number, predictions) in enumerate(results, 1):
                ready[number] = predictions
                on_fit(n_done, len(items))
                while turns and ready.keys() >= set(turns[0]):
                    for i in turns.pop(0):
                        (f, mask), (_, size) = masks[i], items[i]
                        self._masks[f, size] = mask
                        self._add(f, size, ready.pop(i))
                    yield self.curve()

    def curve(self) -> SizeCurve:
        """Return the losses of each size so far."""
        search, folds = self._search, [*self._search.inner]
        *sizes, constant = sorted({size for _, size in self._losses}, reverse=True)
        truths = [search.truth(f) for f in folds]
        weights = [np.ones(len(y)) if weight is None else weight for y, weight in truths]
        units = [self._units[search.folds[f][1].index] for f in folds]
        if not search.refit.loss.is_mean_over_rows:  # a score has a single loss for a fold
            weights = [weight.sum(keepdims=True) for weight in weights]
            units = [np.array([f]) for f in folds]
        return SizeCurve(
            tuple(sizes),
            np.array([self._concatenate(self._losses, size) for size in sizes]),
            self._concatenate(self._losses, constant),
            np.concatenate(weights),
            np.unique(np.concatenate(units), return_inverse=True)[1],
            np.repeat(folds, [len(weight) for weight in weights]),
            self._leaving(sizes),
        )

    def _leaving(self, sizes: Sequence[int]) -> Leaving | None:
        """Return what leaves with each size; None where attributions are not known, or not needed.

        Of a group of near copies nothing leaves as long as one of them is kept.
        """
        search = self._search
        if not self._taken_off:
            return None
        sums, weights, of_fold = [], [], []
        for f, taken in zip(search.inner, self._taken_off, strict=True):
            if taken is None:
                return None
            left = np.array([~self._masks[f, size] for size in sizes])
            for group in search.copies:
                left[:, group] &= left[:, group].all(axis=1, keepdims=True)
            y, weight = search.truth(f)
            blocks = self._blocks[f]
            of_row = np.ones(len(y)) if weight is None else weight[blocks.order]
            sums.append((left @ taken.T) * of_row.sum())
            weights.append([of_row[block].sum() for block in blocks.slices])
            of_fold += [f] * len(taken)
        return Leaving(np.hstack(sums), np.concatenate(weights), np.array(of_fold))

    def predictions_by(self, of_fold: Mapping[int, int]) -> pa.Table:
        """Return the predictions of every row held out, with the choice of its fold."""
        sizes_of = {
            "all_features": dict.fromkeys(of_fold, self._search.n_features),
            "selected": of_fold,
            "constant": dict.fromkeys(of_fold, 0),
        }
        columns = {
            name: pa.array(list(np.concatenate([self._predictions[key] for key in sizes.items()])))
            for name, sizes in sizes_of.items()
        }
        rows = [self._search.folds[f][1].index for f in of_fold]
        fold = np.repeat(list(of_fold), list(map(len, rows)))
        return pa.table({"row": np.concatenate(rows), "fold": fold, **columns})

    def _add(self, fold: int, size: int, predictions: Floats) -> None:
        loss, (y, weight) = self._search.refit.loss, self._search.truth(fold)
        if loss.is_mean_over_rows:
            losses = loss.per_row(y, predictions)
        else:
            losses = np.array([loss(y, predictions, weight)])
        if size:
            check_finite(loss.name, losses, size, self._search.n_features)
        self._predictions[fold, size], self._losses[fold, size] = predictions, losses

    def _concatenate(self, losses: Mapping[tuple[int, int], Floats], size: int) -> Floats:
        return np.concatenate([losses[f, size] for f in self._search.inner])

    def _constant(self, fold: int) -> Floats:
        """Return the predictions of a fold's rows by the best constant of the rows outside."""
        search, refit = self._search, self._search.refit
        index, n_rows = search.index_outside(search.left_out(fold)), len(search.folds[fold][1])
        y, weight = refit.train.y[index], refit.train.weight
        weight = None if weight is None else weight[index]
        return constant_prediction(refit.loss, y, weight, n_rows, refit.schema.n_classes)


def _refit_and_predict(search: _Search, item: tuple[int, Mask]) -> Floats:
    fold, mask = item
    model = search.model(search.left_out(fold), mask)
    return search.refit.train.take(search.folds[fold][1].index, mask).predicted_by(model)


def _interval_factor(search: _Search) -> float:
    return widening(
        (len(search.index_outside(search.left_out(f))), len(search.folds[f][1]))
        for f in search.inner
    )

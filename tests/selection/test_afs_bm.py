"""AFS-BM: what Algorithm 1 says, on models that are trained, and on losses worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.elimination.afs_bm import Rules, alternate
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import BlackBox, MaskEvaluator, masked_loss
from tests.selection.priced_loss import Priced

SQUARED = Loss("squared_error", "regression")
LIGHTGBM = {"n_estimators": 12, "num_leaves": 7, "min_child_samples": 5}


# A plain loop that trains and predicts


def rows_of(seed, n=160, d=9):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) + 0.3 * random.normal(size=(n, 1))
    y = X[:, 0] - 2 * X[:, 2] + X[:, 3] * X[:, 5] + 0.3 * random.normal(size=n)
    rows = Rows(X, y)
    return rows.take(slice(0, n // 2)), rows.take(slice(n // 2, n))


def fitted(name, rows, mask):
    schema = Schema(tuple(f"x{j}" for j in range(len(mask))), (0,) * len(mask))
    parameters = {"lightgbm": LIGHTGBM, "xgboost": {"n_estimators": 8}, "mlp": {"max_iter": 15}}
    settings = parameters.get(name, {})
    return models.fit(name, rows.select(mask), schema.select(mask), settings, seed=0)


def plain(name, train, held_out, baseline, rules, seed, keep=()):
    """Algorithm 1 as it is written: a fit each round, and a predict on the masked table."""
    random, d = np.random.default_rng(seed), len(baseline)
    mask, rounds, n_unchanged, very_first = np.ones(d, dtype=bool), [], 0, None
    while n_unchanged < rules.patience:
        model, features = fitted(name, train, mask), np.flatnonzero(mask)
        table = held_out.X.copy()

        def loss(model=model, features=features, table=table):
            return SQUARED(held_out.y, model.predict(table[:, features]))

        trained = last = loss()
        very_first = trained if very_first is None else very_first
        tried, losses, rejected, removed = [], [], [], []
        for j in random.permutation([j for j in features if j not in keep]).tolist():
            column = table[:, j].copy()
            table[:, j] = baseline[j]
            tried.append(j)
            losses.append(loss())
            n_kept = len(features) - len(removed)
            # equation 5, on the scale of `penalty`
            now, before, at_first = (
                value + rules.penalty * n / d
                for value, n in ((losses[-1], n_kept - 1), (last, n_kept), (very_first, d))
            )
            is_within = now <= before * (1 + rules.slack)
            if rules.drift_cap is not None:
                is_within = is_within and now <= at_first * (1 + rules.drift_cap)
            if is_within and len(removed) + 1 < len(features):
                last = losses[-1]
                removed.append(j)
                continue
            table[:, j] = column
            rejected.append(j)
            if len(rejected) == rules.rejections:
                break
        mask[removed] = False
        n_unchanged = 0 if removed else n_unchanged + 1
        rounds.append((trained, tried, losses, rejected, removed, last, mask.tolist()))
    return rounds


def walked(name, train, held_out, baseline, rules, seed, engine=masked_loss, **options):
    def trained(mask):
        model = fitted(name, train, mask)
        return engine(model, held_out.select(mask), SQUARED, baseline[mask])

    return alternate(trained, np.ones(len(baseline), dtype=bool), rules, seed, **options)


def as_plain(walk):
    return [
        (
            one.trained_loss, list(one.tried), list(one.losses), list(one.rejected),
            list(one.removed), one.loss, one.mask.tolist(),
        )
        for one in walk.rounds
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "rules", "keep"),
    [
        ("lightgbm", Rules(0.02, 3, 2), ()),
        ("lightgbm", Rules(0.1, 2, 3, drift_cap=0.05), (1,)),
        ("xgboost", Rules(0.05, 4, 1), ()),
        ("linear", Rules(0.01, 2, 2), (4,)),
        ("mlp", Rules(0.03, 3, 2, drift_cap=0.5), ()),
        ("KNeighborsRegressor", Rules(0.02, 3, 2), ()),
        ("linear", Rules(0.0, 3, 2, penalty=1.0), ()),
        ("lightgbm", Rules(0.01, 3, 2, drift_cap=0.2, penalty=0.5), ()),
    ],
)
def test_the_walk_is_that_of_a_loop_that_trains_and_predicts(name, rules, keep, seed) -> None:
    train, held_out = rows_of(seed)
    baseline = train.X.mean(axis=0)
    expected = plain(name, train, held_out, baseline, rules, seed, keep)
    walk = walked(name, train, held_out, baseline, rules, seed, keep=keep)
    assert len(walk.rounds) == len(expected) > rules.patience
    for ours, theirs in zip(as_plain(walk), expected, strict=True):
        for at in (1, 3, 4, 6):  # what was tried, put back and removed, and what is kept
            assert ours[at] == theirs[at]
        for at in (0, 2, 5):
            np.testing.assert_allclose(ours[at], theirs[at], rtol=1e-6, atol=1e-12)


# Losses worked out by hand


class Training:
    """Trains by looking prices up; keeps the masks that it was asked to train on."""

    def __init__(self, prices, floor=1.0, floors=None):
        self.prices, self.floor, self.floors, self.masks = np.array(prices), floor, floors, []

    def __call__(self, mask):
        self.masks.append(mask.copy())
        floor = self.floor if self.floors is None else self.floors[len(self.masks) - 1]
        return Priced(self.prices[mask], floor)


def everything(d):
    return np.ones(d, dtype=bool)


def walk_of(prices, rules, seed=0, *, floor=1.0, floors=None, **options):
    training = Training(prices, floor, floors)
    return alternate(training, everything(len(prices)), rules, seed, **options), training


def test_what_costs_nothing_leaves_in_one_round_and_what_costs_much_stays() -> None:
    walk, training = walk_of([0, 9, 0, 0, 9, 0], Rules(0.0, 3, 2))
    assert walk.mask.tolist() == [False, True, False, False, True, False]
    first, *others = walk.rounds
    assert set(first.removed) == {0, 2, 3, 5}
    assert set(first.rejected) == {1, 4}
    assert [one.removed for one in others] == [(), ()]
    assert [mask.sum() for mask in training.masks] == [6, 2]
    assert walk.n_trainings == 2


@pytest.mark.parametrize("rejections", [1, 2, 3])
def test_a_round_ends_at_so_many_rejections_and_the_next_begins_to_count_again(rejections) -> None:
    walk, _ = walk_of([9.0] * 6, Rules(0.0, rejections, 4))
    assert [len(one.rejected) for one in walk.rounds] == [rejections] * 4
    assert all(one.tried == one.rejected for one in walk.rounds)


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_the_search_ends_after_so_many_rounds_in_a_row_that_mask_nothing(patience) -> None:
    walk, training = walk_of([0.0] + [9.0] * 9, Rules(0.0, 1, patience), seed=8)
    shrank = [bool(one.removed) for one in walk.rounds]
    assert shrank[-patience:] == [False] * patience
    assert patience == 1 or not any(
        shrank[at : at + patience] == [False] * patience for at in range(len(shrank) - patience)
    )
    assert len(training.masks) == 1 + any(shrank)


def test_a_loss_is_compared_with_the_last_that_was_accepted() -> None:
    walk, _ = walk_of([0.04] * 20, Rules(0.04, 20, 1))
    # 1.00, 1.04, 1.08 ... : each within 4 % of the one before, and not of the first
    assert len(walk.rounds[0].removed) == 19
    assert walk.rounds[0].loss == pytest.approx(1 + 19 * 0.04)


def test_a_penalty_pays_for_what_one_feature_costs() -> None:
    """With equation 5, a feature of d leaves as long as it costs less than 1 / d."""
    prices = [0.09, 0.11, 0.01, 0.2, 0.0, 0.3, 0.099, 0.101, 0.5, 0.05]
    walk, _ = walk_of(prices, Rules(0.0, 10, 2, penalty=1.0))
    assert np.flatnonzero(walk.mask).tolist() == [1, 3, 5, 7, 8]
    without, _ = walk_of(prices, Rules(0.0, 10, 2))
    assert np.flatnonzero(~without.mask).tolist() == [4]


def test_a_drift_cap_compares_with_the_very_first_loss_as_well() -> None:
    capped, _ = walk_of([0.04] * 20, Rules(0.04, 20, 1, drift_cap=0.1))
    assert len(capped.rounds[0].removed) == 2  # 1.08 is within 10 %, 1.12 is not
    later, _ = walk_of([0.04] * 20, Rules(0.04, 20, 1, drift_cap=0.1), floors=[1.0, 1.08])
    assert later.mask.sum() == 18  # the first loss of all, not of the round
    none, _ = walk_of([0.04] * 20, Rules(0.04, 20, 1, drift_cap=0.0))
    assert none.mask.all()


def test_of_a_loss_of_zero_no_share_is_allowed() -> None:
    walk, _ = walk_of([0.0, 1e-300, 0.0, 1.0], Rules(0.5, 4, 2), floor=0.0)
    assert walk.mask.tolist() == [False, True, False, True]
    assert all(one.loss == 0 for one in walk.rounds)


def test_a_slack_loosens_losses_below_zero_too() -> None:
    walk, _ = walk_of([0.05, 0.2, 0.5], Rules(0.1, 3, 1), floor=-1.0)
    assert walk.mask.tolist() == [False, True, True]


def test_the_last_feature_is_put_back() -> None:
    walk, training = walk_of([0.0] * 7, Rules(0.0, 100, 3))
    assert walk.mask.sum() == 1
    first = walk.rounds[0]
    assert len(first.tried) == 7
    assert first.rejected == first.tried[-1:]
    assert walk.mask[first.rejected[0]]
    assert all(mask.any() for mask in training.masks)
    one, _ = walk_of([0.0], Rules(0.0, 1, 2))
    assert one.mask.tolist() == [True]
    assert [r.rejected for r in one.rounds] == [(0,), (0,)]


def test_what_must_be_kept_is_never_tried() -> None:
    walk, _ = walk_of([0.0] * 6, Rules(0.0, 10, 2), keep=(1, 4))
    assert walk.mask.tolist() == [False, True, False, False, True, False]
    assert not {1, 4} & {j for one in walk.rounds for j in one.tried}
    all_kept, _ = walk_of([0.0] * 2, Rules(0.0, 10, 2), keep=(0, 1))
    assert all_kept.mask.all()


def test_a_search_that_would_end_with_too_many_masks_what_costs_least() -> None:
    prices = [5.0, 3.0, 9.0, 4.0, 3.0]
    walk, _ = walk_of(prices, Rules(0.0, 1, 2), at_most=2)
    assert [one.removed for one in walk.rounds] == [(), (1,), (), (4,), (), (3,), (), ()]
    assert walk.rounds[1].loss == 4.0
    kept, _ = walk_of(prices, Rules(0.0, 1, 2), at_most=2, keep=(1,))
    assert kept.mask.tolist() == [False, True, True, False, False]
    enough, _ = walk_of(prices, Rules(0.0, 1, 2), at_most=5)
    assert enough.mask.all()


def test_the_features_to_begin_with_are_all_that_there_is() -> None:
    training = Training([0.0, 9.0, 9.0, 0.0, 9.0])
    start = np.array([True, True, False, True, False])
    walk = alternate(training, start, Rules(0.0, 5, 1), 0)
    assert walk.mask.tolist() == [False, True, False, False, False]
    assert training.masks[0].tolist() == start.tolist()
    assert start.tolist() == [True, True, False, True, False]
    assert {j for one in walk.rounds for j in one.tried} == {0, 1, 3}


def test_each_candidate_is_as_likely_to_be_drawn_first_in_any_round() -> None:
    first = [
        one.tried[0]
        for seed in range(100)
        for one in walk_of([9.0] * 4, Rules(0.0, 1, 6), seed)[0].rounds
    ]
    counts = np.bincount(first, minlength=4)
    assert counts.sum() == 600
    assert abs(counts - 150).max() < 50  # nearly five standard deviations


def test_a_mask_that_did_not_change_is_not_trained_on_again() -> None:
    walk, training = walk_of([0.0] * 3 + [9.0] * 9, Rules(0.0, 1, 5), seed=2)
    masks = [mask.tobytes() for mask in training.masks]
    assert len(masks) == len(set(masks)) == walk.n_trainings < len(walk.rounds)


class Counting(BlackBox):
    """A black box that tells how many masks it was asked about at a time."""

    def __init__(self, evaluator):
        self.asked = []
        super().__init__(evaluator, self.counted)

    def counted(self, masks):
        self.asked.append(len(masks))
        return self.evaluator(masks)


def test_a_black_box_is_asked_about_few_masks_at_a_time() -> None:
    """One after each acceptance, then ever more, but none that the round cannot come to."""
    train, held_out = rows_of(0)
    boxes = []

    def boxed(*given):
        boxes.append(Counting(MaskEvaluator(*given)))
        return boxes[-1]

    rules = Rules(0.0, 4, 3)
    walk = walked("KNeighborsRegressor", train, held_out, np.zeros(9), rules, 0, boxed)
    n_tried = sum(len(one.tried) for one in walk.rounds)
    n_asked = sum(map(sum, (box.asked for box in boxes)))
    assert max(max(box.asked) for box in boxes) == 2
    assert n_asked <= 2 * n_tried


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rules": (-0.1, 1, 1)}, "slack must be at least 0 but is -0.1"),
        ({"rules": (float("nan"), 1, 1)}, "slack must be at least 0 but is nan"),
        ({"rules": (0.1, 0, 1)}, "rejections must be at least 1 but is 0"),
        ({"rules": (0.1, 1, 0)}, "patience must be at least 1 but is 0"),
        ({"rules": (0.1, 1, 1, -1)}, "drift_cap must be at least 0 but is -1"),
        ({"rules": (0.1, 1, 1, None, -1)}, "penalty must be at least 0 but is -1"),
        ({"start": [False] * 3}, "start must keep at least 1 of 3 features but keeps none"),
        ({"keep": (3,)}, r"keep must name features of start but is \[3\]"),
        ({"keep": (1,), "start": [True, False, True]}, r"features of start but is \[1\]"),
        ({"keep": (0, 1), "at_most": 1}, r"at_most must be in 2..3 but is 1"),
        ({"at_most": 4}, r"at_most must be in 1..3 but is 4"),
    ],
)
def test_what_cannot_be_is_refused(options, said) -> None:
    given = {"rules": (0.1, 1, 1), "start": [True] * 3, **options}
    with pytest.raises(ValueError, match=said):
        alternate(
            Training([1.0] * 3),
            np.array(given.pop("start")),
            Rules(*given.pop("rules")),
            0,
            **given,
        )

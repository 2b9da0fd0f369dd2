"""The gate: a truth table of what is promoted by itself, what stays, and what a person decides."""

from dataclasses import replace

import pytest

from chaffinch import InputError, PromotionSettings
from chaffinch.storage.runs.promotions import Promotion
from chaffinch.tasks.promotion.difference import Difference, LossDifference
from chaffinch.tasks.promotion.gate import decide
from chaffinch.tasks.statistics.drift import FeatureDrift
from tests.tasks.snapshots import check_snapshot

LAST = Promotion("former", "0" * 64, "2026-08-01T00:00:00+00:00", "by hand", "")
LOSS = LossDifference(
    name="squared_error",
    before=2.0,
    after=1.8,
    difference=-0.2,
    interval=(-0.3, -0.1),
    confidence=0.95,
    units=100,
    verdict="better",
    tolerance=0.02,
    share_lost_at_most=-0.1,
    halved_by={},
)
# Ten features before and ten after, of which one is another: 2 of 11 changed.
ONE_CHANGED = Difference(
    before="former",
    after="newer",
    n_before=10,
    n_after=10,
    gained=("b",),
    lost=("a",),
    share_changed=2 / 11,
    gone={},
    target_change="",
    leaks=(),
    new_leaks=(),
    loss=LOSS,
    why_no_loss="",
    drift=(),
    why_no_drift="",
)


def with_interval(low, high, verdict, **changed):
    loss = replace(LOSS, difference=(low + high) / 2, interval=(low, high), verdict=verdict)
    return replace(ONE_CHANGED, loss=replace(loss, share_lost_at_most=high / 5), **changed)


SMALLER = {"gained": (), "n_after": 9, "share_changed": 0.1}
LARGER = {"lost": (), "n_after": 11, "share_changed": 1 / 11}
NONE_CHANGED = {"gained": (), "lost": (), "share_changed": 0.0, "loss": None}

UNSEEN = FeatureDrift("c", "total variation", 0.3, 0, 0, 100, 100, unseen_after=0.25)
RESCALED = FeatureDrift("c", "Kolmogorov-Smirnov", 1.0, 0.0, 0.0, 100, 100, 1.5, 150.0)
EMPTIED = FeatureDrift("c", "Kolmogorov-Smirnov", 0.1, 0.02, 0.95, 980, 50)

BETTER, AS_GOOD, WORSE, OPEN = "better", "as good with fewer columns", "worse", "cannot tell"
TABLE = [
    # what the loss does, and how the sets differ             -> what happens
    (with_interval(-0.3, -0.1, BETTER), "promote"),
    (with_interval(-0.3, -0.1, BETTER, **LARGER), "promote"),
    (with_interval(-0.3, -0.1, OPEN), "keep"),
    (with_interval(-0.3, 0.0, OPEN), "keep"),
    (with_interval(0.1, 0.3, WORSE), "keep"),
    (with_interval(0.01, 0.05, WORSE, **SMALLER), "keep"),
    # fewer features that lose no more than is tolerated
    (with_interval(-0.3, 0.09, AS_GOOD, **SMALLER), "keep"),
    (with_interval(-0.3, 0.11, OPEN, **SMALLER), "keep"),
    (with_interval(-0.3, 0.1, OPEN, **LARGER), "keep"),
    # worth it, but not harmless
    (with_interval(-0.3, -0.1, BETTER, share_changed=0.3), "promote"),
    (with_interval(-0.3, -0.1, BETTER, share_changed=0.31), "wait"),
    (with_interval(-0.3, -0.1, BETTER, leaks=("b",)), "wait"),
    (replace(ONE_CHANGED, loss=replace(LOSS, halved_by={"b": 0.912})), "wait"),
    (with_interval(-0.3, -0.1, BETTER, **{**SMALLER, "share_changed": 0.4}), "wait"),
    # not worth it, harmless or not: nobody is asked
    (with_interval(-0.3, 0.1, OPEN, share_changed=0.9), "keep"),
    (with_interval(0.1, 0.3, WORSE, leaks=("b",)), "keep"),
    # nothing to decide, or nothing to decide by
    (replace(ONE_CHANGED, **NONE_CHANGED), "keep"),
    (replace(ONE_CHANGED, **NONE_CHANGED, leaks=("c",)), "keep"),
    (replace(ONE_CHANGED, **NONE_CHANGED, leaks=("c", "d"), new_leaks=("d",)), "wait"),
    (with_interval(0.1, 0.3, WORSE, leaks=("d",), new_leaks=("d",)), "wait"),
    (with_interval(0.1, 0.3, WORSE, leaks=("b",), new_leaks=("b",)), "keep"),
    (replace(ONE_CHANGED, gone={"a": "constant"}), "wait"),
    (replace(ONE_CHANGED, target_change="has other classes (new: 'b')"), "wait"),
    (replace(ONE_CHANGED, **NONE_CHANGED, target_change="has other classes (new: 'b')"), "wait"),
    (replace(ONE_CHANGED, **NONE_CHANGED, gone={"c": "was a number, is a category now"}), "wait"),
    # less than a tenth of the values is left
    (replace(ONE_CHANGED, **NONE_CHANGED, drift=(EMPTIED,)), "wait"),
    (with_interval(-0.3, -0.1, BETTER, drift=(EMPTIED,)), "wait"),
    (with_interval(-0.3, -0.1, BETTER, drift=(replace(EMPTIED, feature="b"),)), "promote"),
    (with_interval(-0.3, -0.1, BETTER, drift=(replace(EMPTIED, missing_after=0.9),)), "promote"),
    # of 20 rows one value more or less is chance
    (with_interval(-0.3, -0.1, BETTER, drift=(replace(EMPTIED, values_after=1),)), "promote"),
    # 30 times as large or more: perhaps another unit, whatever the loss does
    (with_interval(-0.3, -0.1, BETTER, drift=(RESCALED,)), "wait"),
    (replace(ONE_CHANGED, **NONE_CHANGED, drift=(RESCALED,)), "wait"),
    (with_interval(-0.3, -0.1, BETTER, drift=(replace(RESCALED, feature="b"),)), "promote"),
    (with_interval(-0.3, -0.1, BETTER, drift=(replace(RESCALED, reach_after=44),)), "promote"),
    # a quarter of the values or more are in categories not seen before
    (replace(ONE_CHANGED, **NONE_CHANGED, drift=(UNSEEN,)), "wait"),
    (with_interval(-0.3, -0.1, BETTER, drift=(replace(UNSEEN, unseen_after=0.24),)), "promote"),
    # less than half as much is explained, surely: of the worse end of both intervals
    (replace(ONE_CHANGED, **NONE_CHANGED, explained=((0.5, 0.6), (0.1, 0.24))), "wait"),
    (with_interval(-0.3, -0.1, BETTER, explained=((0.5, 0.6), (-0.2, -0.1))), "wait"),
    (with_interval(-0.3, -0.1, BETTER, explained=((0.5, 0.6), (0.1, 0.25))), "promote"),
    (with_interval(-0.3, -0.1, BETTER, explained=((0.0, 0.6), (-0.4, -0.2))), "promote"),
    (replace(ONE_CHANGED, loss=replace(LOSS, units=19)), "wait"),
    (replace(ONE_CHANGED, loss=replace(LOSS, units=20)), "promote"),
    (replace(ONE_CHANGED, loss=None, why_no_loss="no table"), "wait"),
]  # fmt: skip


@pytest.mark.parametrize(("difference", "outcome"), TABLE)
def test_the_truth_table(difference, outcome):
    assert decide(difference, LAST, PromotionSettings()).outcome == outcome


def test_every_decision_has_its_reason():
    decisions = [decide(difference, LAST, PromotionSettings()) for difference, _ in TABLE]
    check_snapshot("promotion gate", (f"{one.outcome}: {one.reason}" for one in decisions))


def test_the_first_contract_and_one_that_cannot_be_read_are_for_a_person():
    for last, reason in (
        (None, "all later contracts are measured against the first"),
        (LAST, "the promoted contract, of former, cannot be read."),
    ):
        decision = decide(None, last, PromotionSettings(most_changed=1))
        assert decision.outcome == "wait"
        assert reason in decision.reason


def test_the_first_contract_says_what_leak_it_rests_on():
    decision = decide(None, None, PromotionSettings(), leaks=["total_with_tax"])
    assert decision.reason.startswith(
        "the selection rests on 'total_with_tax', which may be a leak"
    )


def test_after_a_rollback_nothing_is_promoted_until_a_person_did():
    better = with_interval(-0.3, -0.1, BETTER)
    for how, outcome in (("rollback", "wait"), ("by hand", "promote"), ("automatic", "promote")):
        last = replace(LAST, how=how)
        assert decide(better, last, PromotionSettings()).outcome == outcome
    no_better = decide(
        with_interval(-0.3, 0.1, OPEN), replace(LAST, how="rollback"), PromotionSettings()
    )
    assert no_better.outcome == "keep"


def test_what_is_set_moves_the_limits():
    half = with_interval(-0.3, -0.1, BETTER, share_changed=0.5)
    assert decide(half, LAST, PromotionSettings(most_changed=0.5)).outcome == "promote"
    assert decide(ONE_CHANGED, LAST, PromotionSettings(most_changed=0)).outcome == "wait"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"most_changed": 1.5}, "most_changed must be at most 1"),
        ({"wait": 0}, "wait must be above 0"),
        ({"name": "a b"}, "a name must be 1..115 of"),
        ({"names": "x"}, "there is no setting 'names'"),
    ],
)
def test_settings_that_cannot_be(setting, message):
    with pytest.raises(InputError, match=message):
        PromotionSettings(**setting)

"""The gate: a truth table of what is promoted by itself, what stays, and what a person decides."""

from dataclasses import replace

import pytest

from chaffinch import InputError, PromotionSettings
from chaffinch.storage.runs.promotions import Promotion
from chaffinch.tasks.promotion.difference import Difference, LossDifference
from chaffinch.tasks.promotion.gate import decide

LAST = Promotion("former", "0" * 64, "2026-08-01T00:00:00+00:00", "by hand", "")
LOSS = LossDifference("squared_error", 2.0, 1.8, -0.2, (-0.3, -0.1), 0.95, 100)
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
    telling=(),
    loss=LOSS,
    why_no_loss="",
    drift=(),
    why_no_drift="",
)


def with_interval(low, high, **changed):
    loss = replace(LOSS, difference=(low + high) / 2, interval=(low, high))
    return replace(ONE_CHANGED, loss=loss, **changed)


SMALLER = {"gained": (), "n_after": 9, "share_changed": 0.1}
LARGER = {"lost": (), "n_after": 11, "share_changed": 1 / 11}
NONE_CHANGED = {"gained": (), "lost": (), "share_changed": 0.0, "loss": None}

TABLE = [
    # what the loss does, and how the sets differ             -> what happens, and why
    (with_interval(-0.3, -0.1), "promote", "its test loss is lower: difference -0.2, 95% int"),
    (with_interval(-0.3, -0.1, **LARGER), "promote", "its test loss is lower"),
    (with_interval(-0.3, 0.0), "keep", "nothing shows that the new set is better: diff"),
    (with_interval(-0.1, 0.3), "keep", "nothing shows that the new set is better"),
    (with_interval(0.1, 0.3), "keep", "the new set's test loss is higher"),
    (with_interval(0.01, 0.05, **SMALLER), "keep", "the new set's test loss is higher"),
    # at most 5 % of 2.0 worse is as good, where there are fewer features
    (with_interval(-0.3, 0.1, **SMALLER), "promote", "with fewer features its test loss"),
    (with_interval(-0.3, 0.11, **SMALLER), "keep", "nothing shows that the new set, though"),
    (with_interval(-0.3, 0.1, **LARGER), "keep", "nothing shows that the new set is better"),
    # worth it, but not harmless
    (with_interval(-0.3, -0.1, share_changed=0.3), "promote", "its test loss is lower"),
    (with_interval(-0.3, -0.1, share_changed=0.31), "wait", "31 % of the features change, of 30 %"),
    (with_interval(-0.3, -0.1, telling=("b",)), "wait", "'b' alone predicts the target, and may"),
    # not worth it, harmless or not: nobody is asked
    (with_interval(-0.3, 0.1, share_changed=0.9), "keep", "nothing shows that the new set is bet"),
    (with_interval(0.1, 0.3, telling=("b",)), "keep", "the new set's test loss is higher"),
    # nothing to decide, or nothing to decide by
    (replace(ONE_CHANGED, **NONE_CHANGED), "keep", "the run keeps the same features."),
    (replace(ONE_CHANGED, gone={"a": "constant"}), "wait", "the newer rows lack 'a'"),
    (replace(ONE_CHANGED, **NONE_CHANGED, gone={"c": "was a number, is a category now"}), "wait",
     "the newer rows lack 'c' of the promoted set"),
    (replace(ONE_CHANGED, loss=replace(LOSS, units=19)), "wait", "19 test rows, groups or blocks"),
    (replace(ONE_CHANGED, loss=replace(LOSS, units=20)), "promote", "its test loss is lower"),
    (replace(ONE_CHANGED, loss=None, why_no_loss="no table"), "wait",
     "the loss cannot be compared: no table."),
]  # fmt: skip


@pytest.mark.parametrize(("difference", "outcome", "reason"), TABLE)
def test_the_truth_table(difference, outcome, reason):
    decision = decide(difference, LAST, PromotionSettings())
    assert (decision.outcome, decision.reason[: len(reason)]) == (outcome, reason)
    assert decision.reason.endswith(".")


def test_the_first_contract_is_for_a_person():
    decision = decide(None, None, PromotionSettings(most_changed=1, tolerance=10))
    assert decision.outcome == "wait"
    assert "all later contracts are measured against the first" in decision.reason


def test_what_is_promoted_and_cannot_be_read_is_for_a_person():
    decision = decide(None, LAST, PromotionSettings(most_changed=1, tolerance=10))
    assert decision.outcome == "wait"
    assert decision.reason == "the promoted contract, of former, cannot be read."


def test_after_a_rollback_nothing_is_promoted_until_a_person_did():
    better = with_interval(-0.3, -0.1)
    for how, outcome in (("rollback", "wait"), ("by hand", "promote"), ("automatic", "promote")):
        last = replace(LAST, how=how)
        assert decide(better, last, PromotionSettings()).outcome == outcome
    no_better = decide(with_interval(-0.3, 0.1), replace(LAST, how="rollback"), PromotionSettings())
    assert no_better.outcome == "keep"


def test_what_is_set_moves_the_limits():
    half = with_interval(-0.3, -0.1, share_changed=0.5)
    assert decide(half, LAST, PromotionSettings(most_changed=0.5)).outcome == "promote"
    assert decide(ONE_CHANGED, LAST, PromotionSettings(most_changed=0)).outcome == "wait"
    smaller = with_interval(-0.3, 0.1, **SMALLER)
    assert decide(smaller, LAST, PromotionSettings(tolerance=0.04)).outcome == "keep"
    assert decide(smaller, LAST, PromotionSettings(tolerance=0.06)).outcome == "promote"


def test_a_negated_score_has_its_tolerance_by_its_size():
    scored = replace(LOSS, before=-0.9, difference=0.0, interval=(-0.02, 0.02))
    smaller = replace(ONE_CHANGED, **{**SMALLER, "loss": scored})
    assert decide(smaller, LAST, PromotionSettings(tolerance=0.03)).outcome == "promote"
    assert decide(smaller, LAST, PromotionSettings(tolerance=0.02)).outcome == "keep"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"most_changed": 1.5}, "most_changed must be at most 1"),
        ({"tolerance": -1}, "tolerance must be at least 0"),
        ({"wait": 0}, "wait must be above 0"),
        ({"name": "a b"}, "a name must be 1..115 of"),
        ({"names": "x"}, "there is no setting 'names'"),
    ],
)
def test_settings_that_cannot_be(setting, message):
    with pytest.raises(InputError, match=message):
        PromotionSettings(**setting)

"""What is said of certified sets, and of sets that are not."""

import pytest

from chaffinch.tasks.reporting.certified_sets import (
    certificate,
    names_of_sets,
    table_of_certified_sets,
    what_may_be_lost,
    what_would_help,
)


def certified(*sets, bounds=(0.01, 0.015), lost=0.005, **given):
    """Return sets of these features, with a bound each."""
    return {
        "is_shown": True,
        "tau": 0.5,
        "tolerance": 0.02,
        "confidence": 0.95,
        "all_features_loss": 1.0,
        "rows": {"finding": 400, "certifying": 600},
        "units": 600,
        "has_chosen": False,
        "leaks": [],
        "sets": [
            {"features": list(names), "loss": 1.1, "share_lost": lost, "share_lost_at_most": bound}
            for names, bound in zip(sets, bounds, strict=False)
        ],
        "tested": [],
        **given,
    }


@pytest.mark.parametrize(
    ("sets", "in_common", "lost"),
    [
        (("abc", "ade"), "at most 1 feature in common", "but for 'a', which all have."),
        (("ab", "cd"), "nothing in common", "one of these sets does without it."),
    ],
)
def test_each_column_can_be_lost_that_not_all_sets_have(sets, in_common, lost) -> None:
    assert in_common in certificate(certified(*sets))
    assert what_may_be_lost(certified(*sets), {}).endswith(lost)


def test_a_near_copy_can_take_the_place_of_a_column_that_all_sets_have() -> None:
    known = certified("abc", "abd")
    assert what_may_be_lost(known, {"z": ["b"]}).endswith(
        "but for 'a', which all have; a near copy can take its place: 'b'."
    )
    assert what_may_be_lost(known, {"a": ["z"], "b": ["y"]}).endswith(
        "does without it; a near copy can take the place of each: 'a' and 'b'."
    )


@pytest.mark.parametrize(
    ("given", "why", "help_"),
    [
        # (0.03 - 0.005) / (0.02 - 0.005) squared is 2.8
        ({"bounds": (0.01, 0.03)}, "set 2 loses 0.5 %, and at most 3 %", "about 2,800 rows may"),
        ({"bounds": (0.05, 0.04), "lost": 0.03}, "set 1 loses 3 %", "A tolerance of 5 %"),
        ({"bounds": (0.05, 0.04), "has_chosen": True}, "the chosen set loses", "A tolerance of"),
        ({"bounds": (None, None), "lost": None}, "not shown to explain more than", "more rows may"),
        ({"units": 19}, "at least 20 rows, groups or blocks of time", "more rows may"),
        ({}, "not shown to explain more than", "more rows may"),
        ({"leaks": ["a"]}, "there are sets with 'a', which alone predicts the", "Drop what is"),
    ],
)
def test_why_no_set_is_certified_and_what_may_help(given, why, help_) -> None:
    known = certified("ab", "cd", is_shown=False, **given)
    assert certificate(known).startswith("Not certified: 2 sets, any two with nothing in common")
    assert why in certificate(known)
    assert help_ in what_would_help(known)
    assert what_may_be_lost(known, {}) == ""


def test_more_rows_are_no_help_where_the_set_loses_too_much() -> None:
    known = certified("ab", "cd", is_shown=False, bounds=(0.05, 0.04), lost=0.03)
    assert "rows" not in what_would_help(known)


def test_the_chosen_set_has_no_number() -> None:
    known = certified("ab", "cd", has_chosen=True)
    assert names_of_sets(known) == ["chosen", "1"]
    assert "the chosen one among them" in certificate(known)
    rows = table_of_certified_sets(known, "test").rows
    assert [row[0] for row in rows] == ["all features", "chosen", "1"]

"""What is said of certified sets, and of sets that are not."""

from chaffinch.tasks.reporting.certified_sets import (
    certificate,
    names_of_sets,
    table_of_certified_sets,
    what_may_be_lost,
    what_would_help,
)
from tests.tasks.snapshots import check_snapshot


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


def not_certified(**given):
    return certified("ab", "cd", is_shown=False, **given)


CASES = {
    "one column in all sets": (certified("abc", "ade"), {}),
    "nothing in common": (certified("ab", "cd"), {}),
    "a near copy of one": (certified("abc", "abd"), {"z": ["b"]}),
    "a near copy of each": (certified("abc", "abd"), {"a": ["z"], "b": ["y"]}),
    "the chosen set among them": (certified("ab", "cd", has_chosen=True), {}),
    # (0.03 - 0.005) / (0.02 - 0.005) squared is 2.8: so many times as many rows
    "one bound too high": (not_certified(bounds=(0.01, 0.03)), {}),
    "more lost than tolerated": (not_certified(bounds=(0.05, 0.04), lost=0.03), {}),
    "the chosen set loses too much": (not_certified(bounds=(0.05, 0.04), has_chosen=True), {}),
    "no bound": (not_certified(bounds=(None, None), lost=None), {}),
    "few units": (not_certified(units=19), {}),
    "not shown to explain anything": (not_certified(), {}),
    "a leak": (not_certified(leaks=["a"]), {}),
}


def test_what_is_shown_what_may_be_lost_and_what_would_help() -> None:
    lines = []
    for name, (known, copies) in CASES.items():
        said = [certificate(known), what_may_be_lost(known, copies)]
        lines += [f"# {name}", *said, "" if known["is_shown"] else what_would_help(known)]
        lines.append("; ".join(names_of_sets(known)))
        lines += map(" | ".join, table_of_certified_sets(known, "test").rows)
    check_snapshot("certified sets", lines)

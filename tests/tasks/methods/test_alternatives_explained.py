"""What is told of alternatives: what is proven, what they cost, and why there are no more."""

import json
import re

import pytest

import chaffinch
from chaffinch import AlternativeSettings
from chaffinch.tasks.reporting.alternatives import (
    explain_no_alternatives,
    joint_proof,
    price_caption,
    price_chart,
    proof,
    suggest_remedies,
    why_missing,
)
from tests.tasks.methods.synthetic_alternatives import select, two_that_share_nothing
from tests.tasks.reporting.synthetic_report import Page
from tests.tasks.snapshots import check_snapshot


@pytest.fixture(scope="module")
def found() -> chaffinch.SelectionResult:
    return two_that_share_nothing()


IMPOSSIBLE = {
    "tau": ({"n_features": 5}, {"number": 1, "tau": 1}),
    "kept and tau": ({"n_features": 3, "keep": ["a0"]}, {"number": 1, "tau": 1}),
    "at once": ({"n_features": 3}, {"number": 2, "tau": 1, "search": "simultaneous"}),
    "redundant": ({"n_features": 3, "method": "correlation"}, {"number": 1, "quality": "fcbf"}),
    "all features": ({"n_features": 8, "method": "correlation"}, {"number": 1}),
    "no more": ({"n_features": 7, "method": "correlation"}, {"number": 8, "tau": 0.1}),
}


def test_why_there_are_no_more_sets_is_told_with_what_makes_room(found) -> None:
    impossible = {}
    for name, (options, asked) in IMPOSSIBLE.items():
        asked = AlternativeSettings(**{"quality": "mutual_information", **asked})
        impossible[name] = select(alternatives=asked, **options).alternatives
        assert impossible[name]["status"] == "infeasible"
    nothing = found.alternatives | {"sets": [], "status": "not_solved"}
    earlier = {name: value for name, value in nothing.items() if name != "missing"}
    cases = impossible | {
        "time was over": nothing,
        "time was over for a climb": nothing
        | {"settings": nothing["settings"] | {"quality": "masked_loss"}},
        "before reasons were kept": earlier | {"status": "infeasible"},
    }
    lines = []
    for name, given in cases.items():
        why = f"{why_missing(given)}. {suggest_remedies(given)}"
        lines += [f"# {name}", why if given["sets"] else explain_no_alternatives(given)]
    check_snapshot("missing alternatives", lines)


def test_what_a_set_may_lack_is_a_share_of_the_best_there_can_be() -> None:
    """Alone, as the worst of those found at once, and in all of them."""
    lines = []
    at_once = {"search": "simultaneous", "aggregate": None, "number": 2}
    for quality, bound in ((0.25, 1.0), (0.0, 1.0), (-1.0, -0.5), (-1.0, 2.0), (1.0, None)):
        one = {"status": "feasible", "quality": quality, "bound": bound}
        by_sum = {"settings": at_once, "sets": [one, one], "status": "feasible"}
        in_all = by_sum | {"bound": None if bound is None else 2 * bound}
        worst = {"settings": {"aggregate": "min"}, "sets": [one], "bound": bound}
        alone = by_sum | {"settings": at_once | {"number": 1}, "sets": [one], "bound": bound}
        in_turn = in_all | {"settings": at_once | {"search": "sequential"}}
        lines.append(f"# {quality}, at most {bound}")
        for given in ({"settings": {"aggregate": None}}, worst, by_sum, alone):
            lines.append(f"one: {proof(given, one)}")
        for given in (worst | {"status": "feasible"}, in_all, in_turn, alone):
            lines.append(f"all: {joint_proof(given)}")
    check_snapshot("what alternatives may lack", lines)


def priced(counts, statuses, of_sets=None, **asked):
    """Alternatives with so many sets at each tau, proven one by one unless said otherwise."""
    settings = {"number": 2, "tau": 0.5, "quality": "relieff", "search": "sequential"} | asked
    of_sets = of_sets or [["optimal"] * count for count in counts]
    prices = [
        {
            "tau": (place + 1) / 10,
            "qualities": [1.0] * len(known),
            "statuses": known,
            "status": status,
        }
        for place, (known, status) in enumerate(zip(of_sets, statuses, strict=True))
    ]
    return {"settings": settings, "prices": prices, "chosen": {"quality": 2.0}}


@pytest.mark.parametrize(
    ("given", "n_open", "at"),
    [
        (priced([2, 2], ["optimal", "optimal"]), 0, None),
        (priced([2, 1], ["optimal", "infeasible"]), 0, None),
        (
            priced(
                [2, 2, 1],
                ["optimal", "feasible", "not_solved"],
                [["optimal", "optimal"], ["optimal", "feasible"], ["feasible"]],
            ),
            2,
            "0.2, 0.3",
        ),
        # at once the sets are proven together, though one of them may be the best in its place
        (
            priced(
                [2, 2],
                ["optimal", "feasible"],
                [["optimal", "feasible"], ["optimal", "feasible"]],
                search="simultaneous",
                aggregate=None,
            ),
            2,
            "0.2",
        ),
        # the seventh is not drawn
        (priced([7], ["feasible"], [["optimal"] * 6 + ["feasible"]], number=7), 0, None),
    ],
)
def test_what_is_not_proven_at_a_price_is_an_open_point_and_told(given, n_open, at) -> None:
    drawn = str(price_chart(given))
    n_drawn = [min(6, len(price["qualities"])) for price in given["prices"]]
    assert len(re.findall(r"<use [^>]*fill: var\(--paper\)", drawn)) == n_open
    filled = re.findall(r"<use [^>]*fill: var\(--curve\d\)", drawn)
    assert len(filled) == sum(n_drawn) - n_open + max(n_drawn)  # the legend has one for each curve
    told = f" An open point, as at a tau of {at}, is the best that was found, there or at a higher "
    told += "tau, before the search stopped, and not proven best."
    assert (told in price_caption(given)) == (n_open > 0)
    assert ("open point" in price_caption(given)) == (n_open > 0)


def bounded(qualities, bounds, in_all, **asked):
    """Alternatives at one tau, none proven, each with its bound and a bound of all."""
    given = priced([2], ["feasible"], [["feasible"] * 2], **asked)
    known = {"qualities": qualities, "bounds": bounds, "bound": in_all}
    return given | {"prices": [given["prices"][0] | known]}


HAIR = 1 + 1e-10


@pytest.mark.parametrize(
    ("given", "n_open"),
    [
        (bounded([2.0, 1.0], [2 * HAIR, HAIR], 3 * HAIR), 0),
        (bounded([2.0, 1.0], [2 * HAIR, 1.1], 3.1), 1),
        (bounded([2.0, 1.0], [2 * HAIR, None], None), 1),
        (bounded([2.0, 1.0], [3.0, 2.0], 3 * HAIR, search="simultaneous", aggregate=None), 0),
        (bounded([2.0, 1.0], [2.0, 1.0], 3.1, search="simultaneous", aggregate="sum"), 2),
        (bounded([2.0, 1.0], [3.0, 3.0], HAIR, search="simultaneous", aggregate="min"), 0),
        (bounded([2.0, 1.0], [3.0, 3.0], 1.1, search="simultaneous", aggregate="min"), 2),
    ],
)
def test_a_point_is_open_where_the_table_says_more_than_but_for_rounding(given, n_open) -> None:
    assert len(re.findall(r"<use [^>]*fill: var\(--paper\)", str(price_chart(given)))) == n_open
    assert ("open point" in price_caption(given)) == (n_open > 0)
    (price,), asked = given["prices"], given["settings"]
    each = [
        {"status": "feasible", "quality": quality, "bound": bound}
        for quality, bound in zip(price["qualities"], price["bounds"], strict=True)
    ]
    told = {"settings": {"aggregate": None} | asked, "sets": each} | {
        name: price[name] for name in ("status", "bound")
    }
    if asked["search"] == "simultaneous":
        assert joint_proof(told).endswith(", but for rounding") == (n_open == 0)
    else:
        said = [proof(told, one) for one in each]
        assert sum(one != "the best, but for rounding" for one in said) == n_open


def test_the_report_shows_them_side_by_side(found, tmp_path) -> None:
    page = Page(found.report(tmp_path / "report.html").read_bytes())
    assert "Alternatives" in page.headings
    (_, *names), *rows = page.tables["Features of each set"]
    assert names == ["chosen", "1", "2"]
    of_each = {name: {row[0] for row in rows if row[i]} for i, name in enumerate(names, start=1)}
    assert of_each.pop("chosen") == set(found.features)
    for one, features in zip(found.alternatives["sets"], of_each.values(), strict=True):
        assert f"{one['test_loss']:.4g}" in page.text
        assert features == set(one["features"])
    assert page.text.count("the best there is") == 2


def test_where_the_quality_does_not_allow_the_chosen_set_it_has_none(tmp_path) -> None:
    """The three features that tell most of the target hold a copy, which FCBF puts in no set."""
    asked = AlternativeSettings(number=1, quality="fcbf")
    result = select(method="correlation", n_features=3, alternatives=asked, store=tmp_path)
    assert len({name[0] for name in result.features}) < 3
    assert result.alternatives["chosen"]["quality"] is None
    written = (result.folder / "alternatives.json").read_text()
    assert json.loads(written, parse_constant=pytest.fail) == result.alternatives
    told = "By fcbf the chosen set has no quality: one of its features makes another redundant"
    assert told in result.report(tmp_path / "report.html").read_text()

"""What is told of alternatives: what is proven, what they cost, and why there are no more."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import AlternativeSettings
from chaffinch.tasks.reporting import render_report
from chaffinch.tasks.reporting.alternatives import (
    explain_no_alternatives,
    joint_proof,
    price_caption,
    price_chart,
    proof,
    suggest_remedies,
    why_missing,
)
from chaffinch.tasks.settings.stage_titles import title_of
from tests.tasks.methods.synthetic_alternatives import select, two_that_share_nothing
from tests.tasks.reporting.synthetic_report import Page, synthetic


@pytest.fixture(scope="module")
def found() -> chaffinch.SelectionResult:
    return two_that_share_nothing()


def report_of(alternatives) -> str:
    content = replace(synthetic(["a0", "b0", "a1"], 2), alternatives=alternatives)
    return render_report(content).decode()


IMPOSSIBLE = {
    "tau": ({"n_features": 5}, {"number": 1, "tau": 1}, "A lower tau or fewer chosen features"),
    "kept and tau": (
        {"n_features": 3, "keep": ["a0"]},
        {"number": 1, "tau": 1},
        "A lower tau, fewer features to keep in every set or fewer chosen",
    ),
    "at once": (
        {"n_features": 3},
        {"number": 2, "tau": 1, "search": "simultaneous"},
        "A lower tau, fewer alternatives, the sequential search or fewer",
    ),
    "redundant": (
        {"n_features": 3, "method": "correlation"},
        {"number": 1, "quality": "fcbf"},
        "free of redundant pairs, which fcbf asks for. A lower tau",
    ),
    "all features": (
        {"n_features": 8, "method": "correlation"},
        {"number": 1},
        "the chosen set has all features. Fewer chosen features",
    ),
    "no more": (
        {"n_features": 7, "method": "correlation"},
        {"number": 8, "tau": 0.1},
        "there is no further possible set of 7 features.",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_why_there_are_no_more_sets_is_told_with_what_makes_room(case) -> None:
    options, asked, told = IMPOSSIBLE[case]
    asked = AlternativeSettings(**{"quality": "mutual_information", **asked})
    result = select(alternatives=asked, **options)
    assert result.alternatives["status"] == "infeasible"
    found = result.alternatives
    none = explain_no_alternatives(found)
    assert told in (f"{why_missing(found)}. {suggest_remedies(found)}" if found["sets"] else none)


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


@pytest.mark.parametrize(
    ("quality", "bound", "told"),
    [
        (0.25, 1.0, "at most 75 % short of the best"),
        (0.0, 1.0, "at most 100 % short of the best"),
        (-1.0, -0.5, "at most 0.5 short of the best"),  # a share of which says nothing
        (-1.0, 2.0, "at most 3 short of the best"),
        (1.0, None, "not proven best"),
    ],
)
def test_what_a_set_may_lack_is_a_share_of_the_best_there_can_be(quality, bound, told) -> None:
    one = {"status": "feasible", "quality": quality, "bound": bound}
    assert proof({"settings": {"aggregate": None}}, one) == told
    worst = {"settings": {"aggregate": "min"}, "sets": [one], "status": "feasible", "bound": bound}
    assert proof(worst, one) == ""
    assert joint_proof(worst) == f"The worst of them is {told}".replace(
        "the best", "the best it can be"
    )
    at_once = {"search": "simultaneous", "aggregate": None, "number": 2}
    by_sum = {"settings": at_once, "sets": [one, one], "status": "feasible"}
    assert proof(by_sum, one) == told.replace("the best", "the best together with the others")
    in_all = None if bound is None else 2 * bound
    assert joint_proof(by_sum | {"bound": in_all}) == f"All together they are {told}".replace(
        "the best", "the best there can be"
    ).replace("0.5", "1").replace("3", "6")
    assert joint_proof(by_sum | {"settings": at_once | {"search": "sequential"}}) == ""
    alone = by_sum | {"settings": at_once | {"number": 1}, "sets": [one], "bound": bound}
    assert (proof(alone, one), joint_proof(alone)) == (told, "")  # there are no others


def test_of_sets_at_once_that_time_stopped_it_is_told_what_all_lack_and_each_beside_the_others(
    tmp_path,
) -> None:
    """Five sets of ten of 60 features by mRMR, of which no time proves anything."""
    random = np.random.default_rng(0)
    causes = random.normal(size=(200, 6))
    X = causes[:, random.integers(6, size=60)] + random.normal(size=(200, 60))
    data = pd.DataFrame(X, columns=[f"x{place}" for place in range(60)])
    data["y"] = causes.sum(axis=1) + random.normal(size=200)
    asked = {"number": 5, "tau": 0.8, "quality": "binned_mrmr", "search": "simultaneous"}
    result = select(
        data,
        method="correlation",
        n_features=10,
        alternatives=AlternativeSettings(time_limit=1e-9, **asked),
    )
    found = result.alternatives
    assert found["status"] == "feasible"
    spare = found["bound"] - sum(one["quality"] for one in found["sets"])
    for one in found["sets"]:
        assert one["bound"] <= one["quality"] + spare + 1e-12
        assert "short of the best together with the others" in proof(found, one)
    page = result.report(tmp_path / "report.html").read_text()
    told = joint_proof(found)
    assert told.startswith("All together they are at most ")
    assert told.endswith(" short of the best there can be")
    assert page.count(f"{told}.") == 1


def test_runs_from_before_reasons_were_kept_can_still_be_told(found) -> None:
    before = found.alternatives | {"sets": [], "status": "infeasible"}
    assert "differs from the chosen one by a tau of 1.</p>" in report_of(
        {name: before[name] for name in before if name != "missing"}
    )


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


def test_the_report_has_the_seconds_of_every_stage_before_it(tmp_path) -> None:
    asked = AlternativeSettings(number=1, quality="mutual_information")
    result = select(alternatives=asked, store=tmp_path)
    records = [json.loads(path.read_bytes()) for path in (result.folder / "stages").iterdir()]
    seconds = {title_of(one["stage"]): one["seconds"] for one in records}
    del seconds["write the report"]
    page = Page((result.folder / "report.html").read_bytes())
    _, *each, (_, in_all) = page.tables["Seconds per stage"]
    assert dict(each) == {stage: f"{taken:,.2f}" for stage, taken in seconds.items()}
    assert float(in_all) == pytest.approx(sum(seconds.values()), abs=0.006)


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


def test_where_time_was_over_nothing_is_said_to_be_impossible(found) -> None:
    nothing = found.alternatives | {"sets": [], "status": "not_solved"}
    page = report_of(nothing)
    assert "by a tau of 1: none was found before the time was over. That proves nothing" in page
    assert "longer time limit: --alternatives-time-limit, or time_limit of Alternative" in page
    assert "There is no set of 2 features" not in page
    of_climb = nothing | {"settings": nothing["settings"] | {"quality": "masked_loss"}}
    assert why_missing(of_climb).endswith("or on the way of the climb")

"""Alternatives in a run: sets that differ from the chosen one, retrained, scored and told."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import AlternativeSettings, InputError, ModelSettings
from chaffinch.tasks.alternative_search import Search
from chaffinch.tasks.alternative_settings import QualityName
from chaffinch.tasks.cluster import open_workers
from chaffinch.tasks.over_dask import OverDask
from chaffinch.tasks.reporting import render_report
from chaffinch.tasks.reporting.alternatives import price_caption, price_chart, proof, proof_of_all
from chaffinch.tasks.reporting.missing_alternatives import why_missing
from chaffinch.tasks.settings import SelectionSettings
from tests.made_up import good_table
from tests.tasks.made_up_report import Page, made_up

LINE = ModelSettings(name="linear", tuning="none")


def table() -> pd.DataFrame:
    """Two features that tell the target, each four times with more and more noise."""
    random = np.random.default_rng(0)
    causes = random.normal(size=(400, 2))
    columns = {
        f"{name}{copy}": causes[:, place] + 0.3 * copy * random.normal(size=400)
        for copy in range(4)
        for place, name in enumerate("ab")
    }
    target = np.where(causes.sum(axis=1) + 0.3 * random.normal(size=400) > 0, "yes", "no")
    return pd.DataFrame(columns).assign(y=target)


def select(data=None, *, alternatives, **options):
    options = {"method": "flbmo", "n_features": 2, "model": LINE, **options}
    return chaffinch.select(
        table() if data is None else data, "y", alternatives=alternatives, **options
    )


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two worker processes."""
    with open_workers("local", 2) as workers:
        assert isinstance(workers, OverDask)
        yield workers.client.scheduler.address


@pytest.fixture(scope="module")
def found() -> chaffinch.SelectionResult:
    return select(alternatives=AlternativeSettings(number=2, tau=1.0, quality="mutual_information"))


def test_sets_have_as_many_features_as_were_chosen_and_differ_from_it_and_each_other(found) -> None:
    sets = [set(one["features"]) for one in found.alternatives["sets"]]
    assert [len(features) for features in sets] == [2, 2]
    together = [*found.features, *(name for features in sets for name in features)]
    assert len(set(together)) == 6  # tau 1: they share nothing
    assert found.alternatives["chosen"]["features"] == found.features


def test_quality_is_the_sum_of_the_features_and_each_set_the_best_there_is(found) -> None:
    ranked = select(alternatives=None, method="mutual_information")
    chosen, first, second = (
        found.alternatives["chosen"],
        *found.alternatives["sets"],
    )
    for one in (chosen, first, second):
        total = sum(ranked.scores[name] for name in one["features"])
        assert one["quality"] == pytest.approx(total, rel=1e-12)
    left = sorted(
        (score for name, score in ranked.scores.items() if name not in chosen["features"]),
        reverse=True,
    )
    assert first["quality"] == pytest.approx(sum(left[:2]))
    assert second["quality"] == pytest.approx(sum(left[2:4]))
    assert {one["status"] for one in found.alternatives["sets"]} == {"optimal"}


def test_what_is_selected_does_not_depend_on_them(found) -> None:
    plain = select(alternatives=None)
    assert plain.alternatives is None
    for field in ("features", "losses", "comparison", "dropped", "model"):
        assert plain.contract[field] == found.contract[field]


def test_the_test_loss_is_that_of_a_model_retrained_on_the_set_alone(found) -> None:
    one = found.alternatives["sets"][0]
    kept = select(table()[[*one["features"], "y"]], alternatives=None, n_features=2)
    assert kept.losses["test"]["selected"] == pytest.approx(one["test_loss"], rel=0.5)
    difference = one["test_loss"] - found.losses["test"]["selected"]
    assert one["difference"] == pytest.approx(difference, rel=1e-12)
    low, high = one["interval"]
    assert low <= one["difference"] <= high


def test_the_price_of_tau_never_falls(found) -> None:
    prices = found.alternatives["prices"]
    assert [price["tau"] for price in prices] == [t / 10 for t in range(1, 11)]
    first = [price["qualities"][0] for price in prices]
    assert first == sorted(first, reverse=True)
    asked = [one["quality"] for one in found.alternatives["sets"]]
    assert prices[-1]["qualities"] == asked


@pytest.mark.e2e
def test_whoever_computes_finds_the_same(found, tmp_path) -> None:
    there = select(alternatives=AlternativeSettings(**found.settings["alternatives"]),
                   cluster="local", workers=2, store=tmp_path)  # fmt: skip
    assert there.alternatives == found.alternatives
    written = json.loads((there.folder / "alternatives.json").read_bytes())
    assert written == there.alternatives
    again = chaffinch.load_run(there.run, store=tmp_path)
    assert again.alternatives == found.alternatives


@pytest.mark.parametrize(("quality", "n_measured"), [("mrmr", 8), ("permutation", 8), ("fcbf", 0)])
def test_progress_has_the_searches_in_it_and_is_whole_only_when_all_are_done(
    quality, n_measured
) -> None:
    told: list[tuple[int, int]] = []
    select(
        alternatives=AlternativeSettings(number=1, quality=quality),
        on_progress=lambda step, *items: (
            told.append(items) if step == "search_alternatives" else None
        ),
    )
    begun, *between, ended = told
    assert (begun, ended) == ((0, 1), (1, 1))
    n_items = n_measured + 11  # the search asked for, nine other prices, why there are no more
    assert {total for _, total in between} == {n_items}
    done = [n for n, _ in between]
    assert done == sorted(done)
    assert set(done) >= set(range(1, n_items + 1))
    assert done.index(n_items) == len(done) - 1


def test_what_must_be_kept_is_in_every_set() -> None:
    result = select(alternatives=2, n_features=3, keep=["a3"])
    assert len(result.alternatives["sets"]) == 2
    for one in result.alternatives["sets"]:
        assert "a3" in one["features"]


def test_where_there_are_none_the_run_ends_well_and_says_so(tmp_path) -> None:
    result = select(alternatives=AlternativeSettings(number=2, tau=1), n_features=5)
    assert result.alternatives["sets"] == []
    assert result.alternatives["status"] == "infeasible"
    report = result.report(tmp_path / "report.html").read_text()
    assert "There is no set of 5 features that differs from the chosen one by a tau of 1." in report


def report_of(alternatives) -> str:
    content = replace(made_up(["a0", "b0", "a1"], 2), alternatives=alternatives)
    return render_report(content).decode()


IMPOSSIBLE = {
    "tau": (
        {"n_features": 5},
        {"number": 1, "tau": 1},
        "There is no set of 5 features that differs from the chosen one by a tau of 1. "
        "A lower tau or fewer chosen features makes room.",
    ),
    "kept and tau": (
        {"n_features": 3, "keep": ["a0"]},
        {"number": 1, "tau": 1},
        "There is no set of 3 features that differs from the chosen one by a tau of 1. "
        "A lower tau or fewer features to keep in every set makes room.",
    ),
    "at once": (
        {"n_features": 3},
        {"number": 2, "tau": 1, "search": "simultaneous"},
        "There are no alternatives: there are no 2 sets at once that differ that much from the "
        "chosen one and each other. A lower tau, fewer alternatives, the sequential search or "
        "fewer chosen features makes room.",
    ),
    "redundant": (
        {"n_features": 3, "method": "correlation"},
        {"number": 1, "quality": "fcbf"},
        "There are no alternatives: no other possible set of 3 features is free of redundant "
        "pairs, which fcbf asks for. Fewer chosen features or another quality makes room.",
    ),
    "all features": (
        {"n_features": 8, "method": "correlation"},
        {"number": 1},
        "There are no alternatives: the chosen set has all features. Fewer chosen features makes "
        "room.",
    ),
    "all kept": (
        {"n_features": 2, "keep": ["a0", "b0"]},
        {"number": 1},
        "There are no alternatives: all chosen features are to be kept in every set. Fewer "
        "features to keep in every set makes room.",
    ),
    "no more of one": (
        {"n_features": 1, "method": "correlation"},
        {"number": 8},
        "1 of the sets asked for is not there: there is no further possible set of 1 feature.",
    ),
    "no more of one by fcbf": (
        {"n_features": 1, "method": "correlation"},
        {"number": 8, "quality": "fcbf"},
        "1 of the sets asked for is not there: there is no further possible set of 1 feature.",
    ),
    "no more": (
        {"n_features": 7, "method": "correlation"},
        {"number": 8, "tau": 0.1},
        "1 of the sets asked for is not there: there is no further possible set of 7 features.",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_why_there_are_no_more_sets_is_told_with_what_makes_room(case, tmp_path) -> None:
    """Each reason is the true one, and each remedy has been tried."""
    options, asked, told = IMPOSSIBLE[case]
    asked = AlternativeSettings(**{"quality": "mutual_information", **asked})
    result = select(alternatives=asked, **options)
    assert result.alternatives["status"] == "infeasible"
    assert told in result.report(tmp_path / "report.html").read_text()


@pytest.mark.parametrize("tau", [0.5, 0.55])
def test_what_is_asked_for_is_searched_for_once_and_is_its_own_price(tau, monkeypatch) -> None:
    """Within a time limit two searches for the same may find different sets."""
    seen, sets = [], Search.sets
    monkeypatch.setattr(Search, "sets", lambda search, at: (seen.append(at), sets(search, at))[1])
    found = select(alternatives=AlternativeSettings(number=2, tau=tau), n_features=3).alternatives
    assert seen.count(tau) == 1
    taus = [price["tau"] for price in found["prices"]]
    assert taus == [tenths / 10 for tenths in range(1, 11)]
    if tau in taus:
        price = found["prices"][taus.index(tau)]
        assert price["qualities"] == [one["quality"] for one in found["sets"]]
        assert price["status"] == found["status"]


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
    filled = re.findall(r"<use [^>]*fill: var\(--accent\)", drawn)
    assert len(filled) == sum(n_drawn) - n_open + max(n_drawn)  # the legend has one for each curve
    told = f"An open point, as at a tau of {at}, is the best that was found within the time limit,"
    assert (told in price_caption(given)) == (n_open > 0)
    assert ("open point" in price_caption(given)) == (n_open > 0)


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        (priced([2, 2], ["optimal", "optimal"]), ""),
        (
            priced([2, 1], ["optimal", "infeasible"]),
            " A curve ends where it is proven that there is no such set.",
        ),
        (
            priced([2, 0], ["optimal", "infeasible"], search="simultaneous"),
            " A curve ends where it is proven that there are no 2 such sets at once.",
        ),
        (
            priced([2, 1, 0], ["optimal", "not_solved", "not_solved"]),
            " At a tau of 0.2, 0.3 the search ended before it had all sets, which proves nothing.",
        ),
        (
            priced([1, 0], ["not_solved", "infeasible"]),
            " A curve ends where it is proven that there is no such set. At a tau of 0.1 the "
            "search ended before it had all sets, which proves nothing.",
        ),
        (priced([8, 6], ["optimal", "infeasible"], number=8), ""),  # six curves, all of them whole
    ],
)
def test_the_chart_of_prices_says_which_curves_it_has_and_why_they_end(given, ends) -> None:
    each = "of the first 6 sets" if given["settings"]["number"] == 8 else "of each set"
    assert price_caption(given) == (
        f"What it costs to differ: the quality {each} by tau, searched for in the same way. The "
        f"line marks the tau asked for.{ends}"
    )


def test_each_price_says_what_is_proven_of_it() -> None:
    prices = select(
        alternatives=AlternativeSettings(number=2, tau=0.5, quality="mutual_information"),
        n_features=3,
    ).alternatives["prices"]
    statuses = {price["tau"]: price["status"] for price in prices}
    assert (statuses[0.5], statuses[1.0]) == ("optimal", "infeasible")  # eight features


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
    assert proof_of_all(worst) == f"The worst of them is {told}".replace(
        "the best", "the best it can be"
    )
    at_once = {"search": "simultaneous", "aggregate": None, "number": 2}
    by_sum = {"settings": at_once, "sets": [one, one], "status": "feasible"}
    assert proof(by_sum, one) == told.replace("the best", "the best beside the others")
    in_all = None if bound is None else 2 * bound
    assert proof_of_all(by_sum | {"bound": in_all}) == f"All together they are {told}".replace(
        "the best", "the best there can be"
    ).replace("0.5", "1").replace("3", "6")
    assert proof_of_all(by_sum | {"settings": at_once | {"search": "sequential"}}) == ""
    alone = by_sum | {"settings": at_once | {"number": 1}, "sets": [one], "bound": bound}
    assert (proof(alone, one), proof_of_all(alone)) == (told, "")  # there are no others


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
        assert "short of the best beside the others" in proof(found, one)
    page = result.report(tmp_path / "report.html").read_text()
    told = proof_of_all(found)
    assert told.startswith("All together they are at most ")
    assert told.endswith(" short of the best there can be")
    assert page.count(f"{told}.") == 1


def test_where_the_worst_counts_the_proof_is_told_of_it_alone(tmp_path) -> None:
    asked = {"number": 2, "quality": "mutual_information", "search": "simultaneous"}
    result = select(alternatives=AlternativeSettings(aggregate="min", **asked))
    assert result.alternatives["status"] == "optimal"
    assert result.alternatives["bound"] == min(
        one["quality"] for one in result.alternatives["sets"]
    )
    page = result.report(tmp_path / "report.html").read_text()
    assert page.count("The worst of them is the best that it can be: proven.") == 1
    assert "short of the best" not in page
    assert "the best there is" not in page


def test_runs_from_before_reasons_were_kept_can_still_be_told(found) -> None:
    before = found.alternatives | {"sets": [], "status": "infeasible"}
    assert "differs from the chosen one by a tau of 1.</p>" in report_of(
        {name: before[name] for name in before if name != "missing"}
    )


def test_the_report_shows_them_side_by_side(found, tmp_path) -> None:
    report = found.report(tmp_path / "report.html").read_text()
    assert "<h2>Alternatives</h2>" in report
    for one in found.alternatives["sets"]:
        assert f"{one['test_loss']:.4g}" in report
        assert ", ".join(one["features"]) in report
    assert report.count("the best there is") == 2


def test_the_report_has_the_seconds_of_every_stage_before_it(tmp_path) -> None:
    asked = AlternativeSettings(number=1, quality="mutual_information")
    result = select(alternatives=asked, store=tmp_path)
    records = [json.loads(path.read_bytes()) for path in (result.folder / "stages").iterdir()]
    seconds = {one["stage"].replace("_", " "): one["seconds"] for one in records}
    del seconds["write report"]
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


@pytest.mark.parametrize("quality", get_args(QualityName))
def test_every_quality_finds_the_same_sets_with_workers_and_says_what_it_has_proven(
    quality, scheduler
) -> None:
    asked = AlternativeSettings(number=2, quality=quality)
    result = select(alternatives=asked)
    assert select(alternatives=asked, cluster=scheduler).alternatives == result.alternatives
    statuses = [one["status"] for one in result.alternatives["sets"]]
    proven = "feasible" if quality == "masked_loss" else "optimal"
    assert statuses[:1] == [proven]
    if quality != "fcbf":  # of which copies are in conflict
        assert statuses == [proven] * 2


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_all_at_once_they_are_worth_no_less_in_all(found, aggregate, tmp_path) -> None:
    asked = {**found.settings["alternatives"], "search": "simultaneous", "aggregate": aggregate}
    result = select(alternatives=AlternativeSettings(**asked))
    together = result.alternatives
    worths = [
        [one["quality"] for one in result["sets"]] for result in (together, found.alternatives)
    ]
    value = {"sum": sum, "min": min}[aggregate]
    assert value(worths[0]) >= value(worths[1]) - 1e-12
    assert together["status"] == "optimal"
    page = result.report(tmp_path / "report.html").read_text()
    assert "the best there is" not in page  # beside the chosen set alone there may be better ones
    is_of_sum = aggregate == "sum"
    assert page.count("No other such sets are worth more in all: proven.") == is_of_sum
    assert page.count("the best beside the others") == 2 * is_of_sum


def test_what_cannot_be_is_refused_in_one_line() -> None:
    for settings, message in (
        ({"number": 0}, "^alternatives must be at least 1 but is 0$"),
        ({"number": 10**11}, "^alternatives must be at most 1000 but is 100000000000$"),
        ({"number": 2, "tau": 0}, "tau must be above 0.0 but is 0"),
        ({"number": 2, "tau": 1.5}, "tau must be at most 1.0 but is 1.5"),
        ({"number": True}, "^alternatives must be a whole number but is True$"),
        ({"number": 2, "tau": True}, "^tau must be a number but is True$"),
        ({"number": 2, "time_limit": True}, "^the time_limit of alternatives must be a number"),
        ({"number": 2, "aggregate": "min"}, "aggregate is for the simultaneous search"),
        (
            {"number": 2, "search": "simultaneous", "quality": "cfs"},
            "the simultaneous search needs one of the qualities",
        ),
    ):
        with pytest.raises(InputError, match=message) as error:
            AlternativeSettings(**settings)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("given", [True, False, "3", 2.5, [1]])
def test_a_number_of_alternatives_is_a_whole_number(given) -> None:
    for ask in (select, partial(SelectionSettings, target="y")):
        with pytest.raises(InputError) as error:
            ask(alternatives=given)
        assert str(error.value) == (
            "alternatives must be how many to find, or how to search for them, but is "
            f"{given!r}; give a whole number or AlternativeSettings"
        )


@pytest.mark.parametrize("given", [3, np.int64(3)])
def test_settings_take_a_number_of_alternatives_as_select_does(given) -> None:
    by_settings = SelectionSettings(target="y", alternatives=AlternativeSettings(number=3))
    assert SelectionSettings(target="y", alternatives=given) == by_settings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, "alternatives must be at least 1 but is 0"),
        (1_001, "alternatives must be at most 1000 but is 1001"),
    ],
)
def test_a_number_of_alternatives_has_the_same_bounds_wherever_it_is_given(given, message) -> None:
    for ask in (select, partial(SelectionSettings, target="y")):
        with pytest.raises(InputError, match=f"^{message}$"):
            ask(alternatives=given)


@pytest.mark.parametrize("given", [{}, {"tau": 0.5}])
def test_without_a_number_that_is_what_is_said_to_be_missing(given) -> None:
    with pytest.raises(InputError) as error:
        select(alternatives=given)
    assert str(error.value) == (
        f"alternatives must have a number, how many sets to find, but is {given!r}; give one, as "
        "in {'number': 3}"
    )
    with pytest.raises(InputError, match=r"^number must be given$"):
        AlternativeSettings(**given)
    with pytest.raises(InputError, match=r"^(tau is for|alternatives have no).*; say how many, as"):
        SelectionSettings(target="y", alternatives=given)


def test_weights_and_categories_take_part() -> None:
    data = good_table().assign(weight=1.0)
    result = chaffinch.select(
        data, "churned", n_features=2, model=LINE, weight="weight", alternatives=1
    )
    assert len(result.alternatives["sets"]) == 1
    with pytest.raises(InputError, match="quality mrmr takes no sample weights; leave out the"):
        chaffinch.select(
            data,
            "churned",
            weight="weight",
            alternatives=AlternativeSettings(number=1, quality="mrmr"),
        )


@pytest.mark.parametrize("quality", ["mrmr", "binned_mrmr", "cfs"])
def test_how_features_depend_on_each_other_is_measured_once_for_all_runs(quality, tmp_path) -> None:
    def run(**options):
        asked = {"number": 1, "quality": quality, "tau": 0.5}
        seed = options.pop("seed", 0)
        return select(
            alternatives=AlternativeSettings(**asked | options), seed=seed, store=tmp_path
        )

    def kept() -> dict[str, str]:
        manifests = sorted((tmp_path / "dependencies" / "stages").glob("*.json"))
        return {path.name: json.loads(path.read_bytes())["finished"] for path in manifests}

    first = run()
    measured = kept()
    assert len(measured) == 1
    second = run(tau=1.0, number=2)
    assert second.run != first.run
    assert kept() == measured
    alone = select(alternatives=AlternativeSettings(number=2, quality=quality, tau=1.0))
    assert second.alternatives == alone.alternatives

    (matrix,) = (tmp_path / "dependencies").glob("*.npy")
    matrix.write_bytes(matrix.read_bytes()[:-8])  # cut short: measured anew, not believed
    third = run(tau=0.9)
    assert third.alternatives["prices"] == run(tau=0.8).alternatives["prices"]
    assert kept().keys() == measured.keys()
    assert kept() != measured
    run(seed=1)
    assert len(kept()) == 2


@pytest.mark.parametrize("model", ["mlp", "KNeighborsClassifier"])
def test_a_model_without_gains_is_refused_in_the_name_of_the_quality(model) -> None:
    with pytest.raises(InputError, match=r"^quality model_gain needs a model with .*"):
        select(model=model, alternatives=AlternativeSettings(number=1, quality="model_gain"))

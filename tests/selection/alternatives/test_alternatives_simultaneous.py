"""All at once: the paper's worked examples by the public call, against every design tried."""

import itertools
import math
import time
from itertools import combinations

import numpy as np
import pytest

from chaffinch.tasks.selection.alternatives import find
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.hill_climbing import Wrapper
from chaffinch.tasks.selection.alternatives.quality import CFS, MRMR, Univariate

Q0 = (9, 8, 7, 3, 2, 1)
SUMS = ("sum", "min")
GREEDY = ("greedy_replacement", "greedy_balancing", "greedy_depth_search")


def qualities(found) -> list[float]:
    return sorted((one.quality for one in found), reverse=True)


@pytest.mark.parametrize(
    ("values", "k", "n_alternatives", "search", "aggregate", "total"),
    [
        (Q0, 2, 2, "simultaneous", "sum", 48),  # example 2
        (Q0, 2, 2, "greedy_replacement", None, 45),
        (Q0, 2, 2, "greedy_balancing", None, 45),
        (Q0, 3, 1, "simultaneous", "min", 19),  # example 3
        (Q0, 3, 1, "simultaneous", "sum", 38),
        (Q0, 3, 1, "greedy_replacement", None, 38),
        (Q0, 3, 2, "simultaneous", "sum", 54),  # example 5
        ((11, 10, 6, 5, 4, 1), 3, 1, "simultaneous", "min", 22),  # example 6
        ((11, 10, 6, 5, 4, 1), 3, 1, "simultaneous", "sum", 47),
    ],
)
def test_examples_of_the_paper(values, k, n_alternatives, search, aggregate, total) -> None:
    found = find_alternatives(
        Univariate(values),
        k=k,
        n_alternatives=n_alternatives,
        tau=0.5,
        search=search,
        aggregate=aggregate,
    )
    assert found.total == pytest.approx(total)
    assert len(found) == n_alternatives + 1
    if search in GREEDY:
        assert found.status == "feasible"
        assert found.bound >= found.total
    else:
        assert found.status == "optimal"
        assert found.gap == 0


def test_sets_of_a_name_have_their_names_and_a_table() -> None:
    quality = Univariate(Q0, names=list("uvwxyz"))
    found = find_alternatives(quality, k=2, n_alternatives=1, tau=1, search="simultaneous")
    assert {name for one in found for name in one.features} == set("uvwx")
    assert found.to_frame()["quality"].sum() == pytest.approx(27)


def test_time_that_is_over_leaves_a_bound_that_holds() -> None:
    values = np.random.default_rng(0).uniform(size=170)
    options = {"k": 5, "n_alternatives": 5, "tau": 0.6, "search": "simultaneous"}
    late = find_alternatives(Univariate(values), time_limit=1e-9, **options)
    proven = find_alternatives(Univariate(values), **options)
    assert proven.status == "optimal"
    assert late.status in ("feasible", "not_solved")
    assert late.bound >= proven.total - 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": "all"}, "search must be one of sequential, simultaneous, .* but is 'all'"),
        ({"aggregate": "min"}, "aggregate is for the simultaneous search but search is sequential"),
        ({"search": "simultaneous", "aggregate": "max"}, "aggregate must be 'sum' or 'min' but"),
        ({"search": "simultaneous", "k": [2, 3]}, "k must be a whole number .*but is"),
        ({"search": "greedy_balancing", "previous": [[0, 1]]}, "knows neither previous sets nor"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        find_alternatives(Univariate(Q0), **{"k": 2, "n_alternatives": 1, "tau": 0.5, **options})


@pytest.mark.parametrize("search", ["simultaneous", *GREEDY])
def test_a_quality_that_a_search_cannot_use_is_refused(search) -> None:
    quality = CFS(np.ones(5), np.ones((5, 5)) / 2)
    if search == "simultaneous":
        quality = Wrapper(sum, 5)
    with pytest.raises(ValueError, match=f"search {search} needs a quality that is Univariate"):
        find_alternatives(quality, k=2, n_alternatives=1, tau=0.5, search=search)


@pytest.mark.parametrize("seed", range(8))
def test_of_the_smallest_no_set_is_called_best_that_can_be_bettered_in_its_place(seed) -> None:
    """Each set is compared with all that go with the others."""
    random = np.random.default_rng(seed)
    values, redundancy = random.integers(0, 9, 8) / 8, random.random((8, 8)) / 8
    tenths = random.integers(-9, 9, 8) / 10  # sums of them are equal but for rounding
    for quality in (Univariate(values), Univariate(tenths), MRMR(values, redundancy)):
        found = find_alternatives(
            quality, k=3, n_alternatives=2, tau=0.6, search="simultaneous", aggregate="min"
        )
        assert found.status == "optimal"
        for one in found:
            others = [set(other.indices) for other in found if other is not one]
            best = max(
                quality.value(features)
                for features in combinations(range(8), 3)
                if all(len(other & set(features)) <= 1 for other in others)
            )
            assert one.quality - 1e-12 <= best <= one.bound + 1e-12 < math.inf
            assert (one.status == "optimal") == (one.gap == 0)
        worst = [one for one in found if one.quality <= found.total + 1e-9]
        assert len(worst) > 1 or (worst[0].status, worst[0].bound) == ("optimal", found.total)


def test_of_sets_that_tie_for_the_smallest_but_for_rounding_none_is_called_best() -> None:
    found = find_alternatives(
        Univariate([0.3, 0.6, 0.1, 0.7, 0.2, 0.2]),
        k=3,
        n_alternatives=2,
        tau=0.6,
        search="simultaneous",
        aggregate="min",
    )
    assert (found.status, found.total) == ("optimal", pytest.approx(1.1))
    assert {(one.status, round(one.bound, 9)) for one in found} == {("feasible", 1.6)}


@pytest.mark.parametrize(
    ("search", "aggregate"),
    [*((one, None) for one in GREEDY), *(("simultaneous", one) for one in SUMS)],
)
def test_no_bound_is_above_what_as_many_of_the_best_set_are_worth(search, aggregate) -> None:
    """However short the time: by a clock on which each look takes a second."""
    values, looks = np.random.default_rng(0).random(500), itertools.count()
    best = math.fsum(np.sort(values)[-10:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: float(next(looks)))
        found = find_alternatives(
            Univariate(values),
            k=10,
            n_alternatives=99,
            tau=0.2,
            search=search,
            aggregate=aggregate,
            time_limit=1.0,
        )
    most = best if aggregate == "min" else 100 * best
    assert found.total <= found.bound <= most * (1 + 1e-15)


@pytest.mark.parametrize("aggregate", SUMS)
def test_seconds_are_what_the_call_takes(aggregate) -> None:
    """By a clock that moves when pairs of features are looked at, and by nothing else."""
    clock = [0.0]

    class Slow(MRMR):
        def form(self, k):
            clock[0] += 1.0
            return super().form(k)

    random = np.random.default_rng(1)
    quality = Slow(random.random(9), random.random((9, 9)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: clock[0])
        found = find_alternatives(
            quality, k=3, n_alternatives=2, tau=0.5, search="simultaneous", aggregate=aggregate
        )
    assert found.status == "optimal"
    assert found.seconds == clock[0] == 1.0
    assert {one.seconds for one in found} == {1.0}


@pytest.mark.parametrize("search", ["simultaneous", *GREEDY])
@pytest.mark.parametrize("seed", range(8))
def test_of_sets_by_sum_none_can_be_bettered_beyond_its_bound_and_that_of_all(seed, search) -> None:
    """Each set of a search that had no time is compared with all that go with the others."""
    random = np.random.default_rng(seed)
    tenths = Univariate(random.integers(-9, 9, 8) / 10)  # whose sums are equal but for rounding
    large = Univariate(random.integers(-9, 9, 8) * 1e15 + tenths.values)
    of_pairs = MRMR(random.random(8), random.random((8, 8)) / 8)
    for quality in (tenths, large) if search in GREEDY else (tenths, large, of_pairs):
        found = find_alternatives(
            quality, k=3, n_alternatives=2, tau=0.6, search=search, time_limit=1e-9
        )
        for one in found:
            others = [other for other in found if other is not one]
            best = max(
                quality.value(features)
                for features in combinations(range(8), 3)
                if all(len({*other.indices} & {*features}) <= 1 for other in others)
            )
            assert one.quality <= best <= one.bound
            if len(found) == 3:
                spare = found.bound - sum(other.quality for other in others)
                assert one.bound <= spare + 1e-12 * (abs(found.bound) + abs(spare))


@pytest.mark.parametrize("aggregate", SUMS)
def test_where_there_is_no_room_for_two_nothing_is_searched(aggregate, monkeypatch) -> None:
    monkeypatch.setattr(find, "best_univariate_design", None)
    asked = {"k": 7, "n_alternatives": 1, "search": "simultaneous", "aggregate": aggregate}
    found = find_alternatives(Univariate(np.arange(10.0)), tau=0.6, **asked)  # 14 - 2 > 10
    assert (found.status, len(found)) == ("infeasible", 0)

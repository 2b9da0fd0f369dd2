"""A ranking that keeps what reaches a score, in place of a number of features."""

import numpy as np
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.methods import Ranking
from tests.synthetic import good_table

LINEAR = ModelSettings(name="linear", tuning="none")
SIZES = (1 / 6, 1 / 5, 1 / 4, 1 / 2)


def select(table=None, *, method="correlation", model=LINEAR, **options):
    table = good_table() if table is None else table
    return chaffinch.select(table, "churned", method=method, model=model, **options)


@pytest.fixture(scope="module")
def scores():
    return select(n_features=1).scores


def at_least(score, kind="correlation"):
    return {"kind": kind, "min_score": score}


def reaching(scores, lowest):
    return {name for name, score in scores.items() if score >= lowest}


@pytest.mark.parametrize("place", [0, 2, 5])
def test_what_reaches_the_score_is_kept_and_nothing_else(scores, place):
    lowest = sorted(scores.values(), reverse=True)[place]
    for asked in (lowest, lowest - 1e-12):
        assert set(select(method=at_least(asked)).features) == reaching(scores, lowest)
    above = np.nextafter(lowest, np.inf)
    if place:
        assert set(select(method=at_least(above)).features) == reaching(scores, above)


def test_a_score_that_none_reaches_is_refused_with_the_best(scores):
    best = max(scores.values())
    with pytest.raises(InputError) as refusal:
        select(method=at_least(0.9999))
    assert str(refusal.value) == (
        f"min_score must be at most {best!r}, the best score by correlation, but is 0.9999"
    )


def test_what_must_be_kept_is_kept_whatever_its_score(scores):
    lowest = sorted(scores.values(), reverse=True)[1]
    kept = select(method=at_least(lowest), keep=["noise_1"]).features
    assert set(kept) == {"noise_1"} | reaching(scores, lowest)
    assert select(method=at_least(0.9999), keep=["noise_1", "age"]).features == ["age", "noise_1"]


def test_the_sizes_are_tried_unless_a_score_is_asked_for():
    assert Ranking(kind="mrmr") == Ranking(kind="mrmr", n_features=SIZES)
    assert Ranking(kind="mrmr").n_features == SIZES
    assert Ranking(kind="mrmr", min_score=-0.5).n_features is None
    again = Ranking(**Ranking(kind="mrmr", min_score=3).model_dump())
    assert (again.min_score, again.n_features) == (3.0, None)
    with pytest.raises(InputError, match=r"exclude each other but are 2, 0\.5 and 0\.1; give one"):
        Ranking(n_features=(2, 0.5), min_score=0.1)
    with pytest.raises(InputError, match="n_features must be a list of at least 1"):
        Ranking(n_features=())


def test_every_way_to_ask_is_the_same():
    by_names = select(method=at_least(0.2)).contract
    settings = Ranking(kind="correlation", min_score=0.2)
    assert select(method=settings).contract == by_names
    with pytest.raises(InputError, match="n_features and min_score exclude each other but are 4"):
        select(method=settings, n_features=4)


def test_a_score_above_0_is_the_delta_of_fcbf():
    table = good_table(400)
    table["again"] = table["income"]
    result = select(table, method=at_least(1e-9, "fcbf"))
    assert result.scores["again"] < 0 < result.scores["income"]
    assert set(result.features) == {name for name, score in result.scores.items() if score > 0}

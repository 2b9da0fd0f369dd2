"""The fast correlation-based filter against the paper's loop and answers known by hand."""

from __future__ import annotations

from collections import Counter
from math import log2

import numpy as np
import pytest

from chaffinch.tasks.selection.baselines.filters import fcbf
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.core import Rows, Schema


def categories(*columns, labels):
    """Rows of categories, and a schema that says so."""
    X = np.column_stack(columns).astype(float)
    sizes = tuple(int(np.nanmax(column)) + 1 for column in columns)
    labels = np.asarray(labels)
    schema = Schema(tuple(f"x{j}" for j in range(len(columns))), sizes, int(labels.max()) + 1)
    return Rows(X, labels), schema


def entropy(values):
    return -sum(m / len(values) * log2(m / len(values)) for m in Counter(values).values())


def symmetrical_uncertainty(one, other):
    """Twice the mutual information over the sum of the entropies."""
    alone = entropy(one) + entropy(other)
    together = entropy(list(zip(one, other, strict=True)))
    return 2 * (alone - together) / alone if alone else 0.0


def papers_loop(columns, labels, delta):
    """Figure 2 of the paper, line by line: the predominant features, best first."""
    relevance = [symmetrical_uncertainty(column, labels) for column in columns]
    candidates = [j for j in range(len(columns)) if relevance[j] > delta]
    candidates.sort(key=lambda j: -relevance[j])
    place = 0
    while place < len(candidates):
        p = candidates[place]
        for q in candidates[place + 1 :]:
            if symmetrical_uncertainty(columns[p], columns[q]) >= relevance[q]:
                candidates.remove(q)
        place += 1
    return candidates


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("delta", [0.0, 0.2])
def test_the_predominant_features_are_those_of_the_papers_loop(seed, delta) -> None:
    random = np.random.default_rng(seed)
    base = random.integers(0, 3, (150, 4)).astype(float)
    noisy = np.where(random.random((150, 4)) < 0.3, random.integers(0, 3, (150, 4)), base)
    X = np.column_stack([base, noisy, random.integers(0, 5, (150, 3))])
    X[random.random(X.shape) < 0.05] = np.nan
    told = (3 * base[:, 0] + base[:, 1]).astype(int)
    labels = np.where(random.random(150) < 0.1, random.integers(0, 9, 150), told)
    rows, schema = categories(*X.T, labels=labels)
    scores = fcbf(rows, schema)
    columns = [np.where(np.isnan(x), -1, x).tolist() for x in X.T]
    expected = papers_loop(columns, labels.tolist(), delta)
    assert 1 < len(expected) < 11
    ranked = np.argsort(-scores)
    assert ranked[: int((scores > delta).sum())].tolist() == expected
    relevance = [symmetrical_uncertainty(column, labels.tolist()) for column in columns]
    redundant = np.setdiff1d(np.arange(11), papers_loop(columns, labels.tolist(), 0.0))
    np.testing.assert_allclose(scores[redundant], np.take(relevance, redundant) - 1, atol=1e-12)


def test_the_uncertainty_of_a_coin_and_of_two_that_both_show_heads() -> None:
    """One bit, 0.8113 bits, and half a bit left once the first coin is seen."""
    rows, schema = categories([0, 0, 1, 1], labels=[0, 0, 0, 1])
    h = 2 - 0.75 * log2(3)
    assert fcbf(rows, schema)[0] == pytest.approx(2 * (h - 0.5) / (1 + h), rel=1e-12)


def test_what_tells_all_has_one_and_its_copy_further_left_is_redundant() -> None:
    labels = np.array([0, 1, 2] * 20)
    noise = np.random.default_rng(0).integers(0, 2, 60)
    rows, schema = categories(labels, noise, labels, np.zeros(60), labels=labels)
    scores = fcbf(rows, schema)
    assert (scores[0], scores[2], scores[3]) == (0.0, 1.0, -1.0)
    assert -1 < scores[1] < 0  # whatever it tells, the label tells as much of it
    assert RankedPath.from_scores(scores).removed == (3, 1, 0)


def test_where_nothing_tells_anything_every_score_is_0() -> None:
    rows, schema = categories([0, 1] * 10, np.zeros(20), labels=[0, 0, 1, 1] * 5)
    assert fcbf(rows, schema).tolist() == [0.0, 0.0]
    rows, schema = categories([0, 1] * 10, labels=np.zeros(20, dtype=int))
    assert fcbf(rows, schema).tolist() == [0.0]


def test_numbers_are_parted_into_bins_of_equal_frequency() -> None:
    """The cube root of 64 rows is 4 bins, of 27 it is 3, and of a million still 10."""
    for n, bins in ((64, 4), (27, 3), (10_000, 10)):
        x = np.random.default_rng(0).permutation(n).astype(float)
        code = np.argsort(np.argsort(x)) * bins // n
        rows = Rows(np.column_stack([x]), code)
        assert fcbf(rows, Schema(("x",), (0,), bins))[0] == pytest.approx(1, rel=1e-12)
        as_numbers = fcbf(Rows(rows.X, x), Schema(("x",), (0,)))
        assert as_numbers[0] == pytest.approx(1, rel=1e-12)


def test_equal_numbers_share_a_bin_and_only_their_order_counts() -> None:
    random = np.random.default_rng(0)
    x = np.where(random.random(500) < 0.6, 0.0, random.normal(size=500))
    y = x + random.normal(size=500)
    schema = Schema(("x",), (0,))
    score = fcbf(Rows(x[:, np.newaxis], y), schema)
    np.testing.assert_array_equal(fcbf(Rows(np.exp(x)[:, np.newaxis], y**3), schema), score)
    assert 0 < score[0] < 1


def test_a_missing_number_is_a_value_of_its_own() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 400)
    x = np.where(labels == 1, np.nan, random.normal(size=400))
    score = fcbf(Rows(x[:, np.newaxis], labels), Schema(("x",), (0,), 2))
    assert score[0] > 0.3  # the bins of the numbers tell no more, but cost entropy
    assert fcbf(Rows(np.full((400, 1), np.nan), labels), Schema(("x",), (0,), 2))[0] == 0

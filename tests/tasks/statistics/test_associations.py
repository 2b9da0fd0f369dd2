"""Which kept features stand for which dropped ones."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.statistics.associations import STRONG, associations, stand_ins


def schema_of(names: str, categories: dict[str, int] | None = None) -> Schema:
    return Schema(tuple(names), tuple((categories or {}).get(name, 0) for name in names))


def entropy(values: list[object]) -> float:
    shares = [count / len(values) for count in Counter(values).values()]
    return -sum(share * math.log(share) for share in shares)


def symmetrical_uncertainty(one: list[float], other: list[float]) -> float:
    both = entropy(one) + entropy(other)
    return 2 * (both - entropy([*zip(one, other, strict=True)])) / both


def test_numbers_are_compared_by_the_absolute_value_of_spearman_s_correlation() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 6))
    X[:, 1] = -np.exp(X[:, 0])  # in the reverse order
    X[:, 2] = np.round(X[:, 0] + random.normal(size=300))  # with ties
    expected = np.abs(spearmanr(X).statistic)
    found = associations(X, schema_of("abcdef"), range(6))
    assert found == pytest.approx(expected, abs=6e-4)
    assert found[0, 1] == 1


def test_the_order_of_columns_and_how_the_matrix_is_laid_out_change_nothing() -> None:
    X = np.random.default_rng(1).normal(size=(200, 1100))
    schema = Schema(tuple(map(str, range(1100))), (0,) * 1100)
    found = associations(X, schema, [3, 1050])
    assert np.array_equal(found, associations(np.asfortranarray(X), schema, [3, 1050]))
    assert np.array_equal(found[:, ::-1], associations(X[:, ::-1], schema, [1096, 49]))


def test_missing_values_lower_the_association_of_numbers() -> None:
    X = np.random.default_rng(2).normal(size=(400, 3))
    X[:, 1] = X[:, 2] = X[:, 0]
    X[::2, 1] = np.nan
    ((one, half, equal),) = associations(X, schema_of("abc"), [0])
    assert (one, equal) == (1, 1)
    assert half == pytest.approx(math.sqrt(0.5), abs=0.05)


def test_a_column_that_is_constant_or_empty_is_like_no_other() -> None:
    X = np.random.default_rng(3).normal(size=(50, 3))
    X[:, 1], X[:, 2] = 7.0, np.nan
    assert associations(X, schema_of("abc"), [0, 1]).tolist() == [[1, 0, 0], [0, 0, 0]]


@given(st.integers(0, 1000))
def test_categories_are_compared_by_symmetrical_uncertainty(seed: int) -> None:
    random = np.random.default_rng(seed)
    one = random.integers(4, size=80).astype(float)
    other = np.where(random.random(80) < 0.3, random.integers(3, size=80), one // 2)
    X = np.column_stack([one, other])
    found = associations(X, schema_of("ab", {"a": 4, "b": 3}), [0])
    expected = symmetrical_uncertainty(one.tolist(), other.tolist())
    assert found[0].tolist() == pytest.approx([1, expected], abs=6e-4)


def test_a_category_stands_for_the_number_that_it_groups_and_the_number_for_it() -> None:
    random = np.random.default_rng(4)
    group = np.repeat(np.arange(4.0), 250)
    number = group + random.uniform(-0.3, 0.3, 1000)
    X = np.column_stack([group, number, random.normal(size=1000)])
    found = associations(X, schema_of("gnx", {"g": 4}), [0, 1, 2])
    assert found[0, 0] == 1
    # ranks vary within a quarter of their range
    assert found[0, 1] == found[1, 0] == pytest.approx(math.sqrt(1 - 1 / 16), abs=1e-3)
    assert found[0, 2] == found[2, 0] < 0.1


def test_many_categories_of_few_rows_are_not_like_any_number_by_chance() -> None:
    random = np.random.default_rng(5)
    X = np.column_stack([np.arange(400.0) // 2, random.normal(size=400)])
    ((_, of_noise),) = associations(X, schema_of("cx", {"c": 200}), [0])
    assert of_noise < 0.4
    each = np.column_stack([np.arange(50.0), random.normal(size=50)])
    assert associations(each, schema_of("cx", {"c": 50}), [0])[0, 1] == 0


def test_a_target_is_compared_as_a_column_of_the_table_would_be() -> None:
    random = np.random.default_rng(8)
    group = random.integers(4, size=300)
    X = np.column_stack([random.normal(size=(300, 3)), group])
    X[::7, 1] = np.nan
    kinds = {"d": 4}
    for y, n_classes in ((X[:, 0] + random.normal(size=300), 0), (group // 2, 2)):
        schema = Schema(tuple("abcd"), (0, 0, 0, 4), n_classes)
        with_column = schema_of("abcdy", kinds | ({"y": n_classes} if n_classes else {}))
        expected = associations(np.column_stack([X, y]), with_column, [1, 3, 4])[:, :4]
        assert np.array_equal(associations(X, schema, [1, 3], y), expected)


def test_a_target_of_classes_is_compared_before_pairs_of_categories_run_out(monkeypatch) -> None:
    monkeypatch.setattr("chaffinch.tasks.statistics.associations._MOST_PAIRS", 2)
    X = np.random.default_rng(9).integers(3, size=(100, 2)).astype(float)
    of_first, of_target = associations(X, Schema(("a", "b"), (3, 3), 3), [0], X[:, 1])
    assert of_first.tolist() == [0, 0]
    assert of_target[1] == 1


def test_each_kept_feature_comes_with_what_is_like_it_strongest_first() -> None:
    random = np.random.default_rng(6)
    a, b = random.normal(size=(2, 500))
    X = np.column_stack(
        [a, a + 0.3 * random.normal(size=500), a + 0.1 * random.normal(size=500), b, 2 * b, b**3]
    )
    X = np.column_stack([X, random.normal(size=500)])
    mask = np.array([True, False, False, True, True, False, False])
    schema = schema_of("abcdefg")
    found = stand_ins(associations(X, schema, [0, 3, 4]), schema, mask, [0, 3, 4])
    assert [one["feature"] for one in found["groups"]] == ["a", "d", "e"]
    alike = found["groups"][0]["dropped"]
    assert [one["feature"] for one in alike] == ["c", "b"]
    assert alike[0]["association"] > alike[1]["association"] >= STRONG
    assert found["groups"][1]["dropped"] == [{"feature": "f", "association": 1.0}]
    assert found["groups"][1]["kept"] == [{"feature": "e", "association": 1.0}]
    assert [one["n_dropped"] for one in found["groups"]] == [2, 1, 1]
    assert (found["n_dropped"], found["n_with_stand_in"]) == (4, 3)


def test_of_many_alike_twenty_are_named_and_all_are_counted() -> None:
    X = np.random.default_rng(7).normal(size=(100, 1)) * np.ones(50)
    schema = Schema(tuple(map(str, range(50))), (0,) * 50)
    strengths = associations(X, schema, [0])
    (found,) = stand_ins(strengths, schema, np.arange(50) < 1, [0])["groups"]
    assert [one["feature"] for one in found["dropped"]] == [str(j) for j in range(1, 21)]
    assert (found["n_dropped"], found["n_kept"]) == (49, 0)

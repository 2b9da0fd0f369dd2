"""Alternatives in print and as a chart."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest

from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import Univariate
from chaffinch.tasks.selection.alternatives.result import Alternatives

SCORES = [9, 8, 7, 3, 2, 1]


@pytest.fixture
def found() -> Alternatives:
    return find_alternatives(
        Univariate(SCORES, names=tuple("abcdef")), k=3, n_alternatives=2, tau=0.5
    )


def test_print_shows_each_set_in_short(found) -> None:
    assert str(found).splitlines() == [
        "3 sets, optimal; total quality 50",
        "  1: a, b, c (quality 24, optimal)",
        "  2: a, d, e (quality 14, optimal)",
        "  3: b, d, f (quality 12, optimal)",
    ]


def test_print_cuts_long_sets() -> None:
    found = find_alternatives(Univariate(range(20)), k=12, n_alternatives=0, tau=0.5)
    assert str(found).splitlines()[1].startswith("  1: 8, 9, 10, 11, 12, 13, 14, 15 and 4 more (")


def test_the_chart_has_a_row_for_each_set_and_the_features_of_most_sets_first(found) -> None:
    axes = found.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        *("1: quality 24", "2: quality 14", "3: quality 12")
    ]
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert set(names[:3]) == {"a", "b", "d"}
    (image,) = axes.get_images()
    drawn = [
        {name for name, cell in zip(names, row, strict=True) if cell} for row in image.get_array()
    ]
    assert drawn == [set(one.features) for one in found]
    plt.close(axes.figure)


def test_the_chart_goes_where_it_is_asked_to(found) -> None:
    figure, axes = plt.subplots()
    assert found.plot(axes) is axes
    plt.close(figure)


def test_no_sets_cannot_be_drawn() -> None:
    found = Alternatives((), 0.0, 0.0, "infeasible", 0.0)
    assert str(found) == "0 sets, infeasible; total quality 0"
    with pytest.raises(ValueError, match=r"no sets to draw \(infeasible\); search with a lower"):
        found.plot()

"""Near copies count as one feature in alternatives."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import AlternativeSettings, Constraints
from chaffinch.flows.cli.output import show
from chaffinch.tasks.methods.alternatives import copies_stood_for
from chaffinch.tasks.selection.alternatives.dissimilarity import dissimilarity
from chaffinch.tasks.selection.alternatives.quality import Univariate
from tests.tasks.methods.synthetic_alternatives import select
from tests.tasks.reporting.synthetic_report import Page

pytestmark = pytest.mark.usefixtures("undrawn")


def table(n_copies=2):
    """Six features that matter less and less, each with near copies, named by their feature."""
    random = np.random.default_rng(0)
    causes = random.normal(size=(500, 6))
    columns = {
        f"{name}{copy}": causes[:, j] + 0.05 * bool(copy) * random.normal(size=500)
        for j, name in enumerate("abcdef")
        for copy in range(1 + n_copies)
    }
    target = causes @ [1.5, 1.3, 1.1, 0.9, 0.7, 0.5] + random.normal(size=500)
    return pd.DataFrame(columns).assign(y=np.where(target > 0, "yes", "no"))


def features_in(names):
    return {name[0] for name in names}


@pytest.mark.parametrize("search", ["sequential", "simultaneous"])
@pytest.mark.parametrize("kind", ["dice", "jaccard"])
@pytest.mark.parametrize("n_features", [2, 8])
def test_no_set_differs_by_near_copies_alone_or_takes_two_of_them(search, kind, n_features):
    """A ranking keeps copies beside each other: they are one feature of the chosen set."""
    asked = AlternativeSettings(
        number=2, tau=0.5, quality="mutual_information", search=search, dissimilarity=kind
    )
    found = select(table(), method="correlation", n_features=n_features, alternatives=asked)
    sets = [found.features, *(one["features"] for one in found.alternatives["sets"])]
    n_chosen = len(features_in(found.features))
    assert n_chosen < n_features
    assert len(sets) > 1
    for one, other in combinations(map(features_in, sets), 2):
        assert dissimilarity(one, other, kind) >= 0.5
    assert all(len(names) == len(features_in(names)) == n_chosen for names in sets[1:])


def test_the_best_set_is_that_of_all_that_take_one_of_each_group():
    asked = AlternativeSettings(number=1, tau=0.5, quality="mutual_information")
    data = table(n_copies=1)
    found = select(data, method="correlation", n_features=3, alternatives=asked)
    scores = select(data, method="mutual_information", alternatives=None).scores
    stood_for = found.alternatives["near_copies"]
    copies = {name for names in stood_for.values() for name in names}
    chosen = {*found.features} - copies
    of_chosen = {name[0]: name for name in chosen}
    worth = {
        names: sum(scores[name] for name in names)
        for names in combinations(scores, len(chosen))
        if len(features_in(names)) == len(names)
        and all(of_chosen.get(name[0], name) == name for name in names)
        and dissimilarity(features_in(names), features_in(chosen), "dice") >= 0.5
    }
    (alternative,) = found.alternatives["sets"]
    assert alternative["quality"] == pytest.approx(max(worth.values()), rel=1e-12)


def test_each_feature_names_its_near_copies_in_terminal_and_report(capsys, tmp_path):
    asked = AlternativeSettings(number=1, quality="mutual_information")
    found = select(table(), method="mrmr", n_features=2, alternatives=asked)
    stood_for = found.alternatives["near_copies"]
    assert {name[0]: {*names} | {name} for name, names in stood_for.items()} == {
        name: {f"{name}{copy}" for copy in range(3)} for name in "abcdef"
    }
    page = Page(found.report(tmp_path / "report.html").read_bytes())
    show(found, as_json=False)
    printed = capsys.readouterr().out
    rows = {row[0]: row[-1] for row in page.tables["Features of each set"][1:]}
    for name in found.alternatives["sets"][0]["features"]:
        assert rows[name] == ", ".join(stood_for[name])
        assert repr(stood_for[name][0]) in printed


def test_where_all_but_near_copies_are_chosen_there_is_no_other_set():
    asked = AlternativeSettings(number=1, quality="mutual_information")
    found = select(table(), method="correlation", n_features=18, alternatives=asked)
    assert found.alternatives["sets"] == []
    assert found.alternatives["missing"]["reason"] == "all_features"


def test_what_stands_for_a_group_is_kept_or_chosen_or_cheap_or_of_the_highest_quality():
    quality = Univariate([1, 2, 3, 4])
    group = [[0, 1, 2, 3]]

    def stands(chosen=(), **constraints):
        rules = Constraints(**constraints).checked(4, 2, 1)
        return copies_stood_for(group, chosen, quality, rules)

    assert stands() == {3: [0, 1, 2]}
    assert stands(costs=[2, 1, 1, 3], budget=5) == {2: [0, 1, 3]}
    assert stands([0, 1]) == {1: [0, 2, 3]}
    assert stands([0, 1], must_include=[2]) == {2: [0, 1, 3]}
    assert stands(must_include=[2, 0]) == {2: [1, 3]}
    assert stands(groups=[chaffinch.Group([3, 1], all_or_none=True)]) == {2: [0]}

"""What cannot be searched for is refused in one line, before any work."""

import numpy as np
import pytest

from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.hill_climbing import Wrapper
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Univariate
from chaffinch.tasks.selection.constraints import Constraints, Group

QUALITY = Univariate([4, 3, 2, 1], names=["age", "income", "city", "size"])

LARGE = ".*1e[+]300 .*but is a whole number of about 400 digits"
SETTINGS = [
    ({"k": 5}, "k must be in 1..4 but is 5"),
    ({"k": 1.5}, "k must be a whole number in 1..4 but is 1.5"),
    ({"k": "2"}, "k must be a whole number in 1..4 but is '2'"),
    ({"k": True}, "k must be a whole number in 1..4 but is True"),
    ({"k": [2, 2]}, r"k must be a whole number in 1..4 but is \[2, 2\]"),
    ({"n_alternatives": 10**12}, "n_alternatives must be in 0..1000000 but is 1000000000000"),
    ({"n_alternatives": -1}, "n_alternatives must be in 0..1000000 but is -1"),
    ({"n_alternatives": 1.5}, "n_alternatives must be a whole number in 0..1000000 but is 1.5"),
    ({"tau": 0.0}, "tau must be above 0 and at most 1 but is 0.0"),
    ({"tau": 1.1}, "tau must be above 0 and at most 1 but is 1.1"),
    ({"tau": "x"}, "tau must be above 0 and at most 1 but is 'x'"),
    ({"tau": None}, "tau must be above 0 and at most 1 but is None"),
    ({"dissimilarity": "hamming"}, "dissimilarity must be 'dice' or 'jaccard' but is 'hamming'"),
    ({"search": "random"}, "search must be .* but is 'random'"),
    ({"time_limit": 0}, "time_limit must be above 0 seconds but is 0"),
    ({"time_limit": "5"}, "time_limit must be above 0 seconds but is '5'"),
    ({"time_limit": 10**400}, f"time_limit must be at most {LARGE}"),
    ({"tau": 10**400}, f"tau must be at most {LARGE}"),
    ({"previous": [["agge"]]}, "each set of previous must name features but names 'agge'"),
    ({"previous": ["age"]}, "each set of previous must be a sequence of features but is 'age'"),
    ({"previous": [1, 2]}, "each set of previous must be a sequence of features but is 1"),
    ({"previous": [[4]]}, r"each set of previous must have indices in 0\.\.3 but has 4"),
    ({"previous": [[0.7]]}, "each set of previous must be .* names of .* 0.7"),
    ({"previous": [[True, False]]}, "each set of previous must be indices .* but has True"),
    ({"previous": [np.ones(3, dtype=bool)]}, ".*previous must be a mask of shape"),
    ({"quality": [1, 2, 3]}, "quality must be Univariate, FCBF, MRMR, CFS or a Wrapper but is"),
    ({"constraints": {"must_include": [1]}}, "constraints must be Constraints but are {'must"),
]
RULES = {
    "unknown": (Constraints(["agge"]), "must_include must name features but names 'agge'"),
    "both": (Constraints([0], ["age"]), "a feature must be included or excluded but 'age'"),
    "in": (Constraints([0, 1, 2]), "must_include must name at most k = 2 features but names 3"),
    "out": (Constraints((), [0, 1, 2]), "must_exclude must leave at least k = 2 .* but leaves 1"),
    "group": (
        Constraints(groups=[Group([0, 1, 2], at_least=3)]),
        r"a group's at_least must be in 0\.\.2 \(k\) but is 3",
    ),
    "costs": (Constraints(costs=[1, 2]), "costs must be 4, one for each feature, but are 2"),
    "cost": (Constraints(costs={"age": -1}, budget=1), r"the cost of feature 0 must be .* is -1"),
    "budget": (Constraints(budget=1.0), "costs and a budget go together .* give costs"),
    "no budget": (Constraints(costs=[1] * 4), "costs and a budget go together .* give budget"),
    "sequence": (Constraints(must_include=3), "must_include must be a sequence of feat"),
    "half a member": (Constraints(groups=[Group([0, 1], at_least=1.5)]), "a group's at_least must"),
    "text for members": (Constraints(groups=[Group([0], at_least="1")]), "a group's at_least must"),
    "no group": (Constraints(groups=[[0, 1]]), r"groups must hold Group but hold \[0, 1\]; give"),
    "one group": (Constraints(groups=Group([0])), r"groups must be a sequence .* is Group\("),
    "refund": (
        Constraints(groups=[Group([0, 1], cost=-1)]),
        "a group's cost must be a number in 0",
    ),
    "shared": (Constraints(groups=[Group([0, 1], cost=1)]), "a group's cost of 1 is paid once"),
    "one cost": (Constraints(costs=3, budget=1), "costs must be one for each feature, .* are 3"),
    "cost twice": (Constraints(costs={"age": 5, 0: 3}, budget=4), "costs must .* feature 0 twice"),
    "text for a cost": (Constraints(costs=["a"] * 4, budget=1), "the cost of feature 0 must be a"),
    "large cost": (Constraints(costs=[1e308] * 4, budget=1.7e308), "the cost of feature 0 must be"),
    "larger cost": (Constraints(costs=[10**400] * 4, budget=1), f"the cost of feature 0 {LARGE}"),
    "text for a budget": (Constraints(costs=[1] * 4, budget="3"), "budget must .* but is '3'"),
    "large budget": (Constraints(costs=[1] * 4, budget=10**400), f"budget must be .* {LARGE}"),
    "nan": (Constraints(costs=[5] * 4, budget=np.nan), "budget must be a number in 0"),
    "debt": (Constraints(costs=[5] * 4, budget=-1), "budget must be a number in 0"),
    "half a set": (Constraints(max_sets_per_feature=1.5), "max_sets_per_feature must"),
    "fewer than none": (Constraints(groups=[Group([0, 1], at_most=-1)]), "a group's at_most"),
    "count": (Constraints(max_sets_per_feature=0), "max_sets_per_feature must be .* but is 0"),
    "in all": (
        Constraints([0], max_sets_per_feature=1),
        "max_sets_per_feature .* the 2 sets, .* is 1",
    ),
}
QUALITIES = {
    "shape": (lambda: Univariate([[1, 2]]), r"values must be one number for each .* \(1, 2\)"),
    "none": (lambda: Univariate([]), "values must be one number for each feature"),
    "nan": (lambda: Univariate([1, np.nan]), "values must be finite but is nan for feature 1"),
    "masked": (
        lambda: Univariate(np.ma.masked_equal([1.0, 2, 3], 2)),
        "values must have no masked values, which .*, but has 1; leave .* by values.filled",
    ),
    "masked pairs": (
        lambda: CFS([1.0, 1], np.ma.masked_equal(np.eye(2), 1)),
        "redundancy must have no masked values, .* 2; leave .* by redundancy.filled",
    ),
    "names": (lambda: Univariate([1, 2], ["a", "a"]), "names must be 2 different ones"),
    "number of names": (lambda: Univariate([1, 2], 5), "names must be one for each of 2 .* is 5"),
    "text for names": (lambda: Univariate([1, 2], "ab"), "names must be one for each .* is 'ab'"),
    "numbers for names": (lambda: Univariate([1, 2], [1, "1"]), "names must be strings but hold 1"),
    "pairs": (lambda: MRMR([1, 2], [1, 2]), r"redundancy must have the shape \(2, 2\) but has"),
    "inf": (
        lambda: FCBF([1, 2], [[0, np.inf], [0, 0]]),
        "redundancy .* inf for the features 0 and 1",
    ),
    "negative": (
        lambda: CFS([0.5, -0.5], np.zeros((2, 2))),
        "the relevance of CFS must be at least 0 but is -0.5; take absolute correlations",
    ),
    "steps": (lambda: Wrapper(sum, 3, max_steps=0), "max_steps must be at least 1 but is 0"),
    "no features": (lambda: Wrapper(sum, 0), "n_features must be at least 1 but is 0"),
    "half a feature": (lambda: Wrapper(sum, 4.0), "n_features must be a whole .* but is 4.0"),
    "text for features": (lambda: Wrapper(sum, "4"), "n_features must be a whole .* is '4'"),
    "half a step": (lambda: Wrapper(sum, 4, max_steps=2.5), "max_steps must be a whole .* is 2.5"),
    "score": (lambda: Wrapper(3, 4), "score must be a function of a set's indices but is 3"),
    "start": (lambda: Wrapper(sum, 3, start=[1, 2]), "start must be 3 numbers but is 2"),
    "text": (lambda: Univariate(["a", "b"]), "values cannot be read .dtype='numeric' is not"),
    "text as objects": (
        lambda: Univariate(np.array([1, None, "b"], dtype=object)),
        "values cannot be read .could not convert string to float: 'b'.; give a float for each",
    ),
    "gap": (lambda: Univariate([1, None]), "values must be finite but is nan for feature 1"),
    "complex": (lambda: Univariate([1, 2 + 1j]), "values cannot be read .Complex data not suppo"),
    "uneven": (lambda: Univariate([[1], [2, 3]]), "values cannot be read .setting an array"),
    "large": (lambda: Univariate([1, 1e308]), r"values must be at most 1e\+300 .* 1e\+308"),
    "text of pairs": (lambda: MRMR([1, 2], [["a", 0], [0, 0]]), "redundancy cannot be read .dtype"),
    "large pairs": (
        lambda: MRMR([1, 2], [[0, -1e305], [0, 0]]),
        r"redundancy must be at most 1e\+300 in size",
    ),
}


def refused(message):
    return pytest.raises(ValueError, match=f"^{message}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [*SETTINGS, *(({"constraints": rules}, message) for rules, message in RULES.values())],
)
def test_settings_and_constraints(settings, message):
    asked = {"quality": QUALITY, "k": 2, "n_alternatives": 1, "tau": 0.5} | settings
    with refused(message) as error:
        find_alternatives(asked.pop("quality"), **asked)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("search", ["simultaneous", "greedy_depth_search"])
def test_too_many_sets_at_once(search):
    with refused(f"n_alternatives must be at most 999 if search is {search} but is 1000; use seq"):
        find_alternatives(QUALITY, k=2, n_alternatives=1000, tau=0.5, search=search)


@pytest.mark.parametrize("case", QUALITIES)
def test_qualities(case):
    make, message = QUALITIES[case]
    with refused(message) as error:
        make()
    assert "\n" not in str(error.value)


Q6 = Univariate([9, 8, 7, 3, 2, 1])


def test_a_set_may_be_given_as_a_mask() -> None:
    mask = np.array([0, 0, 0, 0, 1, 1], dtype=bool)
    options = {"k": 2, "n_alternatives": 1, "tau": 1}
    found = find_alternatives(Q6, previous=[mask], **options)
    assert [one.indices for one in found] == [(0, 1), (2, 3)]


def test_values_next_to_nothing_end_as_well() -> None:
    least = 1e-320
    found = find_alternatives(
        Univariate([least, 2 * least, 2 * least, 0, 0, 0, 0]),
        k=3,
        n_alternatives=1,
        tau=0.8,
        search="simultaneous",
        aggregate="min",
        constraints=Constraints(max_sets_per_feature=2),
    )
    assert len(found) == 2


def test_values_as_large_as_they_may_be_are_added_up() -> None:
    largest = Univariate([1e300] * 6)
    for search in ("sequential", "simultaneous"):
        found = find_alternatives(largest, k=2, n_alternatives=2, tau=1, search=search)
        assert found.total == found.bound == 6e300
    with_pairs = MRMR([1e300] * 6, np.full((6, 6), 1e300))
    found = find_alternatives(with_pairs, k=2, n_alternatives=2, tau=1)
    assert (found.status, found.total) == ("optimal", 0)

"""What reports and the log tell of PEFS: what was searched, what was not, and what was chosen."""

import logging

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch.methods import Pefs
from tests.tasks.reporting.synthetic_report import Page

SMALL = {"hidden_layer_sizes": (8,), "most_sweeps": 1}
OF_SEARCHES = (
    "A network and the probability", "Each search", "Entropy", "Stability", "Probability",
    "of the search", "the probabilities", "the losses of the networks",
)  # fmt: skip
OF_A_CHOICE = ("lowest loss won", "how many features to keep")


def report(tmp_path, d=4, **asked):
    """Return the result and the page of a run on a made-up table of d features."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(200, d)), columns=list("abcd")[:d])
    table = X.assign(y=2 * X["a"] + 0.3 * random.normal(size=200))
    keep = asked.pop("keep", ())
    model = chaffinch.ModelSettings(name="linear", tuning="none")
    result = chaffinch.select(table, "y", method=Pefs(**SMALL, **asked), model=model, keep=keep)
    written = result.report(tmp_path / "report.html").read_bytes()
    assert Page(written).open == []
    return result, Page(written)


@pytest.mark.parametrize(
    ("d", "asked", "why", "why_one"),
    [
        (4, {"n_features": (4,)}, "as many were asked for as there are", "one size was asked for"),
        (1, {}, "there is one feature, and nothing to choose from", "there was one set alone"),
        (
            4,
            {"n_features": (2, 0.5), "keep": ["b", "c"]},
            "no more were asked for than are on the keep list",
            "all sizes asked for led to the same features",
        ),
        (
            4,
            {"keep": ["a", "b", "c", "d"]},
            "all features are on the keep list",
            "there was one set alone",
        ),
    ],
)
def test_where_nothing_is_searched_nothing_is_told_of_searches(
    d, asked, why, why_one, tmp_path, caplog
):
    with caplog.at_level(logging.INFO, logger="chaffinch"):
        result, page = report(tmp_path, d, **asked)
    assert f"Nothing was searched, and no network trained: {why}" in page.text
    assert f"Nothing was to be chosen, as {why_one}." in page.text
    told = page.text.replace(why, "")
    assert [said for said in (*OF_SEARCHES, *OF_A_CHOICE) if said in told] == []
    assert "Searches" not in page.tables
    assert page.charts in ([], ["Difference"])  # at most the interval
    assert result.scores is None
    assert "score" not in result.to_frame()
    losses = page.tables["Losses of the two final models (squared error)"]
    assert [row[-1] for row in losses[1:4]] == [
        "tuning, fitting, the baseline", "fitting alone", "the loss of the one candidate",
    ]  # fmt: skip
    of_pefs = [said for said in caplog.messages if said.startswith("pefs, ")]
    assert of_pefs
    assert all(said.endswith(": nothing to search, as one set is left") for said in of_pefs)


def test_where_some_of_it_is_searched_the_rest_is_told_apart(tmp_path):
    result, page = report(tmp_path, n_features=(1, 2, 4), keep=["c"])
    said = (
        "For 1 and 4 features nothing was searched: no more were asked for than are on the keep "
        "list, or as many were asked for as there are."
    )
    assert said in page.text
    assert [row[0] for row in page.tables["Searches"][1:]] == ["2"]
    assert "A network and the probability" in page.text
    assert "Each search" not in page.text  # there is one
    assert all(said in page.text for said in OF_A_CHOICE)
    assert (result.scores is None) == (len(result.features) != 2)


@pytest.mark.parametrize(
    ("asked", "steered", "why_one"),
    [
        ({"n_features": (2,)}, True, "one size was asked for"),
        ({"penalties": (0.1,)}, False, "one penalty was asked for"),
    ],
)
def test_of_one_search_no_other_is_told_and_nothing_was_chosen(asked, steered, why_one, tmp_path):
    result, page = report(tmp_path, **asked)
    assert ("The penalty was steered towards the number of features" in page.text) == steered
    assert f"Nothing was to be chosen, as {why_one}." in page.text
    assert [said for said in (*OF_A_CHOICE, "Each search", "over seeds") if said in page.text] == []
    assert len(page.tables["Searches"]) == 2
    assert set(result.scores) == set("abcd")


def test_of_a_sweep_each_search_and_the_choice_are_told(tmp_path):
    _, page = report(tmp_path, penalties=(0.0, 1.0), seeds=2)
    assert "Each search, for each penalty and each seed, has a network of its own." in page.text
    assert "The probability is the mean over the seeds." in page.text
    assert len(page.tables["Searches"]) == 5
    assert len(page.tables["Candidate sizes"]) == 3
    assert all(said in page.text for said in OF_A_CHOICE)

"""What the terminal says of alternatives."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import AlternativeSettings, ModelSettings
from chaffinch.flows.cli.output import lines_of_alternatives, show
from chaffinch.tasks.reporting import render_report
from tests.tasks.methods.made_up_alternatives import select
from tests.tasks.reporting.made_up_report import Page, made_up


def test_a_chosen_set_that_the_quality_does_not_allow_is_told(capsys) -> None:
    random = np.random.default_rng(0)
    causes = random.normal(size=(300, 2))
    copies = causes + 0.1 * random.normal(size=(300, 2))
    table = pd.DataFrame(np.hstack([causes, copies]), columns=["a", "b", "a2", "b2"])
    table["y"] = causes.sum(axis=1) + 0.1 * random.normal(size=300)
    result = chaffinch.select(
        table,
        "y",
        method="correlation",
        n_features=3,
        model=ModelSettings(name="linear", tuning="none"),
        alternatives=AlternativeSettings(number=1, quality="fcbf"),
    )
    show(result, as_json=False)
    said = capsys.readouterr().out
    assert (
        "0 alternatives, tau 0.5, by fcbf; 1 was asked for, but no other possible set of 3 "
        "features differs that much and is free of redundant pairs, which fcbf asks for.\n"
        "  A lower tau, fewer chosen features or another quality may make room.\n"
        "  By fcbf the chosen set has no quality: one of its features makes another "
        "redundant, which it allows in no set.\n"
    ) in said


def test_a_difference_that_is_rounding_alone_is_0_in_terminal_and_report(capsys, tmp_path) -> None:
    """All other features are multiples of one, of which no line can tell one from the other."""
    random = np.random.default_rng(0)
    cause = random.normal(size=300)
    table = pd.DataFrame({f"x{times}": times / 7 * cause for times in range(1, 6)})
    result = chaffinch.select(
        table.assign(y=cause + 0.1 * random.normal(size=300)),
        "y",
        method="correlation",
        n_features=1,
        model=ModelSettings(name="linear", tuning="none"),
        alternatives=AlternativeSettings(number=4, quality="mutual_information"),
    )
    assert len(result.alternatives["sets"]) == 4
    show(result, as_json=False)
    assert capsys.readouterr().out.count(", 0 [0, 0] to the chosen;") == 4
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    shown = [row[4:6] for row in page.tables["The sets"][2:]]
    assert shown == [["0", "[0, 0]"]] * 4


def test_a_long_set_is_cut_in_the_terminal_with_a_word_and_listed_in_full_elsewhere(capsys) -> None:
    found = select(alternatives=AlternativeSettings(number=1, quality="mutual_information"))
    names = [f"feature {place}" for place in range(43)]
    alternatives = {
        **found.alternatives,
        "chosen": {**found.alternatives["chosen"], "features": names},
        "sets": [{**found.alternatives["sets"][0], "features": names}],
    }
    long = replace(found, alternatives=alternatives, scores=dict.fromkeys(found.candidates, 0.5))
    show(long, as_json=False)
    told = f"     {', '.join(names[:40])} and 3 more (--json lists all)\n"
    assert told in capsys.readouterr().out
    show(long, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["alternatives"], shown["scores"]) == (alternatives, long.scores)
    page = Page(render_report(replace(made_up(["a0", "b0"], 2), alternatives=alternatives)))
    rows = page.tables["Features of each set"]
    assert rows[0] == ["Feature", "chosen", "1"]
    assert [row[0] for row in rows[1:]] == names
    assert all(row[1] and row[2] for row in rows[1:])


def test_where_the_worst_counts_the_proof_is_told_once(capsys) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 8))).add_prefix("x")
    result = chaffinch.select(
        table.assign(y=table.sum(axis=1)),
        "y",
        method="correlation",
        n_features=2,
        model=ModelSettings(name="linear", tuning="none"),
        alternatives=AlternativeSettings(
            number=2, quality="mutual_information", search="simultaneous", aggregate="min"
        ),
    )
    show(result, as_json=False)
    said = capsys.readouterr().out
    worths = [one["quality"] for one in result.alternatives["sets"]]
    assert "mutual_information.\n  The worst of them is the best that it can be: proven.\n" in said
    for worth in worths:
        assert f"quality {worth:.4g} (chosen: " in said


DECIDES_NOTHING = (
    "At least 20 rows, groups or blocks of time are needed to compare by, and there are 19, "
    "so that these intervals decide nothing."
)


@pytest.mark.parametrize(("n_rows", "n_units"), [(127, 19), (134, 20)])
def test_intervals_of_too_few_test_rows_are_said_to_decide_nothing(
    n_rows, n_units, capsys, tmp_path
) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(n_rows, 4)), columns=list("abcd"))
    result = chaffinch.select(
        table.assign(y=table["a"] + random.normal(size=n_rows)),
        "y",
        method="correlation",
        n_features=1,
        model=ModelSettings(name="linear", tuning="none"),
        alternatives=AlternativeSettings(number=2, quality="mutual_information"),
    )
    assert result.comparison["units"] == n_units
    assert None not in [one["interval"] for one in result.alternatives["sets"]]
    show(result, as_json=False)
    said = capsys.readouterr().out
    text = Page(result.report(tmp_path / "report.html").read_bytes()).text
    is_too_small = n_units < 20
    last = ", ".join(result.alternatives["sets"][-1]["features"])
    assert (f"     {last}\n  {DECIDES_NOTHING}\n" in said) == is_too_small
    assert ("decide nothing" in said) == is_too_small
    assert (DECIDES_NOTHING in text) == is_too_small
    assert ("An interval that holds zero says" in text) != is_too_small


def test_of_one_unit_the_differences_decide_nothing_as_there_are_no_intervals() -> None:
    one = {"test_loss": 1.0, "difference": 0.1, "interval": None, "features": ["a"], "bound": 1.0}
    found = {
        "settings": {"number": 1, "tau": 0.5, "quality": "mrmr", "aggregate": None},
        "chosen": {"quality": 1.0},
        "status": "optimal",
        "sets": [{**one, "quality": 1.0, "status": "optimal"}],
    }
    *_, last = lines_of_alternatives(found, "squared error", 1)
    assert last == (
        "  At least 20 rows, groups or blocks of time are needed to compare by, and there is 1, "
        "so that these differences decide nothing."
    )

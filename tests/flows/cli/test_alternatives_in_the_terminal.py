"""What the terminal says of alternatives."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import AlternativeSettings, ModelSettings
from chaffinch.flows.cli.output import show
from chaffinch.tasks.reporting import render_report
from tests.tasks.methods.synthetic_alternatives import select
from tests.tasks.reporting.synthetic_report import Page, synthetic


def test_a_difference_that_is_rounding_alone_is_0_in_terminal_and_report(capsys, tmp_path) -> None:
    """Each two features are of the same plane, of which no line can tell one pair from another."""
    random = np.random.default_rng(0)
    causes = random.normal(size=(300, 2))
    angles = {f"x{place}": place * np.pi / 10 for place in range(10)}
    table = pd.DataFrame({x: causes @ [np.cos(a), np.sin(a)] for x, a in angles.items()})
    result = chaffinch.select(
        table.assign(y=causes[:, 0] + 0.1 * random.normal(size=300)),
        "y",
        method="correlation",
        n_features=2,
        model=ModelSettings(name="LinearRegression", tuning="none"),
        alternatives=AlternativeSettings(number=4, tau=1, quality="mutual_information"),
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
    page = Page(render_report(replace(synthetic(["a0", "b0"], 2), alternatives=alternatives)))
    rows = page.tables["Features of each set"]
    assert rows[0] == ["Feature", "chosen", "1"]
    assert [row[0] for row in rows[1:]] == names
    assert all(row[1] and row[2] for row in rows[1:])


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

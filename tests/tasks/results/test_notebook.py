"""What a notebook shows of a result, and the curve that it draws."""

import html
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

import chaffinch
from chaffinch import ModelSettings
from tests.synthetic import good_table
from tests.tasks.methods.synthetic_alternatives import two_that_share_nothing

pytestmark = pytest.mark.usefixtures("undrawn")
LINEAR = ModelSettings(name="linear", tuning="none")
HOSTILE = "<script>alert(1)</script>"


def select(method="gbmo", **options):
    table = good_table(200).rename(columns={"age": HOSTILE})
    return chaffinch.select(table, "churned", method=method, model=LINEAR, **options)


def cells(shown):
    return [html.unescape(cell) for cell in re.findall("<td>(.*?)</td>", shown)]


def texts(shown):
    """The headings and paragraphs, without their tags."""
    found = re.findall("<(?:h4|p)>(.*?)</(?:h4|p)>", shown)
    return [html.unescape(re.sub("<.*?>", "", text)) for text in found]


def test_a_result_has_its_verdict_its_metrics_and_its_features_by_rank():
    result = select()
    assert HOSTILE in result.features
    shown = result._repr_html_()
    assert html.escape(result.verdict) in shown
    assert [cell for cell in cells(shown) if cell in result.metrics] == [*result.metrics]
    assert [cell for cell in cells(shown) if cell in result.candidates] == sorted(
        result.features, key=result.ranks.get
    )
    contract = result.contract._repr_html_()
    assert [cell for cell in cells(contract) if cell in result.candidates] == sorted(
        result.features
    )
    assert not any("<script>" in one for one in (shown, contract))


@pytest.fixture(scope="module")
def compared():
    table = good_table(200).rename(columns={"age": HOSTILE})
    leaking = table.assign(**{"<leak>": (table["churned"] == table["churned"][0]) * 1.0})
    return chaffinch.compare(
        [table, leaking],
        "churned",
        methods=["gbmo", "anova_f"],
        models=[LINEAR],
        folds=3,
        seeds=1,
        sizes=(2, 4),
    )


def test_a_comparison_has_the_tables_and_sentences_of_the_terminal(compared):
    shown = compared._repr_html_()
    in_columns = [line for line in compared.lines if line.startswith("  ")]
    rows = [re.split(" {2,}", line.strip()) for line in in_columns]
    found = re.findall("<t[hd]>(.*?)</t[hd]>", shown)
    assert [html.unescape(cell) for cell in found] == [cell for row in rows for cell in row]
    sentences = [line for line in compared.lines if line and line not in in_columns]
    assert texts(shown)[: len(sentences)] == sentences
    assert "<leak>" not in shown


def test_warnings_are_labelled(compared):
    table = good_table(200)
    leaking = table.assign(leak=(table["churned"] == table["churned"][0]) * 1.0)
    with pytest.warns(chaffinch.DataQualityWarning):
        result = chaffinch.select(leaking, "churned", method="anova_f", model=LINEAR)
    for one, warnings in (
        (result, result.warnings),
        (result.contract, result.warnings),
        (compared, compared.warnings),
    ):
        assert warnings
        labelled = [text for text in texts(one._repr_html_()) if text.startswith("Warning: ")]
        assert labelled == [f"Warning: {warning}" for warning in warnings]


def test_a_comparison_has_its_figures_as_a_table_and_draws_the_differences(compared):
    frame = compared.to_frame()
    outcomes = [outcome for table in compared.summary.tables for outcome in table.outcomes]
    assert len(frame) == len(outcomes) == 2 * (1 + 2 * 3)
    for row, outcome in zip(frame.to_dict("records"), outcomes, strict=True):
        assert row["loss"] == outcome.mean_loss
        assert row["method"] == outcome.contender.method
        if outcome.difference:
            assert (row["difference"], row["verdict"]) == (outcome.difference.mean, outcome.verdict)
            assert (row["low"], row["high"]) == outcome.difference.interval
    assert frame["size"].isna().sum() == 2 * 3  # all features, and each method's own choice
    name, other = frame["table"].unique()
    axes = compared.plot(Figure().add_subplot(), table=other)
    drawn = [[*line.get_xdata()] for line in axes.lines]
    expected = frame[(frame["table"] == other) & (frame["method"] != "all")]
    for row in expected.to_dict("records"):
        assert [row["difference"]] in drawn
        assert [row["low"], row["high"]] in drawn
    assert [0, 0] in drawn
    for which in ({}, {"table": "another"}, {"table": name, "model": "another"}):
        with pytest.raises(chaffinch.InputError, match=name):
            compared.plot(**which)


def test_the_alternatives_of_a_run_are_shown_as_a_table():
    found = two_that_share_nothing().alternatives
    frame, sets = found.to_frame(), [found["chosen"], *found["sets"]]
    assert frame["features"].tolist() == [one["features"] for one in sets]
    assert frame["quality"].tolist() == [one["quality"] for one in sets]
    assert frame["difference"].tolist()[1:] == [one["difference"] for one in found["sets"]]
    shown = [", ".join(one["features"]) for one in sets]
    assert cells(found._repr_html_())[len(frame.columns) - 1 :: len(frame.columns)] == shown
    rows = str(found).splitlines()[-len(sets) :]
    assert all(row.endswith(features) for row, features in zip(rows, shown, strict=True))


@pytest.mark.parametrize("method", ["auto", "gbmo", "anova_f", "rfecv", "afs_bm"])
def test_the_curve_falls_from_all_features_and_is_drawn(method, tmp_path):
    result = select(method, store=tmp_path)
    curve = result.curve
    assert curve["n_features"].is_monotonic_decreasing
    assert np.isfinite(curve["loss"]).all()
    assert chaffinch.load_run(result.run, store=tmp_path).curve.equals(curve)
    if method == "auto":
        prices = np.reshape(cells(result._repr_html_())[-6 * len(curve) :], (-1, 6))
        assert prices[:, 0].astype(int).tolist() == curve["n_features"].tolist()
        assert prices[prices[:, -1] == "chosen", 0] == [str(len(result.features))]
    if method == "gbmo":
        assert curve["n_features"].iloc[0] == len(result.candidates)
        assert curve["loss"].tolist()[1:] == result.path["loss"].tolist()
    axes = result.plot(Figure().add_subplot())
    line = axes.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), curve["n_features"])
    np.testing.assert_array_equal(line.get_ydata(), curve["loss"])

"""What a notebook shows of a result, and the curve that it draws."""

import html
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

import chaffinch
from chaffinch import ModelSettings
from tests.made_up import good_table

LINEAR = ModelSettings(name="linear", tuning="none")
HOSTILE = "<script>alert(1)</script>"


def select(method="gbmo", **options):
    table = good_table(200).rename(columns={"age": HOSTILE})
    return chaffinch.select(table, "churned", method=method, model=LINEAR, **options)


def cells(shown):
    return [html.unescape(cell) for cell in re.findall("<td>(.*?)</td>", shown)]


def test_a_result_has_its_verdict_its_metrics_and_its_features():
    result = select(keep=[HOSTILE])
    shown = result._repr_html_()
    assert html.escape(result.verdict) in shown
    assert [cell for cell in cells(shown) if cell in result.metrics] == [*result.metrics]
    assert [cell for cell in cells(shown) if cell in result.candidates] == [
        *result.importance["feature"]
    ]
    contract = result.contract._repr_html_()
    assert [cell for cell in cells(contract) if cell in result.candidates] == sorted(
        result.features
    )
    assert not any("<script>" in one for one in (shown, contract))


def test_comparisons_and_alternatives_are_shown():
    table = good_table(200)
    options = {"methods": ["anova_f"], "models": [LINEAR], "folds": 2, "seeds": 1}
    compared = chaffinch.compare(table, "churned", **options)
    assert html.escape(repr(compared)) in compared._repr_html_()
    quality = chaffinch.qualities.Univariate(np.array([3.0, 2.0, 1.0, 1.0]))
    found = chaffinch.find_alternatives(quality, k=2, n_alternatives=1, tau=0.5)
    assert [str(one.quality) for one in found] == cells(found._repr_html_())[1::6]


@pytest.mark.parametrize("method", ["auto", "gbmo", "anova_f", "rfecv", "afs_bm"])
def test_the_curve_falls_from_all_features_and_is_drawn(method, tmp_path):
    result = select(method, store=tmp_path)
    curve = result.curve
    assert curve["n_features"].is_monotonic_decreasing
    assert np.isfinite(curve["loss"]).all()
    assert chaffinch.load_run(result.run, store=tmp_path).curve.equals(curve)
    if method == "gbmo":
        assert curve["n_features"].iloc[0] == len(result.candidates)
        assert curve["loss"].tolist()[1:] == result.path["loss"].tolist()
    axes = result.plot(Figure().add_subplot())
    line = axes.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), curve["n_features"])
    np.testing.assert_array_equal(line.get_ydata(), curve["loss"])

"""A ranking is one function and one line in the registry, where all else finds it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer

import chaffinch
from chaffinch.flows.cli.commands import cli
from chaffinch.tasks.settings import method as registry
from chaffinch.tasks.settings.method import kinds, method_of, register
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.tasks.reporting.synthetic_report import Page

LINEAR = chaffinch.ModelSettings(name="linear", tuning="none")


@pytest.fixture
def table(monkeypatch):
    """A table; the toy ranking is registered as long as the test runs."""
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))
    register("spread", "tests.contracts.toy_ranking")
    return load_breast_cancer(as_frame=True).frame


def test_it_selects_resumes_and_is_reported(table, tmp_path):
    found = chaffinch.select(
        table, "target", method="spread", n_features=3, model=LINEAR, store=tmp_path
    )
    ranked = sorted(found.scores, key=found.scores.get)
    assert set(found.features) == set(ranked[-3:]) == {"worst area", "mean area", "area error"}
    rows = table[[*found.scores]]
    assert np.corrcoef(list(found.scores.values()), rows.std())[0, 1] > 0.99
    page = Page((found.folder / "report.html").read_bytes())
    assert "the standard deviation of the feature on the training rows" in page.text
    back = chaffinch.load_run(found.run, store=tmp_path)
    assert back.scores == found.scores
    (found.folder / "stages" / "choose_mask.json").unlink()
    again = chaffinch.select(
        table, "target", method="spread", n_features=3, model=LINEAR, store=tmp_path
    )
    assert again.features == found.features


def test_runs_of_a_method_that_is_gone_are_read_and_promoted(table, tmp_path, monkeypatch):
    def select(store):
        return chaffinch.select(
            table, "target", method="spread", n_features=3, model=LINEAR, store=store
        )

    found = select(tmp_path)
    monkeypatch.delitem(registry._CLASSES, "spread")
    back = chaffinch.load_run(found.run, store=tmp_path)
    assert (back.features, back.scores) == (found.features, found.scores)
    assert Page(back.report(tmp_path / "report.html").read_bytes()).open == []
    assert back.why().set_index("column")["rank"].min() == 1
    assert chaffinch.promote(found.run, "scans", store=tmp_path).run == found.run
    with pytest.raises(chaffinch.InputError, match="method must be one of"):
        select(tmp_path)


def test_it_takes_a_lowest_score_and_is_compared_with_others(table):
    lowest = {"kind": "spread", "min_score": 100}
    found = chaffinch.select(table, "target", method=lowest, model=LINEAR)
    assert all((score >= 100) == (name in found.features) for name, score in found.scores.items())
    compared = chaffinch.compare(
        table, "target", methods=["spread", "anova_f"], models=[LINEAR], folds=2, seeds=1, sizes=[2]
    )
    rows = compared.results
    assert set(rows[rows["method"] == "spread"]["n_features"]) >= {2}


def test_it_is_in_the_help_the_form_and_the_refusal_of_others(table):
    listed = json.loads(CliRunner().invoke(cli, ["methods", "--json"]).stdout)
    assert listed["spread"].startswith("Ranking by the standard deviation")
    own = json.loads(CliRunner().invoke(cli, ["methods", "spread", "--json"]).stdout)
    assert set(own) == {"n_features", "min_score"}
    forms = SelectionSettings.model_json_schema()["$defs"]
    assert forms["Ranking"]["properties"]["kind"]["enum"][-1] == "spread"
    with pytest.raises(chaffinch.InputError, match="spread but is 'spraed'"):
        method_of("spraed")
    with pytest.raises(chaffinch.InputError, match="method anova_f takes no sample weights"):
        chaffinch.select(table, "target", method="anova_f", weight="mean area")


def test_a_method_that_went_is_refused_with_what_took_its_place():
    with pytest.raises(chaffinch.InputError, match="it is gone: use auto"):
        method_of("robust_elimination")


def test_two_methods_cannot_have_one_kind(table):
    assert "spread" in kinds()
    with pytest.raises(ValueError, match="there is a method 'spread' already"):
        register("spread", "tests.contracts.toy_ranking")

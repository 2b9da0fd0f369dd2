"""The form of a method's paper, in place of our defaults."""

import json

import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import InputError, SelectionSettings
from chaffinch.flows.cli.commands import cli
from chaffinch.tasks.settings.method import classes, kinds, method_of
from chaffinch.tasks.settings.selection import published_form
from tests.synthetic import good_table

pytestmark = pytest.mark.usefixtures("undrawn")

PUBLISHED = [kind for kind in kinds() if method_of(kind).published]


def values(settings, method):
    """Return the settings by the paths that `published` has."""
    own = {f"method.{name}": value for name, value in dict(settings.method).items()}
    return dict(settings) | own


def test_the_methods_of_the_papers_have_one():
    assert {"gbmo", "flbmo", "afs_bm", "pefs", "dfs"} == set(PUBLISHED)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_it_is_what_is_declared_and_our_defaults_in_all_else(kind):
    ours = SelectionSettings(target="y", method=kind)
    published = published_form(ours)
    before, after = values(ours, kind), values(published, kind)
    declared = ours.method.published
    assert {path: after[path] for path in declared} == dict(declared)
    assert all(before[path] != after[path] for path in declared)  # ours depart
    other = before.keys() - declared.keys() - {"method"}
    assert {path: after[path] for path in other} == {path: before[path] for path in other}


@pytest.mark.parametrize("method", classes())
def test_what_is_declared_are_settings(method):
    for path in method.published:
        group, _, name = path.rpartition(".")
        assert name in (method if group == "method" else SelectionSettings).model_fields


def test_what_is_given_stays():
    given = {"kind": "afs_bm", "rejections": 2}
    settings = SelectionSettings(target="y", method=given, shares=(40, 30, 20, 10))
    published = published_form(settings)
    assert published.method.rejections == (2,)
    assert published.method.patience == (3, 4, 5, 6, 7)
    assert published.shares == (40, 30, 20, 10)


def test_alternatives_are_searched_for_with_the_first_set():
    settings = SelectionSettings(target="y", alternatives={"number": 2, "tau": 0.3})
    alternatives = published_form(settings).alternatives
    assert (alternatives.together, alternatives.number, alternatives.tau) == (True, 2, 0.3)


def test_a_method_of_no_paper_has_none():
    with pytest.raises(InputError, match="method auto has no published form"):
        published_form(SelectionSettings(target="y"))


def test_it_is_asked_for_by_true_or_not_at_all():
    with pytest.raises(InputError, match="as_published must be True or False but is 'yes'"):
        chaffinch.select(good_table(), "churned", settings={"as_published": "yes"})


def test_a_run_has_the_settings_that_came_of_it_from_every_door(tmp_path):
    table = good_table()
    model = chaffinch.ModelSettings(name="linear", tuning="none")
    as_published = {"as_published": True}
    result = chaffinch.select(table, "churned", method="gbmo", model=model, settings=as_published)
    assert result.contract["settings"]["baseline"] == "minimum"
    plain = chaffinch.select(
        table, "churned", method="gbmo", model=model, settings={"baseline": "minimum"}
    )
    assert plain.run == result.run
    table.to_csv(tmp_path / "table.csv", index=False)
    options = "--target churned --method gbmo --model linear --tuning none --cluster none"
    typed = ["run", str(tmp_path / "table.csv"), *options.split(), "--as-published"]
    ran = CliRunner().invoke(cli, [*typed, "--store", str(tmp_path / "store"), "--json"])
    assert ran.exit_code == 0, ran.output
    (contract,) = (tmp_path / "store").glob("runs/*/selection.json")
    assert json.loads(contract.read_bytes())["settings"] == result.contract["settings"]

"""Options made from settings: what is typed reaches the settings, all of it."""

import json
import re
from functools import partial

import click
import pytest
from click.testing import CliRunner

from chaffinch import InputError
from chaffinch.flows.cli.commands import cli, exit_code
from chaffinch.flows.cli.options import (
    COMPARISON,
    SELECTION,
    SERVE,
    nested,
    settings_options,
    values_of,
)
from chaffinch.methods import Gbmo
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.settings.execution import ServeSettings
from chaffinch.tasks.settings.method import kinds, method_of
from chaffinch.tasks.settings.selection import SelectionSettings


@click.command()
@settings_options(ComparisonSettings, COMPARISON)
def asked(**given):
    raise Got(nested(given, COMPARISON))


class Got(Exception):  # noqa: N818 - it carries what a command was given
    """What reached the command."""


def given(*typed):
    """Return the settings that options become."""
    (reached,) = CliRunner().invoke(asked, ["--target", "y", *typed]).exception.args
    return reached


@pytest.mark.parametrize(
    "typed",
    [
        ("--methods", "mrmr,gbmo,rfe"),
        ("--methods", "mrmr", "--methods", "gbmo", "--methods", "rfe"),
        ("--methods", "mrmr, gbmo", "--methods", "rfe"),
    ],
)
def test_names_come_between_commas_or_by_one_option_each(typed) -> None:
    assert given(*typed) == {"target": "y", "methods": ("mrmr", "gbmo", "rfe")}


def test_a_name_with_a_comma_is_quoted() -> None:
    assert given("--keep", 'a,"b, c"')["columns"]["keep"] == ("a", "b, c")


@pytest.mark.parametrize("name", ["a\nb", 'a"b', '"', "a, b", " a", "\x1b[31mred", "a\r\nb\n"])
def test_a_name_of_any_characters_is_quoted_as_in_csv(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    assert given("--keep", f"first,{quoted},last")["columns"]["keep"] == ("first", name, "last")


@pytest.mark.parametrize("typed", ["a\nb", "a\r\nb", '"a', '"a"b', '"', '"a\nb', "a\n\nb"])
def test_a_name_that_is_quoted_badly_is_one_line(typed: str, capsys: pytest.CaptureFixture) -> None:
    assert exit_code(partial(asked.main, ["--target", "y", "--keep", typed])) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"Error: Invalid value for '--keep': {typed!r} ")
    assert said.endswith("; a name with a comma, a quote or a newline goes in double quotes, as in "
                         "'\"a, b\",c'\n")  # fmt: skip
    assert said.count("\n") == 1


def test_what_is_not_typed_is_left_to_the_settings() -> None:
    assert given() == {"target": "y"}


def test_how_alternatives_are_searched_for_reaches_their_settings() -> None:
    @click.command()
    @settings_options(SelectionSettings, SELECTION)
    def select(**given):
        raise Got(SelectionSettings(**nested(given, SELECTION)))

    typed = ["--target", "y", "--alternatives", "2", "--alternatives-time-limit", "7.5"]
    (settings,) = CliRunner().invoke(select, typed).exception.args
    assert settings.alternatives.number == 2
    assert settings.alternatives.time_limit == 7.5


def settings_by(*typed, method="gbmo"):
    """Return what --set options make of a method."""
    return method_of({"kind": method, **values_of(type(method_of(method)), typed)})


@pytest.mark.parametrize("kind", kinds())
def test_every_setting_of_every_method_is_given_by_its_name(kind: str) -> None:
    method = method_of(kind)
    for name, value in method.model_dump(exclude={"kind", "start"}).items():
        if value is None:
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        assert settings_by(f"{name.replace('_', '-')}={text}", method=kind) == method


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("slacks=0.01",), Gbmo(slacks=(0.01,))),
        (("slacks=0.01, 0.05", "drift-cap=0.1"), Gbmo(slacks=(0.01, 0.05), drift_cap=0.1)),
        (("n_features=7",), Gbmo(n_features=7)),
    ],
)
def test_settings_of_a_method_are_typed_as_name_and_value(typed, expected) -> None:
    assert settings_by(*typed) == expected


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("slacks",), "--set must be NAME=VALUE, as in slacks=0.01,0.05, but is 'slacks'"),
        (("=1",), "--set must be NAME=VALUE"),
        (("drift_cap=1", "drift-cap=2"), "--set gives drift_cap twice; give it once"),
        (("slack=0.1",), "there is no setting 'slack'; nearest: slacks"),
        (("slacks=low",), "slacks must be a number but is 'low'"),
        (("slacks=-1",), "slacks must be at least 0.0 but is"),
        (("penalties=0.1",), "there is no setting 'penalties'"),
    ],
)
def test_settings_of_a_method_that_cannot_be_are_one_line(typed, message) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        settings_by(*typed)


def test_methods_lists_each_and_the_settings_of_one() -> None:
    listed = json.loads(CliRunner().invoke(cli, ["methods", "--json"]).stdout)
    assert set(kinds()) <= set(listed)
    for kind in kinds():
        own = json.loads(CliRunner().invoke(cli, ["methods", kind, "--json"]).stdout)
        assert set(own) == {*type(method_of(kind)).model_fields} - {"kind"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("GBMO", "gbmo"), ("AFS-BM", "afs_bm"), ("Particle-Swarm", "particle_swarm")],
)
def test_methods_are_named_as_papers_write_them(name, kind):
    assert method_of(name).kind == method_of({"kind": name}).kind == kind


@pytest.mark.parametrize(
    ("typed", "hours"),
    [(("--wait-for-approval",), 12), (("--wait-for-approval", "3"), 3), ((), None)],
)
def test_a_run_waits_half_a_day_for_a_person_where_no_hours_are_typed(typed, hours):
    @click.command()
    @settings_options(ServeSettings, SERVE)
    def served(**given):
        raise Got(nested(given, SERVE))

    (reached,) = CliRunner().invoke(served, [*typed, "--promote"]).exception.args
    assert ServeSettings(**reached).wait_for_approval == hours

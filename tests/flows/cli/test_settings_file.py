"""Settings from a file, from options, and from both; the file that `chaffinch init` writes."""

import hashlib
import json
import re
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import ExecutionSettings, InputError, ModelSettings, SelectionSettings
from chaffinch.flows.cli.commands import cli
from chaffinch.flows.cli.selection import selection_options
from chaffinch.flows.cli.settings_file import as_toml, read_settings
from chaffinch.methods import Auto, Gbmo
from chaffinch.storage.sources import source_of
from chaffinch.tasks.pipeline.run import select_features
from chaffinch.tasks.results.result import load_result
from chaffinch.tasks.settings.constraints import ConstraintSettings, FeatureGroup
from chaffinch.tasks.settings.method import kinds
from tests.synthetic import good_table

LINEAR = ModelSettings(name="linear", tuning="none")

TOML = """
data = "orders.csv"
target = "price"
seed = 3
alternatives = 2

[method]
kind = "gbmo"
slacks = [0.01]
drift_cap = 0.5

[model]
name = "linear"
parameters = {alpha = 0.5}

[columns]
drop = ["id"]
keep = ["a, b"]

[execution]
store = "elsewhere"

[serve]
cron = "30 1 * * *"
"""
YAML = """
data: orders.csv
target: price
seed: 3
alternatives: 2
method: {kind: gbmo, slacks: [0.01], drift_cap: 0.5}
model: {name: linear, parameters: {alpha: 0.5}}
columns: {drop: [id], keep: ["a, b"]}
execution: {store: elsewhere}
serve: {cron: 30 1 * * *}
"""


class Got(Exception):  # noqa: N818 - it carries what a command was given
    """What reached the command."""


@click.command()
@click.argument("data", required=False)
@selection_options
def run(**given):
    raise Got(given)


@click.command()
@click.option("--data")
@selection_options
def serve(tables, execution):
    raise Got(tables)


@pytest.fixture
def reached(tmp_path):
    """Return a function that gives what a command gets from options and a file."""

    def reach(*typed, text=None, ending=".toml", command=run):
        if text is not None:
            (tmp_path / f"settings{ending}").write_text(text)
            typed = ("--config", str(tmp_path / f"settings{ending}"), *typed)
        error = CliRunner().invoke(command, typed).exception
        if not isinstance(error, Got):
            raise error
        return error.args[0]

    return reach


@pytest.mark.parametrize(("text", "ending"), [(TOML, ".toml"), (YAML, ".yaml"), (YAML, ".yml")])
def test_a_file_holds_what_options_would(text, ending, reached):
    options = (
        "orders.csv --target price --seed 3 --alternatives 2 --method gbmo --set slacks=0.01 "
        "--set drift_cap=0.5 --model linear --drop id --store elsewhere"
    )
    by_options = reached(*options.split(), "--keep", '"a, b"')
    by_file = reached(text=text, ending=ending)
    with_parameters = by_options["settings"].model_dump()
    with_parameters["model"]["parameters"] = {"alpha": 0.5}
    assert by_file["settings"].model_dump() == with_parameters
    named = {"settings_file": by_file["execution"].settings_file}
    assert by_file["execution"] == by_options["execution"].model_copy(update=named)
    assert by_file["data"] == by_options["data"]
    (served,) = reached(text=text, ending=ending, command=serve)
    assert served.settings == by_file["settings"]
    assert served.serve == {"cron": "30 1 * * *"}


SEVERAL = """
model = "linear"
seed = 3

[serve]
cron = "30 1 * * *"
promote = true

[tables.orders]
data = "s3://shop/orders.parquet"
target = "returned"
method = "mrmr"

[tables.customers]
data = "customers.parquet"
target = "churned"
columns = {drop = ["id"]}
serve = {cron = "0 4 * * *"}
"""


def test_each_table_has_the_settings_at_the_top_and_its_own(reached):
    orders, customers = reached("--seed", "5", text=SEVERAL, command=serve)
    assert (orders.data, customers.data) == ("s3://shop/orders.parquet", "customers.parquet")
    assert (orders.settings.target, customers.settings.target) == ("returned", "churned")
    assert (orders.settings.method.kind, customers.settings.method.kind) == ("mrmr", "auto")
    assert customers.settings.columns.drop == ("id",)
    for one in (orders, customers):
        assert (one.settings.model.name, one.settings.seed) == ("linear", 5)
    assert orders.serve == {"name": "orders", "cron": "30 1 * * *", "promote": True}
    assert customers.serve == {"name": "customers", "cron": "0 4 * * *", "promote": True}


@pytest.mark.parametrize(
    ("typed", "text", "message"),
    [
        ((), SEVERAL.replace("target", "traget", 1), r"\[tables.orders\] of .* 'traget'"),
        ((), SEVERAL.replace('target = "returned"', ""), "target must be given"),
        ((), SEVERAL.replace('data = "s3://shop/orders.parquet"', ""), "DATA must be given"),
        (("--data", "one.csv"), SEVERAL, "--data names one table but the file has 2; leave it out"),
    ],
)
def test_a_wrong_table_of_several_is_refused(typed, text, message, reached):
    with pytest.raises(InputError, match=message):
        reached(*typed, text=text, command=serve)


def test_a_run_takes_no_file_of_several_tables(reached):
    with pytest.raises(InputError, match=r"\[tables\] are for chaffinch serve; give run a file wi"):
        reached(text=SEVERAL)


def test_the_file_is_named_by_its_hash(reached, tmp_path):
    got = reached(text=TOML)
    digest = hashlib.sha256((tmp_path / "settings.toml").read_bytes()).hexdigest()
    expected = {"name": "settings.toml", "sha256": digest}
    assert got["execution"].settings_file.model_dump() == expected
    table, store = good_table(), tmp_path / "store"
    settings = SelectionSettings(target="churned", model=LINEAR, method="gbmo")
    execution = ExecutionSettings(store=store, settings_file=expected)
    contract = load_result(select_features(source_of(table), settings, execution)).contract
    assert contract["settings_file"] == expected
    without = chaffinch.select(table, "churned", model=LINEAR, method="gbmo").contract
    assert {**without, "settings_file": expected} == contract.to_dict()


def test_options_replace_what_the_file_has(reached):
    typed = "newer.csv --target cost --drop b,c --tuning none --store here --set drift_cap=1"
    got = reached(*typed.split(), text=TOML)
    settings = got["settings"]
    assert (got["data"], settings.target, str(got["execution"].store)) == (
        "newer.csv",
        "cost",
        "here",
    )
    assert settings.columns.drop == ("b", "c")
    assert settings.columns.keep == ("a, b",)
    assert (settings.model.name, settings.model.tuning) == ("linear", "none")
    assert settings.method == Gbmo(slacks=(0.01,), drift_cap=1)


def test_another_method_has_none_of_the_settings_of_the_files_method(reached):
    settings = reached("--method", "auto", "--n-features", "4", text=TOML)["settings"]
    assert settings.method == Auto(n_features=4)


def test_a_number_of_features_replaces_that_of_the_file(reached):
    text = TOML.replace("drift_cap = 0.5", "n_features = 9")
    assert reached("--n-features", "4", text=text)["settings"].method.n_features == 4
    exactly = reached("--n-features", "4", "--set", "exactly=true", "--method", "auto", text=text)
    assert exactly["settings"].method == Auto(n_features=4, exactly=True)
    assert reached(text=text)["settings"].method.n_features == 9


def test_a_method_and_a_model_may_be_names(reached):
    settings = reached(text='data = "a.csv"\ntarget = "y"\nmethod = "mrmr"\nmodel = "mlp"')[
        "settings"
    ]
    assert (settings.method.kind, settings.model.name) == ("mrmr", "mlp")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('traget = "y"', "has no setting 'traget'; nearest: target"),
        ("target = y", "is not valid TOML"),
        ("[serve]\ncrom = 1", r"\[serve\] of .* has no setting 'crom'; nearest: cron"),
        ("[compare]\nseds = 1", r"\[compare\] of .* has no setting 'seds'; nearest: seeds"),
        ('drop = ["a"]', r"no setting 'drop'; it belongs in \[columns\] or in \[reselect\]$"),
        ("n_features = 3", r"no setting 'n_features'; it belongs in \[method\]$"),
        ("folds = 3", r"no setting 'folds'; it belongs in \[model\] or in \[compare\]$"),
        ('[columns]\ntarget = "y"', r"\[columns\] of .* no setting 'target'; it belongs"),
        ("[serve]\ndrop_leaks = true", r"\[serve\] of .* it belongs in \[columns\]$"),
        ("[execution]\ncron = 1", r"\[execution\] of .* it belongs in \[serve\]$"),
        ('target = "y"', "DATA must be given"),
        ('data = "a.csv"', "target must be given"),
        ('data = "a.csv"\ntarget = "y"\ncolumns = 3', "columns must be .* but is 3"),
        ('data = "a.csv"\ntarget = "y"\nexecution = 3', "execution must be .* but is 3"),
        (
            'data = "a.csv"\ntarget = "y"\n[method]\nkind = "gbmo"\nslack = 1',
            r"\[method\] of .* no setting 'slack'; nearest: slacks",
        ),
        ('[method]\nkind = "gbmo"\nmin_score = 1', r"\[method\] of .* no setting 'min_score'"),
        ('data = "a.csv"\ntarget = "y"\nmethod = "gmbo"', "method must be one of"),
        ('data = "a.csv"\ntarget = "y"\n[execution]\nworkers = 0', "workers must be at least 1"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(text, message, reached):
    with pytest.raises(InputError, match=message) as raised:
        reached(text=text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[columns]\ndrop = "x1"', r"^\[columns\] of \S+: drop must be .* 'x1'; write \['x1'\]$"),
        ('[execution]\nworkers = "many"', r"^\[execution\] of \S+: workers must be a whole"),
        ("[model]\nfolds = 1", r"^\[model\] of \S+: folds must be at least 2"),
        ('[method]\nkind = "gbmo"\nslacks = 3', r"^\[method\] of \S+: slacks must be a list"),
        ('[method]\nkind = "gmbo"', r"^\[method\] of \S+: method must be one of"),
        ("[history]\nlags = 3", r"^\[history\] of \S+: lags must be a list but is 3"),
        ('seed = "x"', r"^[^\s\[]+: seed must be a whole number"),
    ],
)
def test_a_wrong_value_is_named_with_the_file_and_its_group(text, message, reached):
    rows = 'data = "a.csv"\ntarget = "y"\n'
    with pytest.raises(InputError, match=message):
        reached(text=rows + text)
    # an option in place of the value
    if "drop" in text:
        assert reached("--drop", "x1", text=rows + text)["settings"].columns.drop == ("x1",)
    with pytest.raises(InputError, match=r"^seed must"):
        reached("--target", "y", "--seed", "-1", text='data = "a.csv"')


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.ini", b"", "must end with"),
        ("a.toml", b"\xff", "is not text in UTF-8"),
        ("a.yaml", b"- a", "must hold names with values"),
        ("a.yaml", b"a: [", "is not valid YAML"),
        ("a.yaml", b"target: !!python/object/apply:os.getcwd []", "is not valid YAML"),
        ("a.toml", None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_settings(str(tmp_path / name))


@pytest.mark.parametrize("kind", kinds())
def test_init_writes_settings_that_are_read_back(kind, reached, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = np.random.default_rng(0).normal(size=(120, 5)).T
    named = dict(zip(["x", "y", "t", "a=b", 'a "b"'], columns, strict=True))
    pd.DataFrame(named).to_csv("a.csv", index=False)
    file, options = (
        tmp_path / "written.toml",
        ["--target", 'a "b"', "--keep", "x,y", "--workers", "2"],
    )
    options += ["--lags", "1,2", "--time", "t"] if kind == "auto" else []
    options += ["--cost", "x=2", "--cost", "a=b=0.5", "--budget", "3"] if kind == "gbmo" else []
    invoked = CliRunner().invoke(
        cli,
        ["init", "a.csv", *options, "--method", kind, "--file", str(file)],
        catch_exceptions=False,
    )
    assert invoked.exit_code == 0
    asked, text = reached("a.csv", *options, "--method", kind), file.read_text()
    asked_for = re.sub(r"(?ms)^# \[\w+\]$.*?(?=^\[|^# \[)", "", text)
    in_force = re.sub(r"(?m)^# (\w+ = .+)$", r"\1", asked_for)
    for written in (text, in_force):
        got = reached(text=written)
        assert got["settings"] == asked["settings"]
        assert got["execution"].model_copy(update={"settings_file": None}) == asked["execution"]


CONSTRAINTS = """
target = "price"

[constraints]
budget = 20
costs = {income = 1.5}

[[constraints.groups]]
features = ["rain", "wind"]
at_most = 1
cost = 10
"""


def test_constraints_stand_in_a_file_and_their_costs_and_budget_are_options_too(reached, tmp_path):
    by_file = reached("a.csv", text=CONSTRAINTS)["settings"].constraints
    group = FeatureGroup(features=("rain", "wind"), at_most=1, cost=10)
    assert by_file == ConstraintSettings(groups=(group,), costs={"income": 1.5}, budget=20)
    by_both = reached("a.csv", "--cost", "age=2", "--budget", "5", text=CONSTRAINTS)
    costs = {"income": 1.5, "age": 2}
    expected = ConstraintSettings(groups=(group,), costs=costs, budget=5)
    assert by_both["settings"].constraints == expected
    file = tmp_path / "written.toml"
    file.write_text(as_toml("a.csv", by_both["settings"], by_both["execution"]))
    assert reached("--config", str(file))["settings"] == by_both["settings"]


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (["age"], "--cost must be NAME=NUMBER, as in age=1.5, but is 'age'"),
        (["age=1", "age=2"], "--cost gives 'age' twice"),
        (["age=dear"], "costs must be a number but is 'dear'"),
    ],
)
def test_a_cost_that_is_none_is_refused(costs, message, reached):
    with pytest.raises(InputError, match=message):
        reached("a.csv", "--target", "y", *(typed for cost in costs for typed in ("--cost", cost)))


def test_init_refuses_what_a_run_would(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": range(60), "y": range(60)}).to_csv("a.csv", index=False)
    for options, message in (
        (["--target", "z"], "'z' is no column"),
        (["--target", "y", "--keep", "w"], "'w'"),
    ):
        invoked = CliRunner().invoke(cli, ["init", "a.csv", *options])
        assert message in str(invoked.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("name", "option"),
    [("mean price", "--drop 'mean price'"), ("net,gross", "--drop '\"net,gross\"'")],
)
def test_a_remedy_can_be_typed_as_it_is_printed(name, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prices = [*map(str, range(79)), "1,079.18"]
    pd.DataFrame({name: prices, "y": np.arange(80) % 2}).to_csv("a.csv", index=False)
    run = CliRunner().invoke(cli, ["init", "a.csv", "--target", "y"])
    assert f"leave the column out ({option})" in run.stderr


@pytest.mark.parametrize("dropped", [[], ["x"]])
def test_init_writes_where_to_drop_a_column_that_a_run_refuses(dropped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prices = [*map(str, range(79)), "1,079.18"]
    rows = {"x": range(80), "price": prices, "z": np.arange(80) % 7, "y": np.arange(80) % 2}
    pd.DataFrame(rows).to_csv("a.csv", index=False)
    options = ["a.csv", "--target", "y", *(["--drop", ",".join(dropped)] if dropped else [])]
    run = CliRunner().invoke(cli, ["init", *options])
    assert run.exit_code == 0
    assert "--drop price" in run.stderr
    written = Path("selection.toml").read_text()
    assert "# chaffinch run refuses this table: column 'price' is written" in written
    suggested = json.dumps([*dropped, "price"])
    assert f"# drop = {suggested}" in written

    with pytest.raises(InputError, match=r"leave the column out \(drop=\['price'\]\)$"):
        cli.main(["check", "--config", "selection.toml"], standalone_mode=False)
    is_set = f"drop = {json.dumps(dropped)}\n" if dropped else "# drop = []\n"
    Path("selection.toml").write_text(
        written.replace(is_set, "", 1).replace(f"# drop = {suggested}", f"drop = {suggested}")
    )
    cli.main(["check", "--config", "selection.toml"], standalone_mode=False)


def test_init_replaces_no_file(tmp_path):
    file = tmp_path / "written.toml"
    file.write_text("mine")
    command = ["init", "a.csv", "--target", "y", "--file", str(file)]
    assert isinstance(CliRunner().invoke(cli, command).exception, InputError)
    assert file.read_text() == "mine"

"""`chaffinch export` writes what the functions of `chaffinch.exports` return."""

import json

import pandera.pandas as pandera
import pytest
from click.testing import CliRunner

from chaffinch.errors import InputError
from chaffinch.exports import to_dbt, to_feast, to_openlineage, to_pandera
from chaffinch.flows.cli.commands import cli
from chaffinch.tasks.exports.openlineage import as_json
from tests.tasks.synthetic_runs import causes, run_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    causes("x1", "x2").to_parquet(folder / "orders.parquet")
    return run_of(folder / "orders.parquet", folder / "store")


def export(run, *words):
    store = run.folder.parent.parent
    command = ["export", run.run, "--store", str(store), *map(str, words)]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_schema_is_printed_or_written(run, tmp_path):
    schema = to_pandera(run)
    assert pandera.DataFrameSchema.from_yaml(export(run, "--to", "pandera")) == schema
    path = tmp_path / "orders.yaml"
    assert export(run, "--to", "pandera", "--output", path) == f"{path}\n"
    assert pandera.DataFrameSchema.from_yaml(path) == schema


def test_models_are_written_to_a_folder(run, tmp_path):
    options = ("--table", "shop.orders", "--name", "sales")
    printed = export(run, "--to", "dbt", "--output", tmp_path / "models", *options)
    files = to_dbt(run, name="sales", table="shop.orders")
    assert printed.split() == [str(tmp_path / "models" / name) for name in files]
    assert {path.name: path.read_text() for path in (tmp_path / "models").iterdir()} == files


def test_an_event_is_written(run, tmp_path):
    path = tmp_path / "event.json"
    export(run, "--to", "openlineage", "--output", path)
    assert json.loads(path.read_text()) == json.loads(as_json(to_openlineage(run)))


def test_a_feature_service_is_printed_or_written(run, tmp_path):
    options = ("--to", "feast", "--table", "features.orders", "--name", "sales")
    text = to_feast(run, name="sales", table="features.orders")
    assert export(run, *options) == f"{text}\n"
    path = tmp_path / "sales.py"
    assert export(run, *options, "--output", path) == f"{path}\n"
    assert path.read_text() == text


@pytest.mark.parametrize("file", ["features.py", "folder/features.py", "service.txt"])
def test_a_feature_service_is_a_module_of_its_own(file, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"--output must (be another file than|end with \.py)"):
        export(run, "--to", "feast", "--table", "features.orders", "--output", file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--to", "mlflow", "--output", "x"), "--output is for --to .* but this is --to mlflow"),
        (("--to", "pandera", "--name", "x"), "--name is for .* but this is --to pandera"),
        (("--to", "dbt"), "dbt needs --output"),
        (("--to", "feast"), "feast needs --table"),
    ],
)
def test_options_of_other_tools_are_refused(words, message, run):
    with pytest.raises(InputError, match=message):
        export(run, *words)

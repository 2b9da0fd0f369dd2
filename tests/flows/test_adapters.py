"""Feast, Dagster and Airflow beside chaffinch, each in an environment of its own.

They need other versions of libraries than the tests. The programs of Dagster and Airflow are those
of the recipes.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.distributions import build
from tests.documents import ROOT, blocks
from tests.flows.cli.programs import environment, in_process
from tests.tasks.synthetic_runs import causes, run_of

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("undrawn")]
UV = Path(sys.executable).with_name("uv")
UNUSUAL = "Größe (m²): 'x'"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    (path,) = build(tmp_path_factory.mktemp("built"), "wheel").glob("*.whl")
    return path


@pytest.fixture
def installed(tmp_path):
    """Return a function that installs packages into an environment, and gives its programs."""
    venv = tmp_path / "venv"

    def install(package, *others):
        asked = [UV, "pip", "compile", "-q", "--no-deps", "--python", sys.executable, "-"]
        found = subprocess.run(asked, input=package, capture_output=True, text=True, check=False)
        if found.returncode:
            pytest.skip(f"{package} cannot be downloaded: {found.stderr.strip()[-300:]}")
        subprocess.run([UV, "venv", "-q", "--python", sys.executable, venv], check=True)
        python = venv / "bin" / "python"
        command = [UV, "pip", "install", "-q", "--python", python, package, *others]
        subprocess.run(command, check=True)
        return venv / "bin"

    yield install
    shutil.rmtree(venv, ignore_errors=True)


def program(*command, folder, **settings):
    """Run a program of an environment in a folder."""
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    env = environment(folder, PATH=path, PYTHONPATH="", **settings)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def recipe(library, folder):
    """Return the recipe that imports a library, with a folder of its own."""
    (code,) = (code for code in blocks(ROOT / "docs" / "recipes.md", "py") if library in code)
    causes("x1", "x2", n=200).rename(columns={"y": "price"}).to_parquet(folder / "orders.parquet")
    return code.replace("/srv/chaffinch", str(folder))


FEATURES = """
import json
from datetime import timedelta

from feast import Entity, FeatureView, Field, FileSource
from feast.types import Float64

names = json.load(open("names.json"))
order = Entity(name="order", join_keys=["order_id"])
orders = FeatureView(
    name="orders",
    entities=[order],
    ttl=timedelta(0),
    schema=[Field(name=name, dtype=Float64) for name in names],
    source=FileSource(path="orders.parquet", timestamp_field="moment"),
)
"""
FEATURES_OF_ROWS = """
import pandas
from feast import FeatureStore

store = FeatureStore(".")
service = store.get_feature_service("orders_features")
rows = pandas.read_parquet("rows.parquet")
store.get_historical_features(rows, features=service).to_df().to_parquet("features.parquet")
"""


def test_feast_serves_the_columns_of_the_contract_in_their_order(installed, tmp_path):
    programs, repository = installed("feast~=0.67.0"), tmp_path / "repository"
    repository.mkdir()
    table = causes("x5", "x2", "x7").rename(columns={"x5": UNUSUAL})
    table.to_parquet(tmp_path / "orders.parquet")
    result = run_of(tmp_path / "orders.parquet", tmp_path / "store", n_features=3)
    columns = result.contract.columns
    assert set(columns) == {UNUSUAL, "x2", "x7"}

    settings = {
        "project": "shop",
        "provider": "local",
        "registry": "registry.db",
        "online_store": {"type": "sqlite", "path": "online.db"},
    }
    (repository / "feature_store.yaml").write_text(yaml.safe_dump(settings))
    # the view has the columns in another order, and others too
    (repository / "names.json").write_text(json.dumps([*table.drop(columns="y")][::-1]))
    (repository / "features.py").write_text(FEATURES)
    known = table.assign(order_id=range(len(table)), moment=pd.Timestamp("2026-01-01", tz="UTC"))
    known.drop(columns="y").to_parquet(repository / "orders.parquet")
    service = repository / "orders_service.py"
    done = in_process(
        *("export", result.run, "--store", result.folder.parents[1], "--to", "feast"),
        *("--table", "features.orders", "--output", service),
    )
    assert done.returncode == 0, done.stderr
    program(programs / "feast", "apply", folder=repository)

    rows = known[["order_id", "y"]].sample(20, random_state=0)
    asked = rows.assign(event_timestamp=pd.Timestamp("2026-02-01", tz="UTC"))
    asked.to_parquet(repository / "rows.parquet")
    program(programs / "python", "-c", FEATURES_OF_ROWS, folder=repository)
    features = pd.read_parquet(repository / "features.parquet")
    assert [name for name in features if name not in asked] == columns
    of_rows = features.set_index("order_id").loc[rows["order_id"], [*columns, "y"]]
    assert (of_rows.to_numpy() == table.loc[rows.index, [*columns, "y"]].to_numpy()).all()


# two nights, between which a person promotes the run of the first
NIGHTS = """
if __name__ == "__main__":
    import json
    from pathlib import Path

    import chaffinch

    first = night()
    (run,) = Path(STORE, "runs").iterdir()
    chaffinch.promote(run.name, store=STORE)
    Path("nights.json").write_text(json.dumps([first, night()]))
"""
MATERIALIZED = """

def night():
    done = dagster.materialize([selection, gate], raise_on_error=False)
    (check,) = done.get_asset_check_evaluations()
    return done.success, check.passed, check.description

"""


def test_a_check_of_dagster_fails_where_a_person_has_to_decide(installed, wheel, tmp_path):
    programs = installed("dagster~=1.13.0", wheel)
    (tmp_path / "job.py").write_text(recipe("dagster", tmp_path) + MATERIALIZED + NIGHTS)
    program(programs / "python", "job.py", folder=tmp_path)
    first, second = json.loads((tmp_path / "nights.json").read_text())
    assert first[:2] == [False, False]
    assert first[2].startswith("Not promoted as orders, for a person to decide: nothing was promo")
    why = "The promoted contract of orders stays: the run keeps the same features."
    assert second == [True, True, why]


STATES = """

def night():
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    states = {task.task_id: task.state for task in nights.test().get_task_instances()}
    with create_session() as session:
        events = [(event.name, event.source_task_id) for event in session.query(AssetEvent)]
    return states, events

"""


def test_airflow_has_an_asset_event_of_the_gate_and_skips_it_where_a_person_has_to_decide(
    installed, wheel, tmp_path
):
    programs = installed("apache-airflow~=3.3.0", wheel)
    job = tmp_path / "dags" / "job.py"
    job.parent.mkdir()
    code = recipe("airflow", tmp_path).replace("\nnightly()\n", "\nnights = nightly()\n")
    job.write_text(code + STATES + NIGHTS)
    settings = {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(job.parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "false",
    }
    program(programs / "airflow", "db", "migrate", folder=tmp_path, **settings)
    program(programs / "python", job, folder=tmp_path, **settings)
    first, second = json.loads((tmp_path / "nights.json").read_text())
    assert first == [{"select": "success", "gate": "skipped", "load": "skipped"}, []]
    states = {"select": "success", "gate": "success", "load": "success"}
    assert second == [states, [["orders_contract", "gate"]]]

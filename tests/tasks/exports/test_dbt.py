"""The model of dbt selects the columns of a contract of any name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import jinja2
import pytest
import yaml

import chaffinch
from chaffinch import InputError
from chaffinch.exports import to_dbt
from tests.tasks.snapshots import check_sentence
from tests.tasks.synthetic_runs import causes, run_that_keeps

pytestmark = pytest.mark.usefixtures("undrawn")
UNUSUAL = "Größe (m²), 'x'; drop table orders -- % $ 😀"


class Adapter:
    """Quotes as the adapters of dbt do."""

    def quote(self, name):
        return f'"{name}"'


def rendered(text):
    names = {"adapter": Adapter(), "ref": "ref:{}".format, "source": "source:{}.{}".format}
    return jinja2.Template(text).render(names)


@pytest.fixture(scope="module")
def unusual(tmp_path_factory):
    return run_that_keeps(UNUSUAL, tmp_path_factory.mktemp("unusual"))


def test_the_model_selects_the_columns_by_their_quoted_names(unusual):
    files = to_dbt(unusual)
    assert list(files) == ["orders_v2_features.sql", "orders_v2_features.yml"]
    text = rendered(files["orders_v2_features.sql"])
    assert text == f'select\n    "{UNUSUAL}",\n    "x2"\nfrom ref:orders_v2'


def test_a_source_or_another_model(unusual):
    files = to_dbt(unusual, name="sales", table="shop.orders")
    assert rendered(files["sales_features.sql"]).endswith("from source:shop.orders")
    files = to_dbt(unusual, table="stg_orders")
    assert rendered(files["orders_v2_features.sql"]).endswith("from ref:stg_orders")


def test_the_exposure_names_run_table_and_verdict(unusual):
    found = yaml.safe_load(to_dbt(unusual)["orders_v2_features.yml"])
    (model,), (exposure,) = found["models"], found["exposures"]
    assert [column["name"] for column in model["columns"]] == [UNUSUAL, "x2"]
    assert exposure["depends_on"] == ["ref('orders_v2_features')"]
    assert (exposure["name"], exposure["type"]) == ("orders_v2_model", "ml")
    meta = exposure["config"]["meta"]["chaffinch"]
    assert meta["run"] == unusual.run
    assert meta["dataset_hash"] == unusual.contract["dataset"]["hash"]
    assert meta["verdict"] == unusual.comparison["verdict"]


def test_columns_that_features_are_made_of(of_days):
    text = rendered(to_dbt(of_days, name="days")["days_features.sql"])
    assert text == 'select\n    "y",\n    "day"\nfrom ref:days'


@pytest.mark.parametrize(
    "name", ['a" from x --', "a`b", "a]b", "{{ env_var('HOME') }}", "{% raw %}", "a\\b", "a\nb"]
)
def test_a_name_that_could_not_be_quoted_everywhere_is_refused(name, unusual, tmp_path):
    contract = json.loads((unusual.folder / "selection.json").read_text().replace('"x2"', '"x"'))
    for feature in contract["features"]:
        feature["name"] = name if feature["name"] == "x" else feature["name"]
    (tmp_path / "selection.json").write_text(json.dumps(contract))
    with pytest.raises(InputError, match="cannot quote the name of column") as caught:
        to_dbt(tmp_path / "selection.json", name="orders")
    assert "\n" not in str(caught.value)


def test_text_of_a_contract_is_no_jinja(unusual, tmp_path):
    contract = json.loads((unusual.folder / "selection.json").read_text())
    contract["target"]["name"] = "{{ env_var('HOME') }}"
    contract["comparison"]["verdict"] = "{% do run_query('drop table x') %}"
    (tmp_path / "selection.json").write_text(json.dumps(contract))
    text = to_dbt(tmp_path / "selection.json", name="orders")["orders_features.yml"]
    assert rendered(text) == text.rstrip("\n")


@pytest.mark.parametrize(
    "names",
    [
        *(names for names in ({"name": "or-ders"}, {"table": "shop.'x'"})),
        *(names for names in ({"table": "{{ x }}"}, {"name": ""})),
        {"table": "a.b.c"},
    ],
)
def test_other_names_are_refused(names, unusual):
    with pytest.raises(InputError) as refusal:
        to_dbt(unusual, **names)
    check_sentence("refusals/names for dbt", names, refusal.value)
    with pytest.raises(InputError, match="has no name of a data set; give one, as in --name"):
        to_dbt(unusual.folder / "selection.json")


PROFILE = {
    "shop": {
        "target": "dev",
        "outputs": {"dev": {"type": "duckdb", "path": "shop.duckdb", "threads": 1}},
    }
}


@pytest.mark.e2e
def test_dbt_builds_the_model(unusual, tmp_path):
    """dbt has an environment of its own, as it needs other versions of libraries."""
    uv, venv = Path(sys.executable).with_name("uv"), tmp_path / "venv"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, venv], check=True)
    needed = ("dbt-core~=1.11.0", "dbt-duckdb~=1.10", f"duckdb=={duckdb.__version__}")
    python = venv / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *needed], check=True)

    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    table = causes("x1", "x2").rename(columns={"x1": UNUSUAL})
    with duckdb.connect(project / "shop.duckdb") as connection:
        connection.register("frame", table)
        connection.execute("CREATE TABLE orders AS SELECT * FROM frame")
    sources = [{"name": "shop", "schema": "main", "tables": [{"name": "orders"}]}]
    described = {"name": "shop", "version": "1.0", "profile": "shop", "model-paths": ["models"]}
    (project / "dbt_project.yml").write_text(yaml.safe_dump(described))
    (project / "profiles.yml").write_text(yaml.safe_dump(PROFILE))
    (project / "models" / "sources.yml").write_text(yaml.safe_dump({"sources": sources}))
    for name, text in to_dbt(unusual, name="orders", table="shop.orders").items():
        (project / "models" / name).write_text(text)

    env = {**os.environ, "DO_NOT_TRACK": "1", "PYTHONPATH": ""}
    command = [venv / "bin" / "dbt", "--warn-error", "build", "--profiles-dir", "."]
    done = subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    with duckdb.connect(project / "shop.duckdb") as connection:
        built = connection.sql("SELECT * FROM orders_features").df()
    assert built.equals(table[unusual.features])
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    (exposure,) = manifest["exposures"].values()
    assert exposure["depends_on"]["nodes"] == ["model.shop.orders_features"]
    address = f"duckdb:///{project}/shop.duckdb#orders_features"
    chaffinch.load_contract(unusual).validate(address)

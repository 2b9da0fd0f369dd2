"""Every example does what it says, as a program of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.documents import name_of, python
from tests.flows.cli.programs import CHAFFINCH, environment, eventually, started
from tests.flows.conftest import Server

pytestmark = pytest.mark.e2e

FOLDER = Path(__file__).parents[2] / "examples"
TELLING = {"weight", "distance"}


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Write orders whose price is told by two columns of six."""
    random, n = np.random.default_rng(3), 300
    names = ("weight", "colour", "distance", "shelf", "clerk", "moon")
    table = pd.DataFrame(random.normal(size=(n, len(names))).round(6), columns=names)
    price = (3 * table["weight"] - 2 * table["distance"] + 0.1 * random.normal(size=n)).round(6)
    days = [f"2026-11-{1 + i % 21:02}" for i in range(n)]
    table = table.assign(order=np.arange(n), day=days, price=price)
    table.to_parquet(tmp_path / "newer.parquet")
    table.to_csv(tmp_path / "orders.csv", index=False)
    return tmp_path / "orders.csv"


def example(name: str, *arguments: str, folder: Path, **more: str) -> None:
    """Run an example in a folder, to its end."""
    subprocess.run(
        (sys.executable, str(FOLDER / name), *arguments),
        env=environment(folder, **more), cwd=folder, check=True, capture_output=True, timeout=300,
    )  # fmt: skip


def test_each_is_short_and_in_the_list():
    listed = (FOLDER / "README.md").read_text()
    for path in FOLDER.glob("*.py"):
        assert path.read_text().count("\n") < 50, path.name
        assert f"`{path.name}`" in listed


def test_pandas(orders, tmp_path):
    example("pandas_job.py", "select", "orders.csv", "contract.json", folder=tmp_path)
    command = ("read", "newer.parquet", "contract.json", "features.parquet")
    example("pandas_job.py", *command, folder=tmp_path)
    kept = set(pd.read_parquet(tmp_path / "features.parquet").columns)
    assert TELLING <= kept < {"weight", "colour", "distance", "shelf", "clerk", "moon"}
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "chaffinch-store").exists()


def test_polars(orders, tmp_path):
    example("polars_job.py", "orders.csv", "newer.parquet", "predicted.parquet", folder=tmp_path)
    predicted = pd.read_parquet(tmp_path / "predicted.parquet")
    assert [*predicted.columns] == ["order", "price"]
    assert np.corrcoef(predicted["price"], pd.read_csv(orders)["price"])[0, 1] > 0.9


def test_airflow_style_and_the_same_again(orders, tmp_path):
    before = {}
    for _ in range(2):
        example("airflow_style.py", "2026-11-20", "orders.csv", "work", folder=tmp_path)
        day = pd.read_parquet(tmp_path / "work" / "features-2026-11-20.parquet")
        assert set(day.columns) >= TELLING
        assert len(day) == (pd.read_csv(orders)["day"] == "2026-11-20").sum()
        (stages,) = (tmp_path / "work" / "chaffinch-store" / "runs").glob("*/stages")
        written = {path.name: path.stat().st_mtime_ns for path in stages.iterdir()}
        assert before in ({}, written)  # the second time nothing was done again
        before = written


def test_a_prefect_flow_with_the_selection_as_a_subflow(orders, tmp_path, server: Server):
    command = ("orders.csv", "features.parquet")
    example("prefect_etl.py", *command, folder=tmp_path, PREFECT_API_URL=server.url)
    assert set(pd.read_parquet(tmp_path / "features.parquet").columns) >= TELLING
    (nightly,) = server.find("flow_runs", flows={"name": {"any_": ["nightly"]}})
    wanted = {"parent_flow_run_id": {"any_": [nightly["id"]]}}
    (inner,) = server.find("flow_runs", flow_runs=wanted)
    assert (nightly["state_type"], inner["state_type"]) == ("COMPLETED", "COMPLETED")
    assert inner["name"].startswith("orders auto lightgbm 20")  # its date follows
    assert "orders-verdict" in server.artifacts(inner["id"])


def test_a_deployment_that_another_program_starts(orders, tmp_path, server: Server):
    table = tmp_path / "Wares, 2026.v2.csv"
    pd.read_csv(orders).drop(columns=["order", "day"]).to_csv(table, index=False)
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "price")
    store = ("--store", str(tmp_path / "store"))
    with started(*command, *store, env=server.env, log=tmp_path / "serve.log"):
        eventually(lambda: server.deployments("Wares_2026.v2"))
        asked = (str(table), "features.json")
        example("start_deployment.py", *asked, folder=tmp_path, PREFECT_API_URL=server.url)
    server.forget_deployments()
    assert set(json.loads((tmp_path / "features.json").read_text())) >= TELLING


@pytest.mark.parametrize(("page", "snippets"), python(with_prefect=True), ids=name_of)
def test_the_flows_in_the_documents(orders, tmp_path, server: Server, page, snippets):
    pd.read_csv(orders).drop(columns=["order", "day"]).to_parquet(tmp_path / "table.parquet")
    for code in snippets:
        (tmp_path / "job.py").write_text(f"{code}print(result.features)\n")
        done = subprocess.run(
            (sys.executable, "job.py"), env=environment(tmp_path, PREFECT_API_URL=server.url),
            cwd=tmp_path, check=True, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert all(name in done.stdout for name in TELLING), page

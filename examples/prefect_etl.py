"""A Prefect flow of your own, in which the selection is a subflow.

python examples/prefect_etl.py orders.csv features.parquet

The environment names the server: PREFECT_API_URL, and PREFECT_API_AUTH_STRING, which it asks for.
"""

import sys
from pathlib import Path

import pandas as pd
from prefect import flow, task

import chaffinch
from chaffinch import ColumnSettings, ExecutionSettings, PromotionSettings, SelectionSettings


@task
def extract(source: str) -> str:
    """Clean the orders, and return a path."""
    staged = Path("orders.parquet").absolute()
    pd.read_csv(source).dropna(subset=["price"]).to_parquet(staged)
    return str(staged)


@task
def load(staged: str, contract: str, destination: str) -> None:
    """Write the kept columns."""
    columns = chaffinch.load_contract(contract).columns
    pd.read_parquet(staged, columns=columns).to_parquet(destination)


@flow
def nightly(source: str, destination: str) -> None:
    """Extract, select, load."""
    staged = extract(source)
    result = chaffinch.feature_selection(
        staged,
        SelectionSettings(target="price", columns=ColumnSettings(drop=("order", "day"))),
        ExecutionSettings(store=Path("chaffinch-store"), cluster="none"),
        PromotionSettings(name="orders"),  # the gate: see docs/etl.md
    )
    load(staged, str(result.folder / "selection.json"), destination)


if __name__ == "__main__":
    nightly(*sys.argv[1:])

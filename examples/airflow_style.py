"""A function for each task, as Airflow, Luigi or cron call them: paths in, a path out, once a day.

Only paths are passed between tasks, so that each may run on another machine that sees the
same folder. A task that is retried for the same day gives the same result: the selection resumes
and finds its work done.

python examples/airflow_style.py 2026-11-21 orders.csv work
"""

import sys
from pathlib import Path

import pandas as pd

import chaffinch


def extract(day: str, source: str, work: str) -> str:
    """Write the orders up to a day."""
    orders, path = pd.read_csv(source), Path(work) / f"orders-{day}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    orders[orders["day"] <= day].to_parquet(path)
    return str(path)


def select(rows: str, work: str) -> str:
    """Select, and return where the contract is."""
    store = Path(work) / "chaffinch-store"
    result = chaffinch.select(rows, "price", drop=["order", "day"], store=store)
    return str(store / "runs" / result.run / "selection.json")


def load(day: str, rows: str, contract: str, work: str) -> str:
    """Write what a model needs of the day's orders."""
    columns, path = (
        chaffinch.load_contract(contract).columns,
        Path(work) / f"features-{day}.parquet",
    )
    pd.read_parquet(rows, columns=columns, filters=[("day", "==", day)]).to_parquet(path)
    return str(path)


if __name__ == "__main__":
    day, source, work = sys.argv[1:]
    rows = extract(day, source, work)
    load(day, rows, select(rows, work), work)

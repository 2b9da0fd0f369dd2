"""Plain pandas: select once, keep the contract, and from then on read only what it names.

python examples/pandas_job.py select orders.csv contract.json
python examples/pandas_job.py read newer.parquet contract.json features.parquet
"""

import json
import sys
from pathlib import Path

import pandas as pd

import chaffinch


def select(history: str, kept: str) -> None:
    """Find the columns that predict the price."""
    result = chaffinch.select(pd.read_csv(history), "price", drop=["order"])
    Path(kept).write_text(json.dumps(result.contract.to_dict()))
    result.report("report.html")


def read(newer: str, kept: str, destination: str) -> None:
    """Read these columns of newer rows, and no others; refuse rows that do not fit any more."""
    contract = chaffinch.load_contract(kept)
    rows = pd.read_parquet(newer, columns=contract.columns)
    contract.validate(rows)
    rows.to_parquet(destination)


if __name__ == "__main__":
    {"select": select, "read": read}[sys.argv[1]](*sys.argv[2:])

"""Polars: select from a frame, and let the lazy scan of newer rows read only what was kept.

python examples/polars_job.py orders.csv newer.parquet predicted.parquet
"""

import sys

import polars as pl

import chaffinch


def main(history: str, newer: str, destination: str) -> None:
    """Select from the history, and predict the price of newer orders."""
    result = chaffinch.select(pl.read_csv(history), "price", drop=["order"])
    columns = result.contract.columns
    rows = pl.scan_parquet(newer).select("order", *columns).collect()
    result.contract.validate(rows)
    price = pl.Series("price", result.model.predict(rows))
    rows.select("order").with_columns(price).write_parquet(destination)


if __name__ == "__main__":
    main(*sys.argv[1:])

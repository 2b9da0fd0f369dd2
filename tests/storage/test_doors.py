"""What comes in means the same, whichever door it comes by: a CSV file, Parquet, or memory."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from chaffinch.storage.datasets.dataset import Dataset
from tests.sources import ingest

DAYS = pd.to_datetime(["2024-01-01 10:30:00", "2024-05-05 00:00:00"])
CASES: list[tuple[list[Any], dict[str, Any]]] = [
    (["00500", "10001"], {}),
    (["00500", "10001", None], {"categorical": ["x"]}),
    (["00500", "10001", None], {"numeric": ["x"]}),
    (["250.0", "250.00"], {"categorical": ["x"]}),
    ([500, 10001], {"categorical": ["x"]}),
    ([500, 10001, None], {"categorical": ["x"]}),  # pandas writes 500.0
    ([0.5, 2.0, None], {"categorical": ["x"]}),
    ([True, False], {}),
    ([True, False, None], {"categorical": ["x"]}),
    (["TRUE", "FALSE", None], {"numeric": ["x"]}),
    ([*DAYS], {}),
    ([*DAYS], {"categorical": ["x"]}),
    ([*DAYS, *(DAYS[0] + pd.to_timedelta([1, 2, 500_000_000], unit="ns"))], {}),
    ([*DAYS, *(DAYS[0] + pd.to_timedelta([1, 2, 500_000_000], unit="ns"))], {"categorical": ["x"]}),
    (["08:30", "12:00"], {}),
    ([" ", "1", "2"], {}),
    ([" red", "red", "red "], {}),
    (['a "b"', "c,d", "e\nf"], {}),
]


def ingested(values: list[Any], folder: Path, **roles: Any) -> dict[str, Dataset]:
    # a second column, or a row without a value would be a blank line
    frame = pd.DataFrame({"x": values * 20})
    frame["größe (m²)"] = range(len(frame))
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_csv(folder / "bom.csv", index=False, encoding="utf-8-sig", sep=";")
    frame.to_parquet(folder / "x.parquet")
    sources = (frame, *(folder / name for name in ("x.csv", "bom.csv", "x.parquet")))
    return {str(source)[-11:]: ingest(source, folder / "store", **roles) for source in sources}


@pytest.mark.parametrize(("values", "roles"), CASES)
def test_every_door_gives_the_same_dataset(
    values: list[Any], roles: dict[str, Any], tmp_path: Path
) -> None:
    assert len({dataset.hash for dataset in ingested(values, tmp_path, **roles).values()}) == 1


@pytest.mark.parametrize("roles", [{}, {"categorical": ["x"]}, {"numeric": ["x"]}])
def test_one_file_read_in_three_ways_is_three_datasets(
    roles: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x\n1.50\n1.5\n2\n")
    hashes = {}
    for _ in range(2):  # the second time from what was noted of the first
        hashes |= {str(r): ingest(path, tmp_path / "store", **r).hash for r in (roles, {})}
    assert ingest(path, tmp_path / "other", **roles).hash == hashes[str(roles)]
    assert (len(set(hashes.values())) == 2) == ("categorical" in roles)


def test_a_note_of_how_a_file_was_read_before_the_rules_changed_is_not_believed(
    tmp_path: Path,
) -> None:
    import hashlib
    import json

    from chaffinch.storage.files import sha256_of_file

    path, store = tmp_path / "x.csv", tmp_path / "store"
    path.write_text("x\n00500\n10001\n")
    before = ingest(pa.table({"x": [500, 10001]}), store)
    key = json.dumps([sha256_of_file(path), [], [], []])
    note = store / f"source-{hashlib.sha256(key.encode()).hexdigest()[:16]}.parquet"
    pa.parquet.write_table(pa.table({"row": [0, 1]}, metadata={"hash": before.hash}), note)
    assert ingest(path, store).columns == {"x": "category"}

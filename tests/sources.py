"""What a source answers, as functions of what a user gives."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaffinch.storage.datasets import dataset
from chaffinch.storage.sources import source_of


def read_source(data: Any, categorical: Collection[str] = (), **options: Any) -> pa.Table:
    return source_of(data).read(categorical, **options)


def check_source(data: Any) -> None:
    source_of(data).check()


def source_name(data: Any) -> str:
    return source_of(data).name


def source_address(data: Any) -> str | None:
    return source_of(data).address


def source_fingerprint(data: Any) -> str | None:
    return source_of(data).fingerprint()


def has_types(data: Any) -> bool:
    return source_of(data).has_types()


def column_names(data: Any) -> list[str]:
    return source_of(data).columns()


def column_bytes(data: Any) -> Mapping[str, int]:
    return source_of(data).column_bytes()


def ingest(data: Any, folder: Path, **options: Any) -> dataset.Dataset:
    return dataset.ingest(source_of(data), folder, **options)

"""A catalog of Iceberg tables in a folder, without a server; its library is imported once used."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def iceberg_catalog(folder: Path, patch: pytest.MonkeyPatch) -> str:
    """Make a catalog ``shop`` with a namespace ``web``; return its address."""
    import pyiceberg.catalog
    from pyiceberg.utils.config import Config

    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    for name, value in catalog.items():
        patch.setenv(f"PYICEBERG_CATALOG__SHOP__{name.upper()}", value)
    patch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # read once, at its import
    shop().create_namespace("web")
    return "iceberg://shop"


def shop() -> "Catalog":
    """Return the catalog."""
    from pyiceberg.catalog import load_catalog

    return load_catalog("shop")

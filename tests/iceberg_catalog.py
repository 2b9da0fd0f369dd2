"""A catalog of Iceberg tables in a folder, without a server."""

from pathlib import Path

import pyiceberg.catalog
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config


def iceberg_catalog(folder: Path, patch: pytest.MonkeyPatch) -> str:
    """Make a catalog ``shop`` with a namespace ``web``; return its address."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    for name, value in catalog.items():
        patch.setenv(f"PYICEBERG_CATALOG__SHOP__{name.upper()}", value)
    patch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # read once, at its import
    load_catalog("shop").create_namespace("web")
    return "iceberg://shop"

"""Packages of the extras, such as ``chaffinch[torch]``, which an installation may lack."""

from importlib.util import find_spec

from chaffinch.errors import InputError

EXTRAS = {
    "torch": "torch",
    "xgboost": "xgboost",
    "catboost": "catboost",
    "ortools": "alternatives",
    "distributed": "flows",
    "sqlalchemy": "flows",
    "prefect": "flows",
    "deltalake": "delta",
    "duckdb": "duckdb",
    "pyiceberg": "iceberg",
    "adbc_driver_manager": "adbc",
    "obstore": "objects",
    "mlflow": "mlflow",
    "openlineage": "openlineage",
    "pandera": "pandera",
}


def lacks(package: str) -> bool:
    """Return whether a package is not installed."""
    return find_spec(package) is None


def require(package: str, what: str) -> None:
    """Raise InputError if a package that `what` needs is not installed."""
    if lacks(package):
        raise InputError(
            f"{what} needs the package {package}, which is not installed; "
            f'run pip install "chaffinch[{EXTRAS[package]}]"'
        )

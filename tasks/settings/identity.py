"""Identity of a run: the digest of its settings, its data and the versions of libraries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from chaffinch.tasks.selection.models import MODELS
from chaffinch.tasks.settings.selection import SelectionSettings

# Packages that can change a result.
_OF_MODELS = {kind.distribution for kind in MODELS.values()}
_COMPUTING = sorted({"chaffinch", "numba", "numpy", "scipy"} | _OF_MODELS)


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that can change a result."""
    return {name: number for name in _COMPUTING if (number := _installed(name)) is not None}


@cache  # a look-up takes 3 ms, and every stage looks up all
def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # of an extra
        return None


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of JSON content, independent of the order of its keys."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def identity(
    settings: SelectionSettings, dataset_hash: str, estimator: Any = None, folds: str | None = None
) -> str:
    """Return the digest that makes two runs the same run; `folds` is the hash of given folds."""
    return digest(
        {
            "dataset": dataset_hash,
            "settings": settings.model_dump(mode="json"),
            "estimator": None if estimator is None else repr(_parameters(estimator)),
            "versions": versions(),
            **({} if folds is None else {"folds": folds}),
        }
    )


def _parameters(estimator: Any) -> tuple[str, list[tuple[str, Any]]]:
    kind = type(estimator)
    return f"{kind.__module__}.{kind.__qualname__}", sorted(estimator.get_params(deep=True).items())

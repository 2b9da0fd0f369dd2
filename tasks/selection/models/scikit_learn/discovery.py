"""What imports every package of scikit-learn, without the array libraries of a few of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# scikit-learn's adapters of other arrays, which hold no estimator. To import them is to import
# torch and Dask: more than a second, and 200 MB.
_ADAPTERS = tuple(f"sklearn.externals.array_api_compat.{name}" for name in ("dask", "torch"))


@cache
def classifiers_and_regressors() -> dict[str, Any]:
    """Return the classes of scikit-learn that predict, by their names."""
    from sklearn.utils.discovery import all_estimators

    with _without_adapters():
        return dict(all_estimators(type_filter=["classifier", "regressor"]))


@cache
def file_format() -> Any:
    """Return `skops.io`, which lists all estimators when it is imported."""
    with _without_adapters():
        import skops.io
    return skops.io


@contextmanager
def _without_adapters() -> Iterator[None]:
    """Let imports of the adapters fail, which a walk through packages passes over."""
    names = [name for name in _ADAPTERS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]  # None: not to be imported
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)

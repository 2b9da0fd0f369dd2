"""Identity of a run: the digest of its settings, its data and the versions of libraries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from types import CodeType
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


@dataclass(frozen=True)
class CustomObjects:
    """What a caller in Python gives as an object, which no settings hold; None by default.

    `estimator` is an unfitted scikit-learn estimator instead of a model by name; `cv` a splitter,
    or pairs of row numbers, instead of a number of folds; `scorer` a scorer as `make_scorer` makes
    it instead of a loss by name. `folds` are those of `cv`, once the rows are read. `fitted`
    is the digest of an estimator that is the base model as it is.
    """

    estimator: Any = None
    cv: Any = None
    scorer: Any = None
    folds: Any = None
    fitted: str | None = None

    @property
    def digests(self) -> dict[str, Any]:
        """What distinguishes the objects from others."""
        scorer, estimator = self.scorer, self.estimator
        return {
            "estimator": None if estimator is None else repr(_parameters(estimator)),
            **({} if self.fitted is None else {"fitted": self.fitted}),
            **({} if self.folds is None else {"folds": self.folds.hash}),
            **({} if scorer is None else {"scorer": [repr(scorer), *_code(scorer._score_func)]}),
        }


NO_CUSTOM_OBJECTS = CustomObjects()


def identity(
    settings: SelectionSettings, dataset_hash: str, custom: CustomObjects = NO_CUSTOM_OBJECTS
) -> str:
    """Return the digest that makes two runs the same run."""
    return digest(
        {
            "dataset": dataset_hash,
            "settings": settings.model_dump(mode="json"),
            "versions": versions(),
            **custom.digests,
        }
    )


def _parameters(estimator: Any) -> tuple[str, list[tuple[str, Any]]]:
    kind = type(estimator)
    return f"{kind.__module__}.{kind.__qualname__}", sorted(estimator.get_params(deep=True).items())


def _code(function: Any) -> Iterator[str]:
    """Yield what distinguishes a function from an edited one of its name, wherever it stands."""
    while isinstance(function, partial):
        yield repr((function.args, function.keywords))
        function = function.func
    yield f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    cells = getattr(function, "__closure__", None) or ()
    yield repr([getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)])
    yield repr([cell.cell_contents for cell in cells])
    codes = [getattr(function, "__code__", None)]
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            yield code.co_code.hex()
            yield repr([code.co_names, *(c for c in code.co_consts if type(c) is not CodeType)])
            codes += [*code.co_consts]

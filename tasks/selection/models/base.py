"""What models share: limits of hyper-parameters, checks of rows, models that users give."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from chaffinch.errors import InputError, NotCovered
from chaffinch.tasks.selection.core import Floats, Mask, Predictor, Rows, Schema, Task

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Parameters: TypeAlias = Mapping[str, JSON]

ONE_THREAD = "is fixed at one thread, so that results do not depend on the machine; leave it out"
THREADS = "follows from the free cores, and changes no result; leave it out"
SEEDED = "comes from the seed of the run; set that instead"
FROM_TARGET = "follows from the target; leave it out"
QUIET = "is fixed, models are trained quietly; leave it out"
_MOST_NAMED = 12  # of the names that a message lists


class Limit(NamedTuple):
    words: str
    accepts: Callable[[JSON], bool]


def whole(low: int, high: int = 2**31 - 1) -> Limit:
    def accepts(value: JSON) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return Limit(f"a whole number in {low}..{high}", accepts)


def real(low: float = -math.inf, high: float = math.inf, *, above_low: bool = False) -> Limit:
    """Return the limit of a finite number in [low, high], or in (low, high] if `above_low`."""

    def accepts(value: JSON) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return math.isfinite(value) and low <= value <= high and not (above_low and value == low)

    bounds = [f"{'above' if above_low else 'at least'} {low:g}"] if low > -math.inf else []
    bounds += [f"at most {high:g}"] if high < math.inf else []
    return Limit(" ".join(["a number", " and ".join(bounds)]).strip(), accepts)


def choice(*values: str) -> Limit:
    return Limit("one of " + ", ".join(values), lambda value: value in values)


_LAYER = whole(1, 65536)
LAYER_SIZES = Limit(
    f"a list of at least one layer's size, each {_LAYER.words}",
    lambda value: (
        isinstance(value, list | tuple) and len(value) > 0 and all(map(_LAYER.accepts, value))
    ),
)
FLAG = Limit("true or false", lambda value: isinstance(value, bool))


def check_parameters(
    model: str, parameters: Parameters, known: Mapping[str, Limit], refused: Mapping[str, str]
) -> None:
    """Raise InputError if a parameter is `refused` for a reason, unknown or out of range."""
    for name, value in parameters.items():
        if name in refused:
            raise InputError(f"{model} parameter {name!r} {refused[name]}")
        if name not in known:
            raise InputError(f"{model} has no parameter {name!r}; {nearest(name, known)}")
        if not known[name].accepts(value):
            raise InputError(
                f"{model} parameter {name!r} must be {known[name].words} but is {value!r}"
            )


def of_other_task(name: str, task: Task) -> InputError:
    """Return the error of a model that does not predict what the task asks for."""
    wanted, target = ("regressor", "number") if task == "regression" else ("classifier", "class")
    return InputError(f"{name} is no {wanted} but the target is a {target}; use one, or linear")


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a remedy for a misspelt name: near ones, or `otherwise`, or the first few known."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(by_lower_case[n] for n in near) + "?"
    if otherwise:
        return otherwise
    names = list(by_lower_case.values())
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "known are " + ", ".join(names[:_MOST_NAMED]) + more


def combinations(**values: Sequence[JSON]) -> list[dict[str, JSON]]:
    return [
        dict(zip(values, candidate, strict=True))
        for candidate in itertools.product(*values.values())
    ]


def check_rows(rows: Rows, schema: Schema) -> None:
    """Raise InputError unless a model of this schema can be trained on these rows."""
    n = len(rows)
    if not rows.is_streamed:
        check_matrix(rows.X, schema)
        n = len(rows.X)
    if not n or not schema.features:
        raise InputError(
            f"a model needs at least 1 row and 1 feature but has {n} and {len(schema.features)}"
        )
    for name, values in (("y", rows.y), ("weight", rows.weight)):
        if values is not None and values.shape != (n,):
            raise InputError(f"{name} must have shape ({n},) as X has rows but has {values.shape}")
    if schema.n_classes and not (
        np.issubdtype(rows.y.dtype, np.integer)
        and 0 <= rows.y.min() <= rows.y.max() < schema.n_classes
    ):
        raise InputError(f"y must hold class indices in 0..{schema.n_classes - 1}")
    if not np.isfinite(rows.y).all():
        raise InputError("y must be finite; drop the rows without a target")
    if rows.weight is not None and not (np.isfinite(rows.weight) & (rows.weight > 0)).all():
        raise InputError("weight must be above 0 and finite; drop the rows that should not count")
    categorical = schema.categorical
    for feature, codes in zip(categorical, rows.columns(categorical), strict=True):
        size = schema.n_categories[feature]
        known = (codes >= 0) & (codes < size) & (codes == np.floor(codes)) | np.isnan(codes)
        if not known.all():
            raise InputError(
                f"feature {schema.features[feature]!r} must hold codes in 0..{size - 1} "
                f"but holds {codes[~known][0]:g}"
            )


def check_matrix(X: Floats, schema: Schema) -> None:
    if X.ndim != 2 or X.shape[1] != len(schema.features):
        raise InputError(
            f"X must have shape (n, {len(schema.features)}), a column for each feature, "
            f"but has {X.shape}"
        )


def check_width(n_features: int, schema: Schema) -> None:
    if n_features != len(schema.features):
        raise InputError(
            f"the model's file has {n_features} features but the schema {len(schema.features)}; "
            "load it with the schema it was trained with"
        )


def native_file(files: Mapping[str, bytes], name: str) -> bytes:
    if name not in files:
        raise InputError(
            f"the model's files must hold {name} but hold {sorted(files) or 'nothing'}"
        )
    return files[name]


@dataclass(frozen=True, eq=False)
class GivenModel(Predictor):
    """A model known by its predictions only; `own` takes X (n, d) to them."""

    kind: str
    schema: Schema
    own: Callable[[Floats], Any]
    used: Mask

    @property
    def used_features(self) -> Mask:
        return self.used

    def predict(self, X: Floats) -> Floats:
        check_matrix(X, self.schema)
        prediction = np.asarray(self.own(X), dtype=np.float64)
        n_classes = self.schema.n_classes
        shape = (len(X), n_classes) if n_classes else (len(X),)
        if not n_classes and prediction.shape == (len(X), 1):
            prediction = prediction[:, 0]
        if prediction.shape != shape:
            raise InputError(
                f"the model must predict an array of shape {shape} but predicts {prediction.shape}"
            )
        return prediction


def without_expected_value(values: Any, schema: Schema) -> Floats:
    """Return SHAP values (n, k, d) of a library whose last column is the expected prediction."""
    by_output = np.reshape(values, (len(values), -1, len(schema.features) + 1))
    return np.asarray(by_output[:, :, :-1], dtype=np.float64)


def own_name(instance: Any, package: str) -> str:
    """Return the class name of a package's own object, "" for any other."""
    kind = type(instance)
    is_of_package = f"{kind.__module__}.".startswith(f"{package}.")
    return kind.__name__ if is_of_package and not replaced_methods(instance) else ""


def replaced_methods(thing: Any) -> list[str]:
    """Return the names of methods that the instance has replaced by its own.

    A derived class, or an instance with a function put in a method's place, may predict in another
    way. What is read off such an object is not what it does.
    """
    own = vars(thing) if hasattr(thing, "__dict__") else {}
    return [name for name in own if callable(getattr(type(thing), name, None))]


def check_own(instance: Any, package: str, library: str) -> None:
    """Raise NotCovered unless an object behaves as its library wrote it; see `own_name`."""
    if own_name(instance, package):
        return
    name, replaced = type(instance).__name__, replaced_methods(instance)
    if replaced:
        raise NotCovered(f"the {name}'s own {replaced[0]} was replaced")
    raise NotCovered(f"{name} is no class of {library}'s own")

"""Base class of methods, and the registry that finds a method by its kind.

A search takes its problem as `Any`: `Problem` belongs to a room above the settings.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

from pydantic import BeforeValidator, GetJsonSchemaHandler, SerializeAsAny
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from chaffinch.errors import InputError, short_repr
from chaffinch.storage.column_names import alike
from chaffinch.tasks.settings.base import Settings, complete_form

if TYPE_CHECKING:
    from chaffinch.tasks.selection.core import FittedModel, Mask, Rows, Schema
    from chaffinch.tasks.settings.search_result import Candidate, SearchResult
    from chaffinch.tasks.settings.selection import SelectionSettings

    Fit = Callable[[Rows, Schema], FittedModel]


# Percent of the rows: Binary Mask Optimization (arXiv 2401.12644), section 4.1
PERCENT = (45, 30, 10, 15)
MANY_ROWS = 20_000  # with more, a test part judges, and a single fold chooses the size


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a method declares about itself, independent of its settings."""

    summary: str = ""  # what it does, as a sentence, unless `refits` says it
    score: str | None = None  # what the score of a feature is; None if features have none
    score_is_place: bool = False  # the score is a place in an order, and measures nothing more
    refits: str | None = None  # how it refits the model as it searches; None if it does not
    takes_sizes: bool = True  # numbers of features can be requested
    limits_size: bool = False  # a requested number is only the largest
    finds_size: bool = False  # it finds the number without the model-validation rows
    folded_parts: tuple[str, ...] = ()  # parts of the rows that its search cuts into folds
    fewest_folds: int = 2
    is_cross_fitted: bool = False  # all rows train, mask and judge in turn, by folds
    takes_weights: bool = True  # rows may have weights
    masks_given: bool = False  # a fitted estimator is masked as it is
    reads_files: bool = False  # rows may be in files: the search holds no copy of them
    # Use of each part of the rows, where it differs from GBMO.
    parts_used: Mapping[str, str] = field(default_factory=dict)


class Method(Settings):
    """The settings of a method of selection, what it declares about itself, and its search."""

    kind: str
    declared_traits: ClassVar[Traits] = Traits()
    # The form of its paper, where our defaults depart from it: fields of `SelectionSettings`, and
    # as "method.name" its own. Its page has the reason for each.
    published: ClassVar[Mapping[str, Any]] = {}

    @property
    def traits(self) -> Traits:
        """What the method declares about itself; a class of several kinds overrides it."""
        return self.declared_traits

    @property
    def name(self) -> str:
        """The kind, with what sets its runs apart by name."""
        return self.kind

    @property
    def summary(self) -> str:
        """What the method does, as a sentence."""
        if self.traits.refits:
            return f"{self.traits.refits.capitalize()}."
        return self.traits.summary or type(self).model_fields["kind"].description or ""

    def why_all(self, facts: Mapping[str, Any]) -> str:
        """Why all features are kept if they are, for the verdict; empty if there is no reason.

        `facts` are those of the search.
        """
        return ""

    def caveat(self, facts: Mapping[str, Any]) -> str:
        """Say in a sentence what a person has to know before the verdict; empty as a rule."""
        return ""

    @property
    def named_features(self) -> tuple[str, ...]:
        """Features that a setting names."""
        return ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Requested numbers of features; shares of all are left out."""
        sizes = getattr(self, "n_features", None) or ()
        sizes = sizes if isinstance(sizes, tuple) else (sizes,)
        return tuple(size for size in sizes if isinstance(size, int))

    def as_sizes(self, n_features: int) -> int | tuple[int, ...]:
        """Return one number of features as the setting `n_features` takes it."""
        return n_features if self.traits.limits_size else (n_features,)

    def has_test_part(self, settings: SelectionSettings, n_rows: int) -> bool:
        """Return whether some of the rows are held out for the verdict."""
        return True

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int] | None:
        """Return the expected number of features of each fit of the search.

        None if the number of fits depends on the rows. `n_rows` counts no test rows.
        """
        return ()

    def min_training_rows(self, n_classes: int) -> int:
        """Return the least number of training rows; `n_classes` is 0 for regression."""
        return 1

    def check_machine(self) -> None:
        """Raise InputError if a package is not installed, or memory is too small."""

    def check_tuning(self, tuning: str) -> None:
        """Raise ValueError if the settings do not go with the tuning of the model."""

    def check_training_rows(self, n_rows: int) -> None:
        """Raise InputError if the settings need more training rows."""

    def check_model(
        self, name: str, parameters: Mapping[str, Any], n_classes: int, fit: Fit
    ) -> None:
        """Raise InputError if the method cannot be used with a model."""

    @abstractmethod
    def search(self, problem: Any) -> SearchResult:
        """Return the result of the search; `problem` is a `Problem`.

        Raises
        ------
        InputError, ValueError
            If the method cannot be used with the model or the rows, or no feature is of any use.
        """

    @abstractmethod
    def candidates(self, result: SearchResult) -> list[Candidate]:
        """Return the candidate masks, the smallest first."""

    def reaching(self, sizes: Sequence[int]) -> Method:
        """Return the method with settings whose search includes some more sizes."""
        return self

    def of_sizes(
        self, result: SearchResult, sizes: Sequence[int], problem: Any, seconds: float
    ) -> list[tuple[int, Mask, float]]:
        """Return each size of the result, with its mask and seconds; the search took `seconds`."""
        masks = [(size, result.mask_of_size(size)) for size in sizes]
        return [(size, mask, seconds) for size, mask in masks if mask is not None]

    @property
    def model_parameters(self) -> Mapping[str, Any]:
        """Hyper-parameters of the model that follow from the method's settings."""
        return {}

    def trained_model(self, problem: Any, result: SearchResult, mask: Mask) -> FittedModel | None:
        """Return the model that the search has trained, on the features of a mask.

        It is then the final model. None if the model is fitted again.
        """
        return None

    def scores(self, result: SearchResult, kept: Sequence[bool]) -> dict[str, float] | None:
        """Return the score of each feature by name; None if features have none."""
        scores: dict[str, float] | None = result.facts.get("scores")
        return scores

    def report(self, result: SearchResult) -> dict[str, Any]:
        """Return the search's part of the report: fields of `ReportContent` by name."""
        steps = result.steps.to_pydict()
        if "features" in steps:
            columns = (steps[name] for name in ("step", "features_left", "loss"))
            return {"masks": list(zip(*columns, strict=True))}
        losses = steps.get("loss", [None] * result.steps.num_rows)  # a ranking has scores instead
        path = zip(steps["step"], steps["feature"], losses, steps["features_left"], strict=True)
        return {"path": list(path), "sizes": result.facts.get("sizes")}


# The module and class of each method by its kind, in the order in which they are listed; of a
# ranking the module of its function. A module is imported at the first use of its method: together
# they take two seconds to import.
_CLASSES: dict[str, str] = {
    "auto": "chaffinch.tasks.methods.auto:Auto",
    "gbmo": "chaffinch.tasks.methods.bmo:Gbmo",
    "flbmo": "chaffinch.tasks.methods.bmo:Flbmo",
    "afs_bm": "chaffinch.tasks.methods.afs_bm:AfsBm",
    **dict.fromkeys(
        ("correlation", "anova_f", "mutual_information", "mrmr", "relieff", "fcbf"),
        "chaffinch.tasks.selection.baselines.filters",
    ),
    **dict.fromkeys(("jmi", "cmim"), "chaffinch.tasks.selection.baselines.joint_information"),
    **dict.fromkeys(("lasso", "elastic_net"), "chaffinch.tasks.selection.baselines.penalised"),
    **dict.fromkeys(
        ("select_from_model", "permutation", "tree_shap"),
        "chaffinch.tasks.selection.baselines.importances",
    ),
    "mission": "chaffinch.tasks.selection.baselines.mission",
    "dfs": "chaffinch.tasks.methods.dfs:Dfs",
    "rfe": "chaffinch.tasks.methods.baselines.rfe:Rfe",
    "rfecv": "chaffinch.tasks.methods.baselines.rfe:Rfecv",
    "sequential_forward": "chaffinch.tasks.methods.baselines.sequential:Sequential",
    "sequential_backward": "chaffinch.tasks.methods.baselines.sequential:Sequential",
    "boruta": "chaffinch.tasks.methods.baselines.boruta:Boruta",
    "particle_swarm": "chaffinch.tasks.methods.baselines.particle_swarm:ParticleSwarm",
    "pefs": "chaffinch.tasks.methods.pefs:Pefs",
}
# The method of a reselection, which cannot be requested by its kind.
RESELECT = "reselect"
_RESELECTION = "chaffinch.tasks.methods.reselection:Reselection"


def kinds() -> tuple[str, ...]:
    return tuple(_CLASSES)


def plain_rankings() -> tuple[str, ...]:
    """Return the kinds that are a function, without settings of their own."""
    return tuple(kind for kind, place in _CLASSES.items() if ":" not in place)


def rankings() -> tuple[str, ...]:
    """Return the kinds that keep features by a lowest score; imports all methods."""
    return tuple(kind for kind in _CLASSES if "min_score" in class_of(kind).model_fields)


def register(kind: str, place: str) -> None:
    """Add a method under its kind; `place` is ``module:class``, or a ranking's module."""
    if kind in (*_CLASSES, RESELECT):
        raise ValueError(f"there is a method {kind!r} already; choose another kind")
    _CLASSES[kind] = place


def imported(kind: object) -> tuple[ModuleType, str]:
    """Return the module of a method and the name of its class; InputError if there is none.

    The name is empty for a ranking that is a function.
    """
    place = {**_CLASSES, RESELECT: _RESELECTION}.get(kind) if isinstance(kind, str) else None
    if place is None:
        close = alike(kind, _CLASSES) if isinstance(kind, str) else []
        hint = f"did you mean {' or '.join(close)}?" if close else ""
        if isinstance(kind, str) and kind == "robust_elimination":
            hint = "it is gone: use auto, which does as well on redundant tables"
        raise InputError(
            f"method must be one of {', '.join(_CLASSES)} but is {short_repr(kind)}", hint
        )
    module, _, name = place.partition(":")
    return import_module(module), name


def class_of(kind: object) -> type[Method]:
    """Return the class of a method; InputError if there is none."""
    module, name = imported(kind)
    if not name:
        module, name = import_module("chaffinch.tasks.methods.baselines.rankings"), "Ranking"
    method: type[Method] = getattr(module, name)
    return method


def method_of(method: Any) -> Method:
    """Return a method's settings from settings, a kind, or a mapping that names the kind."""
    if isinstance(method, Method):
        return method
    values = dict(method) if isinstance(method, Mapping) else {"kind": method}
    values["kind"] = as_kind(values.get("kind", "auto"))
    if isinstance(method, str) and values["kind"] == RESELECT:
        raise InputError(f"method must be one of {', '.join(_CLASSES)} but is {method!r}")
    return class_of(values["kind"])(**values)


def method_settings(
    method: str | Mapping[str, Any] | Method, n_features: int | None, min_score: float | None = None
) -> Method:
    """Return a method's settings; the arguments replace its sizes, or the penalties of pefs."""
    method = method_of(method)
    if min_score is not None and not _takes(type(method), "min_score"):
        raise InputError(
            f"min_score is for a ranking but the method is {method.kind}; leave it out, or use "
            f"one of {', '.join(rankings())}"
        )
    if n_features is not None and not _takes(type(method), "n_features"):
        raise InputError(f"method {method.kind} takes no n_features; leave it out")
    if n_features is None and min_score is None:
        return method
    changes: dict[str, Any] = {} if min_score is None else {"min_score": min_score}
    if n_features is not None:
        changes["n_features"] = method.as_sizes(n_features)
        own, by_default = (m.model_dump()["n_features"] for m in (method, method_of(method.kind)))
        if own not in (None, by_default, changes["n_features"]):
            raise InputError(
                f"n_features is {n_features}, but {numbers_in_words(own)} in the settings of "
                f"method {method.kind}; give it once"
            )
    # without the settings that n_features and min_score replace; penalties have a default
    left = method.model_dump(exclude={"n_features", "penalties"})
    return type(method)(**{**left, **changes})


def _takes(method: type[Method], setting: str) -> bool:
    return setting in method.model_fields


def numbers_in_words(numbers: float | tuple[float, ...]) -> str:
    """Return a number, or several with commas, as an error shows them."""
    return ", ".join(
        f"{number:g}" for number in (numbers if isinstance(numbers, tuple) else (numbers,))
    )


def as_kind(name: Any) -> Any:
    """Return a kind for the name of a method as papers write it, such as AFS-BM."""
    return name.strip().lower().replace("-", "_") if isinstance(name, str) else name


class _Unknown(Method):
    """A method that this release does not have, but stored runs do."""

    declared_traits = Traits(score="the score of a method that this release does not have")

    def search(self, problem: Any) -> SearchResult:
        self._refuse()

    def candidates(self, result: SearchResult) -> list[Candidate]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(f"this release has no method {self.kind}; use another")


def declared(kind: str) -> Method:
    """Return a method without settings, for its traits, which are few for an unknown one."""
    is_known = kind in _CLASSES or kind == RESELECT
    return (class_of(kind) if is_known else _Unknown).model_construct(kind=kind)


def classes() -> list[type[Method]]:
    """Return the classes of all methods, each before the classes that extend its settings.

    The UI shows settings in the form of the first method that has most of them by name.
    """
    ordered: list[type[Method]] = []
    for method in dict.fromkeys(map(class_of, _CLASSES)):
        names = set(method.model_fields)
        place = (i for i, other in enumerate(ordered) if names < set(other.model_fields))
        ordered.insert(next(place, len(ordered)), method)
    return ordered


class _MethodUnion:
    """The schema of the form: the union of all methods."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # with a reference each method has its own definition, which the form of Prefect needs
        forms: list[Any] = [
            {**m.__pydantic_core_schema__, "ref": f"{m.__module__}.{m.__name__}:{id(m)}"}
            for m in classes()
        ]
        return handler(core_schema.union_schema(forms))


def form_of_methods(name: str) -> Callable[[dict[str, Any]], None]:
    """Return a function that puts all settings of the default methods of a field into a form."""

    def complete(schema: dict[str, Any]) -> None:
        complete_form(schema)
        field = schema["properties"][name]
        default = field["default"]
        several = [default] if isinstance(default, str) else default
        in_full = [method_of(kind).model_dump(mode="json") for kind in several]
        field["default"] = in_full[0] if isinstance(default, str) else in_full

    return complete


AnyMethod = Annotated[SerializeAsAny[Method], BeforeValidator(method_of), _MethodUnion]

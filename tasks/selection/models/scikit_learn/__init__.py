"""scikit-learn estimators: "linear", any other by its class name, or an instance.

An estimator that takes missing values gets the numbers as they are; for any other, a missing
number is its training mean and numbers are standardised. Categories are one-hot, or codes for
HistGradientBoosting up to as many as it has bins. A Pipeline gets what suits its first step.
What names columns by their position is refused, as models are fitted on some of the columns.
"""

from __future__ import annotations

import io
import re
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema, Task
from chaffinch.tasks.selection.models.base import (
    JSON,
    QUIET,
    SEEDED,
    THREADS,
    Parameters,
    check_matrix,
    check_rows,
    check_width,
    combinations,
    native_file,
    nearest,
    of_other_task,
    own_name,
)
from chaffinch.tasks.selection.models.dense import DenseModel
from chaffinch.tasks.selection.models.forest import Forest
from chaffinch.tasks.selection.models.runtime import single_thread, threads_for
from chaffinch.tasks.selection.models.scikit_learn.discovery import (
    classifiers_and_regressors,
    file_format,
)
from chaffinch.tasks.selection.models.scikit_learn.versions import use_l1_ratio

# Families of classes, each with a Classifier and a Regressor.
TREES = frozenset({"DecisionTree", "ExtraTree"})
FORESTS = frozenset({"ExtraTrees", "RandomForest"})


def transformer(X: Floats, schema: Schema, *, takes_missing: bool, most_codes: int) -> Any:
    """Return the unfitted transformer that prepares features for an estimator, or "passthrough".

    The columns' order is: codes, numbers, one-hot. HistGradientBoosting moves its categorical
    columns to the front, so that with codes in front already its own order is the same. A prepared
    feature that is constant in the training rows is left out: rounding would give it a coefficient
    of 1e-18, and a feature without information should not be used.

    `takes_missing`: numbers are unchanged; otherwise a missing number becomes the training mean and
    all are standardised. Features of at most `most_codes` categories become codes; larger ones
    one-hot.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    codes = [i for i in schema.categorical if schema.n_categories[i] <= most_codes]
    one_hot = [i for i in schema.categorical if schema.n_categories[i] > most_codes]
    numeric = [i for i, size in enumerate(schema.n_categories) if not size]
    if takes_missing and codes + numeric == list(range(len(schema.features))):
        return "passthrough"
    prepared = one_hot if takes_missing else one_hot + numeric
    varying = {i for i in prepared if _varies(X[:, i], missing_counts=i in one_hot)}
    if codes or varying or (takes_missing and numeric):  # an estimator needs a column at least
        one_hot = [i for i in one_hot if i in varying]
        numeric = [i for i in numeric if takes_missing or i in varying]
    # in place: they get a copy of the columns already
    standardise = make_pipeline(
        SimpleImputer(keep_empty_features=True, copy=False), StandardScaler(copy=False)
    )
    encode = OneHotEncoder(
        categories=[np.arange(float(schema.n_categories[i])) for i in one_hot],
        handle_unknown="ignore",
        sparse_output=False,
    )
    return ColumnTransformer(
        [
            ("codes", "passthrough", codes),
            ("numeric", "passthrough" if takes_missing else standardise, numeric),
            ("one_hot", encode, one_hot),
        ]
    )


def features_by_kind(fitted: Any, schema: Schema) -> dict[str, list[int]]:
    """Return the features that a fitted transformer gives as "codes", "numeric" and "one_hot"."""
    if fitted == "passthrough":
        numeric = [i for i, size in enumerate(schema.n_categories) if not size]
        return {"codes": list(schema.categorical), "numeric": numeric, "one_hot": []}
    return {name: list(features) for name, _, features in fitted.transformers_}


def feature_of_column(fitted: Any, schema: Schema) -> NDArray[np.int64]:
    """Return the feature each column of a fitted transformer comes from, shape (width,)."""
    features = features_by_kind(fitted, schema)
    one_hot = [i for i in features["one_hot"] for _ in range(schema.n_categories[i])]
    return np.array(features["codes"] + features["numeric"] + one_hot, dtype=np.int64)


def _varies(values: Floats, *, missing_counts: bool) -> bool:
    present = values[~np.isnan(values)]
    if missing_counts and 0 < len(present) < len(values):
        return True
    return len(present) > 0 and bool(present.min() != present.max())


def used_columns(estimator: Any) -> NDArray[np.int64] | None:
    """Return the columns that can change a prediction of a fitted estimator; None if not known."""
    family = own_family(estimator)
    if family in TREES:
        return _split_columns([estimator])
    if family in FORESTS:
        return _split_columns(estimator.estimators_)
    if family == "GradientBoosting" and estimator.init is None:
        return _split_columns(estimator.estimators_.ravel())
    if family == "HistGradientBoosting":
        nodes = [t.nodes for iteration in estimator._predictors for t in iteration]
        tested = np.concatenate([n["feature_idx"][n["is_leaf"] == 0] for n in nodes])
        return np.unique(histogram_order(estimator)[tested])
    if own_name(estimator, "sklearn.linear_model") and hasattr(estimator, "coef_"):
        return np.flatnonzero(np.atleast_2d(coefficients_of(estimator)).any(axis=0))
    return None


def histogram_order(estimator: Any) -> NDArray[np.int64]:
    """Return the columns of a fitted HistGradientBoosting in its own order: categorical first."""
    if estimator._preprocessor is None:
        return np.arange(estimator.n_features_in_)
    return np.argsort(~estimator.is_categorical_, kind="stable")


def own_family(estimator: Any) -> str:
    """Return what a class of scikit-learn's own is called less what it predicts; see `own_name`."""
    return own_name(estimator, "sklearn").removesuffix("Classifier").removesuffix("Regressor")


def _split_columns(trees: Sequence[Any]) -> NDArray[np.int64] | None:
    if not all(map(own_family, trees)):
        return None
    features = np.unique(np.concatenate([tree.tree_.feature for tree in trees]))
    return np.asarray(features[features >= 0])  # a leaf has -2


def coefficients_of(estimator: Any) -> Any:
    """Return a fitted linear estimator's `coef_` as an array, which `sparsify` makes sparse."""
    coefficients = estimator.coef_
    return coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients


_LINEAR: dict[Task, str] = {"classification": "LogisticRegression", "regression": "Ridge"}
# the library's 100 stops early, with a warning, on tables with separable classes
_DEFAULTS: dict[str, dict[str, JSON]] = {"LogisticRegression": {"max_iter": 1000}}
_DEPRECATED = "is deprecated in scikit-learn; give C, l1_ratio and solver instead"
_REFUSED = {
    "n_jobs": THREADS,
    "random_state": SEEDED,
    "verbose": QUIET,
    "categorical_features": "follows from the table; leave it out",
}


def importances_of(estimator: object) -> Floats | None:
    """Return an estimator's `feature_importances_`, or else its absolute coefficients."""
    importances = getattr(estimator, "feature_importances_", None)
    if importances is not None:
        return np.asarray(importances, dtype=np.float64)
    if getattr(estimator, "coef_", None) is None:
        return None
    return np.asarray(np.abs(np.atleast_2d(coefficients_of(estimator))).sum(axis=0))


def check(parameters: Parameters, name: str, task: Task | None, weighted: bool) -> None:
    errors = []
    for candidate in (task,) if task else _tasks(name):
        try:
            estimator = unfitted(name, parameters, candidate)
            if weighted:
                weight_argument(estimator)
            return
        except ValueError as error:
            errors.append(error)
    raise errors[0]


def grid(preset: str, name: str, task: Task) -> list[dict[str, JSON]]:
    """Return the candidates of the preset "small"; without parameters where none is known."""
    if preset != "small":
        return []
    name = _LINEAR[task] if name == "linear" else name
    if name == "Ridge":
        return combinations(alpha=(0.1, 1.0, 10.0, 100.0))
    if name == "LogisticRegression":
        return combinations(C=(0.01, 0.1, 1.0, 10.0))
    if name.startswith(("RandomForest", "ExtraTrees")):
        return combinations(max_features=("sqrt", 0.5), min_samples_leaf=(1, 5))
    if name.startswith("HistGradientBoosting"):
        return combinations(learning_rate=(0.05, 0.1), max_leaf_nodes=(7, 31))
    return [{}]


def unfitted(name: str, parameters: Parameters, task: Task) -> Any:
    name = _LINEAR[task] if name == "linear" else name
    estimator_class = _class(name)
    for parameter in parameters:
        if parameter in _REFUSED:
            raise InputError(f"{name} parameter {parameter!r} {_REFUSED[parameter]}")
        if parameter == "penalty" and name.startswith("LogisticRegression"):
            raise InputError(f"{name} parameter 'penalty' {_DEPRECATED}")
    try:
        estimator = estimator_class()
    except TypeError as error:
        raise InputError(
            f"{name} is made of other estimators; pass an instance of it, not its name"
        ) from error
    for parameter in parameters:
        if parameter not in estimator.get_params():
            raise InputError(
                f"{name} has no parameter {parameter!r}; "
                f"{nearest(parameter, estimator.get_params())}"
            )
    estimator.set_params(**{**_DEFAULTS.get(name, {}), **parameters})
    if name.startswith("LogisticRegression"):
        use_l1_ratio(estimator)
    estimator._validate_params()
    check_task(estimator, task)
    return estimator


def _tasks(name: str) -> Sequence[Task]:
    from sklearn.base import ClassifierMixin

    if name == "linear":
        return "regression", "classification"
    return ("classification",) if issubclass(_class(name), ClassifierMixin) else ("regression",)


def _class(name: str) -> Any:
    from sklearn import ensemble, linear_model

    for module in (linear_model, ensemble):
        if name in module.__all__ and isinstance(getattr(module, name), type):
            return getattr(module, name)
    # the rest takes a second, because it imports all of scikit-learn
    known = classifiers_and_regressors()
    if name not in known:
        from chaffinch.tasks.selection.models import MODELS

        otherwise = (
            f"give {', '.join(MODELS)}, or the name of a classifier or regressor of "
            "scikit-learn, such as RandomForestClassifier"
        )
        # XGBClassifier, lgbm: names that the libraries and their users give the built-in models
        prefixes = {kind.prefix: each for each, kind in MODELS.items() if kind.prefix}
        own = [each for start, each in prefixes.items() if name.lower().startswith(start)]
        near = nearest(name, (*MODELS, *known), otherwise)
        remedy = f"did you mean {own[0]}?" if own else near
        raise InputError(f"there is no model {name!r}; {remedy}")
    return known[name]


def check_task(estimator: Any, task: Task) -> None:
    """Raise InputError unless an estimator predicts what a task needs: values, or probabilities."""
    from sklearn.base import is_classifier, is_regressor

    name = type(estimator).__name__
    if not (is_regressor if task == "regression" else is_classifier)(estimator):
        raise of_other_task(name, task)
    if task == "classification" and not _gives_probabilities(estimator):
        inner = "..." if hasattr(estimator, "estimators") else f"{name}()"
        raise InputError(
            f"{name} gives no class probabilities with these parameters; change them, take another "
            "model, such as LogisticRegression, or pass the instance "
            f"CalibratedClassifierCV({inner}, ensemble=False) instead"
        )


def _gives_probabilities(estimator: Any) -> bool:
    """Return whether a classifier has `predict_proba`; some made of others show it once trained."""
    from sklearn.base import clone

    if hasattr(estimator, "predict_proba"):
        return True
    if not hasattr(type(estimator), "predict_proba"):
        return False
    rows = np.arange(40)
    try:
        trained = clone(estimator).fit(np.column_stack((rows % 4, rows)), rows % 4 > 1)
    except (ValueError, TypeError, AttributeError):
        return False
    return hasattr(trained, "predict_proba")


def make_reproducible(estimator: Any, seed: int) -> None:
    """Give the seed to every random_state and one thread to every n_jobs, in steps as well."""
    changes: dict[str, int] = {}
    for name, value in estimator.get_params(deep=True).items():
        parameter = name.rpartition("__")[2]
        if parameter == "random_state":
            changes[name] = seed
        elif parameter == "n_jobs" and value not in (None, 1):
            changes[name] = 1
    estimator.set_params(**changes)


def weight_argument(estimator: Any) -> str:
    """Return the name under which fit takes sample weights; InputError if it takes none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        return f"{step}__{weight_argument(last)}"
    if not has_fit_parameter(estimator, "sample_weight"):
        raise InputError(
            f"{type(estimator).__name__} takes no sample weights; use another model, or no weights"
        )
    return "sample_weight"


# What a file may hold without permission: classes of these packages of scikit-learn, public
# functions of some of them, and the names below. Only compiled and numeric code is among them,
# nothing that imports, starts programs, reads files or connects.
_CLASSES_OF = re.compile(
    r"sklearn\.(?!.*\.tests\.)(?:_loss|calibration|cluster|compose|covariance|cross_decomposition|"
    r"decomposition|discriminant_analysis|dummy|ensemble|feature_extraction|feature_selection|"
    r"frozen|gaussian_process|impute|isotonic|kernel_approximation|kernel_ridge|linear_model|"
    r"manifold|metrics|mixture|model_selection|multiclass|multioutput|naive_bayes|neighbors|"
    r"neural_network|pipeline|preprocessing|random_projection|semi_supervised|svm|tree)\."
)
_FUNCTIONS_OF = re.compile(r"sklearn\.(?:feature_selection|metrics|preprocessing)\.")
_ALSO = frozenset(
    {
        "collections.OrderedDict",
        "collections.defaultdict",
        "functools.partial",
        "numpy.dtype",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
        "sklearn.utils.validation.check_array",
    }
)
DAMAGED = "the model's file is no skops file or is damaged; give it as it was written"
_NAME = re.compile(r"\w+(\.\w+)+")
# what reading a damaged file ends in: zip files, JSON, arrays and constructors all have their own
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    BufferError,
    EOFError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_ADDRESS = re.compile(r'(?<="__id__": )\d+|(?<=")\d+(?=\.np[yz]")')
_SCHEMA = "schema.json"


def dump(estimator: Any) -> bytes:
    """Return a fitted estimator as a skops file; equal estimators give equal bytes.

    skops names things by their memory addresses and zips them with the time of day: both are
    replaced, by numbers in order of appearance and by the first day zip files know.
    """
    source = zipfile.ZipFile(io.BytesIO(file_format().dumps(estimator)))
    schema = source.read(_SCHEMA).decode()
    addresses: dict[str, str] = {}
    for address in _ADDRESS.findall(schema):
        addresses.setdefault(address, str(len(addresses)))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            stem, _, suffix = name.partition(".")
            content = source.read(name)
            if name == _SCHEMA:
                content = _ADDRESS.sub(lambda match: addresses[match[0]], schema).encode()
            entry = zipfile.ZipInfo(f"{addresses.get(stem, stem)}.{suffix}")
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def packages_of(estimator: Any) -> tuple[str, ...]:
    """Return what `load` must trust for an estimator: its types, and the packages of estimators."""
    names = _unsafe_names(file_format().dumps(estimator))
    nameless = sorted(name for name in names if "<" in name)
    if nameless:
        raise InputError(
            f"the estimator holds {nameless[0]}, which cannot be kept in a file; "
            "define the function with a name, at the top of a module"
        )
    # once fitted, an estimator may hold other classes of its package
    packages = {name.partition(".")[0] for name in names if hasattr(_defined(name), "get_params")}
    return tuple(sorted(names | packages - {"sklearn"}))


def load(data: bytes, trusted: Sequence[str]) -> Any:
    """Rebuild an estimator from `dump`; `trusted` are names of types or packages."""
    try:
        names = _unsafe_names(data)
        untrusted = sorted(name for name in names if not _is_trusted(name, trusted))
        if not untrusted:
            with warnings.catch_warnings():
                # of a damaged array, which is refused or not by what it holds
                warnings.filterwarnings("ignore", "Reading `.npy`", UserWarning)
                its_types = file_format().get_untrusted_types(data=data)
                estimator = file_format().loads(data, trusted=its_types)
            _check_trees(estimator, 0, set())
            return estimator
    except _DAMAGE as error:
        raise InputError(DAMAGED) from error
    raise InputError(
        f"the model's file holds types that are not trusted: {', '.join(untrusted)}; "
        "name them in trusted= if you know where the file comes from"
    )


def _check_trees(thing: Any, n_features: int, seen: set[int]) -> None:
    """Raise InputError at a tree whose nodes lead out of its arrays: compiled code follows them."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if type(thing).__module__ == "sklearn.tree._tree" and hasattr(thing, "children_left"):
        inner = thing.children_left != -1
        _check_nodes(inner, thing.children_left, thing.children_right, thing.feature, n_features)
    elif type(thing).__name__ == "TreePredictor":
        nodes = thing.nodes
        inner = nodes["is_leaf"] == 0
        _check_nodes(inner, nodes["left"], nodes["right"], nodes["feature_idx"], n_features)
        bitsets = nodes["bitset_idx"][inner & (nodes["is_categorical"] != 0)]
        if (bitsets >= len(thing.raw_left_cat_bitsets)).any():
            raise InputError("a node asks for categories that are not there")
    inside: Any = vars(thing).values() if hasattr(thing, "__dict__") else ()
    if isinstance(thing, dict):
        inside = thing.values()
    elif isinstance(thing, list | tuple | set) or (
        isinstance(thing, np.ndarray) and thing.dtype == object
    ):
        inside = thing.flat if isinstance(thing, np.ndarray) else thing
    for part in inside:
        _check_trees(part, getattr(thing, "n_features_in_", n_features), seen)


def _check_nodes(inner: Any, left: Any, right: Any, feature: Any, n_features: int) -> None:
    """Raise InputError unless inner nodes have children after them, and features that are there."""
    parents, n_nodes = np.flatnonzero(inner), len(inner)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if not n_nodes or (child <= parents).any() or (child >= n_nodes).any():
            raise InputError("a node has no such child")
    if (feature[inner] < 0).any() or (feature[inner] >= n_features).any():
        raise InputError("a node asks for a feature that is not there")


def _unsafe_names(data: bytes) -> set[str]:
    """Return the names in a file that are not safe to load from any source."""
    return {name for name in file_format().get_untrusted_types(data=data) if not _is_safe(name)}


def _is_safe(name: str) -> bool:
    """Return whether a name may be loaded from any file; see the top of this module."""
    if name in _ALSO:
        return True
    thing = _defined(name) if _CLASSES_OF.match(name) else None
    if isinstance(thing, FunctionType):
        return bool(_FUNCTIONS_OF.match(name)) and not thing.__name__.startswith("_")
    return isinstance(thing, type)


def _is_trusted(name: str, trusted: Sequence[str]) -> bool:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no full name")
    inside = tuple(f"{package}." for package in trusted)
    return name in trusted or (name.startswith(inside) and _defined(name) is not None)


def _defined(name: str) -> Any:
    """Return the class or function whose own full name this is, None for any other name."""
    # a module has what it imports too: ``sklearn.utils.discovery.import_module``
    module, _, attribute = name.rpartition(".")
    try:
        thing = getattr(import_module(module), attribute)
    except (AttributeError, ImportError, ValueError):
        return None
    is_own = isinstance(thing, type | FunctionType) and thing.__module__ == module
    return thing if is_own and thing.__qualname__ == attribute else None


# parameters that name columns by position, and values of theirs that name none
_POSITIONAL = {"cat_features", "categorical_features", "interaction_constraints"}
_POSITIONAL |= {"interaction_cst", "monotone_constraints", "monotonic_cst"}
_NO_POSITIONS = {"from_dtype", "no_interactions", "pairwise", "warn"}
_FILE = "model.skops"


def fit(
    rows: Rows, schema: Schema, parameters: Parameters, seed: int, name: str
) -> ScikitLearnModel:
    return fit_estimator(unfitted(name, parameters, schema.task), rows, schema, seed=seed)


def fit_estimator(estimator: Any, rows: Rows, schema: Schema, *, seed: int) -> ScikitLearnModel:
    """Train a clone of an estimator; InputError if it is not for the target, weights or API."""
    from sklearn.pipeline import Pipeline

    check_rows(rows, schema)
    copy = _copy(estimator)
    check_task(copy, schema.task)
    make_reproducible(copy, seed)
    weights = {} if rows.weight is None else {weight_argument(copy): rows.weight.copy()}
    columns = _columns(copy, rows.X, schema)
    with single_thread():
        X = _own_copy(rows.X, copy) if columns == "passthrough" else columns.fit_transform(rows.X)
        if columns != "passthrough":
            one_hot = features_by_kind(columns, schema)["one_hot"]
            levels = X[:, len(X.T) - sum(schema.n_categories[i] for i in one_hot) :]
            # for `importances`, as the encoder does not keep how many rows have a level
            columns.named_transformers_["one_hot"].shares_ = levels.mean(axis=0)
        n_codes = len(features_by_kind(columns, schema)["codes"])
        if n_codes and _takes_codes(copy):
            copy.set_params(categorical_features=list(range(n_codes)))
        try:
            with _forest_threads(copy, rows.X.size):
                copy.fit(X, rows.y.copy(), **weights)
        except (LookupError, ArithmeticError) as error:  # as of a column that does not vary
            name, reason = type(copy).__name__, f"{type(error).__name__}: {error}"
            raise InputError(f"{name} ends in an error of its own ({reason})") from error
    return ScikitLearnModel(schema, Pipeline([("columns", columns), ("estimator", copy)]))


@contextmanager
def _forest_threads(estimator: Any, n_values: int) -> Iterator[None]:
    """Grow the trees of a forest by several threads; predictions are sums, so by one."""
    if own_family(estimator) not in FORESTS:
        yield
        return
    before = estimator.n_jobs
    estimator.n_jobs = threads_for(n_values * estimator.n_estimators)
    try:
        yield
    finally:
        estimator.n_jobs = before


def check_estimator(estimator: Any, task: Task | None, *, weighted: bool = False) -> None:
    """Raise InputError where `fit_estimator` would; `task` is None while this is not known."""
    copy = _copy(estimator)
    packages_of(copy)
    if task is not None:
        check_task(copy, task)
    if weighted:
        weight_argument(copy)


@dataclass(frozen=True, eq=False)
class ScikitLearnModel(FittedModel):
    schema: Schema
    pipeline: Any  # two steps: "columns", a transformer or "passthrough", and "estimator"

    kind = "sklearn"

    @property
    def name(self) -> str:
        """The name of the estimator's class."""
        return type(self.estimator).__name__

    @property
    def rows_are_independent(self) -> bool:
        return is_made_of_trees(self.estimator)

    @property
    def estimator(self) -> Any:
        """The trained estimator, without the columns' preparation."""
        return self.pipeline.named_steps["estimator"]

    def predict(self, X: Floats) -> Floats:
        """Predict rows; a class that the training rows did not have gets probability 0."""
        check_matrix(X, self.schema)
        n_classes = self.schema.n_classes
        prediction = np.zeros((len(X), n_classes) if n_classes else len(X))
        if not len(X):
            return prediction
        if self.pipeline.named_steps["columns"] == "passthrough":
            X = _own_copy(X, self.estimator)
        try:
            with single_thread():
                if n_classes:
                    prediction[:, self.estimator.classes_] = self.pipeline.predict_proba(X)
                else:
                    prediction[:] = np.reshape(self.pipeline.predict(X), len(X))
        except ValueError as error:
            name, reason = type(self.estimator).__name__, str(error).strip().splitlines()[0]
            raise InputError(f"{name} cannot predict ({reason}); use another model") from error
        return prediction

    @property
    def used_features(self) -> Mask:
        """Features that can change a prediction; if not known, all that the estimator gets."""
        features = feature_of_column(self.pipeline.named_steps["columns"], self.schema)
        columns = used_columns(self.estimator)
        used = np.zeros(len(self.schema.features), dtype=bool)
        used[features if columns is None else features[columns]] = True
        return used

    def forest(self) -> Forest:
        from chaffinch.tasks.selection.models.scikit_learn.forest import read_forest

        return read_forest(self)

    def dense(self) -> DenseModel:
        from chaffinch.tasks.selection.models.scikit_learn.dense import read_dense

        return read_dense(self)

    def importances(self) -> Floats | None:
        by_column = importances_of(self.estimator)
        features = feature_of_column(self.pipeline.named_steps["columns"], self.schema)
        if by_column is None or len(by_column) != len(features):
            return None
        by_feature = np.zeros(len(self.schema.features))
        np.add.at(by_feature, features, by_column)
        columns = self.pipeline.named_steps["columns"]
        if not (hasattr(self.estimator, "feature_importances_") or columns == "passthrough"):
            coefficients = np.atleast_2d(coefficients_of(self.estimator))
            of_levels = columns.named_transformers_["one_hot"].shares_
            shares = np.pad(of_levels, (len(features) - len(of_levels), 0))
            for j in np.flatnonzero(self.schema.n_categories):
                # a sum would grow with the number of categories, whatever they tell; a row without
                # a value has none of them, and so no part of the prediction
                levels, share = coefficients[:, features == j], shares[features == j]
                variance = levels**2 @ share - (levels @ share) ** 2
                by_feature[j] = np.sqrt(np.maximum(variance, 0)).sum()
        return by_feature

    def to_files(self) -> dict[str, bytes]:
        return {_FILE: dump(self.pipeline)}

    @classmethod
    def from_files(
        cls, files: Mapping[str, bytes], schema: Schema, trusted: Sequence[str] = ()
    ) -> Self:
        """Rebuild from `to_files`; InputError if a type is not `trusted`, or for a damaged file."""
        pipeline = load(native_file(files, _FILE), trusted)
        try:
            columns = pipeline.named_steps["columns"]
            first = pipeline.named_steps["estimator"] if columns == "passthrough" else columns
            n_features = first.n_features_in_
            classes = pipeline.named_steps["estimator"].classes_ if schema.n_classes else ()
            if not set(classes) <= set(range(schema.n_classes)):
                raise InputError("there is no such class")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(DAMAGED) from error
        check_width(n_features, schema)
        return cls(schema, pipeline)


def is_made_of_trees(estimator: Any) -> bool:
    """Return whether this is scikit-learn's own tree or forest: it reads each row by itself."""
    family = own_family(estimator)
    trees = getattr(estimator, "estimators_", ()) if family in FORESTS else ()  # none if unfitted
    return family in TREES | FORESTS | {"HistGradientBoosting"} and all(map(own_family, trees))


def _own_copy(X: Floats, estimator: Any) -> Floats:
    """Return X, or a copy if the estimator may change its input, as with copy=False."""
    return X if is_made_of_trees(estimator) else X.copy(order="K")


def _copy(estimator: Any) -> Any:
    from sklearn.base import clone

    try:
        copy = clone(estimator)
    except TypeError as error:
        raise InputError(
            "an estimator must be an instance with scikit-learn's get_params, fit and predict "
            f"but is {short_repr(estimator)}"
        ) from error
    _check_no_positions(copy)
    return copy


def _check_no_positions(estimator: Any) -> None:
    """Refuse what names columns, as a selection fits models on some of the columns at a time."""
    from sklearn.compose import ColumnTransformer

    model, why = f"model {type(estimator).__name__}", "a selection fits models on some of them"
    for name, value in {"": estimator, **estimator.get_params()}.items():
        if isinstance(value, ColumnTransformer):
            raise InputError(
                f"{model} must choose no columns but has a ColumnTransformer, and {why}; give the "
                "estimator that comes after it: numbers are standardised where that matters, and "
                "categories encoded"
            )
        names_none = value is None or (isinstance(value, str) and value in _NO_POSITIONS)
        if name.rpartition("__")[2] in _POSITIONAL and not names_none:
            raise InputError(
                f"{model} must name no columns by position but has {name}={short_repr(value)}, and "
                f"{why}; leave it out"
            )


def _columns(estimator: Any, X: Floats, schema: Schema) -> Any:
    """Return the transformer that suits an estimator, or "passthrough"."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils import get_tags

    first = estimator
    while isinstance(first, Pipeline):
        first = next(step for _, step in first.steps if step not in (None, "passthrough"))
    takes_missing = bool(get_tags(first).input_tags.allow_nan)
    most_codes = estimator.max_bins if _takes_codes(estimator) else 0
    return transformer(X, schema, takes_missing=takes_missing, most_codes=most_codes)


def _takes_codes(estimator: Any) -> bool:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor)

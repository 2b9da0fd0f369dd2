"""A scikit-learn estimator as a file: skops, which holds no code, made the same byte for byte."""

from __future__ import annotations

import io
import re
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

# What a file may hold without being asked for: classes of these packages of scikit-learn, public
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
    import skops.io

    source = zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator)))
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


def trust_for(estimator: Any) -> tuple[str, ...]:
    """Return what `load` must trust for an estimator: its types, and the packages of estimators.

    Raises
    ------
    ValueError
        If it holds a function without a name of its own, which no file can bring back.
    """
    import skops.io

    names = _others(skops.io.dumps(estimator))
    nameless = sorted(name for name in names if "<" in name)
    if nameless:
        raise ValueError(
            f"the estimator holds {nameless[0]}, which cannot be kept in a file; "
            "define the function with a name, at the top of a module"
        )
    # once fitted, an estimator may hold other classes of its package
    packages = {name.partition(".")[0] for name in names if hasattr(_defined(name), "get_params")}
    return tuple(sorted(names | packages - {"sklearn"}))


def load(data: bytes, trusted: Sequence[str]) -> Any:
    """Rebuild an estimator from `dump`.

    Parameters
    ----------
    data : bytes
        The file.
    trusted : sequence of str
        Full names of types, or names of packages, to load besides scikit-learn's.

    Raises
    ------
    ValueError
        If the file holds types that are not trusted, or is damaged.
    """
    import skops.io

    try:
        names = _others(data)
        untrusted = sorted(name for name in names if not _is_trusted(name, trusted))
        if not untrusted:
            with warnings.catch_warnings():
                # of a damaged array, which is refused or not by what it holds
                warnings.filterwarnings("ignore", "Reading `.npy`", UserWarning)
                estimator = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
            _check_trees(estimator, 0, set())
            return estimator
    except _DAMAGE as error:
        raise ValueError(DAMAGED) from error
    raise ValueError(
        f"the model's file holds types that are not trusted: {', '.join(untrusted)}; "
        "name them in trusted= if you know where the file comes from"
    )


def _check_trees(thing: Any, n_features: int, seen: set[int]) -> None:
    """Raise ValueError at a tree whose nodes lead out of its arrays: compiled code follows them."""
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
            raise ValueError("a node asks for categories that are not there")
    inside: Any = vars(thing).values() if hasattr(thing, "__dict__") else ()
    if isinstance(thing, dict):
        inside = thing.values()
    elif isinstance(thing, list | tuple | set) or (
        isinstance(thing, np.ndarray) and thing.dtype == object
    ):
        inside = thing.flat if isinstance(thing, np.ndarray) else thing
    for one in inside:
        _check_trees(one, getattr(thing, "n_features_in_", n_features), seen)


def _check_nodes(inner: Any, left: Any, right: Any, feature: Any, n_features: int) -> None:
    """Raise ValueError unless inner nodes have children after them, and features that are there."""
    parents, n_nodes = np.flatnonzero(inner), len(inner)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if not n_nodes or (child <= parents).any() or (child >= n_nodes).any():
            raise ValueError("a node has no such child")
    if (feature[inner] < 0).any() or (feature[inner] >= n_features).any():
        raise ValueError("a node asks for a feature that is not there")


def _others(data: bytes) -> set[str]:
    """Return the names in a file that are not safe to load from anyone."""
    import skops.io

    return {name for name in skops.io.get_untrusted_types(data=data) if not _is_safe(name)}


def _is_safe(name: str) -> bool:
    """Return whether a name may be loaded from any file; see the top of this module."""
    if name in _ALSO:
        return True
    thing = _defined(name) if _CLASSES_OF.match(name) else None
    if isinstance(thing, FunctionType):
        return bool(_FUNCTIONS_OF.match(name)) and not thing.__name__.startswith("_")
    return isinstance(thing, type)


def _is_trusted(name: str, trusted: Sequence[str]) -> bool:
    """Return whether a name is among those, or is defined in a package that is."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no full name")
    inside = tuple(f"{package}." for package in trusted)
    return name in trusted or (name.startswith(inside) and _defined(name) is not None)


def _defined(name: str) -> Any:
    """Return the class or function whose own full name this is, None for any other name.

    A module gives as well what it has imported: ``sklearn.utils.discovery.import_module``.
    """
    module, _, attribute = name.rpartition(".")
    try:
        thing = getattr(import_module(module), attribute)
    except (AttributeError, ImportError, ValueError):
        return None
    is_own = isinstance(thing, type | FunctionType) and thing.__module__ == module
    return thing if is_own and thing.__qualname__ == attribute else None

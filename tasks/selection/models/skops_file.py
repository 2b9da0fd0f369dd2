"""A scikit-learn estimator as a file: skops, which holds no code, made the same byte for byte."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from typing import Any

# what scikit-learn's own estimators hold of others and skops leaves to its callers to trust
_TRUSTED = (
    "collections.OrderedDict",
    "collections.defaultdict",
    "functools.partial",
    "numpy.dtype",
)
# scikit-learn's own, but for what fetches files or runs what it is given
_OWN, _NOT_TRUSTED = "sklearn.", ("sklearn.datasets.", "sklearn.externals.", "sklearn.utils._test")
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


def packages(estimator: Any) -> tuple[str, ...]:
    """Return the packages, besides those always trusted, whose types an estimator is made of.

    Raises
    ------
    ValueError
        If it holds a function without a name of its own, which no file can bring back.
    """
    import skops.io

    types = _others(skops.io.dumps(estimator))
    nameless = sorted(name for name in types if "<" in name)
    if nameless:
        raise ValueError(
            f"the estimator holds {nameless[0]}, which cannot be kept in a file; "
            "define the function with a name, at the top of a module"
        )
    return tuple(sorted({name.partition(".")[0] for name in types}))


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
        If the file holds types that are not trusted.
    """
    import skops.io

    inside = tuple(f"{name}." for name in trusted)
    unknown = sorted(t for t in _others(data) if t not in trusted and not t.startswith(inside))
    if unknown:
        raise ValueError(
            f"the model's file holds types that are not trusted: {', '.join(unknown)}; "
            "name them in trusted= if you know where the file comes from"
        )
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


def _others(data: bytes) -> set[str]:
    """Return the types in a file that are neither always trusted nor scikit-learn's own."""
    import skops.io

    return {
        name
        for name in skops.io.get_untrusted_types(data=data)
        if name not in _TRUSTED and (not name.startswith(_OWN) or name.startswith(_NOT_TRUSTED))
    }

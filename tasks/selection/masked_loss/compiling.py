"""How kernels are compiled: without Python's lock, and kept on disk where that is possible."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

# Python's own check for a division by 0 would keep loops from several rows at a time.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """Compile a kernel at its first call.

    The code is kept beside its module, or in the user's cache folder if that is read-only. Where
    neither can be written to, each process compiles anew.
    """
    return _compiled(function, _OPTIONS)


def reordering(function: Function) -> Function:
    """Compile a kernel whose sums may be added up in another order, as several rows at a time.

    The order is the same for every call on one kind of processor, and not on another.
    """
    return _compiled(function, _OPTIONS | {"fastmath": {"reassoc"}})


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    try:
        return cast(Function, njit(cache=True, **options)(function))
    except RuntimeError as nowhere:
        logger.info("set NUMBA_CACHE_DIR to a folder to compile once and for all: %s", nowhere)
        return cast(Function, njit(**options)(function))


def inlined(function: Function) -> Function:
    """Make a function part of each kernel that calls it, in the same file.

    A kernel that is kept on disk is not compiled anew when another file changes.
    """
    return cast(Function, njit(inline="always", **_OPTIONS)(function))


def _count_trailing_zeros(context: Any, word: Any) -> Any:
    """Generate the one instruction that finds the lowest set bit of a word other than 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)  # true: undefined for 0

    return types.int64(types.uint64), generate


lowest_bit: Callable[[Any], Any] = cast(Any, intrinsic(_count_trailing_zeros))

"""What searches are compiled from is there before their clock starts, however short their time.

Compiling takes some seconds once after an installation, and reading what was compiled some tenths
of a second once in a process. Neither is a part of any search: equal calls are to give equal sets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Quality, Univariate

_N, _K, _N_ALTERNATIVES, _TAU = 8, 4, 3, 0.5


def make_ready(quality: Quality, find: Callable[..., object], **asked: Any) -> None:
    """Search a small table once in the life of this process, for each kind of search.

    Parameters
    ----------
    quality : Quality
        One of the kind that is to be searched; those that are judged by calls need nothing.
    find : function
        That searches: `find_alternatives`.
    **asked
        Its ``search`` and ``aggregate``.
    """
    if type(quality) in (Univariate, FCBF, MRMR, CFS):
        _search(type(quality), find, **asked)


@cache
def _search(kind: type[Any], find: Callable[..., object], **asked: Any) -> None:
    values = np.arange(_N, 0.0, -1.0)
    small = kind(values) if kind is Univariate else kind(values, np.full((_N, _N), 0.01))
    find(small, k=_K, n_alternatives=_N_ALTERNATIVES, tau=_TAU, **asked)

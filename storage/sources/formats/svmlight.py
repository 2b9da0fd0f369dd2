"""Small files of svmlight, as scikit-learn reads them: features, a target, and perhaps groups.

Features are named by their numbers in the file; of a row that does not name one it is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.errors import InputError
from chaffinch.storage.memory import check_fits_as_dense
from chaffinch.storage.sources.source import read_whole, with_whole_numbers

_SPARSE = "give fewer, or stay sparse by load_svmlight_file and chaffinch.differentiable_selection"


def _read(files: Mapping[str, Any]) -> pa.Table:
    from scipy.sparse import vstack

    parts = [_parsed(name, file) for name, file in files.items()]
    n_columns = max(X.shape[1] for X, _, _ in parts)
    shape = sum(X.shape[0] for X, _, _ in parts), n_columns
    check_fits_as_dense(next(iter(files)), shape, _SPARSE)
    for X, _, _ in parts:
        X.resize(X.shape[0], n_columns)
    X = vstack([X for X, _, _ in parts], format="csc")  # 8 bytes a column, however few are named
    first = int(X.indptr[1] == 0)  # as no row names column 0, columns are counted from 1
    columns = {str(j): X[:, [j]].toarray()[:, 0] for j in range(first, n_columns)}
    groups = np.concatenate([group for _, _, group in parts])
    if len(groups) not in (0, X.shape[0]):
        raise InputError(
            f"qid is named in {len(groups)} of {X.shape[0]} rows of {', '.join(files)}; name it "
            "in all or none"
        )
    if len(groups):
        columns["qid"] = groups
    columns["target"] = np.concatenate([y for _, y, _ in parts])
    return with_whole_numbers(pa.table(columns), next(iter(files)))


def _parsed(name: str, file: Any) -> tuple[Any, Any, Any]:
    from sklearn.datasets import load_svmlight_file

    try:
        return load_svmlight_file(file, zero_based=True, query_id=True)  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{name} cannot be read ({error}), as in `1 1:0.5 3:2`: a label that is a number, then "
            "columns that ascend, each once, with their values; correct it, and number classes"
        ) from error


SVMLIGHT = read_whole("svmlight", ".svm, .svmlight, .libsvm", _read)

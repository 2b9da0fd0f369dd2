"""What every model checks of its rows and its files before it starts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema


def check_rows(rows: Rows, schema: Schema) -> None:
    """Raise ValueError unless a model of this schema can be trained on these rows.

    Raises
    ------
    ValueError
        If there are no rows or features, or targets, weights or codes are out of their range.
    """
    check_matrix(rows.X, schema)
    n = len(rows.X)
    if not n or not schema.features:
        raise ValueError(
            f"a model needs at least 1 row and 1 feature but has {n} and {len(schema.features)}"
        )
    for name, values in (("y", rows.y), ("weight", rows.weight)):
        if values is not None and values.shape != (n,):
            raise ValueError(f"{name} must have shape ({n},) as X has rows but has {values.shape}")
    if schema.n_classes and not (
        np.issubdtype(rows.y.dtype, np.integer)
        and 0 <= rows.y.min() <= rows.y.max() < schema.n_classes
    ):
        raise ValueError(f"y must hold class indices in 0..{schema.n_classes - 1}")
    if not np.isfinite(rows.y).all():
        raise ValueError("y must be finite; drop the rows without a target")
    if rows.weight is not None and not (np.isfinite(rows.weight) & (rows.weight > 0)).all():
        raise ValueError("weight must be above 0 and finite; drop the rows that should not count")
    for feature in schema.categorical:
        codes, size = rows.X[:, feature], schema.n_categories[feature]
        known = (codes >= 0) & (codes < size) & (codes == np.floor(codes)) | np.isnan(codes)
        if not known.all():
            raise ValueError(
                f"feature {schema.features[feature]!r} must hold codes in 0..{size - 1} "
                f"but holds {codes[~known][0]:g}"
            )


def check_matrix(X: Floats, schema: Schema) -> None:
    """Raise ValueError unless X is a matrix with one column for each feature."""
    if X.ndim != 2 or X.shape[1] != len(schema.features):
        raise ValueError(
            f"X must have shape (n, {len(schema.features)}), a column for each feature, "
            f"but has {X.shape}"
        )


def check_width(n_features: int, schema: Schema) -> None:
    """Raise ValueError unless a model read from a file has the schema's number of features."""
    if n_features != len(schema.features):
        raise ValueError(
            f"the model's file has {n_features} features but the schema {len(schema.features)}; "
            "load it with the schema it was trained with"
        )


def native_file(files: Mapping[str, bytes], name: str) -> bytes:
    """Return a model's file by its name; ValueError if it is not there."""
    if name not in files:
        raise ValueError(
            f"the model's files must hold {name} but hold {sorted(files) or 'nothing'}"
        )
    return files[name]

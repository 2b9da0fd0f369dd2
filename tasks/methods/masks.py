"""Storage and report of searches whose result is a sequence of masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.tasks.methods.protocol import Recorded, SearchMethod
from chaffinch.tasks.selection.baselines.wrappers import FoundMasks
from chaffinch.tasks.selection.core import Mask, Schema

NAMES, FLOATS = pa.list_(pa.string()), pa.list_(pa.float64())


class MaskMethod(SearchMethod[FoundMasks]):
    """Method whose search finds a sequence of masks with losses."""

    def record(self, found: FoundMasks, schema: Schema) -> Recorded:
        """Return each mask with its loss."""
        return record_masks(found, schema)

    def read(self, table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> FoundMasks:
        """Return the result recorded by `record`."""
        return read_masks(table, schema)

    def report(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, Any]:
        """Return the step, size and loss of each mask."""
        return report_masks(table)


def record_masks(found: FoundMasks, schema: Schema) -> Recorded:
    """Return the record of masks: the features and the loss of each."""
    sizes = [int(mask.sum()) for mask in found.masks]
    return Recorded(columns_of_masks(found.masks, found.losses, schema), sizes)


def read_masks(table: pa.Table, schema: Schema) -> FoundMasks:
    """Return the masks recorded by `record_masks`."""
    masks = [np.isin(schema.features, names) for names in table["features"].to_pylist()]
    return FoundMasks(tuple(masks), tuple(table["loss"].to_pylist()))


def report_masks(table: pa.Table) -> dict[str, Any]:
    """Return the step, size and loss of each mask."""
    columns = (table[name].to_pylist() for name in ("step", "features_left", "loss"))
    return {"masks": list(zip(*columns, strict=True))}


def columns_of_masks(
    masks: Sequence[Mask], losses: Sequence[float], schema: Schema
) -> dict[str, pa.Array]:
    """Return the features and the loss of each mask as columns."""
    names = [names_of(np.flatnonzero(mask).tolist(), schema) for mask in masks]
    return {"features": pa.array(names, NAMES), "loss": pa.array(losses, pa.float64())}


def names_of(features: Sequence[int], schema: Schema) -> list[str]:
    """Return the names of features by their positions."""
    return [schema.features[j] for j in features]

"""What searches find that leave whole masks: how it is kept in a run, and shown."""

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
    """A method whose search finds one mask after the other, each with its loss."""

    def record(self, found: FoundMasks, schema: Schema) -> Recorded:
        """Return each mask with its loss."""
        return record_masks(found, schema)

    def read(self, table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> FoundMasks:
        """Return what `record` recorded."""
        return read_masks(table, schema)

    def report(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, Any]:
        """Return the step, size and loss of each mask."""
        return report_masks(table)


def record_masks(found: FoundMasks, schema: Schema) -> Recorded:
    """Return what a run keeps of masks: the features and the loss of each."""
    sizes = [int(mask.sum()) for mask in found.masks]
    return Recorded(columns_of_masks(found.masks, found.losses, schema), sizes)


def read_masks(table: pa.Table, schema: Schema) -> FoundMasks:
    """Return what `record_masks` recorded."""
    masks = [np.isin(schema.features, names) for names in table["features"].to_pylist()]
    return FoundMasks(tuple(masks), tuple(table["loss"].to_pylist()))


def report_masks(table: pa.Table) -> dict[str, Any]:
    """Return the step, size and loss of each mask."""
    columns = (table[name].to_pylist() for name in ("step", "features_left", "loss"))
    return {"masks": list(zip(*columns, strict=True))}


def columns_of_masks(
    masks: Sequence[Mask], losses: Sequence[float], schema: Schema
) -> dict[str, pa.Array]:
    """Return the features of each mask, and its loss."""
    names = [names_of(np.flatnonzero(mask).tolist(), schema) for mask in masks]
    return {"features": pa.array(names, NAMES), "loss": pa.array(losses, pa.float64())}


def names_of(features: Sequence[int], schema: Schema) -> list[str]:
    """Return the names of features by their positions."""
    return [schema.features[j] for j in features]

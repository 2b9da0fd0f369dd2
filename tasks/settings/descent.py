"""Settings of a table in random order, and of a descent through it."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from chaffinch.tasks.selection.limits import HIGHEST_ORDER, check_one_aim, check_order_is_known
from chaffinch.tasks.settings.base import (
    Cluster,
    Count,
    Settings,
    WorkerCount,
    check_workers_needed,
    setting,
)
from chaffinch.tasks.settings.selection import TaskOrAuto


def _known(order: int) -> int:
    check_order_is_known(order)
    return order


# The form has the limits from here: the limits of a Field would refuse without the reason.
Order = Annotated[
    int,
    AfterValidator(_known),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": HIGHEST_ORDER}),
]
BatchRows = Annotated[int, Field(ge=2)]
_Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class ShuffleSettings(Settings):
    """How files become a table in random order; some of it is for one format alone."""

    target: str | None = setting(None, "Of Parquet: column to predict; svmlight has labels.")
    drop: tuple[str, ...] = setting((), "Of Parquet: columns that are left out.")
    sparse: bool = setting(
        False,
        "Of Parquet: keep only the values that are not 0; for tables that are wide and mostly "
        "zeros.",
    )
    zero_based: bool | None = setting(
        None,
        "Of svmlight: whether columns are counted from 0 there, or from 1. It must be given.",
        title="Zero-based",
    )
    n_columns: Count | None = setting(
        None,
        "Of svmlight: how many. By default up to the last one that has a value; set it where "
        "newer rows are to come.",
        title="Columns",
    )
    dtype: Literal["float32", "float64"] | None = setting(
        None, "Of svmlight: how values are kept. By default float64.", title="Numbers"
    )
    seed: _Seed = setting(0, "Decides the order of the rows.")
    block_rows: Annotated[int, Field(ge=1000)] | None = setting(
        None,
        "At least so many are read at a time. By default about two million values.",
        title="Rows of a block",
    )


class DescentSettings(Settings):
    """Everything that can change what a descent chooses from a table in random order."""

    n_features: Count | None = setting(
        None,
        "Choose so many; the penalty rises over a grid until no more are left.",
        title="Number of features",
    )
    penalty: Annotated[float, Field(ge=0)] | None = setting(
        None,
        "In place of a number: lambda of the term lambda / D sum s, in units of the target's "
        "variance.",
    )
    order: Order = setting(
        4,
        "Highest power of the correlations that the estimate looks at. A higher one errs less on "
        "average, but varies more: 4 or less where rows are few.",
    )
    steps: Count = setting(
        1000,
        "At most so many. A descent ends earlier when as few features are left as are to be "
        "chosen, or when its loss does not fall any more.",
    )
    batch_rows: BatchRows | None = setting(
        None,
        "At least so many are looked at together; a step takes the mean over batches of 1,000 rows "
        "of each of its blocks. By default 1,000, or all where there are fewer.",
        title="Rows of a batch",
    )
    blocks_per_step: Count = setting(
        1,
        "A step takes the mean over batches of so many blocks, which are in memory together, and "
        "which workers share out.",
        title="Blocks of a step",
    )
    task: TaskOrAuto = setting(
        "auto",
        "What the target is; auto looks at its type and values, and takes the labels of svmlight "
        "for numbers.",
    )
    seed: _Seed = setting(0, "Draws the order of the rows of each round.")
    decay: Annotated[float, Field(gt=0, le=1)] | None = setting(
        None,
        "With a start, and rows that are newer: how much of what earlier rows taught is kept, of "
        "means, spreads and the mask. By default all of it, 1.",
    )

    @model_validator(mode="after")
    def _one_aim(self) -> "DescentSettings":
        check_one_aim(self.n_features, self.penalty)
        return self


class SharingSettings(Settings):
    """Who reads and computes; nothing here changes a result."""

    cluster: Cluster = setting(
        "none",
        "none: this process alone; local: worker processes on this machine; or the address of a "
        "Dask scheduler such as tcp://host:8786, whose workers read the file themselves.",
    )
    workers: WorkerCount | None = setting(
        None, "Worker processes of a local cluster. By default one per core."
    )

    @model_validator(mode="after")
    def _workers_are_needed(self) -> "SharingSettings":
        check_workers_needed(self.cluster, self.workers)
        return self

"""A ranking in one file, as a developer would add it."""

from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import Floats, Rows, Schema


@ranking("spread", score="the standard deviation of the feature on the training rows")
def spread(rows: Rows, schema: Schema) -> Floats:
    """Score by the standard deviation."""
    return rows.X.std(axis=0)

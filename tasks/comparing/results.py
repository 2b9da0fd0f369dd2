"""Everything that was measured, as one table: a row for each set of features that was scored.

==================  ========  ===================================================================
column              type      what it is
==================  ========  ===================================================================
table, model        string    what was compared on
method              string    ``all`` keeps every feature, ``none`` predicts a constant
size                int64     number of features asked for; null is the method's own choice
seed, fold          int64     which outer fold, from 0
n_features          int64     kept
n_total             int64     there were
features            strings   kept, in the table's order
loss                double    on the outer fold; lower is better
loss_name           string
n_train             int64     rows inside: refitted on (seven in eight), or only chosen by
n_test              int64     rows of the outer fold
selection_seconds   double    from the tuned base model to the chosen set
training_seconds    double    of the model that was scored
error               string    why a method could not be used in this cell; then loss is null
==================  ========  ===================================================================

Where a method chooses its own size by refits, their seconds are in those of that set alone, and in
those of no size that was asked for. A search that serves all sizes is in the seconds of each; PEFS
makes a search for each, which is in the seconds of that size alone.
"""

from __future__ import annotations

import pyarrow as pa

ALL, NONE = "all", "none"  # what every method has to beat: every feature, and a constant

RESULTS = pa.schema(
    [
        ("table", pa.string()),
        ("model", pa.string()),
        ("method", pa.string()),
        ("size", pa.int64()),
        ("seed", pa.int64()),
        ("fold", pa.int64()),
        ("n_features", pa.int64()),
        ("n_total", pa.int64()),
        ("features", pa.list_(pa.string())),
        ("loss", pa.float64()),
        ("loss_name", pa.string()),
        ("n_train", pa.int64()),
        ("n_test", pa.int64()),
        ("selection_seconds", pa.float64()),
        ("training_seconds", pa.float64()),
        ("error", pa.string()),
    ]
)

"""The base model: tuned by cross-validation, then fitted on the training set."""

from __future__ import annotations

from functools import partial

import numpy as np

from chaffinch.tasks.methods.fitting import baseline_of, tune
from chaffinch.tasks.methods.refits import check_losses
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.pipeline.stage import Writer, stage


@stage("describe", "split")
def train_base_model(run: SelectionRun, writer: Writer) -> None:
    """Tune and fit the model on the training set, and record the baseline of each feature."""
    settings, rows = run.settings, run.rows("train")
    tuned = tune(
        run.untuned_recipe,
        settings,
        rows,
        run.schema,
        partial(run.folds, "train"),
        run.workers,
        partial(run.on_progress, "train_base_model"),
        writer.checkpoints,
    )
    run.base_model = model = tuned.recipe.fit(rows, run.schema)
    writer.write_all("base_model", model.to_files)
    loss = run.loss(rows.y, model.predict(rows.X), rows.weight)
    check_losses(run.loss.name, [np.ones(len(run.schema.features), bool)], [loss])
    writer.result = {
        "kind": model.kind,
        "parameters": dict(tuned.recipe.parameters),
        "candidates": [
            {"parameters": candidate, "loss": None if tuned.losses is None else tuned.losses[i]}
            for i, candidate in enumerate(tuned.candidates)
        ],
        "folds": settings.model.folds if tuned.losses is not None else 0,
        "loss": run.loss.name,
        "baseline": baseline_of(settings, rows, run.description).tolist(),
        "base_model_loss": {"train": loss},
    }

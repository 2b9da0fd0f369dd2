"""The base model, the search for the features to keep, and the choice of a mask."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq

from chaffinch.errors import as_input_error
from chaffinch.tasks.methods.fitting import baseline_of, tune
from chaffinch.tasks.methods.protocol import feasible_candidates
from chaffinch.tasks.methods.refits import check_losses, refitted_loss
from chaffinch.tasks.pipeline.selection_run import (
    OUT_OF_FOLD_FILE,
    PATH_FILE,
    TRAINED_MODELS,
    SelectionRun,
)
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.settings.search_result import Candidate

logger = logging.getLogger(__name__)


@stage("describe", "split")
def train_base_model(run: SelectionRun, writer: Writer) -> None:
    """Tune and fit the model on the training set, and record the baseline of each feature.

    A fitted estimator of the caller's is taken as it is. Where the search does not use the model,
    and it would take long, it is fitted with the final models.
    """
    settings, rows = run.settings, run.rows("train")

    def on_fit(done: int, total: int) -> None:
        # the last fit is that of all rows
        run.progress("train_base_model", done, total + run.has_base_model)

    tuned = tune(
        run.untuned_recipe,
        settings,
        run.loss,
        rows,
        run.schema,
        partial(run.folds, "train"),
        run.workers,
        on_fit,
        writer.checkpoints,
        run.on_leader,
    )
    of_model = {}
    if run.custom.fitted is not None:
        logger.info("the %s given is the base model, and is not fitted again", settings.model.name)
    elif run.has_base_model:
        began = perf_counter()
        (model,) = run.fit(tuned.recipe, lambda _: rows, [np.ones(len(run.schema.features), bool)])
        run.base_model, run.base_fit_seconds = model, perf_counter() - began
        writer.write_all("base_model", model.to_files)
    if run.has_base_model:
        model = run.base_model
        loss = run.loss(rows.y, rows.predicted_by(model), rows.weight)
        check_losses(run.loss.name, [np.ones(len(run.schema.features), bool)], [loss])
        of_model = {"kind": model.kind, "base_model_loss": {"train": loss}}
    writer.result = {
        **of_model,
        "parameters": dict(tuned.recipe.parameters),
        "candidates": [
            {"parameters": candidate, "loss": None if tuned.losses is None else tuned.losses[i]}
            for i, candidate in enumerate(tuned.candidates)
        ],
        "folds": settings.model.folds if tuned.losses is not None else 0,
        "loss": run.loss.name,
        "baseline": baseline_of(settings, rows, run.description).tolist(),
    }


@stage("describe", "split", "train_base_model")
def optimise_mask(run: SelectionRun, writer: Writer) -> None:
    """Search for the features to keep: by masked losses, by a ranking, or by refits."""
    problem, method = run.problem("optimise_mask", writer.checkpoints), run.method
    with as_input_error():
        result = method.search(problem)
    unmasked_loss = result.facts.get("unmasked_loss")
    if unmasked_loss is None:
        held_out = run.rows("mask_validation")
        prediction = held_out.predicted_by(run.base_model)
        unmasked_loss = run.loss(held_out.y, prediction, held_out.weight)
        check_losses(run.loss.name, [np.ones(len(run.schema.features), bool)], [unmasked_loss])
    run.path = steps = result.steps
    writer.write(PATH_FILE, lambda file: pq.write_table(steps, file))
    run.trained_files = files = result.files
    writer.write_all(TRAINED_MODELS, lambda: files)
    run.out_of_fold = of_rows = result.out_of_fold
    if of_rows is not None:
        writer.write(OUT_OF_FOLD_FILE, lambda file: pq.write_table(of_rows, file))
    names = np.array(run.schema.features)
    near_copies = [names[group].tolist() for group in problem.near_copies]
    writer.result = {"unmasked_loss": unmasked_loss, **result.facts, "near_copies": near_copies}


def candidates_of(run: SelectionRun) -> Sequence[Candidate]:
    """Return the candidate masks of a finished search; all satisfy the constraints."""
    candidates = run.method.candidates(run.search_result)
    if run.feasible.are_all:
        return candidates
    return feasible_candidates(candidates, run.problem("choose_mask"))


@stage("describe", "split", "train_base_model", "optimise_mask")
def choose_mask(run: SelectionRun, writer: Writer) -> None:
    """Refit on each candidate mask and choose the best on the model-validation set.

    A model that the search trained for a mask is not fitted again. Ties: the smaller mask is
    chosen. A cross-fitted method has chosen, and leaves no such set.
    """
    candidates = candidates_of(run)
    masks = [candidate.mask for candidate in candidates]
    if not len(run.splits.model_validation):
        writer.result = {"mask": masks[0].tolist(), "candidates": []}
        return
    refit = run.refit(("train",), "model_validation")
    trained = run.trained_models("choose_mask", masks)
    fitted_masks = [mask for mask, model in zip(masks, trained, strict=True) if model is None]
    of_fitted = iter(
        run.workers.map(refitted_loss, refit, fitted_masks, partial(run.progress, "choose_mask"))
    )
    losses = [
        next(of_fitted) if model is None else refit.loss_of(model, mask)
        for mask, model in zip(masks, trained, strict=True)
    ]
    check_losses(refit.loss.name, masks, losses)
    writer.result = {
        "mask": masks[int(np.argmin(losses))].tolist(),
        "candidates": [
            {
                "n_features": int(candidate.mask.sum()),
                "settings": candidate.settings,
                "model_validation_loss": of_candidate,
            }
            for candidate, of_candidate in zip(candidates, losses, strict=True)
        ],
    }

"""What a search for features may look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from chaffinch.storage.errors import InputError
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.methods.fitting import Fold, Recipe, Tuner
from chaffinch.tasks.selection.core import FittedModel, Floats, Rows, Schema
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.workers.interface import OnDone, Workers

Seen = Literal["train", "mask_validation"]


@dataclass(frozen=True)
class Material:
    """What a search for features may look at; nothing of it comes from the test rows.

    Attributes
    ----------
    schema : Schema
        What the d columns mean.
    recipe : Recipe
        How to fit the model, with the hyper-parameters that tuning chose.
    tuner : Tuner
        Chooses hyper-parameters for other columns, as they were chosen for all.
    model : FittedModel
        The base model, fitted by the recipe on the training part with every feature.
    baseline : ndarray of float64, shape (d,)
        What a masked feature is set to.
    loss : Loss
        How predictions are judged.
    keep : tuple of int
        Features that never leave.
    seed : int
        The only source of randomness.
    rows : callable
        Loads the rows of one or more parts, so that a search holds no more than it needs.
    folds : callable
        Parts the rows of the same parts for cross-validation.
    workers : Workers
        Who computes; never changes a result.
    on_progress : callable
        Called with the number of items done and the number in all.
    warnings : tuple of str
        What is odd about the table, for whoever has to say that nothing can be found in it.
    units : callable, optional
        Says which mask-validation rows belong together; without it, each stands for itself.
    checkpoints : Checkpoints, optional
        Where a search that takes long keeps what it has got so far; without it, nowhere.
    """

    schema: Schema
    recipe: Recipe
    tuner: Tuner
    model: FittedModel
    baseline: Floats
    loss: Loss
    keep: tuple[int, ...]
    seed: int
    rows: Callable[[*tuple[Seen, ...]], Rows]
    folds: Callable[[*tuple[Seen, ...]], Sequence[Fold]]
    workers: Workers
    on_progress: OnDone
    warnings: tuple[str, ...] = ()
    units: Callable[[], Index] | None = None
    checkpoints: Checkpoints | None = None


def no_use_made(material: Material, loss: float) -> InputError:
    """Return what is said of a model to which every mask is the same."""
    odd = "; ".join(material.warnings)
    return InputError(
        f"model {material.recipe.name} makes no use of any of the "
        f"{len(material.schema.features)} features: whichever are masked, its "
        f"{loss_in_words(material.loss.name)} is {loss:.4g}; "
        + (f"mend what is odd ({odd}), or " if odd else "")
        + "give more rows, or another model or loss"
    )

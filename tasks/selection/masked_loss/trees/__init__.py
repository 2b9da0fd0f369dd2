"""The exact masked loss of tree models; see `engine.py`, and `forest.py` for the normal form."""

from __future__ import annotations

from chaffinch.tasks.selection.core import Floats, Mask, MaskedLoss, Predictor, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.base import NotCovered
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.trees import lightgbm, scikit_learn, xgboost
from chaffinch.tasks.selection.masked_loss.trees.engine import settle_ties
from chaffinch.tasks.selection.masked_loss.trees.forest import Forest
from chaffinch.tasks.selection.models import LightGBMModel, ScikitLearnModel, XGBoostModel


def tree_engine(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, threads: int
) -> MaskedLoss:
    """Return the exact masked loss of a tree model; NotCovered if its trees are not known here."""
    from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine

    settle = settle_ties(model, rows, loss, baseline)
    evaluator = MaskEvaluator(model, rows, loss, baseline)

    def exactly(masks: Mask) -> Floats:  # a function: a copy of the engine need not copy the model
        return evaluator(list(masks))

    forest = forest_of(model)
    engine = TreeEngine(forest, rows, loss, baseline, settle, exactly, threads=threads)
    engine.settles_ties = not isinstance(model, XGBoostModel)  # its float32 sums break ties
    return engine


def forest_of(model: Predictor) -> Forest:
    if isinstance(model, LightGBMModel):
        return lightgbm.forest_of(model.booster)
    if isinstance(model, XGBoostModel):
        return xgboost.forest_of(model.booster)
    if isinstance(model, ScikitLearnModel):
        return scikit_learn.forest_of(model)
    raise NotCovered("it is not made of trees")

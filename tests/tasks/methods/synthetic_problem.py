"""What a method searches in, made without a run."""

import numpy as np
from sklearn.model_selection import KFold

from chaffinch import SelectionSettings
from chaffinch.tasks.methods.fitting import Recipe
from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.workers.interface import InProcess

LINE = Recipe("linear", {}, 0)
TREES = Recipe("lightgbm", {"n_estimators": 5, "min_child_samples": 5}, 0)


def problem(rows: Rows, n_train: int, recipe: Recipe = LINE, **given: object) -> Problem:
    """Return the problem of rows of which the first are trained on and the others judge masks."""
    d = rows.X.shape[1]
    schema = Schema(tuple("abcdefgh"[:d]), (0,) * d)
    train, held_out = rows.take(slice(n_train)), rows.take(slice(n_train, None))
    of_parts = {("train",): train, ("mask_validation",): held_out}
    folds = [(fitted.astype(np.int64), rest) for fitted, rest in KFold(3).split(train.X)]
    settings = {
        "settings": SelectionSettings(target="y", seed=3),
        "schema": schema,
        "recipe": recipe,
        "base_model": lambda: recipe.fit(train, schema),
        "baseline": np.zeros(d),
        "keep": (),
        "rows": lambda *parts: of_parts.get(parts, rows),
        "folds": lambda *_: folds,
        "workers": InProcess(),
        "on_progress": lambda done, total: None,
        "units": lambda *parts: np.array([], dtype=np.int64),
    }
    return Problem(**(settings | given))


def crossed() -> Rows:
    """Return 200 rows of eight numbers, whose target two of them make together."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 8))
    return Rows(X, X[:, 0] - X[:, 3] * X[:, 5] + random.normal(size=200))

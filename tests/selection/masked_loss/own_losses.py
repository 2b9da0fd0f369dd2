"""Losses under masks by a model's own predictions, which every engine is held against."""

import numpy as np


def plain_loss(name, y, prediction, weight=None):
    """Return a loss of predictions: values (n,), or probabilities (n, n_classes)."""
    prediction = np.asarray(prediction, dtype=np.float64)
    if name == "log_loss":
        truth = np.clip(prediction[np.arange(len(y)), y], 2.0**-52, 1 - 2.0**-52)
        return float(np.average(-np.log(truth), weights=weight))
    of_row = abs(prediction.reshape(len(y)) - y)
    if name == "neg_median_absolute_error":
        return float(np.median(of_row))
    return float(np.average(of_row**2 if name == "squared_error" else of_row, weights=weight))


def by_predictions(predict, X, y, loss, baseline=0.0, weight=None):
    """Return the function of the loss under a mask, by a prediction of the masked table."""
    return lambda mask: plain_loss(loss, y, predict(np.where(mask, X, baseline)), weight)


def check(engine, of, removals=(), within=1e-9):
    """Compare an engine with losses by definition, at first and after each removal."""
    mask = np.ones(len(engine.mask), dtype=bool)
    for removed in (None, *removals):
        if removed is not None:
            engine.remove(removed)
            mask[removed] = False
        assert engine.mask.tolist() == mask.tolist()
        kept = np.flatnonzero(mask)
        less = [mask & (np.arange(len(mask)) != j) for j in kept]
        each = np.full(len(mask), np.inf)
        each[kept] = [of(other) for other in less]
        for found, expected in (
            (engine.loss, of(mask)),
            (engine.without_each(), each),
            (engine(less), each[kept]),
        ):
            np.testing.assert_allclose(found, expected, rtol=within, atol=within / 10)

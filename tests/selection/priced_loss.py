"""Losses that can be worked out by hand."""

import numpy as np


class Priced:
    """A masked loss in which each feature has a price; with all of them it is the floor."""

    def __init__(self, prices, floor=1.0):
        self.prices, self.floor = np.array(prices, dtype=float), floor
        self._mask = np.ones(len(prices), dtype=bool)

    @property
    def mask(self):
        return self._mask.copy()

    @property
    def loss(self):
        return float(self([self._mask])[0])

    def __call__(self, masks):
        return np.array([self.floor + self.prices[~np.asarray(mask)].sum() for mask in masks])

    def without_each(self):
        losses = np.full(len(self.prices), np.inf)
        for j in np.flatnonzero(self._mask):
            other = self._mask.copy()
            other[j] = False
            losses[j] = self([other])[0]
        return losses

    def remove(self, feature):
        self._mask[feature] = False

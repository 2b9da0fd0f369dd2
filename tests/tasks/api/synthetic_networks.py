"""Torch modules that take the place of the network of PEFS."""

import torch
from torch import nn

from chaffinch.tasks.api.probabilistic_selection import probabilistic_selection
from tests.tasks.api.test_probabilistic_selection import table


def found(X=None, y=None, **options):
    if X is None:
        X, y = table()
    given = {"n_features": 2, "most_sweeps": 4, "batch_size": 64, **options}
    return probabilistic_selection(X, y, **given)


def network(width=8, n_outputs=2, seed=0, dropout=0.2):
    """Return a module with batch normalisation and dropout, and weights of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(width, 16),
            nn.Tanh(),
            nn.BatchNorm1d(16),
            nn.Dropout(dropout),
            nn.Linear(16, n_outputs),
        )


class Changed(nn.Module):
    """A network whose outputs go through a function."""

    def __init__(self, change, n_outputs=2):
        super().__init__()
        self.inner, self.change = network(n_outputs=n_outputs), change

    def forward(self, rows):
        return self.change(self.inner(rows))


class Remembering(nn.Module):
    """A network that a function sees through, and a buffer of its own."""

    def __init__(self, forward, memory, step=0):
        super().__init__()
        self.inner, self.of = network(dropout=0), forward
        self.register_buffer("memory", memory)
        self.register_buffer("n_passes", torch.tensor(step))

    def forward(self, rows):
        return self.of(self, rows)


def centred(own, rows):
    """Take off the mean of the last mini-batch, which is there from the first one on."""
    if own.training:
        own.memory = rows.mean(dim=0)
    return own.inner(rows if own.memory is None else rows - own.memory)

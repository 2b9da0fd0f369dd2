"""A small table to check, and what is said of it."""

import re

import numpy as np
import pyarrow as pa
import pytest

from chaffinch.errors import InputError
from chaffinch.methods import Gbmo
from chaffinch.tasks.data.table_check import describe_table
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings

N = 60


def text(values):
    return pa.array(values, pa.string()).dictionary_encode()


def numbers(seed, n=N):
    return np.random.default_rng(seed).normal(size=n)


def table_with(**columns):
    """Two features of noise and a target of two classes, changed and added to as named."""
    base = {"a": numbers(1), "b": numbers(2), "y": text(["no", "yes"] * (N // 2))}
    return pa.table({name: c for name, c in (base | columns).items() if c is not None})


def described(table, *, task="auto", method=None, folds=5, **columns):
    chosen = SelectionSettings(
        target="y",
        task=task,
        method=method or Gbmo(),
        model=ModelSettings(folds=folds),
        columns=ColumnSettings(**columns),
    )
    return describe_table(table, chosen)


def refused(message, table, **options):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        described(table, **options)
    assert "\n" not in str(error.value)

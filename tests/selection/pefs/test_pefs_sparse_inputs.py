"""Inputs of mostly common values: the same layer and the same training as of all values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.pefs.network import (
    LEAST_WIDTH,
    MOST_DENSE,
    Prepared,
    SparseInputs,
    Training,
)
from chaffinch.tasks.selection.pefs.search import Rules, Search


def counts(n_rows, width, share, seed=0):
    """Return standardised counts of words, of which such a share is not 0."""
    random = np.random.default_rng(seed)
    values = random.poisson(2, (n_rows, width)) + 1
    values[random.random((n_rows, width)) >= share] = 0
    spread = values.std(axis=0)
    return ((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)


def test_what_is_not_wide_or_not_sparse_stays_as_it_is() -> None:
    assert SparseInputs.of(counts(50, LEAST_WIDTH, 0.01)) is not None
    assert SparseInputs.of(counts(50, LEAST_WIDTH - 1, 0.01)) is None
    assert SparseInputs.of(counts(50, LEAST_WIDTH, 2 * MOST_DENSE)) is None


@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_the_layer_and_its_gradients_are_those_of_all_values(n_rows, n_masks, seed) -> None:
    inputs = counts(60, LEAST_WIDTH, 0.03, seed)
    sparse, random = SparseInputs.of(inputs), torch.Generator().manual_seed(seed)
    if sparse is None:  # by chance a little less sparse
        return
    rows = torch.randint(60, (n_rows,), generator=random)
    masks = torch.randint(2, (n_masks, LEAST_WIDTH), generator=random).float()
    weight = torch.randn(LEAST_WIDTH, 7, generator=random).requires_grad_()
    bias = torch.randn(7, generator=random).requires_grad_()
    outputs = sparse.take(rows).linear(weight, bias, masks)
    masked = torch.from_numpy(inputs)[rows][:, None] * masks
    assert outputs.shape == (n_rows, n_masks, 7)
    expected = masked.double() @ weight.double() + bias.double()
    assert outputs.detach().numpy() == pytest.approx(expected.detach().numpy(), abs=1e-3)
    direction = torch.randn(outputs.shape, generator=random)
    found = torch.autograd.grad(outputs, (weight, bias), direction)
    for ours, theirs in zip(
        found, torch.autograd.grad(expected, (weight, bias), direction.double()), strict=True
    ):
        assert ours.numpy() == pytest.approx(theirs.numpy(), abs=1e-3)


def test_rows_with_nothing_but_common_values_can_be_taken() -> None:
    inputs = np.zeros((3, LEAST_WIDTH), dtype=np.float32)
    inputs[1, 5] = 2.0
    sparse = SparseInputs.of(inputs)
    weight, bias = torch.ones(LEAST_WIDTH, 1), torch.zeros(1)
    taken = sparse.take(torch.tensor([0, 1, 2, 1]))
    outputs = taken.linear(weight, bias, torch.ones(1, LEAST_WIDTH))
    assert outputs[:, 0, 0].tolist() == [0, 2, 0, 2]
    nothing = sparse.take(torch.tensor([0, 2])).linear(weight, bias, torch.ones(2, LEAST_WIDTH))
    assert not nothing.any()


@pytest.mark.parametrize("n_classes", [0, 3])
def test_a_network_learns_what_it_learns_from_all_values(n_classes) -> None:
    inputs, random = counts(64, LEAST_WIDTH, 0.02), torch.Generator().manual_seed(1)
    target = torch.arange(64) % 3 if n_classes else torch.linspace(-1, 1, 64)
    sizes = (LEAST_WIDTH, 20, 20, n_classes or 1)
    one, other = (Training.begin(sizes, torch.Generator().manual_seed(2)) for _ in range(2))
    for _ in range(5):
        masks = torch.randint(2, (2, LEAST_WIDTH), generator=random).float()
        ours = one.train(SparseInputs.of(inputs), target, None, masks)
        theirs = other.train(torch.from_numpy(inputs), target, None, masks)
        assert ours == pytest.approx(theirs, rel=1e-4)


def test_a_search_finds_the_words_that_matter() -> None:
    random = np.random.default_rng(3)
    X = np.where(random.random((300, LEAST_WIDTH)) < 0.04, 1.0, 0.0)
    X[:, :2] = random.random((300, 2)) < 0.5
    y = (X[:, 0] + X[:, 1]).astype(np.int64)
    schema = Schema(tuple(f"word{j}" for j in range(LEAST_WIDTH)), (0,) * LEAST_WIDTH, 3)
    prepared = Prepared.of(Rows(X, y), schema, X.mean(axis=0))
    assert prepared.sparse is not None
    rules = Rules(penalty=0.05, hidden_layer_sizes=(40,), most_sweeps=1)
    one, other = (Search(prepared, rules, 0) for _ in range(2))
    for search in (one, other):
        search.run()
    assert one.probabilities.tolist() == other.probabilities.tolist()
    assert set(np.argsort(-one.probabilities)[:2]) == {0, 1}

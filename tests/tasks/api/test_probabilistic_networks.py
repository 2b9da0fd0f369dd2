"""`chaffinch.probabilistic_selection` with a torch module of someone's own."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from chaffinch import InputError
from chaffinch.tasks.api import probabilistic_selection as module_under_test
from chaffinch.tasks.selection.pefs.custom_module import ModuleTraining, recalibrated
from chaffinch.tasks.selection.pefs.network import Training
from tests.tasks.api.synthetic_networks import Changed, Remembering, centred, found, network
from tests.tasks.api.test_probabilistic_selection import StoppedError, same, table

# What it finds and predicts


def test_a_module_of_ones_own_is_trained_in_place_of_the_papers_network():
    one = found(network=network(), most_sweeps=8)
    assert one.features == ("a", "d")
    fresh, truth = table(seed=9)
    predicted = one.predict(fresh)
    assert np.mean(np.array(["no", "yes"])[predicted.argmax(axis=1)] == truth) > 0.9
    assert np.allclose(predicted.sum(axis=1), 1)
    assert (one.predict(fresh.assign(b=50.0)) == predicted).all()
    assert np.allclose(one.predict_averaged(fresh, 2).sum(axis=1), 1)


def test_of_a_regression_it_returns_one_value_a_row():
    X, _ = table()
    y = X["a"].to_numpy() * 100 + 7

    def of_shape(*shape, **options):
        given = Changed(lambda outputs: outputs.reshape(shape), n_outputs=1)
        return found(X, y, n_features=1, network=given, **options)

    same(of_shape(-1, most_sweeps=1), of_shape(-1, 1, most_sweeps=1))
    one = of_shape(-1, 1, most_sweeps=12)
    assert one.features == ("a",)
    predicted = one.predict(X)
    assert predicted.shape == (500,)
    assert np.corrcoef(predicted, y)[0, 1] > 0.9
    assert predicted.std() == pytest.approx(y.std(), rel=0.5)


def test_a_category_has_an_input_for_each_value_it_may_have():
    X, y = table()
    X = X.assign(colour=pd.Categorical(np.where(np.arange(500) % 3, "red", "blue")))
    assert found(X, y, network=network(width=10), most_sweeps=1).mask.shape == (9,)
    with pytest.raises(InputError, match="network must take rows of 10 inputs"):
        found(X, y, network=network(width=9))


def test_batch_normalisation_is_recalibrated_on_all_rows_and_nothing_else_moves():
    given = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.ReLU(),
        nn.Dropout(0.9), nn.BatchNorm1d(4, momentum=None),
    )  # fmt: skip
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    own = recalibrated(given, rows)
    with torch.no_grad():
        first = given[0](rows)
        normal = (first - first.mean(dim=0)) / (first.var(dim=0, correction=0) + 1e-5).sqrt()
        hidden = normal.relu()
        expected = (hidden - hidden.mean(dim=0)) / (hidden.var(dim=0, correction=0) + 1e-5).sqrt()
        assert own(rows).numpy() == pytest.approx(expected.numpy(), abs=1e-5)
        alone = torch.cat([own(row[None]) for row in rows])
        assert alone.numpy() == pytest.approx(own(rows).numpy(), abs=1e-5)


def test_a_step_is_that_of_the_papers_network():
    ours = Training.begin((4, 5, 3), torch.Generator().manual_seed(1))
    given = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 3))
    with torch.no_grad():
        for theirs, one in zip(given.parameters(), ours.parameters, strict=True):
            theirs.copy_(one.T if one.dim() == 2 else one)
    module = ModuleTraining.begin(given, 0)
    random = torch.Generator().manual_seed(0)
    inputs, target = torch.randn(16, 4, generator=random), torch.arange(16) % 3
    masks, weight = torch.tensor([[1.0, 0, 1, 1], [0, 1, 1, 1]]), torch.rand(16, generator=random)
    for _ in range(5):
        expected = ours.train(inputs, target, weight, masks)
        assert module.train(inputs, target, weight, masks) == pytest.approx(expected, rel=1e-4)
    for theirs, one in zip(module.module.parameters(), ours.parameters, strict=True):
        there = theirs.detach().T if one.dim() == 2 else theirs.detach()
        np.testing.assert_allclose(there, one.detach(), rtol=1e-3, atol=1e-4)


# One seed, one search


def test_neither_the_module_nor_torchs_random_state_is_changed():
    given = network()
    before, state = copy.deepcopy(given.state_dict()), torch.get_rng_state()
    one = found(network=given, most_sweeps=1)
    one.predict(table()[0])
    assert all((value == before[name]).all() for name, value in given.state_dict().items())
    assert given.training
    assert (torch.get_rng_state() == state).all()


def test_one_seed_gives_one_search_dropout_included_whatever_torchs_state_and_default():
    given, of_doubles = network(), network().double()
    one = found(network=given, seed=5)
    state = torch.get_rng_state()
    torch.rand(7)
    torch.set_default_dtype(torch.float64)
    try:
        other = found(network=given, seed=5)
        X, _ = table()
        assert (other.predict(X) == one.predict(X)).all()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_rng_state(state)
    same(one, other)
    other_weights = found(network=network(seed=1), seed=5)
    assert (other_weights.probabilities != one.probabilities).any()
    same(one, found(network=of_doubles, seed=5))


# The checkpoint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (network(), network(seed=1)),
        (network(), network(dropout=0.3)),
        (network(), Changed(lambda outputs: outputs)),
        (network(), None),
        (Changed(torch.tanh), Changed(torch.sin)),  # between the layers
    ],
)
def test_a_checkpoint_of_another_network_is_refused(one, other, tmp_path):
    path = tmp_path / "search.safetensors"
    found(network=one, most_sweeps=1, checkpoint=path)
    with pytest.raises(InputError, match="of a search of other rows, settings or seed"):
        found(network=other, most_sweeps=1, checkpoint=path)


def test_a_buffer_with_its_shape_from_the_start_is_as_it_was_after_a_stop(tmp_path, monkeypatch):
    path, (X, _) = tmp_path / "search.safetensors", table()

    def given():
        return Remembering(centred, torch.zeros(8))

    whole = found(network=given())
    with monkeypatch.context() as patch:
        patch.setattr(module_under_test, "write_file", written_once(module_under_test.write_file))
        with pytest.raises(StoppedError):
            found(network=given(), checkpoint=path)
    resumed = found(network=given(), checkpoint=path)
    same(resumed, whole)
    assert (resumed.predict(X) == whole.predict(X)).all()
    read_back = found(network=given(), checkpoint=path)
    assert (read_back.predict(X) == whole.predict(X)).all()


def written_once(write):
    def stopping(path, content):
        write(path, content)
        raise StoppedError

    return stopping


def changed_later(own, rows):
    """Let the buffer grow after so many passes that the check has not seen it."""
    own.n_passes = own.n_passes + 1
    if own.n_passes == 100:
        own.memory = torch.zeros(3)
    return own.inner(rows)


@pytest.mark.parametrize(("memory", "there"), [(None, "none"), (torch.zeros(1), r"\(1,\) in flo")])
def test_a_checkpoint_with_other_buffers_than_the_networks_is_refused(memory, there, tmp_path):
    path = tmp_path / "search.safetensors"
    found(network=Remembering(changed_later, memory), most_sweeps=1, checkpoint=path)
    said = (
        rf"has \(3,\) in float32 where the network has {there}.*; name another file, or remove it"
    )
    if memory is None:  # the number of passes has its place
        said = "must hold the tensors of the network, but for buffers_[0-9] it has .*; name another"
    with pytest.raises(InputError, match=said) as refusal:
        found(network=Remembering(changed_later, memory), most_sweeps=1, checkpoint=path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)

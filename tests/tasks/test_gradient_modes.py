"""Training inside `torch.no_grad()` or `torch.inference_mode()` is what it is outside."""

import numpy as np
import pytest
import torch

import chaffinch
from chaffinch.tasks.selection.models.gradients import gradients_recorded
from chaffinch.tasks.selection.pefs.batched_search import BatchedSearch
from tests.selection.test_pefs_on_device import CPU, searches
from tests.selection.test_pefs_on_device import table as prepared_table
from tests.tasks.test_probabilistic_networks import network
from tests.tasks.test_probabilistic_selection import found, same, table

in_each_mode = pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])


@in_each_mode
def test_gradients_are_recorded_and_the_callers_mode_comes_back(mode):
    with mode():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        with gradients_recorded():
            assert torch.is_grad_enabled()
            assert not torch.ones(1).is_inference()
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
    assert torch.is_grad_enabled()


@in_each_mode
@pytest.mark.parametrize("is_own", [False, True])
def test_a_probabilistic_selection_is_the_same(mode, is_own, tmp_path):
    X, _ = table()
    path = tmp_path / "search.safetensors"

    def search(**options):
        given = {"network": network(), "hidden_layer_sizes": None} if is_own else {}
        return found(n_features=2, **{"most_sweeps": 2, **given, **options})

    outside = search()
    with mode():
        inside = search(checkpoint=path)
        read_back = search(checkpoint=path)
        predicted = inside.predict(X)
    same(inside, outside)
    for one in (inside, read_back):
        assert (one.predict(X) == outside.predict(X)).all()
    assert (predicted == outside.predict(X)).all()


def test_a_network_made_in_inference_mode_is_trained():
    with torch.inference_mode():
        given = network()
    options = {"n_features": 2, "most_sweeps": 1, "hidden_layer_sizes": None}
    same(found(network=given, **options), found(network=network(), **options))


@in_each_mode
def test_searches_on_a_device_are_the_same(mode):
    def search():
        together = searches(prepared_table("two classes"), n_iterations=8, most_sweeps=2)
        list(BatchedSearch(together, CPU).ended())
        return [one.probabilities for one in together]

    outside = search()
    with mode():
        inside = search()
    assert np.array_equal(inside, outside)


@in_each_mode
@pytest.mark.parametrize(
    "options",
    [
        {"method": chaffinch.Pefs(n_features=2, most_sweeps=1, hidden_layer_sizes=(16,))},
        {"model": chaffinch.ModelSettings(name="mlp", tuning="none"), "n_features": 2},
    ],
    ids=["pefs", "mlp"],
)
def test_a_selection_is_the_same(mode, options):
    X, y = table()
    whole = X.assign(y=y)
    outside = chaffinch.select(whole, "y", **options)
    with mode():
        inside = chaffinch.select(whole, "y", **options)
    assert inside.features == outside.features
    assert np.array_equal(inside.model.predict_proba(X), outside.model.predict_proba(X))

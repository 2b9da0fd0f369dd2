"""What torch was told before a call, as `torch.no_grad()` or a default device, changes nothing."""

from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import pytest
import torch

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.tasks.selection.models.runtime import torch_by_default
from tests.tasks.api.synthetic_networks import network
from tests.tasks.api.test_probabilistic_selection import found, same, table

ON = {"meta": partial(torch.device, "meta"), "cuda": partial(torch.device, "cuda")}
MODES = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@contextmanager
def made_in(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


TYPES = {
    "autocast": partial(torch.autocast, "cpu", dtype=torch.bfloat16),
    "float64": partial(made_in, torch.float64),
    "bfloat16": partial(made_in, torch.bfloat16),
}
# each mode alone or with a type, as code may have set both
TOGETHER = {
    "no_grad, float64": ("no_grad", "float64"),
    "inference_mode, autocast": ("inference_mode", "autocast"),
    "meta, bfloat16": ("meta", "bfloat16"),
    "cuda": ("cuda",),
}


@contextmanager
def all_of(names):
    with ExitStack() as stack:
        for name in names:
            stack.enter_context((MODES | ON | TYPES)[name]())
        yield


in_each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
whatever_holds = pytest.mark.parametrize("mode", (MODES | ON).values(), ids=MODES | ON)


class MakingTensors(torch.nn.Module):
    """A network that makes a tensor on its way, and names no device."""

    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, rows):
        return self.inner(rows) + torch.tensor([0.1, 0.7])


@in_each_mode
def test_gradients_are_recorded_and_the_callers_mode_comes_back(mode):
    with mode():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        with torch_by_default():
            assert torch.is_grad_enabled()
            assert not torch.ones(1).is_inference()
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
    assert torch.is_grad_enabled()


def test_tensors_are_made_on_the_cpu_and_the_callers_device_comes_back():
    with torch.device("meta"):
        with torch_by_default():
            assert torch.ones(1).device.type == "cpu"
        assert torch.ones(1).is_meta
    assert torch.ones(1).device.type == "cpu"


def test_it_computes_in_float32_and_the_callers_types_come_back():
    ones = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16), made_in(torch.float64):
        with torch_by_default():
            assert (ones @ ones).dtype == torch.ones(1).dtype == torch.float32
        assert (ones @ ones).dtype == torch.bfloat16
        assert torch.ones(1).dtype == torch.float64
    assert (ones @ ones).dtype == torch.ones(1).dtype == torch.float32


@pytest.mark.parametrize("is_own", [False, True])
def test_a_probabilistic_selection_is_the_same(is_own, tmp_path):
    X, _ = table()
    given = {"network": MakingTensors(), "hidden_layer_sizes": None} if is_own else {}

    def search(**options):
        return found(n_features=2, **{"most_sweeps": 2, **given, **options})

    outside = search()
    for name, modes in TOGETHER.items():
        path = tmp_path / f"{name}.safetensors"
        with all_of(modes):
            inside = search(checkpoint=path)
            read_back = search(checkpoint=path)
            predicted = inside.predict(X)
        same(inside, outside)
        for one in (inside, read_back):
            assert (one.predict(X) == outside.predict(X)).all(), name
        assert (predicted == outside.predict(X)).all(), name


def test_a_network_made_in_inference_mode_is_trained():
    with torch.inference_mode():
        given = network()
    options = {"n_features": 2, "most_sweeps": 1, "hidden_layer_sizes": None}
    same(found(network=given, **options), found(network=network(), **options))


@pytest.mark.parametrize(
    "options",
    [
        {"method": chaffinch.methods.Pefs(n_features=2, most_sweeps=1, hidden_layer_sizes=(16,))},
        {
            "method": "gbmo",
            "model": ModelSettings(name="mlp", tuning="none", parameters={"max_iter": 20}),
            "n_features": 2,
        },
    ],
    ids=["pefs", "mlp"],
)
def test_a_selection_is_the_same(options):
    X, y = table()
    whole = X.assign(y=y)
    outside = chaffinch.select(whole, "y", **options)
    for modes in (("inference_mode", "autocast"), ("meta", "float64")):
        with all_of(modes):
            inside = chaffinch.select(whole, "y", **options)
        assert inside.features == outside.features
        assert np.array_equal(inside.model.predict_proba(X), outside.model.predict_proba(X))


@whatever_holds
def test_masked_losses_of_a_module_are_the_same(mode):
    X, y = table()
    given, numbers = MakingTensors().eval(), (y == "yes").astype(int)

    def losses():
        return chaffinch.masked_loss(given, X.to_numpy(), numbers, loss="log_loss").without_each()

    outside = losses()
    with mode():
        inside = losses()
    assert np.array_equal(inside, outside)


def test_a_network_made_on_the_meta_device_is_refused():
    with torch.device("meta"):
        given = network()
    with pytest.raises(InputError, match=r"^network cannot be copied \(.*meta"):
        found(network=given, n_features=2, hidden_layer_sizes=None)

"""What a torch module of someone's own cannot be or do is told in one line."""

import re
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import chaffinch
from chaffinch import InputError
from tests.tasks.api.synthetic_networks import Changed, Remembering, centred, found, network
from tests.tasks.api.test_probabilistic_selection import table


def centred_later(own, rows):
    own.n_passes = own.n_passes + 1
    return centred(own, rows) if own.n_passes > 2 else own.inner(rows)


def growing(own, rows):
    if own.training:
        own.memory = torch.cat([own.memory, rows[:1, 0]])
    return own.inner(rows)


def doubling(own, rows):
    own.memory = own.memory.double()
    return own.inner(rows)


def forgetting(own, rows):
    own.memory = None
    return own.inner(rows)


def attached(own, rows):
    outputs = own.inner(rows)
    own.memory = outputs.mean(dim=0)
    return outputs


def thawing(own, rows):
    own.inner[0].bias.requires_grad_(requires_grad=False)
    return own.inner(rows)


def making_a_parameter(own, rows):
    own.late = nn.Parameter(torch.ones(2))
    return own.inner(rows) * own.late


KEEP = "network must keep the names, shapes and types of its parameters and buffers, but a training"


@pytest.mark.parametrize(
    ("forward", "memory", "said"),
    [
        (centred, None, r"makes 'memory' \(8,\) in float32 .* where it was none; make it"),
        (centred_later, None, r"makes 'memory' \(8,\) in float32 .* where it was none"),
        (growing, torch.zeros(1), r"makes 'memory' \(2,\) in .* where it was \(1,\) in float32"),
        (doubling, torch.zeros(1), r"makes 'memory' \(1,\) in float64 .* was \(1,\) in float32"),
        (forgetting, torch.zeros(1), r"makes 'memory' none where it was \(1,\) in float32"),
        (attached, torch.zeros(2), r"makes 'memory' .* with gradients where .* without gradients"),
        (thawing, None, r"makes 'inner.0.bias' .* without gradients where .* with gradients"),
        (making_a_parameter, None, r"makes 'late' \(2,\) in float32 with .* where it was none"),
    ],
)
def test_a_network_that_makes_its_buffers_or_parameters_on_the_way_is_refused(
    forward, memory, said, tmp_path
):
    with pytest.raises(InputError, match=rf"{KEEP} step {said}") as refusal:
        found(network=Remembering(forward, memory), checkpoint=tmp_path / "search.safetensors")
    assert "\n" not in str(refusal.value)
    assert not any(tmp_path.iterdir())


class Keeping(nn.Module):
    """A network that keeps its last scores in an attribute, and may use them in its next pass."""

    def __init__(self, keep, share=0.0):
        super().__init__()
        self.inner, self.keep, self.share, self.kept = network(dropout=0.0), keep, share, None

    def forward(self, rows):
        scores = self.inner(rows)
        if self.share and self.kept is not None:
            scores = scores + self.share * self.kept
        self.kept = self.keep(scores.mean(dim=0))
        return scores


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.1, r"at iteration 2 \(.*a second time.*\); what it keeps .* must be .* detached$"),
        (0.0, r"cannot be copied after a training step \(.*\); what it keeps .* must be detached"),
    ],
)
def test_a_network_that_keeps_what_gradients_go_through_is_refused_before_the_search(
    share, said, tmp_path
):
    path = tmp_path / "search.safetensors"
    with pytest.raises(InputError, match=said) as refusal:
        found(network=Keeping(lambda scores: scores, share), checkpoint=path)
    assert "\n" not in str(refusal.value)
    assert not path.exists()
    one = found(network=Keeping(torch.Tensor.detach, share), most_sweeps=1)
    assert one.predict(table()[0]).shape == (500, 2)


class RaisingLater(nn.Module):
    """A network of which something is wrong from its eleventh pass in training on, in step 6."""

    def __init__(self, wrong):
        super().__init__()
        self.inner, self.wrong, self.n_passes = network(), wrong, 0

    def forward(self, rows):
        self.n_passes += self.training
        scores = self.inner(rows)
        return scores if self.n_passes < 11 else self.wrong(scores)


def dividing(scores):
    raise ZeroDivisionError("division\nby nothing. At all")


class Backwards(torch.autograd.Function):
    """A backward pass that is written by hand, and raises."""

    @staticmethod
    def forward(ctx, scores):
        return scores.clone()

    @staticmethod
    def backward(ctx, slopes):
        raise KeyError("slopes")


@pytest.mark.parametrize(
    ("wrong", "said", "kind"),
    [
        (Backwards.apply, r"an error of its own at iteration 6 \(KeyError: 'slopes'\)", KeyError),
        (
            dividing,
            r"network ends in an error of its own at iteration 6 \(ZeroDivisionError: division\); ",
            ZeroDivisionError,
        ),
        (lambda scores: scores[1:], "an error of its own at iteration 6 .*size", ValueError),
        (torch.detach, "no gradient leads back to them at iteration 6; leave out what", None),
    ],
)
def test_a_network_that_raises_amid_the_search_is_told_with_the_iteration(
    wrong, said, kind, tmp_path
):
    path = tmp_path / "search.safetensors"
    with pytest.raises(InputError, match=said) as refusal:
        found(network=RaisingLater(wrong), checkpoint=path)
    assert "\n" not in str(refusal.value)
    own = refusal.value.__cause__
    assert own is None if kind is None else isinstance(own, kind)
    assert not any(tmp_path.iterdir())


class ChangingLater(nn.Module):
    """A network that a function changes in its eleventh pass in training, in step 6."""

    def __init__(self, change):
        super().__init__()
        self.inner, self.n_passes, self.change = network(), 0, change
        self.inner[0].bias.requires_grad_(requires_grad=False)

    def forward(self, rows):
        self.n_passes += self.training
        if self.n_passes == 11:
            self.change(self)
        return self.inner(rows)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda own: own.inner[4].bias.requires_grad_(requires_grad=False), "inner.4.bias"),
        (lambda own: own.inner[0].bias.requires_grad_(), "inner.0.bias"),
        (lambda own: own.add_module("extra", nn.Linear(8, 2)), "extra.weight"),
        (lambda own: setattr(own.inner[4], "bias", nn.Parameter(torch.zeros(2))), "inner.4.bias"),
        (lambda own: setattr(own.inner[4], "bias", None), "inner.4.bias"),
    ],
)
def test_a_network_that_changes_amid_the_search_what_it_trains_is_told_with_the_iteration(
    change, name, tmp_path
):
    path = tmp_path / "search.safetensors"
    with pytest.raises(InputError, match=rf"^network must train the same .*'{name}'") as refusal:
        found(network=ChangingLater(change), checkpoint=path)
    assert "at iteration 6; " in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert not any(tmp_path.iterdir())


def test_a_network_that_raises_as_it_predicts_is_told():
    class OfFewRows(Changed):
        def forward(self, rows):
            if len(rows) > 64:
                raise OSError("too many rows")
            return self.inner(rows)

    one = found(network=OfFewRows(None), most_sweeps=1)
    with pytest.raises(InputError, match=r"as it predicts \(OSError: too many rows\); give one"):
        one.predict(table()[0])


class Twice(nn.Module):
    """A network with one batch normalisation for two places, or one for each."""

    def __init__(self, n_normal):
        super().__init__()
        self.first, self.last = network(dropout=0.0)[:2], nn.Linear(16, 2)
        self.normal = nn.ModuleList([nn.BatchNorm1d(16) for _ in range(n_normal)])

    def forward(self, rows):
        once = self.normal[0](self.first(rows))
        return self.last(self.normal[-1](3 * once.relu() + 2))


def test_a_network_that_uses_one_batch_normalisation_twice_is_refused_before_the_search(tmp_path):
    path = tmp_path / "search.safetensors"
    said = r"once in a pass but uses 'normal.0' 2 times, .* alone; make one for each place$"
    with pytest.raises(InputError, match=said) as refusal:
        found(network=Twice(1), checkpoint=path)
    assert "\n" not in str(refusal.value)
    assert not path.exists()
    assert found(network=Twice(2), most_sweeps=1).predict(table()[0]).shape == (500, 2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mlp", "network must be a torch.nn.Module but is 'mlp'; leave it out for the paper's"),
        (nn.Linear, "network must be a torch.nn.Module but is <class"),
        (network(width=5), r"rows of 8 inputs, a tensor \(64, 8\) in float32, but does not: mat1"),
        (network(n_outputs=1),
         r"a score for each class, a tensor \(64, 2\), but returns \(64, 1\)"),
        (Changed(lambda outputs: (outputs, 1)),
         r"\(64, 2\), but returns tuple; .* and return the dense tensor alone$"),
        (Changed(lambda outputs: outputs[0]),
         r"\(64, 2\), but returns \(2,\); give its last layer"),
        (Changed(lambda outputs: outputs / 0), "network must return finite numbers but does not"),
        (Changed(torch.detach), "no gradient leads back to them; leave out what detaches it"),
        (Changed(lambda outputs: outputs.softmax(1)), "looks like probabilities; leave out its"),
        (Changed(torch.Tensor.to_sparse), "but returns Tensor; .* and return the dense tensor"),
        (Changed(torch.Tensor.double), "must compute in float32 but returns torch.float64; cast"),
        (nn.Identity(), "network must have parameters that require gradients but has none"),
        (network().requires_grad_(requires_grad=False),
         "network must have parameters that require gradients but has none"),
        (nn.LazyLinear(2), "network has lazy layers without weights; run it once on a row"),
        (nn.Linear(8, 2, dtype=torch.complex64), "must have real weights but has complex ones"),
    ],
)  # fmt: skip
def test_a_network_that_does_not_fit_is_refused_before_any_work(given, said, tmp_path):
    path = tmp_path / "search.safetensors"
    with pytest.raises(InputError, match=said) as refusal:
        found(network=given, checkpoint=path)
    assert "\n" not in str(refusal.value)
    assert not path.exists()


def counting_in_place(own, rows):
    outputs = own.inner(rows)
    own.memory.add_(1)
    return outputs * own.memory


def test_a_network_beside_hidden_layers_or_that_cannot_have_copies_or_masks_is_refused():
    with pytest.raises(InputError, match="hidden_layer_sizes and network exclude each other"):
        found(network=network(), hidden_layer_sizes=(8,))
    given = network()
    given.of_a_graph = given[0].weight * 2
    with pytest.raises(InputError, match=r"network cannot be copied \(.*\); give one that"):
        found(network=given)
    said = r"changes what they go through at iteration 1 \(.*inplace.*\); .* new tensor, detached"
    with pytest.raises(InputError, match=said):
        found(network=Remembering(counting_in_place, torch.ones(2)))


@pytest.mark.parametrize("normal", [nn.LazyBatchNorm1d, nn.LazyInstanceNorm1d, nn.Identity])
def test_lazy_layers_get_weights_as_the_refusal_says(normal):
    lazy = nn.Sequential(nn.LazyLinear(16), nn.Unflatten(1, (4, 4)), normal(), nn.Flatten())
    network = nn.Sequential(lazy, nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    with pytest.raises(InputError, match=r"in evaluation, as .* does$") as refusal:
        found(network=network)
    remedy = str(refusal.value).partition(", as ")[2].removesuffix(" does")
    assert remedy == "network.eval()(torch.zeros(1, 8))"
    network.eval()(torch.zeros(1, 8))
    assert found(network=network, most_sweeps=1).mask.sum() == 2


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_network_that_overflows_as_it_predicts_is_told_with_the_row(kind):
    X, y = table()
    X["a"] *= 1e-20  # so that in deviations 1e30 is beyond float32
    n_outputs, truth = (2, y) if kind == "classes" else (1, np.where(y == "yes", 1.0, -1.0))
    given = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, n_outputs))
    one = found(X, truth, network=given)
    assert one.features == ("a", "d")
    far = X.assign(a=X["a"].mask(X.index == 3, 1e30))
    for predict in (one.predict, one.predict_averaged):
        with pytest.raises(InputError, match="must return finite numbers but does not for row 4; "):
            predict(far)
    assert np.isfinite(one.predict(X)).all()
    assert len(one.predict(X[:0])) == 0


class _OfOne(nn.Module):
    """Takes a mini-batch, and has another shape for a row that comes alone."""

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(8, n_outputs)

    def forward(self, rows):
        return self.layer(rows).squeeze()


def test_a_network_that_cannot_take_one_row_or_of_torchscript_is_refused_before_the_search():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 8))
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        scripted = torch.jit.script(nn.Linear(8, 1))
    one_value = "network must return .* a tensor {}, but returns"
    for given, y, said in (
        (_OfOne(1), X[:, 0], one_value.format(re.escape("(1, 1)"))),
        (_OfOne(3), random.integers(0, 3, 200), one_value.format(re.escape("(1, 3)"))),
        (scripted, X[:, 0], r"is one of TorchScript, .*; give the module"),
    ):
        with pytest.raises(InputError, match=said):
            chaffinch.probabilistic_selection(X, y, network=given, most_sweeps=1)

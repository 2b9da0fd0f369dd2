"""A network's masked losses on one of torch's devices are those of the engine on the CPU."""

from __future__ import annotations

import functools
import json
import re

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import chaffinch
from chaffinch import InputError
from chaffinch.tasks.selection.losses import Loss, resolve_loss
from chaffinch.tasks.selection.masked_loss import BlackBox, MaskEvaluator, masked_loss
from chaffinch.tasks.selection.masked_loss.dense_models import read_dense
from chaffinch.tasks.selection.masked_loss.given_models import engine_on_device, read_model
from chaffinch.tasks.selection.masked_loss.networks_on_device import NetworkMaskedLossOnDevice
from chaffinch.tasks.selection.models import NeuralNetwork, fit
from chaffinch.tasks.selection.models.encoding import Encoding
from chaffinch.tasks.selection.models.given import GivenModel
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, MaskedLoss, Rows, Schema
from tests.selection.devices import check_that_the_cpu_is_the_default, needs_a_gpu

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CPU = torch.device("cpu")
CATEGORIES = (0, 3, 0, 0, 2, 0, 5, 0)
D, CONSTANT = len(CATEGORIES), 3
FEW = {"max_iter": 8}
CASES = [
    ("linear", {}, 0),
    ("HuberRegressor", {}, 0),
    ("mlp", FEW, 0),
    ("mlp", FEW | {"hidden_layer_sizes": [6, 4], "activation": "logistic"}, 0),
    ("MLPRegressor", FEW | {"hidden_layer_sizes": [7, 5, 3], "activation": "tanh"}, 0),
    ("MLPRegressor", FEW | {"hidden_layer_sizes": [4], "activation": "identity"}, 0),
    ("linear", {}, 2),
    ("LogisticRegression", {"C": 0.1}, 3),
    ("mlp", FEW | {"activation": "logistic"}, 2),
    ("mlp", FEW | {"hidden_layer_sizes": [9, 5]}, 3),
    ("MLPClassifier", FEW | {"hidden_layer_sizes": [8]}, 2),
    ("MLPClassifier", FEW | {"hidden_layer_sizes": [6, 6], "activation": "tanh"}, 3),
    ("mlp", FEW | {"hidden_layer_sizes": [9, 5]}, 7),
]
of_every_case = pytest.mark.parametrize(("name", "parameters", "n_classes"), CASES)
Arguments = tuple[FittedModel, Rows, Loss, Floats]


def make_rows(n: int, n_classes: int, seed: int, *, weighted: bool = False) -> Rows:
    """Make rows with categories, missing values and a constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 2 + 1
    for j in np.flatnonzero(CATEGORIES):
        X[:, j] = rng.integers(0, CATEGORIES[j], n)
    signal = 2 * X[:, 0] + X[:, 2] ** 2 + (X[:, 1] == 2) + rng.normal(size=n)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, CONSTANT] = 0.3
    cuts = np.quantile(signal, np.arange(1, n_classes) / n_classes) if n_classes else None
    y = signal if cuts is None else np.digitize(signal, cuts)
    return Rows(X, y, rng.uniform(0.5, 2, n) if weighted else None)


@functools.cache
def _trained(name: str, parameters: str, n_classes: int) -> FittedModel:
    schema = Schema(tuple(f"feature {j}" for j in range(D)), CATEGORIES, n_classes)
    return fit(name, make_rows(120, n_classes, seed=1), schema, json.loads(parameters), seed=0)


def asked(
    name: str, parameters: dict, n_classes: int, n: int, *, weighted: bool = False, loss=None
) -> Arguments:
    model = _trained(name, json.dumps(parameters), n_classes)
    rows = make_rows(n, n_classes, seed=n, weighted=weighted)
    baseline = np.where(np.array(CATEGORIES) > 0, 1.0, np.nanmean(rows.X, axis=0))
    return model, rows, resolve_loss(loss, model.schema), baseline


def on_device(
    arguments: Arguments, memory: int | None = None, device: torch.device = CPU
) -> NetworkMaskedLossOnDevice:
    dense = read_dense(arguments[0])
    return NetworkMaskedLossOnDevice(MaskEvaluator(*arguments), dense, device, memory=memory)


def wide(n: int, n_units: int, d: int = 6) -> Arguments:
    """Ask about a network so wide that its rows come in several runs."""
    rng = np.random.default_rng(0)
    network = NeuralNetwork(
        schema=Schema(tuple(f"feature {j}" for j in range(d)), (0,) * d),
        encoding=Encoding((0,) * d, np.zeros(d), np.ones(d)),
        activation="relu",
        weights=(rng.normal(size=(d, n_units)), rng.normal(size=(n_units, 1)) / n_units),
        biases=(rng.normal(size=n_units), rng.normal(size=1)),
        location=0.5,
        scale=2.0,
    )
    rows = Rows(rng.normal(size=(n, d)), rng.normal(size=n) + 5, rng.uniform(0.5, 2, n))
    return network, rows, Loss("squared_error", "regression"), rng.normal(size=d)


def least_memory(arguments: Arguments) -> int:
    """Return what the engine says it needs at least, in bytes."""
    with pytest.raises(ValueError, match=r"take .* GB on cpu") as refused:
        on_device(arguments, memory=0)
    needed = re.search(r"take (\S+) GB", str(refused.value))
    return int(float(needed[1]) * 1e9 * 1.001)


def answers(engine: MaskedLoss, removed: tuple[int, ...] = (2, 0)) -> list[float]:
    """Ask everything there is to ask, before and after removals."""
    d = len(engine.mask)
    masks = np.random.default_rng(0).random((5, d)) < 0.6
    found = [engine.loss, *engine.without_each(), *engine(masks)]
    for feature in removed:
        engine.remove(feature)
        found += [engine.loss, *engine.without_each()]
    return [*found, *engine([engine.mask]), *engine(masks[:1])]


def close(found: list[float], expected: list[float], within: float = 1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=within, atol=1e-15)


@of_every_case
@pytest.mark.parametrize(("n", "weighted"), [(40, False), (1100, True)])
def test_every_loss_is_that_of_the_cpu_and_of_plain_predict(
    name, parameters, n_classes, n, weighted
) -> None:
    for loss in ("log_loss",) if n_classes else ("squared_error", "absolute_error"):
        arguments = asked(name, parameters, n_classes, n, weighted=weighted, loss=loss)
        found = answers(on_device(arguments), removed=(2, 6, 0, 5))
        close(found, answers(masked_loss(*arguments), removed=(2, 6, 0, 5)))
        plain = BlackBox(MaskEvaluator(*arguments))
        close(found, answers(plain, removed=(2, 6, 0, 5)))


@of_every_case
def test_the_memory_that_is_free_changes_no_bit(name, parameters, n_classes) -> None:
    arguments = asked(name, parameters, n_classes, 1700, weighted=True)
    least = least_memory(arguments)
    one, some, many = (on_device(arguments, m) for m in (least, least * 2, None))
    assert one.layers_at_once == 1 < some.layers_at_once < D < many.layers_at_once
    assert answers(one) == answers(some) == answers(many)


@pytest.mark.parametrize(
    ("n", "n_units"),
    [(1300, 3000), pytest.param(520, 9000, marks=pytest.mark.e2e), (1024, 6000)],
)
def test_rows_in_several_runs_of_which_the_last_may_be_filled_up(n, n_units) -> None:
    arguments = wide(n, n_units)
    engine, little = on_device(arguments), on_device(arguments, least_memory(arguments))
    assert little.layers_at_once < engine.layers_at_once
    found = answers(engine)
    assert answers(little) == found
    close(found, answers(masked_loss(*arguments)))
    close(engine.block_sums("present"), masked_loss_after(arguments, (2, 0)).block_sums("present"))


def masked_loss_after(arguments: Arguments, removed: tuple[int, ...]) -> MaskedLoss:
    engine = masked_loss(*arguments)
    for feature in removed:
        engine.remove(feature)
    return engine


def test_asking_twice_gives_the_same_bits() -> None:
    arguments = asked("mlp", FEW | {"hidden_layer_sizes": [9, 5]}, 3, 700)
    assert answers(on_device(arguments)) == answers(on_device(arguments))


@of_every_case
def test_the_loss_after_a_removal_is_the_one_foretold(name, parameters, n_classes) -> None:
    engine = on_device(asked(name, parameters, n_classes, 1100, weighted=True))
    for feature in (6, 0, 1, 2):
        foretold = engine.without_each()[feature]
        engine.remove(feature)
        assert engine.loss == foretold
    assert engine.without_each()[CONSTANT] == engine.loss


def test_an_exact_tie_is_one_to_the_last_bit() -> None:
    network, rows, loss, baseline = wide(1100, 300)
    network.weights[0][4], rows.X[:, 4], baseline[4] = (
        network.weights[0][1], rows.X[:, 1], baseline[1],
    )  # fmt: skip
    losses = on_device((network, rows, loss, baseline)).without_each()
    assert losses[1] == losses[4]


def test_two_hundred_removals_do_not_drift() -> None:
    rng = np.random.default_rng(0)
    network, _, loss, baseline = wide(1, 5, d=260)
    X = rng.normal(size=(150, 260)) * 10 ** rng.uniform(-2, 2, 260)
    arguments = network, Rows(X, rng.normal(size=150)), loss, baseline
    engine, plain = on_device(arguments), BlackBox(MaskEvaluator(*arguments))
    for step in range(210):
        losses = engine.without_each()
        if step % 40 == 39:
            close(losses, plain.without_each(), within=1e-10)
        engine.remove(int(np.argmin(losses)))
        plain.remove(int(np.argmin(losses)))
    close([engine.loss], [plain.loss], within=1e-10)


def test_features_of_huge_weight_leave_no_rounding_behind() -> None:
    network, rows, loss, _ = wide(60, 8)
    network.weights[0][2] *= 1e12
    network.weights[0][3] *= 1e6
    arguments = network, rows, loss, np.zeros(6)
    engine, plain = on_device(arguments), BlackBox(MaskEvaluator(*arguments))
    for feature in (2, 3):
        engine.remove(feature)
        plain.remove(feature)
    close([engine.loss, *engine.without_each()], [plain.loss, *plain.without_each()])


def test_a_class_the_model_has_never_seen_has_the_loss_of_probability_zero() -> None:
    rows = make_rows(120, 3, seed=9)
    schema = Schema(tuple(f"feature {j}" for j in range(D)), CATEGORIES, 3)
    seen = Rows(rows.X[rows.y != 1], rows.y[rows.y != 1])
    model = fit("MLPClassifier", seen, schema, {"max_iter": 200}, seed=0)
    arguments = model, rows, Loss("log_loss", "classification"), np.ones(D)
    close(on_device(arguments).without_each(), masked_loss(*arguments).without_each())


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_loss_that_is_not_finite_is_an_error() -> None:
    model, rows, loss, baseline = asked("mlp", FEW, 0, 20)
    engine = on_device((model, Rows(rows.X, rows.y * 1e200), loss, baseline))
    with pytest.raises(ValueError, match="squared_error must be finite but is inf with 8 of 8"):
        _ = engine.loss
    with pytest.raises(ValueError, match="squared_error must be finite"):
        engine.without_each()


def test_no_mask_at_all_and_no_feature_left() -> None:
    engine = on_device(asked("mlp", FEW, 0, 20))
    assert engine(np.empty((0, D), dtype=bool)).shape == (0,)
    for feature in range(D):
        engine.remove(feature)
    assert np.isinf(engine.without_each()).all()
    assert engine([engine.mask])[0] == pytest.approx(engine.loss, rel=1e-12)


def test_rows_that_do_not_fit_are_refused_with_the_remedy() -> None:
    arguments = asked("mlp", FEW, 0, 700)
    message = "700 rows of 8 features .* GB on cpu but it has 1e-05 GB for them; give fewer rows"
    with pytest.raises(ValueError, match=message):
        on_device(arguments, memory=10_000)


X = np.random.default_rng(0).normal(size=(600, 5))
Y = X[:, 0] + X[:, 1] * X[:, 2]
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]


def module(*layers: torch.nn.Module) -> torch.nn.Module:
    for seed, parameter in enumerate(torch.nn.Sequential(*layers).parameters()):
        values = np.random.default_rng(seed).normal(size=tuple(parameter.shape))
        parameter.data = torch.from_numpy(values)
    return torch.nn.Sequential(*layers)


SMALL = {"hidden_layer_sizes": (7, 4), "max_iter": 8, "random_state": 0}
OWN = {
    "torch": lambda: (
        module(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)),
        Y,
        "absolute_error",
    ),
    "torch, classes": lambda: (
        module(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)),
        np.digitize(Y, [-0.5, 0.5]),
        "log_loss",
    ),
    "MLPRegressor": lambda: (MLPRegressor(**SMALL).fit(X, Y), Y, "squared_error"),
    "MLPClassifier": lambda: (MLPClassifier(**SMALL).fit(X, LABELS), LABELS, "log_loss"),
    "LogisticRegression": lambda: (LogisticRegression().fit(X, LABELS), LABELS, "log_loss"),
    "Ridge": lambda: (make_pipeline(StandardScaler(), Ridge()).fit(X, Y), Y, "squared_error"),
}


def given_on(device: torch.device, model: object, loss: str, predict=None) -> MaskedLoss:
    given = read_model(model, loss)
    schema = Schema(tuple(f"x{j}" for j in range(5)), (0,) * 5)
    own = GivenModel(given.name, schema, predict or given.predict, np.ones(5, dtype=bool))
    evaluator = MaskEvaluator(own, Rows(X, Y), Loss(loss, "regression"), np.zeros(5))
    return engine_on_device(given, evaluator, device, plain=True)


@pytest.mark.parametrize(
    ("model", "loss", "reason"),
    [
        (RandomForestRegressor(3).fit(X, Y), "squared_error", "RandomForestRegressor has no"),
        (lambda X: X[:, 0], "squared_error", "it is a function"),
        (Ridge().fit(X, Y), "r2", "r2 is no mean over rows"),
    ],
)
def test_what_a_device_does_not_take_is_said_in_one_line(model, loss, reason) -> None:
    with pytest.raises(ValueError, match=f"cannot be computed on cpu: {reason}") as refused:
        given_on(CPU, model, loss)
    assert "use device='cpu'" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_module_that_predicts_in_its_own_way_is_refused() -> None:
    model = module(torch.nn.Linear(5, 1))
    model.register_forward_hook(lambda *of_call: 2 * of_call[-1])
    with pytest.raises(ValueError, match="it has forward hooks"):
        given_on(CPU, model, "squared_error")


def test_an_engine_that_disagrees_with_the_model_is_refused() -> None:
    model = Ridge().fit(X, Y)
    with pytest.raises(ValueError, match="the engine does not give its own predictions"):
        given_on(CPU, model, "squared_error", predict=lambda X: model.predict(X) + 1)


def test_a_linear_model_under_squared_error_goes_through_its_layer() -> None:
    model, y, loss = OWN["Ridge"]()
    expected = chaffinch.masked_loss(model, X, y, loss=loss)
    close(given_on(CPU, model, loss).without_each(), expected.without_each())


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "CUDA", "cuda:-1", "mps"])
def test_a_device_that_is_not_there_is_an_error_before_any_work(device) -> None:
    with pytest.raises(InputError, match=f"device must be .*cpu.* but is '{device}'") as refused:
        chaffinch.masked_loss(object(), None, None, loss="", device=device)
    assert re.search(r"torch \S+ sees \d+ CUDA devices$", str(refused.value))


def test_the_cpu_is_the_default_and_needs_no_torch() -> None:
    script = """
from sklearn.linear_model import LogisticRegression
X = numpy.random.default_rng(0).normal(size=(50, 3))
y = X[:, 0] > 0
model = LogisticRegression().fit(X, y)
either = [
    chaffinch.masked_loss(model, X, y, loss="log_loss", **more).without_each().tolist()
    for more in ({}, {"device": "cpu"})
]
"""
    check_that_the_cpu_is_the_default(script)


@needs_a_gpu
@pytest.mark.parametrize("name", OWN)
def test_a_gpu_gives_the_losses_of_the_cpu_and_the_same_bits_twice(name) -> None:
    model, y, loss = OWN[name]()
    ask = functools.partial(chaffinch.masked_loss, model, X, y, loss=loss, baseline="mean")
    found = answers(ask(device="cuda"))
    close(found, answers(ask()))
    assert found == answers(ask(device="cuda")) == answers(ask(device="cuda:0"))


@needs_a_gpu
@of_every_case
def test_the_memory_that_is_free_on_a_gpu_changes_no_bit(name, parameters, n_classes) -> None:
    arguments = asked(name, parameters, n_classes, 1700, weighted=True)
    least, gpu = least_memory(arguments), torch.device("cuda", 0)
    found = answers(on_device(arguments, device=gpu))
    assert found == answers(on_device(arguments, least, gpu))
    close(found, answers(on_device(arguments)))


@needs_a_gpu
def test_a_loss_foretold_and_a_tie_hold_on_a_gpu_to_the_last_bit() -> None:
    network, rows, loss, baseline = wide(1100, 300)
    network.weights[0][4], rows.X[:, 4], baseline[4] = (
        network.weights[0][1], rows.X[:, 1], baseline[1],
    )  # fmt: skip
    engine = on_device((network, rows, loss, baseline), device=torch.device("cuda", 0))
    foretold = engine.without_each()
    assert foretold[1] == foretold[4]
    engine.remove(1)
    assert engine.loss == foretold[1]

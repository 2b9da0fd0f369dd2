"""PEFS: network and masks trained together; what is found, when it ends, what it predicts."""

import numpy as np
import pytest
import torch

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models.runtime import single_torch_thread
from chaffinch.tasks.selection.pefs.distribution import log_losses, squared_losses
from chaffinch.tasks.selection.pefs.network import Prepared, Training, encoded
from chaffinch.tasks.selection.pefs.results import (
    ProbabilisticSearch,
    ProbabilisticSearches,
    Sweep,
    is_settled,
    predict_averaged,
    stability,
)
from chaffinch.tasks.selection.pefs.search import Rules, Search

QUICK = {"hidden_layer_sizes": (16,), "batch_size": 64}


def rows_of(seed=0, n=600, d=10, n_classes=2):
    """Four features matter, one of them by its size alone."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = 2 * X[:, 0] - 2 * X[:, 3] + 2 * X[:, 5] + 3 * (np.abs(X[:, 7]) - 0.8)
    y += 0.3 * random.normal(size=n)
    return Rows(X, np.digitize(y, [0.0]) if n_classes else y)


def schema_of(rows, n_classes=2):
    d = rows.X.shape[1]
    return Schema(tuple(f"x{j}" for j in range(d)), (0,) * d, n_classes)


def prepared_of(rows, n_classes=2, baseline=None):
    baseline = rows.X.mean(axis=0) if baseline is None else baseline
    return Prepared.of(rows, schema_of(rows, n_classes), baseline)


def searched(prepared, seed=0, *, keep=(), **rules):
    search = Search(prepared, Rules(**QUICK | rules), seed, keep=keep)
    search.run()
    return search


# What is found


@pytest.mark.parametrize(("seed", "n_classes"), [(0, 0), (1, 2)])
def test_informative_features_are_found_among_noise_and_the_network_predicts(seed, n_classes):
    prepared = prepared_of(rows_of(seed, n=1500, n_classes=n_classes), n_classes)
    search = searched(prepared, seed, penalty=0.1)
    mask = search.sweeps[-1].mask
    assert set(np.flatnonzero(mask)) == {0, 3, 5, 7}
    if n_classes:
        fresh = rows_of(seed=100)
        assert np.mean(search.network.predict(fresh.X, mask).argmax(1) != fresh.y) < 0.15


def test_it_is_steered_to_a_number_of_features():
    search = searched(prepared_of(rows_of(d=24)), n_features=4)
    assert set(np.flatnonzero(search.sweeps[-1].mask)) == {0, 3, 5, 7}
    assert len({sweep.penalty for sweep in search.sweeps}) > 1


def test_asked_for_more_its_penalty_falls_and_asked_for_fewer_it_rises():
    prepared = prepared_of(rows_of(d=24))
    few, many = (searched(prepared, n_features=n, most_sweeps=6).sweeps for n in (2, 20))
    assert few[-1].penalty > few[0].penalty > many[0].penalty > many[-1].penalty
    assert few[-1].mask.sum() < many[-1].mask.sum()


def test_the_highest_penalty_keeps_none():
    assert searched(prepared_of(rows_of()), penalty=1).sweeps[-1].mask.sum() == 0


@pytest.mark.parametrize("samples", [2, 8])
def test_any_number_of_samples_finds_them(samples):
    search = searched(prepared_of(rows_of()), penalty=0.05, samples=samples)
    assert set(np.flatnonzero(search.sweeps[-1].mask)) >= {0, 3}


# One seed, one search


def test_one_seed_gives_one_trajectory_whatever_the_threads_and_the_state_of_others():
    prepared = prepared_of(rows_of())
    one = searched(prepared, 7, penalty=0.1, most_sweeps=3)
    threads, numbers = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    torch.rand(5)
    other = searched(prepared, 7, penalty=0.1, most_sweeps=3)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    torch.set_rng_state(numbers)
    for here, there in zip(one.sweeps, other.sweeps, strict=True):
        assert (here.probabilities == there.probabilities).all()
        assert (here.loss, here.iteration) == (there.loss, there.iteration)
    different = searched(prepared, 8, penalty=0.1, most_sweeps=3)
    assert (different.probabilities != one.probabilities).any()


def test_neither_rows_nor_the_random_state_of_torch_are_changed():
    rows = rows_of()
    before, state = rows.X.copy(), torch.get_rng_state()
    searched(prepared_of(rows), penalty=0.1, most_sweeps=1)
    assert (before == rows.X).all()
    assert (torch.get_rng_state() == state).all()


# When it ends


def sweeps_of(*masks, near=0.05):
    masks = np.array(masks, dtype=bool)
    return [Sweep(i, 1.0, 0.1, np.where(m, 1 - near, near)) for i, m in enumerate(masks)]


def test_it_ends_once_the_mask_was_the_same_for_four_sweeps_and_entropy_is_low():
    same, other = [1] * 15 + [0] * 15, [1] * 14 + [0] * 16
    assert not is_settled(sweeps_of(*[same] * 4))
    assert is_settled(sweeps_of(*[same] * 5))
    assert is_settled(sweeps_of(other, *[same] * 5))
    assert not is_settled(sweeps_of(same, other, same, same, same))
    assert stability(sweeps_of(same, other, same, same, same)) == pytest.approx(14 / 15)
    assert is_settled(sweeps_of(*[same] * 5, near=0.1))
    assert not is_settled(sweeps_of(*[same] * 5, near=0.12))  # .53 bit


def test_what_cannot_move_has_no_part_in_the_entropy():
    theta = np.array([1.0] * 30 + [0.5] * 30)
    sweeps = [Sweep(i, 1.0, 0.1, theta) for i in range(5)]
    assert sweeps[-1].entropy == 0.5
    assert not is_settled(sweeps, range(30))


def test_narrow_tables_settle_though_their_margins_leave_more_than_half_a_bit():
    assert is_settled(sweeps_of(*[[1, 1, 0, 0, 0, 0]] * 5, near=1 / 6))
    assert not is_settled(sweeps_of(*[[1, 1, 0, 0, 0, 0]] * 5, near=0.3))


def test_it_ends_in_any_case_and_a_sweep_is_128_iterations_or_as_many_as_features():
    search = searched(prepared_of(rows_of()), penalty=0.02, most_sweeps=2)
    assert [sweep.iteration for sweep in search.sweeps] == [128, 256]
    settled = searched(prepared_of(rows_of()), penalty=0.1)
    assert len(settled.sweeps) < 60
    n_sweeps = len(settled.sweeps) + 2
    further = searched(
        prepared_of(rows_of()), penalty=0.1, most_sweeps=n_sweeps, early_stopping=False
    )
    assert len(further.sweeps) == n_sweeps
    assert (further.sweeps[-3].probabilities == settled.probabilities).all()
    wide = rows_of(d=140)
    assert searched(prepared_of(wide), penalty=0.1, most_sweeps=1).sweeps[0].iteration == 140


# What takes part


def test_what_must_be_kept_is_in_every_mask_and_a_constant_in_none():
    rows = rows_of()
    rows.X[:, 1] = 4.0
    search = searched(prepared_of(rows), penalty=0.1, keep=[2], most_sweeps=4)
    assert all(sweep.probabilities[2] == 1 for sweep in search.sweeps)
    assert all(sweep.probabilities[1] == 0 for sweep in search.sweeps)


def test_a_missing_value_is_the_baseline_and_a_masked_feature_0_in_all_its_columns():
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(5, 2, 50), random.integers(0, 3, 50)]).astype(float)
    X[:5, 0], X[5:9, 1] = np.nan, np.nan
    rows, schema = Rows(X, random.integers(0, 2, 50)), Schema(("a", "b"), (0, 3), 2)
    prepared = Prepared.of(rows, schema, np.array([7.0, 2.0]))
    assert (prepared.inputs[:5, 0] == 0).all()
    assert (prepared.inputs[5:9, 1:] == 0).all()
    assert not np.isnan(prepared.inputs).any()
    at_baseline = encoded(np.array([[7.0, 2.0]]), prepared.encoding, prepared.baseline)
    assert (at_baseline == 0).all()


# What it predicts


def test_under_a_mask_it_predicts_as_batch_normalisation_over_all_training_rows_would():
    for n_classes in (0, 2):
        rows = rows_of(n_classes=n_classes)
        network = searched(prepared_of(rows, n_classes), penalty=0.1, most_sweeps=2).network
        mask = np.arange(10) < 6
        scaled = (rows.X - rows.X.mean(axis=0)) / rows.X.std(axis=0) * mask
        weight, bias, gain, shift, last, last_bias = network.parameters
        hidden = np.maximum(scaled @ weight + bias, 0)
        normal = (hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + 1e-5)
        outputs = (normal * gain + shift) @ last + last_bias
        if n_classes:
            expected = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
        else:
            expected = rows.y.mean() + rows.y.std() * outputs[:, 0]
        assert network.predict(rows.X, mask) == pytest.approx(expected, abs=2e-5)
        changed = rows.X.copy()
        changed[:, 6:] = 99.0
        assert (network.predict(changed, mask) == network.predict(rows.X, mask)).all()


def test_the_averaged_prediction_is_the_mean_over_masks_drawn():
    rows = rows_of()
    network = searched(prepared_of(rows), penalty=0.1, most_sweeps=2).network
    sure = np.array([1.0] * 4 + [0.0] * 6)
    averaged = predict_averaged(network, rows.X, sure, 3, 0)
    assert averaged == pytest.approx(network.predict(rows.X, sure == 1))
    unsure = np.full(10, 0.5)
    one, same, other = (predict_averaged(network, rows.X, unsure, 3, seed) for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()


# The network


def test_the_loss_of_a_mask_does_not_depend_on_the_others_and_one_step_trains_on_all():
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(32, 6, generator=random)
    target = torch.randint(0, 3, (32,), generator=random)
    masks = (torch.rand(3, 6, generator=random) < 0.5).float()

    def fresh():
        return Training.begin((6, 9, 3), torch.Generator().manual_seed(1))

    together = fresh().train(inputs, target, None, masks)
    alone = [fresh().train(inputs, target, None, mask[None])[0] for mask in masks]
    assert together == pytest.approx(alone, rel=1e-5)
    trained = fresh()
    with single_torch_thread():
        losses = [trained.train(inputs, target, None, masks) for _ in range(200)]
    assert trained.step == 200
    assert all(last < first for first, last in zip(losses[0], losses[-1], strict=True))


def test_a_step_is_adams_on_the_mean_loss_with_weight_decay():
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(16, 4, generator=random)
    target, weight = torch.randn(16, generator=random), torch.rand(16, generator=random)
    masks = torch.tensor([[1.0, 0, 1, 0], [0, 1, 1, 0]])  # on the last column is decay alone
    ours = Training.begin((4, 5, 1), torch.Generator().manual_seed(1))
    first, bias, gain, shift, last, last_bias = (
        one.detach().clone().requires_grad_() for one in ours.parameters
    )
    torch_adam = torch.optim.Adam(
        [
            {"params": [first, last], "weight_decay": 1e-4},
            {"params": [bias, gain, shift, last_bias]},
        ]
    )
    for _ in range(5):
        ours.train(inputs, target, weight, masks)
        losses = []
        for mask in masks:
            hidden = torch.relu((inputs * mask) @ first + bias)
            hidden = torch.nn.functional.batch_norm(hidden, None, None, gain, shift, True)
            outputs = (hidden @ last + last_bias)[:, 0]
            losses.append((weight * 0.5 * (outputs - target) ** 2).mean())
        torch_adam.zero_grad()
        torch.stack(losses).mean().backward()
        torch_adam.step()
    theirs = (first, bias, gain, shift, last, last_bias)
    for one, other in zip(ours.parameters, theirs, strict=True):
        np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n_classes", [0, 2, 7])
def test_losses_and_their_slopes_are_those_of_torch(n_classes, is_weighted):
    random, n, m = torch.Generator().manual_seed(0), 20, 3
    outputs = 30 * torch.randn(n * m, n_classes or 1, generator=random)
    weight = torch.rand(n, generator=random) if is_weighted else None
    outputs.requires_grad_()
    if n_classes:
        target = torch.randint(0, n_classes, (n,), generator=random)
        each = torch.nn.functional.cross_entropy(
            outputs, target.repeat_interleave(m), reduction="none"
        ).view(n, m)
    else:
        target = torch.randn(n, generator=random)
        each = 0.5 * (outputs.view(n, m) - target[:, None]).square()
    expected = (each if weight is None else each * weight[:, None]).mean(dim=0)
    (gradient,) = torch.autograd.grad(expected.mean(), outputs)
    shares, values = None if weight is None else weight.numpy(), outputs.detach().numpy()
    if n_classes:
        losses, slopes = log_losses(values, target.numpy(), shares, m)
    else:
        losses, slopes = squared_losses(values.reshape(n, m), target.numpy(), shares)
    assert losses == pytest.approx(expected.detach().numpy(), rel=1e-5)
    np.testing.assert_allclose(slopes.reshape(gradient.shape), gradient, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("outputs", [[np.inf, 0.0], [0.0, np.nan], [np.nan, 0.0], [-np.inf, 0.0]])
def test_a_loss_of_outputs_that_are_not_finite_is_not_finite(outputs):
    rows = np.array([outputs, [0.0, 0.0]], dtype=np.float32)
    losses, _ = log_losses(rows, np.array([0, 0]), None, 1)
    assert not np.isfinite(losses).any()


def test_first_weights_are_of_the_variance_that_he_gives():
    training = Training.begin((400, 300, 200, 2), torch.Generator().manual_seed(0))
    for weight in training.parameters[::4][:2]:
        assert float(weight.detach().var()) == pytest.approx(2 / len(weight), rel=0.05)


# Several searches


def found(*probabilities, asked=0.1):
    return tuple(
        ProbabilisticSearch(asked, k, (Sweep(9, 1.0, 0.1, np.array(p)),), 0.5)
        for k, p in enumerate(probabilities)
    )


def test_probabilities_are_the_mean_over_the_seeds_and_a_mask_has_one_feature_at_least():
    low = found([0.1, 0.2, 0.15], asked=0.9)
    searches = ProbabilisticSearches((*found([0.9, 0.2, 0.6], [0.9, 0.4, 0.2]), *low))
    assert searches.asked == [0.1, 0.9]
    assert searches.probabilities(0.1) == pytest.approx([0.9, 0.3, 0.4])
    assert searches.mask(0.1).tolist() == [True, False, False]
    assert searches.mask(0.9).tolist() == [False, True, False]


def test_of_equally_probable_features_the_one_that_was_so_earlier_stays():
    sweeps = tuple(Sweep(i, 1.0, 0.1, np.array(p)) for i, p in enumerate(
        [[0.5, 0.7, 0.2], [0.8, 0.8, 0.8]]))  # fmt: skip
    searches = ProbabilisticSearches((ProbabilisticSearch(2, 0, sweeps, 0.5),))
    assert searches.most_probable(2, 1).tolist() == [False, True, False]
    assert searches.most_probable(2, 2).tolist() == [True, True, False]


# What cannot be


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"penalty": -0.1}, r"penalty must be in 0..1 but is -0.1"),
        ({"penalty": 1.5}, r"penalty must be in 0..1 but is 1.5"),
        ({"penalty": float("nan")}, r"penalty must be in 0..1 but is nan"),
        ({}, "exclude each other but are None and None; give one of them"),
        ({"penalty": 0.1, "n_features": 3}, "exclude each other but are 0.1 and 3"),
        ({"n_features": 0}, "n_features must be at least 1 but is 0"),
        ({"n_features": 11}, r"n_features must be in 1..10 but is 11"),
        ({"penalty": 0.1, "samples": 1}, "samples must be at least 2 but is 1"),
        ({"penalty": 0.1, "batch_size": 1}, "batch_size must be at least 2 but is 1"),
        ({"penalty": 0.1, "batch_size": 601}, "batch_size must be at most 600, the number of"),
        ({"penalty": 0.1, "most_sweeps": 0}, "most_sweeps must be at least 1 but is 0"),
        ({"penalty": 0.1, "hidden_layer_sizes": ()}, "at least one layer, each of at least 1 unit"),
        ({"penalty": 0.1, "hidden_layer_sizes": (5, 0)}, "at least one layer, each of at least 1"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(rules, said):
    with pytest.raises(ValueError, match=said):
        Search(prepared_of(rows_of()), Rules(**rules), 0)


def test_rows_that_cannot_be_searched_are_refused():
    with pytest.raises(ValueError, match="needs at least 2 features to choose from but has 1"):
        Search(prepared_of(rows_of(d=8).select(np.arange(8) < 1)), Rules(penalty=0.1), 0)
    with pytest.raises(ValueError, match="needs at least 2 training rows but has 1"):
        Search(prepared_of(rows_of(n=1)), Rules(penalty=0.1), 0)
    with pytest.raises(ValueError, match=r"keep must name features in 0..9 but is \[10\]"):
        Search(prepared_of(rows_of()), Rules(penalty=0.1), 0, keep=[10])


def test_fewer_rows_than_a_batch_are_one_batch_unless_it_was_asked_for():
    assert Rules(penalty=0.1).rows_of_a_batch(90) == 90
    assert Rules(penalty=0.1).rows_of_a_batch(900) == 128


def test_a_training_that_diverges_is_told():
    rows = rows_of(n_classes=0)
    rows.y[0] = np.inf
    with np.errstate(invalid="ignore"):
        prepared = prepared_of(rows, 0)
    with pytest.raises(ValueError, match="diverged after 1 steps; clip the largest values of"):
        Search(prepared, Rules(penalty=0.1), 0).sweep()

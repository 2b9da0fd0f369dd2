"""Searches by PEFS, made at once on one of torch's devices, are those that each makes by itself.

torch's own CPU device runs the very code that a GPU runs, but for the CUDA graph; what needs a GPU
is skipped without one.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from chaffinch.tasks.selection.pefs.batched_search import BatchedSearch
from chaffinch.tasks.selection.pefs.batched_training import WIDE, number_type
from chaffinch.tasks.selection.pefs.checkpoint import restore, to_bytes
from chaffinch.tasks.selection.pefs.distribution import utilities
from chaffinch.tasks.selection.pefs.repair import Repair
from chaffinch.tasks.selection.pefs.rows import Prepared
from chaffinch.tasks.selection.pefs.search import Rules, Search
from chaffinch.tasks.selection.pefs.together import RowsOnDevice, Together, utilities_of
from chaffinch.tasks.selection.vocabulary import Rows, Schema
from tests.selection.devices import needs_a_gpu
from tests.selection.test_pefs_search import QUICK, prepared_of, rows_of

CPU = torch.device("cpu")
WIDER = 40  # so many features that no two of eight masks are the same, and tie but for rounding
ASKED = ({"penalty": 0.1}, {"penalty": 0.02}, {"n_features": 3})


def table(kind: str, d: int = 10, *, weighted: bool = False) -> Prepared:
    """Return rows of d numbers, of a table with categories and gaps, or of classes."""
    n_classes = {"numbers": 0, "two classes": 2, "four classes": 4, "categories": 2}[kind]
    rows = rows_of(d=d, n_classes=min(n_classes, 2))
    random, X, y = np.random.default_rng(3), rows.X, rows.y
    if n_classes == 4:
        y = np.digitize(X[:, 0] + X[:, 3], [-1, 0, 1])
    n_categories = [0] * d
    if kind == "categories":
        X[:, 2], X[:, 5] = random.integers(0, 3, len(X)), np.digitize(X[:, 5], [-1, 0, 1])
        n_categories[2], n_categories[5] = 3, 4
        X[random.random(X.shape) < 0.05] = np.nan
    schema = Schema(tuple(f"x{j}" for j in range(d)), tuple(n_categories), n_classes)
    weight = random.uniform(0.5, 2, len(X)) if weighted else None
    baseline = np.where(np.array(n_categories) > 0, 1.0, np.nanmean(X, axis=0))
    return Prepared.of(Rows(X, y, weight), schema, baseline)


def searches(prepared, asked=ASKED, *, keep=(), n_iterations=None, **rules) -> list[Search]:
    """Return fresh searches; with short sweeps, whose steps are large, if so asked."""
    rules = {**QUICK, "hidden_layer_sizes": (16, 8), **rules}
    made = [Search(prepared, Rules(**rules | one), 5 + n, keep=keep) for n, one in enumerate(asked)]
    for one in made:
        one.n_iterations = n_iterations or one.n_iterations
    return made


def on_device(some, device=CPU, **options) -> list[int]:
    return list(BatchedSearch(some, device, **options).ended())


def alike(one: Search, other: Search, within=1e-5) -> None:
    """Refuse searches that differ by more than rounding does in few iterations."""
    assert one.random.bit_generator.state == other.random.bit_generator.state
    assert (one.order == other.order).all()
    assert (one.place, one.training.step) == (other.place, other.training.step)
    close = partial(np.testing.assert_allclose, rtol=within)
    for sweep, same in zip(one.sweeps, other.sweeps, strict=True):
        assert sweep.iteration == same.iteration
        close(sweep.loss, same.loss)
        close(sweep.penalty, same.penalty, rtol=1e-12)
        close(sweep.probabilities, same.probabilities, rtol=1e-12)
    close(one.probabilities, other.probabilities, rtol=1e-12)
    for name, tensor in one.training.tensors.items():
        close(tensor.detach(), other.training.tensors[name].detach(), atol=within, err_msg=name)


def same_bits(one: Search, other: Search) -> None:
    assert [sweep.loss for sweep in one.sweeps] == [sweep.loss for sweep in other.sweeps]
    assert one.probabilities.tobytes() == other.probabilities.tobytes()
    for name, tensor in one.training.tensors.items():
        assert torch.equal(tensor, other.training.tensors[name]), name


# The same searches


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("samples", [2, 8])
@pytest.mark.parametrize("kind", ["numbers", "two classes", "four classes", "categories"])
def test_each_search_of_a_batch_is_the_one_it_makes_by_itself(kind, samples, weighted) -> None:
    """Of penalties and of a number of features, with one to keep, over the end of an epoch."""
    asked = partial(
        searches, table(kind, WIDER, weighted=weighted), keep=[1], samples=samples, n_iterations=12,
        most_sweeps=2,
    )  # fmt: skip
    alone, together = asked(), asked()
    for one in alone:
        one.run()
    assert on_device(together) == [0, 1, 2]
    for one, other in zip(alone, together, strict=True):
        alike(one, other)
        assert len(one.sweeps) == 2
        assert other.probabilities[1] == 1
        assert len(set(other.probabilities)) > 2  # some have moved, and not to the same place
    assert together[2].penalty != together[2].sweeps[0].penalty


@pytest.mark.parametrize("layers", [(7,), (16, 8, 5)])
def test_so_it_is_for_other_layers_and_batches_of_all_rows(layers) -> None:
    asked = partial(
        searches, prepared_of(rows_of(n=70)), hidden_layer_sizes=layers, batch_size=None,
        n_iterations=9, most_sweeps=1,
    )  # fmt: skip
    alone, together = asked(), asked()
    for one in alone:
        one.run()
    on_device(together)
    for one, other in zip(alone, together, strict=True):
        alike(one, other)


def test_a_search_is_the_same_alone_and_in_a_batch() -> None:
    asked = partial(searches, table("two classes"), n_iterations=20, most_sweeps=2)
    together, backwards = asked(), asked()
    on_device(together)
    on_device(backwards[::-1])
    for n in range(3):
        one = asked()[n]
        on_device([one])
        alike(one, together[n])
        alike(one, backwards[n])


def test_the_same_batch_gives_the_same_bits_whatever_the_threads_and_torchs_own_numbers() -> None:
    asked = partial(searches, table("two classes"), most_sweeps=1)
    one, other, state = asked(), asked(), torch.get_rng_state()
    on_device(one)
    assert torch.equal(torch.get_rng_state(), state)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.rand(5)
    on_device(other)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    torch.set_rng_state(state)
    for here, there in zip(one, other, strict=True):
        same_bits(here, there)


def test_drawn_ahead_in_pieces_it_is_the_same(monkeypatch) -> None:
    asked = partial(searches, table("two classes"), n_iterations=20, most_sweeps=2)
    whole, pieces, one_by_one = asked(), asked(), asked()
    on_device(whole)
    a_draw = 8 * 3 * (64 + 2 * 10)
    for some, n_bytes in ((pieces, 7 * a_draw), (one_by_one, 1)):  # 20 is 7 + 7 + 6
        monkeypatch.setattr("chaffinch.tasks.selection.pefs.together.DRAWN_AT_ONCE", n_bytes)
        on_device(some)
        for one, other in zip(whole, some, strict=True):
            same_bits(one, other)


@pytest.mark.parametrize(
    "losses",
    [
        [0.3, 0.1],
        [0.2, 0.2],
        [0.3, 0.1, 0.2],
        [8, 1, 7, 2, 6, 3, 5, 4],
        [1, 2, 2, 2, 3, 4, 5, 5],
        [1, 2, 3, 4, 5, 6, 6, 6],
        [1] * 8,
        [3, 1, 1, 1, 2, 3, 3, 3, 1, 2, 2],
    ],
)
def test_utilities_are_those_of_the_ranks_and_ties_share(losses) -> None:
    several = torch.tensor([losses, losses[::-1]], dtype=torch.float32)
    expected = [utilities(losses), utilities(losses[::-1])]
    assert utilities_of(several).numpy() == pytest.approx(np.array(expected), abs=1e-15)


def test_a_tie_is_one_in_a_batch_too() -> None:
    """Where only features that are at 0 in every row can be drawn, all masks have one loss."""
    rows = rows_of()
    prepared = prepared_of(rows)
    prepared.inputs[:] = 0.0
    prepared.inputs[0, :] = 1e-30  # they vary, but too little to be seen
    some = searches(prepared, [{"penalty": 0.0}], samples=8, n_iterations=5, most_sweeps=1)
    on_device(some)
    assert (some[0].probabilities == 0.5).all()


# Those that are done leave


def test_a_search_that_is_done_leaves_and_the_others_go_on_as_if_it_had_never_been_there() -> None:
    asked = partial(searches, table("two classes"), n_iterations=12, most_sweeps=5)
    first, second, third = asked()
    on_device([begun := asked()[0]])
    for _ in range(3):
        first.sweep()
    batch, seen = BatchedSearch([first, second, third], CPU), []
    ended = []
    for number in batch.ended(lambda: seen.append(list(batch.under_way))):
        ended.append((number, len(seen)))
        for n in range(3):
            batch.bring_back(n)  # of those that are done, and between batches, nothing is to bring
        if number == 0:
            left = [tensor.clone() for tensor in first.training.tensors.values()]
    assert ended == [(0, 2), (1, 5), (2, 5)]
    assert seen == [[0, 1, 2]] * 2 + [[1, 2]] * 3
    assert all(map(torch.equal, first.training.tensors.values(), left))
    alike(first, begun, within=1e-4)
    for n, one in ((1, second), (2, third)):
        alone = asked()[n]
        on_device([alone])
        alike(one, alone, within=1e-4)


def test_one_that_has_settled_leaves_before_the_others() -> None:
    prepared = prepared_of(rows_of(n=1500))
    some = searches(prepared, [{"penalty": 0.02}, {"penalty": 1.0}], most_sweeps=40)
    assert on_device(some) == [1, 0]
    assert len(some[1].sweeps) < len(some[0].sweeps) <= 40
    assert not some[1].probabilities[some[1].probabilities >= 0.5].any()


def test_a_batch_that_is_over_leaves_no_memory_behind() -> None:
    """It goes at once, whenever garbage is collected: a GPU has no room for two."""
    batch, before = BatchedSearch(searches(table("two classes"), most_sweeps=1), CPU), []
    gc.collect()
    gc.disable()
    try:
        list(batch.ended(lambda: before.append(weakref.ref(batch._together))))
        assert before[0]() is None
    finally:
        gc.enable()


def test_searches_that_are_done_already_are_given_back_at_once() -> None:
    some = searches(table("two classes"), n_iterations=6, most_sweeps=1)
    on_device(some)
    assert on_device(some) == [0, 1, 2]
    assert [len(one.sweeps) for one in some] == [1, 1, 1]


@pytest.mark.parametrize("n_classes", [0, 2])
def test_informative_features_are_found_among_noise(n_classes) -> None:
    prepared = prepared_of(rows_of(1, n=1500, d=24, n_classes=n_classes), n_classes)
    some = searches(prepared, [{"penalty": 0.15}, {"n_features": 4}], hidden_layer_sizes=(16,))
    on_device(some)
    for one in some:
        assert set(np.flatnonzero(one.sweeps[-1].mask)) == {0, 3, 5, 7}
    fresh = rows_of(100, d=24, n_classes=n_classes)
    predicted = some[0].network.predict(fresh.X, some[0].sweeps[-1].mask)
    if n_classes:
        assert np.mean(predicted.argmax(axis=1) != fresh.y) < 0.15
    else:
        assert np.corrcoef(predicted, fresh.y)[0, 1] > 0.9


# Checkpoints


def test_searches_under_way_go_on_from_their_checkpoints_to_the_same_bits_or_on_the_cpu() -> None:
    asked = partial(searches, table("two classes"), n_iterations=12, most_sweeps=4)
    whole, kept = asked(), {}
    batch = BatchedSearch(whole, CPU)

    def keep() -> None:
        for number in batch.under_way:
            batch.bring_back(number)
            kept[number, len(whole[number].sweeps)] = to_bytes(whole[number], "")

    assert list(batch.ended(keep)) == [0, 1, 2]
    resumed, by_itself = asked(), asked()
    for n in range(3):
        restore(resumed[n], kept[n, 2], "")
        restore(by_itself[n], kept[n, 2], "")
        by_itself[n].run()
    on_device(resumed)
    for n in range(3):
        same_bits(whole[n], resumed[n])
        alike(whole[n], by_itself[n], within=1e-4)


# On other devices


class Watched(TorchDispatchMode):
    """Counts what torch is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls[function.overloadpacket.__name__] += 1
        self.calls[str(function)] += 1
        return function(*args, **kwargs or {})


WAITS = {"_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "aten.where.ScalarOther",
         "aten.where.ScalarSelf", "_pin_memory"}  # fmt: skip
BY_CHANCE = {"scatter_add", "scatter_add_", "index_put", "index_put_", "index_add", "index_add_",
             "nll_loss2d_forward", "nll_loss_forward", "cudnn_batch_norm"}  # fmt: skip


@pytest.mark.parametrize("kind", ["numbers", "four classes"])
@pytest.mark.parametrize("first", [torch.float32, torch.bfloat16])
def test_an_iteration_neither_waits_for_the_device_nor_adds_up_by_chance(kind, first) -> None:
    """On a device without any data, where whatever looked at some would fail."""
    nowhere = torch.device("meta")
    some = searches(table(kind, weighted=True))
    together = Together(some, RowsOnDevice(some[0], nowhere, first), nowhere, first)
    together.draw(2)
    with Watched() as watched:
        together.iterate()
    assert watched.calls["native_batch_norm"] == 2
    assert watched.calls["baddbmm"] == 3
    assert not set(watched.calls) & (WAITS | BY_CHANCE)


def test_in_bfloat16_the_parameters_stay_float32_and_the_search_is_about_the_same() -> None:
    asked = partial(searches, prepared_of(rows_of(1, n=1500)), hidden_layer_sizes=(16,))
    short, whole = (asked(n_iterations=12, most_sweeps=1) for _ in range(2))
    on_device(short, first=torch.bfloat16)
    on_device(whole)
    for one, other in zip(short, whole, strict=True):
        assert one.sweeps[0].loss != other.sweeps[0].loss
        assert one.sweeps[0].loss == pytest.approx(other.sweeps[0].loss, rel=0.02)
        assert {tensor.dtype for tensor in one.training.tensors.values()} == {torch.float32}
    found = asked([{"penalty": 0.1}])
    on_device(found, first=torch.bfloat16)
    assert set(np.flatnonzero(found[0].sweeps[-1].mask)) == {0, 3, 5, 7}


def test_bfloat16_is_for_wide_inputs_on_a_gpu() -> None:
    gpu = torch.device("cuda", 0)
    assert number_type(gpu, WIDE) == torch.bfloat16
    assert number_type(gpu, WIDE - 1) == number_type(CPU, WIDE) == torch.float32


# What cannot be


def test_a_training_that_diverges_is_told_with_the_step() -> None:
    rows = rows_of(n_classes=0)
    rows.y[0] = np.inf
    with np.errstate(invalid="ignore"):
        prepared = prepared_of(rows, 0)
    with pytest.raises(ValueError, match="diverged after 1 steps; clip the largest values of"):
        on_device(searches(prepared))


def test_a_training_that_diverges_later_is_told_with_the_step_of_its_own() -> None:
    prepared = table("numbers")
    peek = searches(prepared)[1]
    *_, fourth = (peek.next_rows() for _ in range(4))
    prepared.target[fourth[5]] = np.nan
    for sweep in (Search.sweep, lambda search: on_device([search])):
        with pytest.raises(ValueError, match="diverged after 4 steps"):
            sweep(searches(prepared)[1])


def test_what_a_batch_does_not_take_is_refused_in_one_line() -> None:
    prepared = table("two classes")
    plain = searches(prepared)
    repaired = Search(prepared, Rules(penalty=0.1, **QUICK), 0, repair=Repair(10, [[0, 1]], 0.5))
    module = torch.nn.Linear(10, 2)
    own = Search(prepared, Rules(penalty=0.1, **QUICK), 0, module=module)
    said = "cannot be searched with on cpu: it takes the paper's network and any mask; use device="
    with pytest.raises(ValueError, match=f"^masks that are repaired {said}"):
        BatchedSearch([repaired], CPU)
    with pytest.raises(ValueError, match=f"^a module {said}"):
        BatchedSearch([own], CPU)
    for other in (searches(table("two classes"))[0], searches(prepared, samples=3)[0]):
        with pytest.raises(ValueError, match="must be of the same rows, and of rules that differ"):
            BatchedSearch([*plain, other], CPU)


def test_what_does_not_fit_is_refused_with_the_remedy() -> None:
    said = (
        r"^3 searches of 600 rows and 10 inputs take \S+ GB on cpu but it has 1e-06 GB for them; "
        "ask for fewer penalties, sizes or seeds at a time, or use device='cpu'$"
    )
    with pytest.raises(ValueError, match=said):
        BatchedSearch(searches(table("two classes")), CPU, memory=1000)


# What only a GPU can show


def gpu() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


@needs_a_gpu
@pytest.mark.parametrize("samples", [2, 8])
@pytest.mark.parametrize("kind", ["numbers", "two classes", "four classes", "categories"])
def test_on_a_gpu_each_search_is_the_one_it_makes_by_itself(kind, samples) -> None:
    asked = partial(
        searches, table(kind, WIDER, weighted=True), keep=[1], samples=samples, n_iterations=12,
        most_sweeps=2,
    )  # fmt: skip
    alone, together = asked(), asked()
    for one in alone:
        one.run()
    assert on_device(together, gpu()) == [0, 1, 2]
    for one, other in zip(alone, together, strict=True):
        alike(one, other, within=1e-3)


@needs_a_gpu
@pytest.mark.parametrize("first", [torch.float32, torch.bfloat16])
def test_the_graph_does_what_its_iterations_do_one_by_one(first) -> None:
    some, others = (searches(table("four classes"), n_iterations=30) for _ in range(2))
    with torch.cuda.device(gpu()):
        captured = Together(some, RowsOnDevice(some[0], gpu(), first), gpu(), first)
        plain = Together(others, RowsOnDevice(others[0], gpu(), first), gpu(), first)
        plain.captured = None
        for together in (captured, plain):
            together.sweep()
            together.sweep()
            for n in range(3):
                together.bring_back(n)
    for one, other in zip(some, others, strict=True):
        same_bits(one, other)


@needs_a_gpu
def test_on_a_gpu_what_is_informative_is_found_twice_to_the_same_bits() -> None:
    prepared, asked = prepared_of(rows_of(1, n=1500, d=24)), ({"penalty": 0.15}, {"penalty": 0.02})
    one, other = (searches(prepared, asked, hidden_layer_sizes=(16,)) for _ in range(2))
    assert sorted(on_device(one, gpu())) == sorted(on_device(other, torch.device("cuda"))) == [0, 1]
    assert set(np.flatnonzero(one[0].sweeps[-1].mask)) == {0, 3, 5, 7}
    for here, there in zip(one, other, strict=True):
        same_bits(here, there)

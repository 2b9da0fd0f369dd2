"""PEFS on one of torch's devices: in a run, by the call for a table at hand, and where it is not.

torch's own CPU device runs the very code that a GPU runs; what needs a GPU is skipped without one.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import chaffinch
from chaffinch import InputError, ModelSettings, Pefs
from chaffinch.storage import checkpoints as kept_now_and_then
from chaffinch.storage.checkpoints import Checkpoints
from chaffinch.tasks import probabilistic_selection as module
from chaffinch.tasks.candidates import candidates
from chaffinch.tasks.probabilistic import search_by_probabilities, search_by_probabilities_on
from chaffinch.tasks.selection.pefs.search import Search
from chaffinch.tasks.selection.pefs.together import Together
from tests.made_up import good_table
from tests.selection.devices import needs_a_gpu
from tests.tasks.hastened import same_searches
from tests.tasks.test_probabilistic import QUICK, SIZED, SWIFT, material_of
from tests.tasks.test_probabilistic_selection import found, same, table

CPU = torch.device("cpu")
LINEAR = ModelSettings(name="linear", tuning="none")
NO_SUCH = pytest.mark.parametrize("device", ["cuda:99", "gpu", "CUDA", "cuda:-1", "mps"])


# In a run


@pytest.mark.parametrize("method", [QUICK, SIZED], ids=["penalties", "sizes"])
def test_on_a_device_each_search_is_about_the_one_of_the_workers(method) -> None:
    """Of the same draws: after two sweeps the way may have parted, but what is found is there."""
    method = method.model_copy(update={"most_sweeps": 2})
    there = search_by_probabilities_on(CPU, method, material_of(missing=True))
    here = search_by_probabilities(method, material_of(missing=True))
    for one, other in zip(there.searches, here.searches, strict=True):
        assert (one.asked, one.seed) == (other.asked, other.seed)
        assert type(one.asked) is type(other.asked)
        assert [sweep.iteration for sweep in one.sweeps] == [128, 256]
        assert one.sweeps[0].loss == pytest.approx(other.sweeps[0].loss, rel=0.02)
        assert one.held_out_loss == pytest.approx(other.held_out_loss, rel=0.2)


def test_the_searches_of_a_run_are_made_at_once_and_lead_to_masks(monkeypatch) -> None:
    monkeypatch.setattr(Search, "sweep", lambda search: pytest.fail("a search went by itself"))
    searches = search_by_probabilities_on(CPU, QUICK, material_of())
    assert all(one.mask[[0, 5]].all() for one in candidates(searches, QUICK))
    same_searches(searches, search_by_probabilities_on(CPU, QUICK, material_of()))


def test_where_there_is_nothing_to_search_nothing_is_and_the_others_are() -> None:
    sized = SIZED.model_copy(update={"n_features": (6, 2, 3), "most_sweeps": 2})
    searches = search_by_probabilities_on(CPU, sized, material_of(keep=(1, 4)))
    assert [one.asked for one in searches.searches] == [6, 2, 3]
    assert [one.sweeps[-1].iteration for one in searches.searches] == [0, 0, 256]
    alone = search_by_probabilities_on(CPU, QUICK, material_of(d=1))
    assert alone.mask(0.05).tolist() == [True]
    with pytest.raises(InputError, match="no use in any of the 6 features: each is the same in"):
        search_by_probabilities_on(CPU, QUICK, material_of(same=range(6)))


def test_it_tells_of_each_search_as_it_ends(caplog) -> None:
    done = []
    material = replace(material_of(), on_progress=lambda n, total: done.append((n, total)))
    with caplog.at_level(logging.INFO, logger="chaffinch"):
        search_by_probabilities_on(CPU, SWIFT, material)
    assert done == [(1, 2), (2, 2)]
    assert [said.split(":")[0] for said in caplog.messages] == [
        "pefs, penalty 0.05, seed 0", "pefs, penalty 0.2, seed 0",
    ]  # fmt: skip


class StoppedError(Exception):
    """What stops a run in the middle."""


def stopping_after(n_sweeps: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let sweeps of batches be counted, and stop before the next one after some of them."""
    made, sweep = [], Together.sweep

    def counting(together: Together) -> None:
        if len(made) == n_sweeps:
            raise StoppedError
        made.append(1)
        sweep(together)

    monkeypatch.setattr(Together, "sweep", counting)
    return made


def test_a_stopped_run_goes_on_amid_its_searches_to_the_same_bits(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(kept_now_and_then, "_SECONDS_APART", 0.0)
    monkeypatch.setattr(kept_now_and_then, "_SHARE", float("inf"))
    whole = search_by_probabilities_on(CPU, QUICK, material_of())
    n_sweeps = max(len(one.sweeps) for one in whole.searches)
    ask = partial(
        search_by_probabilities_on, CPU, QUICK,
        replace(material_of(), checkpoints=Checkpoints(tmp_path / "key")),
    )  # fmt: skip
    with monkeypatch.context() as during:
        stopping_after(3, during)
        with pytest.raises(StoppedError):
            ask()
    assert len(list((tmp_path / "key").iterdir())) == 4
    with monkeypatch.context() as during:
        made = stopping_after(100, during)
        resumed = ask()
    assert len(made) == n_sweeps - 3
    same_searches(resumed, whole)
    with monkeypatch.context() as during:
        stopping_after(0, during)  # nothing is left to do
        same_searches(ask(), whole)


# The call for a table at hand


def on_device(monkeypatch: pytest.MonkeyPatch, **options) -> module.ProbabilisticSelection:
    """Call it as with a device, which is torch's CPU."""
    with monkeypatch.context() as during:
        during.setattr(module, "device_asked_for", lambda given: CPU)
        return found(**options)


def test_the_call_finds_on_a_device_what_it_finds_without(monkeypatch) -> None:
    X, y = table()
    one, other = on_device(monkeypatch, n_features=2), found(n_features=2)
    assert one.features == other.features == ("a", "d")
    assert one.trajectory["iteration"].tolist()[:4] == [128, 256, 384, 512]
    assert np.mean(np.array(["no", "yes"])[one.predict(X).argmax(axis=1)] == y) > 0.9
    assert one.predict_averaged(X, 3).shape == (500, 2)


def test_the_call_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path, monkeypatch) -> None:
    path, whole = tmp_path / "search.safetensors", on_device(monkeypatch, n_features=2)
    with monkeypatch.context() as during:
        stopping_after(2, during)
        with pytest.raises(StoppedError):
            on_device(monkeypatch, n_features=2, checkpoint=path)
    with monkeypatch.context() as during:
        made = stopping_after(100, during)
        same(on_device(monkeypatch, n_features=2, checkpoint=path), whole)
    assert len(made) == len(whole.sweeps) - 2


def test_a_checkpoint_of_the_cpu_is_of_another_search(tmp_path, monkeypatch) -> None:
    """With other roundings: it would be neither the one search nor the other."""
    path = tmp_path / "search.safetensors"
    found(n_features=2, most_sweeps=1, checkpoint=path)
    monkeypatch.setattr(module, "device_asked_for", lambda given: torch.device("meta"))
    with pytest.raises(InputError, match="is of a search of other rows, settings or seed"):
        found(n_features=2, most_sweeps=1, checkpoint=path)


@pytest.mark.parametrize(
    ("name", "given"), [("network", torch.nn.Linear(8, 2)), ("previous", [["a", "d"]])]
)
def test_what_takes_the_cpu_alone_is_refused_on_a_device(name, given, monkeypatch) -> None:
    said = f"^{name} is searched with on the CPU alone but device is 'cpu'; leave one of them out$"
    monkeypatch.setattr(module, "device_asked_for", lambda given: CPU)
    X, y = table()
    with pytest.raises(InputError, match=said):
        chaffinch.probabilistic_selection(X, y, **{name: given})


# A device that is not there, and the one that always is


@NO_SUCH
def test_the_call_refuses_a_device_that_is_not_there_before_any_work(device) -> None:
    with pytest.raises(InputError, match=f"device must be .*cpu.* but is '{device}'") as refused:
        chaffinch.probabilistic_selection(None, None, device=device)
    assert "torch" in str(refused.value)
    assert "\n" not in str(refused.value)


@NO_SUCH
def test_a_run_refuses_it_before_it_reads_the_table(device, tmp_path) -> None:
    for ask in (
        lambda: chaffinch.select(
            good_table(), "no such target", method=Pefs(device=device), model=LINEAR,
            store=tmp_path / "store",
        ),
        lambda: chaffinch.compare(
            good_table(), "no such target", methods=[Pefs(device=device), "anova_f"],
            models=[LINEAR], store=tmp_path / "store",
        ),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"^device must be .* but is '{device}'"):
            ask()
    assert not (tmp_path / "store").exists()


def test_a_setting_that_names_no_device_is_refused_and_the_cpu_is_the_default() -> None:
    assert Pefs() == Pefs(device="cpu")
    assert Pefs().device == "cpu"
    assert Pefs(device="cuda:1").device == "cuda:1"  # which some other machine may have
    said = "device must be cpu, cuda, or cuda:0, cuda:1, ... but is 3"
    with pytest.raises(InputError, match=f"^{said}$"):
        Pefs(device=3)


def test_on_the_cpu_it_is_asked_for_or_not_nothing_is_batched(monkeypatch) -> None:
    monkeypatch.setattr(Together, "sweep", lambda together: pytest.fail("it was"))
    same(found(n_features=2, device="cpu"), found(n_features=2))
    asked = SWIFT.model_copy(update={"device": "cpu"})
    same_searches(
        search_by_probabilities(asked, material_of()), search_by_probabilities(SWIFT, material_of())
    )


@needs_a_gpu
def test_a_run_and_the_call_find_on_a_gpu_what_they_find_without() -> None:
    one, other = found(n_features=2, device="cuda"), found(n_features=2)
    assert one.features == other.features
    same(one, found(n_features=2, device="cuda"))
    method = QUICK.model_copy(update={"device": "cuda"})
    searches = search_by_probabilities(method, material_of())
    assert all(one.mask[[0, 5]].all() for one in candidates(searches, method))
    result = chaffinch.select(good_table(), "churned", method=method, model=LINEAR)
    assert result.features

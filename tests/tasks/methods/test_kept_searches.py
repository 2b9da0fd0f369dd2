"""What is kept of searches by PEFS under way, and what is done with what is of no use."""

import logging
import math

import pytest

import chaffinch
from chaffinch.methods import Pefs
from chaffinch.storage.runs import stages as module
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.methods.pefs import searches_of
from chaffinch.tasks.selection.pefs.search import Search
from tests.synthetic import good_table
from tests.tasks.methods.test_pefs_runs import material_of
from tests.tasks.pipeline.hastened import same_searches

SHORT = Pefs(hidden_layer_sizes=(8,), most_sweeps=3, penalties=(0.05, 0.2))


@pytest.fixture
def hasty(monkeypatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_APART", 0.0)
    monkeypatch.setattr(module, "_SHARE", math.inf)


@pytest.fixture(scope="module")
def clean():
    """What searches find that nothing disturbs."""
    return searches_of(SHORT.search(material_of()))


def left_behind(checkpoints: Checkpoints, monkeypatch, method=SHORT) -> None:
    """Leave what a run does that is stopped amid its second search."""
    sweep, made = Search.sweep, []

    def stopping(search: Search) -> None:
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(sweep(search))

    with monkeypatch.context() as patch:
        patch.setattr(Search, "sweep", stopping)
        with pytest.raises(KeyboardInterrupt):
            method.search(material_of(checkpoints=checkpoints))


def read_back(checkpoints: Checkpoints, monkeypatch, method=SHORT):
    """Search where something may be left, and return what was found and the sweeps made for it."""
    sweep, made = Search.sweep, []
    with monkeypatch.context() as patch:
        patch.setattr(Search, "sweep", lambda search: made.append(sweep(search)))
        seen: list[tuple[int, int]] = []
        material = material_of(
            checkpoints=checkpoints, on_progress=lambda *progress: seen.append(progress)
        )
        found = searches_of(method.search(material))
    assert seen[-1] == (len(found.searches), len(found.searches))
    return found, len(made)


def test_what_had_ended_is_read_back_and_it_says_so(
    clean, hasty, tmp_path, monkeypatch, caplog
) -> None:
    checkpoints = Checkpoints(tmp_path / "key")
    left_behind(checkpoints, monkeypatch)
    with caplog.at_level(logging.INFO, logger="chaffinch"):
        found, n_made = read_back(checkpoints, monkeypatch)
    same_searches(found, clean)
    assert n_made == sum(len(one.sweeps) for one in clean.searches) - 4
    assert caplog.messages[0] == (
        "pefs continues after a stop; searches: 2, ended before: 1, under way: 1"
    )
    again, n_made = read_back(checkpoints, monkeypatch)
    same_searches(again, clean)
    assert n_made == 0


def test_a_search_for_a_size_and_one_with_nothing_to_search_are_read_back(
    tmp_path, monkeypatch
) -> None:
    checkpoints = Checkpoints(tmp_path / "key")
    method = Pefs(hidden_layer_sizes=(8,), most_sweeps=3, n_features=(2, 6))
    first, _ = read_back(checkpoints, monkeypatch, method)
    back, n_made = read_back(checkpoints, monkeypatch, method)
    same_searches(back, first)
    assert n_made == 0


@pytest.mark.parametrize(
    ("number", "damage", "reason"),
    [
        (1, lambda content: content[:-1], "the checkpoint cannot be read ("),
        (
            2,
            lambda content: content[:-1] + bytes([content[-1] ^ 1]),
            "the checkpoint is damaged (it was changed)",
        ),
    ],
)
def test_one_that_is_damaged_is_warned_of_and_its_search_begins_again(
    clean, hasty, tmp_path, monkeypatch, caplog, number, damage, reason
) -> None:
    checkpoints = Checkpoints(tmp_path / "key")
    left_behind(checkpoints, monkeypatch)
    path = tmp_path / "key" / f"search-{number}.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    found, n_made = read_back(checkpoints, monkeypatch)
    same_searches(found, clean)
    (said,) = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert said.startswith(f"checkpoint {path} cannot be used, so its work starts again: {reason}")
    intact = 1 if number == 1 else 3
    assert n_made == sum(len(one.sweeps) for one in clean.searches) - intact


def test_those_of_another_table_or_of_other_settings_are_not_used(
    clean, hasty, tmp_path, monkeypatch, caplog
) -> None:
    left_behind(Checkpoints(tmp_path / "of-another"), monkeypatch)
    n_clean = sum(len(one.sweeps) for one in clean.searches)
    found, n_made = read_back(Checkpoints(tmp_path / "key"), monkeypatch)
    same_searches(found, clean)
    assert n_made == n_clean
    assert not caplog.messages
    (tmp_path / "of-another").rename(tmp_path / "by-hand")
    found, n_made = read_back(Checkpoints(tmp_path / "by-hand"), monkeypatch)
    same_searches(found, clean)
    assert n_made == n_clean
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 2
    assert all(one.endswith("or of a network that began with other weights") for one in said)


def test_a_disk_that_is_full_stops_no_search(hasty, tmp_path, monkeypatch, caplog) -> None:
    (tmp_path / "key" / "search-1.safetensors" / "in the way").mkdir(parents=True)
    one = SHORT.model_copy(update={"penalties": (0.1,)})
    found, _ = read_back(Checkpoints(tmp_path / "key"), monkeypatch, one)
    same_searches(found, searches_of(one.search(material_of())))
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert sum("the work continues without this checkpoint" in one for one in said) == 2


def test_without_a_store_none_are_written(monkeypatch) -> None:
    begun = []
    monkeypatch.setattr(Checkpoints, "begin", begun.append)
    options = {"method": SHORT, "model": chaffinch.ModelSettings(name="linear", tuning="none")}
    chaffinch.select(good_table(200), "churned", **options)
    assert not begun

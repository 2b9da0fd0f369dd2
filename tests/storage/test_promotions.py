"""The history of what was promoted is whole whatever dies, and leads back to every contract."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.runs.promotions import OvertakenError, Promotions, rollback_stack
from chaffinch.storage.runs.store import Store
from tests.flows.cli.programs import python


@pytest.fixture
def histories(tmp_path: Path) -> Promotions:
    return Store.open(tmp_path / "store").promotions


def promote(histories: Promotions, *runs: str, name: str = "orders") -> None:
    """Promote one contract after the other; each is told by its run."""
    for run in runs:
        histories.promote(name, run.encode(), run, "by hand", f"because of {run}")


def in_use(histories: Promotions) -> list[str]:
    """Return the run that each entry made the one in use."""
    return [entry.run for entry in histories.history("orders")]


def test_the_last_entry_is_the_one_in_use_and_every_contract_is_kept(histories) -> None:
    promote(histories, "a", "b")
    first, last = histories.history("orders")
    assert (first.run, first.how, first.reason) == ("a", "by hand", "because of a")
    assert first.promoted < last.promoted
    assert [histories.contract(entry) for entry in (first, last)] == [b"a", b"b"]
    assert histories.names() == ["orders"]
    promote(histories, "c", name="2026.customers-x")
    assert histories.names() == ["2026.customers-x", "orders"]
    assert in_use(histories) == ["a", "b"]


def test_where_nothing_was_promoted_there_is_no_history(histories) -> None:
    assert histories.names() == []
    assert histories.history("orders") == ()
    promote(histories, "a")
    for ask in (histories.existing, lambda name: histories.rollback(name, "")):
        with pytest.raises(InputError, match=r"nothing was promoted as 'order' in .*; nearest"):
            ask("order")


def test_a_second_rollback_leads_further_back_and_never_to_what_was_left_behind(histories) -> None:
    promote(histories, "a", "b", "c")
    assert histories.rollback("orders", "c is wrong").run == "b"
    again = histories.rollback("orders", "")
    assert (again.run, again.how) == ("a", "rollback")
    assert histories.contract(again) == b"a"
    with pytest.raises(InputError, match="'a' is the first contract of 'orders'; there is none be"):
        histories.rollback("orders", "")
    assert in_use(histories) == ["a", "b", "c", "b", "a"]
    promote(histories, "d")
    assert histories.rollback("orders", "").run == "a"


def test_what_is_promoted_twice_in_a_row_stands_once(histories) -> None:
    promote(histories, "a", "b", "b")
    assert [entry.run for entry in rollback_stack(histories.history("orders"))] == ["a", "b"]
    assert histories.rollback("orders", "").run == "a"
    promote(histories, "a")  # a person says that this is right
    assert len(histories.history("orders")) == 5
    assert [entry.run for entry in rollback_stack(histories.history("orders"))] == ["a"]


def test_a_decision_on_an_older_history_is_not_carried_out(histories) -> None:
    histories.promote("orders", b"a", "a", "automatic", "", seen=0)
    promote(histories, "b")
    with pytest.raises(OvertakenError, match="'b' was promoted as 'orders' meanwhile; compare"):
        histories.promote("orders", b"c", "c", "automatic", "", seen=1)
    assert in_use(histories) == ["a", "b"]
    histories.promote("orders", b"c", "c", "automatic", "", seen=2)
    assert in_use(histories) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["", "../orders", "a/b", ".hidden", "ä", "a" * 116])
def test_a_data_set_has_a_plain_name(histories, name) -> None:
    for ask in (
        histories.history,
        lambda name: histories.rollback(name, ""),
        lambda name: promote(histories, "a", name=name),
    ):
        with pytest.raises(InputError, match="a name must be"):
            ask(name)
    assert not histories.folder.exists()


def test_a_history_that_was_changed_is_refused_and_stays_as_it_is(histories) -> None:
    promote(histories, "a", "b")
    path = histories.folder / "orders.json"
    whole = path.read_bytes()
    for changed in (whole.replace(b'"b"', b'"x"'), whole[:-20], b"{}\n"):
        path.write_bytes(changed)
        remedy = "bring back a copy of it, or move it away and promote a run by hand"
        for ask in (
            lambda: histories.history("orders"),
            lambda: promote(histories, "c"),
            lambda: histories.rollback("orders", ""),
        ):
            with pytest.raises(StorageError, match=f"orders.json .*; {remedy}"):
                ask()
        assert path.read_bytes() == changed
    path.write_bytes(whole.replace(b"orders", b"other"))
    path.rename(path.with_name("copied.json"))
    with pytest.raises(StorageError, match=r"copied.json is damaged \(it was changed\)"):
        histories.history("copied")


def test_a_contract_that_is_gone_or_changed_is_told_and_no_rollback_leads_there(histories) -> None:
    promote(histories, "a", "b")
    first, _ = histories.history("orders")
    histories.path(first).write_bytes(b"x")
    with pytest.raises(StorageError, match="has changed since it was promoted; bring back a copy"):
        histories.rollback("orders", "")
    histories.path(first).unlink()
    with pytest.raises(StorageError, match=r"cannot be read .*or promote run 'a' again under"):
        histories.contract(first)
    assert in_use(histories) == ["a", "b"]
    promote(histories, "a")
    assert histories.contract(first) == b"a"


def test_a_rollback_leaves_a_damaged_contract_behind(histories) -> None:
    promote(histories, "a", "b")
    histories.path(histories.history("orders")[-1]).unlink()
    assert histories.rollback("orders", "b is gone").run == "a"
    assert histories.contract(histories.history("orders")[-1]) == b"a"


def test_a_history_that_cannot_be_read_is_said_in_a_line(histories) -> None:
    (histories.folder / "orders.json").mkdir(parents=True)
    with pytest.raises(StorageError, match=r"orders.json cannot be read \(Is a directory\); bri"):
        histories.history("orders")


def test_events_are_owed_until_they_are_settled_and_others_never(histories) -> None:
    promote(histories, "a")
    for run in "bc":
        histories.promote("orders", run.encode(), run, "by hand", "", owes_event=True)
    histories.rollback("orders", "", owes_event=True)
    promote(histories, "d")
    places = {place: entry.run for place, entry in histories.pending_events("orders")}
    assert places == {1: "b", 2: "c", 3: "b"}
    histories.mark_sent("orders", 2)
    assert [place for place, _ in histories.pending_events("orders")] == [1, 3]
    document = json.loads((histories.folder / "orders.json").read_bytes())
    assert list(document) == ["format_version", "name", "entries", "owed", "sha256"]
    for place in (1, 3, 3):
        histories.mark_sent("orders", place)
    assert histories.pending_events("orders") == ()
    assert in_use(histories) == ["a", "b", "c", "b", "d"]
    assert histories.pending_events("another") == ()


def test_the_format_on_disk(histories) -> None:
    promote(histories, "a")
    document = json.loads((histories.folder / "orders.json").read_bytes())
    assert list(document) == ["format_version", "name", "entries", "sha256"]
    (entry,) = document["entries"]
    assert list(entry) == ["run", "contract", "promoted", "how", "reason"]
    kept = histories.folder / "contracts" / f"{entry['contract']}.json"
    assert kept.read_bytes() == b"a"


KILLED = """
import os, signal, sys
from pathlib import Path
from chaffinch.storage.runs.promotions import Promotions
flush, left = os.fsync, [int(sys.argv[2])]
def dies(descriptor):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(descriptor)
os.fsync = dies
Promotions(Path(sys.argv[1])).promote("orders", b"new", "new", "by hand", "")
"""


@pytest.mark.parametrize(("flushes", "found"), [(1, "a"), (2, "a"), (3, "a"), (4, "new")])
def test_killed_in_the_middle_there_is_the_old_or_the_new_and_never_half(
    histories, flushes, found
) -> None:
    """The contract, its folder, the history and its folder are flushed, in this order."""
    promote(histories, "a")
    assert python(KILLED, histories.folder, flushes).returncode == -9
    last = histories.history("orders")[-1]
    assert (last.run, histories.contract(last)) == (found, found.encode())
    promote(histories, "b")
    assert in_use(histories) == ["a", *["new"] * (found == "new"), "b"]
    left = [path.name for path in histories.folder.rglob(".*")]
    assert left == [".lock"]


BUSY = """
import sys
from pathlib import Path
from chaffinch.storage.runs.promotions import Promotions
for i in range(15):
    run = f"{sys.argv[2]}-{i:02}"
    Promotions(Path(sys.argv[1])).promote("orders", run.encode(), run, "by hand", "")
"""


def test_of_two_that_promote_at_once_no_entry_is_lost(histories) -> None:
    promote(histories, "a")
    both = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(histories.folder), who]) for who in "xy"
    ]
    assert [one.wait(60) for one in both] == [0, 0]
    entries = histories.history("orders")
    for who in "xy":
        mine = [entry.run for entry in entries if entry.run.startswith(who)]
        assert mine == [f"{who}-{i:02}" for i in range(15)]
    assert len(entries) == 31
    assert all(histories.contract(entry) == entry.run.encode() for entry in entries)

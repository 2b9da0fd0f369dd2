"""What a log says of a run while it continues."""

from itertools import pairwise

import pytest

from chaffinch.flows.cli.terminal import ProgressLines


class Night:
    """A log, and a clock that only the test moves on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seconds = 0.0
        self.progress = ProgressLines(self.lines.append, clock=lambda: self.seconds)


@pytest.fixture
def night() -> Night:
    return Night()


def test_a_step_says_when_it_begins_and_ends(night):
    night.progress("split", 0, 1)
    assert night.lines == ["3/9 split"]
    night.seconds = 2.34
    night.progress("split", 1, 1)
    assert night.lines == ["3/9 split", "3/9 split: done after 2.3 s"]


def test_a_long_step_says_now_and_then_where_it_is(night):
    night.progress("optimise_mask", 0, 1)
    for done in range(121):
        night.progress("optimise_mask", done, 500)
    night.seconds = 30.2
    night.progress.report()
    now = "5/9 optimise mask: 120 of 500 after 30 s, about 2 min left"
    assert night.lines == ["5/9 optimise mask", now]


def test_the_time_left_counts_only_what_was_done_since_the_step_began(night):
    night.progress("train_base_model", 40, 60)
    night.progress("train_base_model", 50, 60)
    night.seconds = 30
    night.progress.report()
    assert night.lines[1:] == ["4/9 train base model: 50 of 60 after 30 s, about 30 s left"]


def test_the_longer_a_step_takes_the_more_seldom_it_says_where_it_is(night):
    night.progress("optimise_mask", 0, 1)
    for half_minutes in range(1, 241):
        night.seconds = 30.0 * half_minutes
        night.progress.report()
    told = [int(line.split()[-2]) for line in night.lines[1:]]
    assert told[:10] == [30 * times for times in range(1, 11)]
    assert all(after <= before * 1.1 + 30 for before, after in pairwise(told))
    assert len(told) < 60
    assert told[-1] > 6000


def test_a_step_that_counts_nothing_shows_that_it_lives(night):
    night.progress("retrain", 0, 1)
    night.seconds = 60
    night.progress.report()
    assert night.lines[1:] == ["7/9 retrain: after 60 s"]


def test_all_its_items_done_a_step_may_still_go_on(night):
    night.progress("train_base_model", 0, 1)
    night.progress("train_base_model", 60, 60)
    assert night.lines == ["4/9 train base model"]
    night.progress.report()
    assert night.lines[1:] == ["4/9 train base model: 60 of 60 after 0 s"]


def test_between_two_steps_there_is_nothing_to_tell(night):
    night.progress("split", 0, 1)
    night.progress("split", 1, 1)
    told = list(night.lines)
    night.progress.report()
    assert night.lines == told


def test_a_step_that_was_finished_before_says_so_once(night):
    night.progress("split", 1, 1)
    night.progress("split", 1, 1)
    assert night.lines == ["3/9 split: finished before"]


def test_the_checks_say_nothing_until_they_are_passed(night):
    night.progress("ingest", 0, 1)
    night.progress("ingest", 1, 1)
    night.progress("describe", 0, 1)
    assert night.lines == []
    night.progress("describe", 1, 1)
    night.progress("starting Prefect", 0, 1)
    assert [line.strip() for line in night.lines] == [
        "1/9 ingest",
        "1/9 ingest: done after 0.0 s",
        "2/9 describe",
        "2/9 describe: done after 0.0 s",
        "starting Prefect",
    ]


def test_or_until_they_have_taken_long(night):
    night.progress("ingest", 0, 1)
    night.seconds = 30
    night.progress.report()
    assert night.lines == ["1/9 ingest", "1/9 ingest: after 30 s"]

"""`make test-faults` in small: each of its faults once, through the program's own parts."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import run_faults, worker_faults
from tests.faults.ground import Ground, ground

program = importlib.import_module("tests.faults.__main__")

# in one group, so that the server, the cluster and the undisturbed run are made once
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("faults")]

# Runs of another model or method. All others are of one selection, however they are started.
OF_THEIR_OWN = {
    (worker_faults.with_given_model,),
    (run_faults.alone, run_faults.by_another_method),
}


@pytest.fixture(scope="module")
def here() -> Iterator[Ground]:
    with ground() as made:
        one = program.undisturbed("alone", (run_faults.alone,), made)
        starts = {fault.starts for fault in program.FAULTS} - OF_THEIR_OWN
        made.undisturbed = dict.fromkeys(starts, one)
        yield made


@pytest.mark.parametrize("fault", program.FAULTS, ids=program.NAMES)
def test_the_result_is_the_undisturbed_one_and_nothing_is_left(here: Ground, fault) -> None:
    if not program.can_happen(fault):
        pytest.skip(program.NO_POSTGRES)
    outcome = program.suffer(fault, 1, 0, here)
    assert outcome.problems == []
    assert outcome.identical == 1


def test_the_faults_of_the_table_in_the_readme_are_those_of_the_program() -> None:
    readme = (Path(__file__).parents[2] / "deployments" / "README.md").read_text()
    assert [name for name in program.NAMES if f"`{name}`" not in readme] == []

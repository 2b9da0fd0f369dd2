"""`make test-faults` in small: two of its faults once each, through the program's own parts."""

import importlib
from pathlib import Path

import pytest

from tests.faults.ground import Ground, ground

program = importlib.import_module("tests.faults.__main__")

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("faults")]


@pytest.fixture(scope="module")
def here():
    with ground() as made:
        yield made


@pytest.mark.parametrize("name", ["run-killed", "command-cancelled"])
def test_the_result_is_the_undisturbed_one_and_nothing_is_left(here: Ground, name: str) -> None:
    (fault,) = (fault for fault in program.FAULTS if fault.name == name)
    outcome = program.suffer(fault, 1, 0, here)
    assert outcome.problems == []
    assert outcome.identical == 1


def test_the_faults_of_the_table_in_the_readme_are_those_of_the_program() -> None:
    readme = (Path(__file__).parents[2] / "deployments" / "README.md").read_text()
    assert [name for name in program.NAMES if f"`{name}`" not in readme] == []

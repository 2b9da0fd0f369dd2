"""`make test-faults` in small: each of its faults once, through the program's own parts."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ground import Ground, ground

program = importlib.import_module("tests.faults.__main__")

pytestmark = pytest.mark.e2e


def cases() -> list[object]:
    """Return each fault, in a group with those that need the same programs."""
    return [
        pytest.param(fault, id=fault.name, marks=pytest.mark.xdist_group(fault.happens.__module__))
        for fault in program.FAULTS
    ]


@pytest.fixture(scope="module")
def here() -> Iterator[Ground]:
    with ground() as made:
        yield made


@pytest.mark.parametrize("fault", cases())
def test_the_result_is_the_undisturbed_one_and_nothing_is_left(here: Ground, fault) -> None:
    if not program.can_happen(fault):
        pytest.skip(program.NO_POSTGRES)
    outcome = program.suffer(fault, 1, 0, here)
    assert outcome.problems == []
    assert outcome.identical == 1


def test_the_faults_of_the_table_in_the_readme_are_those_of_the_program() -> None:
    readme = (Path(__file__).parents[2] / "deployments" / "README.md").read_text()
    assert [name for name in program.NAMES if f"`{name}`" not in readme] == []

"""`make fuzz` in small: 100 cases of a fixed seed, none of which may fail."""

import subprocess
import sys

import pytest


@pytest.mark.e2e
@pytest.mark.timeout(1200)
def test_100_random_cases_are_done_or_refused_in_one_line():
    command = [sys.executable, "-m", "tests.fuzz", "--n", "100", "--seed", "24"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

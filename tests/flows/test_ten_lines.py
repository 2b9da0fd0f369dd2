"""The ten lines of the guide to nightly runs are typed in, line by line."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.flows.cli.programs import (
    CHAFFINCH,
    PREFECT,
    environment,
    eventually,
    free_port,
    started,
    still_running,
)

pytestmark = pytest.mark.e2e

GUIDE = Path(__file__).parents[2] / "docs" / "nightly-runs.md"


def lines() -> list[str]:
    """Return the lines under the heading."""
    heading = "## From nothing to a nightly run in ten lines"
    _, _, after = GUIDE.read_text().partition(heading)
    return after.partition("```\n")[2].partition("\n```")[0].splitlines()


def programs(folder: Path) -> str:
    """Put what `make setup` installs into a folder; return the path that finds them first."""
    folder.mkdir()
    found = {"chaffinch": CHAFFINCH, "prefect": PREFECT, "python": (sys.executable,)}
    for name, command in found.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_from_nothing_to_a_nightly_run(tmp_path):
    setup, *typed = lines()
    assert len(typed) == 9  # ten lines in all
    assert setup == "make setup && . .venv/bin/activate"  # which the tests themselves stand on
    port = str(free_port())
    env = environment(
        tmp_path,
        PATH=programs(tmp_path / "bin"),
        PREFECT_SERVER_API_PORT=port,
        PREFECT_SERVER_UI_API_URL=f"http://127.0.0.1:{port}/api",
        COLUMNS="200",
    )
    script = "\n".join(["set -e", f"cd {tmp_path}", *typed])
    ports = {"4200": port, "4280": str(free_port())}
    script = re.sub("|".join(ports), lambda found: ports[found[0]], script)
    log = tmp_path / "said"
    with started("bash", "-c", script, env=env, log=log) as shell:
        assert shell.wait(250) == 0, log.read_text()
        said = log.read_text()
        assert re.search(r"tumours-auto-lightgbm-\w+ │ .* │ finished │", said)
        assert "tumours-elimination-curve" in said
        eventually(lambda: not still_running(tmp_path))

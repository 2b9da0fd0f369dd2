"""The commands of each tutorial are typed in, in their order, in an empty folder."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks, name_of
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

TUTORIALS = [page for page in sorted((ROOT / "docs").glob("*.md")) if blocks(page, "bash")]
SETUP = "make setup && . .venv/bin/activate\n"  # which the tests themselves stand on
PORTS = ("4200", "4280", "8786")
# What the reader of a tutorial sees at its end.
SHOWN = {
    "clusters.md": r"Kept \d+ of 30: .*Report: ",
    "containers.md": r"tumours-anova_f-linear-\w+ │ .* │ finished │.* as tumours\..*\nSELECT .*\n$",
    "etl.md": r"\nThe contract of orders-auto-linear-\w+ is in use again for orders\.\n$",
    "first-selection.md": r"tumours-auto-lightgbm.*tumours-auto-linear.*Kept 13 of 30.*Report: ",
    "nightly-runs.md": (
        r"orders-elimination-curve.*orders-auto-lightgbm-\w+ │ .* │ finished │ price +│ "
        r"6 of 30 │ 2\.856 out-of-fold │ 2\.143 +│ better"
    ),
}


def nightly_commands() -> list[str]:
    """Return the commands from nothing to a nightly run."""
    (block,) = blocks(ROOT / "docs" / "nightly-runs.md", "bash")
    return block.splitlines()


def programs(folder: Path) -> str:
    """Put what `make setup` installs into a folder; return the path that finds them first."""
    folder.mkdir()
    dask = (sys.executable, "-c", "from dask.__main__ import main; main()")
    found = {"chaffinch": CHAFFINCH, "prefect": PREFECT, "python": (sys.executable,), "dask": dask}
    for name, command in found.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_there_is_a_tutorial_for_each_kind_of_user():
    assert [page.name for page in TUTORIALS] == [*SHOWN]


def test_a_nightly_run_takes_nightly_commands():
    assert len(nightly_commands()) == 10


STORAGE = pytest.mark.xdist_group("objects")


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=STORAGE if "s3://" in p.read_text() else ()) for p in TUTORIALS],
    ids=name_of,
)
def test_its_commands_do_what_it_promises(tmp_path, page, request):
    typed = "".join(blocks(page, "bash")).replace(SETUP, "")
    storage = request.getfixturevalue("objects").environment if "s3://" in typed else {}
    if "openssl" in typed and not shutil.which("openssl"):
        pytest.skip("there is no openssl here")
    ports = {port: str(free_port()) for port in PORTS}
    typed = re.sub("|".join(ports), lambda found: ports[found[0]], typed)
    (folder := tmp_path / "typed").mkdir()
    env = environment(
        tmp_path,
        PATH=programs(tmp_path / "bin"),
        PREFECT_SERVER_API_PORT=ports["4200"],
        PREFECT_SERVER_UI_API_URL=f"http://127.0.0.1:{ports['4200']}/api",
        PREFECT_RUNNER_POLL_FREQUENCY="1",  # in place of ten seconds that are waited for
        COLUMNS="200",
        **storage,
    )
    log = tmp_path / "said"
    script = f"set -e -o pipefail\ncd {folder}\n{typed}"
    with started("bash", "-c", script, env=env, log=log) as shell:
        assert shell.wait(250) == 0, log.read_text()
        shown = log.read_text()
        assert re.search(SHOWN[page.name], shown, re.DOTALL), shown
        eventually(lambda: not still_running(tmp_path))

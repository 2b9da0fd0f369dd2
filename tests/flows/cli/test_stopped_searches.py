"""`chaffinch run --method pefs`, killed amid a search, continues with it."""

import signal
import sys

import pytest

import chaffinch
from chaffinch.storage.runs.store import Store
from tests.flows.cli.programs import CHAFFINCH, environment, eventually, started, still_running
from tests.synthetic import good_table
from tests.tasks.pipeline.hastened import all_sweeps, kept, n_sweeps

pytestmark = pytest.mark.e2e

HASTENED = """
import os, pathlib, signal
from tests.tasks.pipeline.hastened import hasten

def die(n_made):
    if n_made == int(os.environ["SWEEPS_TO_LIVE"]):
        os.kill(os.getpid(), signal.SIGKILL)

hasten(pathlib.Path(os.environ["COUNTED"]), die)
"""


def test_killed_the_same_command_goes_on_amid_a_search(home, tmp_path):
    path, store, log = tmp_path / "synthetic.csv", tmp_path / "store", tmp_path / "log"
    before, after = tmp_path / "before", tmp_path / "after"
    table = good_table(300)
    table.to_csv(path, index=False)
    asked = ("--target", "churned", "--method", "pefs", "--n-features", "2", "--store", str(store))
    options = ("--model", "linear", "--tuning", "none", "--cluster", "none")
    program = (sys.executable, "-c", HASTENED + CHAFFINCH[-1])
    command = (*program, "run", str(path), *asked, *options)
    for counted in (before, after):
        counted.mkdir()
    env = environment(home, COUNTED=str(before), SWEEPS_TO_LIVE="4")
    with started(*command, env=env, log=log) as killed:
        assert killed.wait(120) == -signal.SIGKILL, log.read_text()
        eventually(lambda: still_running(home) == [])
    ((_, n_kept),) = kept(store).values()
    assert n_kept == 3  # the fourth was made, but not kept any more
    env = environment(home, COUNTED=str(after), SWEEPS_TO_LIVE="1000")
    with started(*command, env=env, log=log) as resumed:
        assert resumed.wait(120) == 0, log.read_text()
    (run,) = Store.find(store).runs()
    assert 0 < n_sweeps(after) == all_sweeps(run) - 3
    assert not (run.folder / "checkpoints").exists()
    model = chaffinch.ModelSettings(name="linear", tuning="none")
    options = {"method": "pefs", "n_features": 2, "model": model, "cluster": "none"}
    clean = chaffinch.select(table, "churned", **options)
    assert chaffinch.load_run(run.name, store=store).contract == clean.contract

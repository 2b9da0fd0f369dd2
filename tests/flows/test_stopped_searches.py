"""`chaffinch run --method pefs`, killed amid a search, goes on with it."""

import sys

import pytest

import chaffinch
from chaffinch.storage.runs import Store
from tests.flows.programs import CHAFFINCH, environment, eventually, started, still_running
from tests.made_up import good_table
from tests.tasks.hastened import all_sweeps, kept, n_sweeps

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("embedded")]

HASTENED = (
    sys.executable,
    "-c",
    "import os, pathlib; from tests.tasks.hastened import hasten; "
    "hasten(pathlib.Path(os.environ['COUNTED'])); " + CHAFFINCH[-1],
)


def test_killed_the_same_command_goes_on_amid_a_search(home, tmp_path):
    path, store, log = tmp_path / "made_up.csv", tmp_path / "store", tmp_path / "log"
    before, after = tmp_path / "before", tmp_path / "after"
    table = good_table(300)
    table.to_csv(path, index=False)
    options = ("--model", "linear", "--tuning", "none", "--cluster", "none", "--store", str(store))
    method = ("--method", "pefs", "--n-features", "2")
    command = (*HASTENED, "run", str(path), "--target", "churned", *method, *options)
    for counted in (before, after):
        counted.mkdir()
    env = environment(home, COUNTED=str(before))
    with started(*command, env=env, log=log) as program:
        eventually(lambda: kept(store))
        program.kill()
        program.wait()
        eventually(lambda: still_running(home) == [])
    ((_, n_kept),) = kept(store).values()
    env = environment(home, COUNTED=str(after))
    with started(*command, env=env, log=log) as program:
        assert program.wait(120) == 0, log.read_text()
    (run,) = Store.find(store).runs()
    assert 0 < n_sweeps(after) == all_sweeps(run) - n_kept
    assert not (run.folder / "checkpoints").exists()
    model = chaffinch.ModelSettings(name="linear", tuning="none")
    options = {"method": "pefs", "n_features": 2, "model": model, "cluster": "none"}
    clean = chaffinch.select(table, "churned", **options)
    assert chaffinch.load_run(run.name, store=store).contract == clean.contract

"""MLflow's alias names the model of the contract in use, whatever is killed in between."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import InputError
from chaffinch.flows.cli.commands import cli
from chaffinch.storage.runs.promotions import Promotions
from chaffinch.storage.runs.store import Store
from tests.tasks.synthetic_runs import causes, runs_of_two_days

pytestmark = [
    pytest.mark.usefixtures("undrawn"),
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of_two_days(tmp_path_factory.mktemp("orders"))


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Set MLflow to a file of this module; its first tables take seconds."""
    global mlflow  # which takes a second, when the tests are collected as well
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        yield folder
        mlflow.set_tracking_uri(None)


@pytest.fixture
def model(registry, request):
    return request.node.name.replace("[", "-").replace("]", "")


@pytest.fixture
def store(runs, tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return Path(shutil.copytree(runs[0].folder.parents[1], tmp_path / "store"))


def in_use(store):
    return chaffinch.promotions("orders", store=store)[-1].contract


def named(model, alias="promoted"):
    """Return the contract of the version that an alias names."""
    return mlflow.MlflowClient().get_model_version_by_alias(model, alias).tags["chaffinch.contract"]


def n_versions(model):
    return len(mlflow.MlflowClient().search_model_versions(f"name = '{model}'"))


def said(store, *command, code=0):
    """Return what a command says on standard error."""
    ended = CliRunner().invoke(cli, [*command, "--store", str(store)])
    assert ended.exit_code == code, ended.stderr
    return ended.stderr


def test_the_alias_follows_each_promotion_and_rollback_with_a_version_for_each_contract(
    runs, store, model
):
    first, second = runs
    chaffinch.promote(first.run, mlflow=model, store=store)
    assert named(model) == in_use(store)
    table = causes("x1", "x2", "x3", n=50)
    found = mlflow.pyfunc.load_model(f"models:/{model}@promoted")
    np.testing.assert_array_equal(found.predict(table), first.model.predict(table))
    chaffinch.promote(second.run, name="orders", store=store)
    assert named(model) == in_use(store)
    chaffinch.rollback("orders", store=store)
    assert named(model) == in_use(store)
    assert said(store, "promote", second.run, "--name", "orders") == ""
    assert said(store, "rollback", "orders") == ""
    assert named(model) == in_use(store)
    assert n_versions(model) == 2


def test_another_alias_takes_its_place_and_none_ends_it(runs, store, model):
    first, second = runs
    chaffinch.promote(first.run, mlflow=f"{model}@one", store=store)
    chaffinch.promote(second.run, name="orders", mlflow=f"{model}@two", store=store)
    assert named(model, "two") == in_use(store) != named(model, "one")
    said(store, "promote", first.run, "--name", "orders", "--mlflow", "none")
    assert named(model, "two") != in_use(store)


class KilledError(BaseException):
    """Stands for a kill, which no code catches."""


@pytest.mark.parametrize("later", ["promoted", "rollback"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("owner", "step"),
    [
        (None, "create_model_version"),
        (Promotions, "promote"),
        (None, "set_registered_model_alias"),
        (Promotions, "mark_moved"),
    ],
    ids=["version", "history", "alias", "moved"],
)
def test_after_a_kill_the_next_command_brings_both_together(
    runs, store, model, owner, step, when, later, monkeypatch
):
    first, second = runs
    if step != "create_model_version":
        model = "shared"  # whose versions are made once
    chaffinch.promote(first.run, mlflow=model, store=store)
    owner = owner or mlflow.MlflowClient
    whole = getattr(owner, step)

    def dies(*arguments, **options):
        if when == "after":
            whole(*arguments, **options)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, dies)
        with pytest.raises(KilledError):
            chaffinch.promote(second.run, name="orders", mlflow=model, store=store)
    is_written = len(chaffinch.promotions("orders", store=store)) == 2
    said(store, later, "orders", code=0 if later == "promoted" or is_written else 1)
    assert named(model) == in_use(store)
    assert n_versions(model) <= 2
    assert Store.find(store).promotions.behind("orders") is None


DIES = """
import os, signal, sys
from mlflow import MlflowClient
from chaffinch.storage.runs.promotions import Promotions
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
step = sys.argv.pop(1)
setattr(MlflowClient if hasattr(MlflowClient, step) else Promotions, step, die)
from chaffinch.flows.cli.main import main
main()
"""


@pytest.mark.e2e
def test_what_kill_9_leaves_the_next_command_finishes(runs, store, model, registry):
    contracts = {run.run: (run.folder / "selection.json").read_bytes() for run in runs}
    chaffinch.promote(runs[0].run, mlflow=model, store=store)
    for step, run in (("create_model_version", runs[1]), ("mark_moved", runs[0])):
        command = ("promote", run.run, "--name", "orders", "--mlflow", model, "--store", store)
        ended = subprocess.run(
            (sys.executable, "-c", DIES, step, *command), check=False, capture_output=True,
            env={**os.environ, "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri()},
        )  # fmt: skip
        assert ended.returncode == -9, ended.stderr
        assert said(store, "promoted", "orders") == ""
        assert named(model) == in_use(store)
    assert in_use(store) == hashlib.sha256(contracts[runs[0].run]).hexdigest()


def test_in_another_registry_nothing_is_changed_and_the_history_waits(
    runs, store, model, registry, tmp_path
):
    first, second = runs
    chaffinch.promote(first.run, mlflow=model, store=store)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/other.db")
    *_, line = said(store, "promote", second.run, "--name", "orders", code=1).splitlines()
    assert line.startswith(
        f"Warning: the alias {model}@promoted of orders is not moved yet: MLflow"
    )
    with pytest.warns(UserWarning, match="is not moved yet"):
        chaffinch.promote(second.run, name="orders", store=store)
    assert mlflow.MlflowClient().search_registered_models() == []
    mlflow.set_tracking_uri(f"sqlite:///{registry}/mlflow.db")
    assert named(model) != in_use(store)
    assert said(store, "promoted", "orders") == ""
    assert named(model) == in_use(store)


def test_a_contract_whose_run_was_removed_has_its_version_or_is_told(runs, store, model):
    first, second = runs
    chaffinch.promote(first.run, name="orders", store=store)
    chaffinch.promote(second.run, name="orders", mlflow=model, store=store)
    shutil.rmtree(store / "runs" / first.run)
    told = said(store, "rollback", "orders", code=1)
    assert f"its run {first.run!r} was removed or made again; promote another run" in told
    assert named(model) != in_use(store)


@pytest.mark.parametrize(
    "bad", ["", "@promoted", "a/b", "shop@", "shop@latest", "shop@V1", "shop@a b"]
)
def test_a_name_that_mlflow_does_not_take_is_refused_and_nothing_is_promoted(runs, store, bad):
    with pytest.raises(InputError, match=r"give (one|another), as in shop"):
        chaffinch.promote(runs[0].run, mlflow=bad, store=store)
    assert Store.find(store).promotions.names() == []

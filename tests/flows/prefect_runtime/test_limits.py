"""Runs that nobody watches: further tries, time that is over, and turns of one data set."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect import flow

import chaffinch
from chaffinch import ExecutionSettings, InputError, SelectionSettings
from chaffinch.errors import TableTooLargeError, UnreachableError
from chaffinch.flows.prefect_runtime.limits import data_sets, within_limits
from chaffinch.flows.prefect_runtime.logs import TimeLimitError
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import source_of
from chaffinch.tasks.pipeline.memory import check_shape
from chaffinch.tasks.settings.execution import LimitSettings
from chaffinch.tasks.workers.signals import OutOfTime, stopped_after
from tests.flows.cli.programs import CHAFFINCH, eventually, processes_of, started
from tests.flows.conftest import SLOW, Server, nightly

SECONDS = 1 / 60  # in minutes


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limited")


@pytest.fixture(scope="module")
def served(server: Server, table: Path, store: Path) -> Iterator[dict[str, Any]]:
    """Serve, and return the deployments by their names."""
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield", "--name", "harvest")
    more = ("--store", str(store), "--cluster", "none")
    with started(*command, *more, env=server.env, log=store / "serve.log"):
        yield eventually(lambda: server.deployments("harvest"))
    server.forget_deployments()


def start(server: Server, deployment: dict[str, Any], **parameters: Any) -> str:
    """Start a run; return its id."""
    return str(server.accepted(deployment["id"], parameters)["id"])


@pytest.fixture(scope="module")
def slow(slow: Path) -> dict[str, Any]:
    """Parameters of a run whose elimination takes long."""
    return {"data": str(slow), "settings": SLOW}


@pytest.mark.e2e
def test_a_run_that_takes_too_long_is_stopped_leaves_nothing_running_and_goes_on(
    server, served, slow, store
):
    select = served["feature_selection/select-on-demand"]
    execution = {"store": str(store / "slow"), "cluster": "local", "workers": 2}
    limits = {"timeout": 6 * SECONDS}
    asked = start(server, select, **slow, execution=execution, limits=limits)
    eventually(lambda: processes_of(asked))
    run = server.ended(asked)
    assert (run["state_name"], run["run_count"]) == ("TimedOut", 1)  # it is not tried again
    assert "the run took longer than the 0.1 min that it may" in run["state"]["message"]
    eventually(lambda: not processes_of(run["id"]))

    def manifests() -> dict[Path, int]:
        return {p: p.stat().st_mtime_ns for p in store.glob("slow/runs/*/stages/*.json")}

    kept = manifests()
    assert not any(path.stem == "write_report" for path in kept)
    again = server.ended(start(server, select, **slow, execution=execution, limits={}))
    assert again["state_type"] == "COMPLETED", again["state"]["message"]
    (name,) = (path.name for path in store.glob("slow/runs/slow-*"))
    assert kept.items() <= manifests().items()
    assert len(chaffinch.load_run(name, store=store / "slow").features) == 4


def ponder() -> None:
    """A stage that computes for ever, in the interpreter."""
    while True:
        time.sleep(0.01)


@pytest.mark.e2e
def test_a_stage_that_takes_too_long_is_stopped_and_named(server, tmp_path):
    @flow
    def limited() -> None:
        limits = LimitSettings(stage_timeout=0.2 * SECONDS, retries=3)
        with within_limits(limits, [source_of("orders.csv")], tmp_path) as wrap_step:
            wrap_step(ponder)()

    state = limited(return_state=True)
    with pytest.raises(TimeLimitError, match=r"ponder took longer than the 0\.00333333 min"):
        state.result()
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    assert (run["state_name"], run["run_count"]) == ("TimedOut", 1)
    wanted = {"id": {"any_": [run["id"]]}}
    (task,) = eventually(lambda: server.find("task_runs", flow_runs=wanted))
    assert task["name"] == "ponder"


STUCK = """
import hashlib
from pathlib import Path
from prefect import flow, serve
from chaffinch.tasks.settings.execution import LimitSettings
from chaffinch.flows.prefect_runtime import limits
from chaffinch.storage.sources import source_of

limits._SECONDS_OF_GRACE = 1

@flow
def stuck():
    short, orders = LimitSettings(timeout=0.01), source_of("orders.csv")
    with limits.within_limits(short, [orders], Path("{store}")):
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # for many minutes

if __name__ == "__main__":
    serve(stuck.to_deployment("stuck"))
"""


@pytest.mark.e2e
def test_a_run_that_does_not_let_itself_be_stopped_is_ended(server, tmp_path):
    (tmp_path / "stuck.py").write_text(STUCK.replace("{store}", str(tmp_path)))
    command = (sys.executable, str(tmp_path / "stuck.py"))
    with started(*command, env=server.env, log=tmp_path / "log"):
        named = {"name": {"any_": ["stuck"]}}
        (deployment,) = eventually(lambda: server.find("deployments", deployments=named))
        asked = start(server, deployment)
        eventually(lambda: processes_of(asked))
        run = server.ended(asked)
        assert (run["state_name"], run["run_count"]) == ("TimedOut", 1)
        assert "the run took longer than the 0.01 min that it may" in run["state"]["message"]
        eventually(lambda: not processes_of(run["id"]))
        time.sleep(3)  # what serves it hears of the end, and leaves the state as it is
        assert server.get(f"/flow_runs/{run['id']}")["state_name"] == "TimedOut"
    server.forget("deployments", [deployment])


def run_with(table: Path, settings: dict[str, Any], store: Path, retries: int, *mend: Any) -> Any:
    """Return the state of a run that is tried again at once."""
    return chaffinch.feature_selection.with_options(on_running=mend)(
        str(table),
        SelectionSettings(**settings),
        ExecutionSettings(store=store, cluster="none"),
        None,
        LimitSettings(retries=retries, retry_delay=0),
        return_state=True,
    )


@pytest.mark.e2e
def test_a_run_that_failed_is_tried_again(server, table, small, tmp_path):
    """The store is of a later release until the run has failed once."""
    (tmp_path / "store.json").write_text('{"format_version": 99}\n')
    tried: list[str] = []

    def mend(flow: Any, flow_run: Any, state: Any) -> None:
        tried.append(state.name)
        if len(tried) == 2:
            (tmp_path / "store.json").unlink()

    state = run_with(table, small, tmp_path, 2, mend)
    assert state.is_completed(), state.message
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    assert run["run_count"] == 2
    assert "chaffinch.dataset.harvest" in run["tags"]


@pytest.mark.parametrize(("retries", "tries"), [(0, 1), (1, 2)])
@pytest.mark.e2e
def test_it_is_given_up_after_as_many_tries(server, table, small, tmp_path, retries, tries):
    (tmp_path / "store.json").write_text('{"format_version": 99}\n')
    state = run_with(table, small, tmp_path, retries)
    assert state.is_failed()
    assert server.get(f"/flow_runs/{state.state_details.flow_run_id}")["run_count"] == tries


@pytest.mark.e2e
def test_bad_input_is_not_tried_again(server, table, small, tmp_path):
    state = run_with(table, {**small, "target": "none"}, tmp_path, 5)
    with pytest.raises(InputError, match="'none'"):
        state.result()
    assert server.get(f"/flow_runs/{state.state_details.flow_run_id}")["run_count"] == 1


@pytest.mark.e2e
def test_a_storage_that_does_not_answer_is_tried_again(server, table, tmp_path):
    @flow
    def limited() -> None:
        with within_limits(LimitSettings(retries=1, retry_delay=0), [source_of(table)], tmp_path):
            raise UnreachableError("Amazon S3 does not answer for s3://shop/x.parquet")

    state = limited(return_state=True)
    with pytest.raises(UnreachableError):
        state.result()
    assert server.get(f"/flow_runs/{state.state_details.flow_run_id}")["run_count"] == 2


@pytest.mark.e2e
def test_a_table_too_large_for_the_memory_is_not_tried_again(server, table, small, tmp_path):
    @flow
    def limited() -> None:
        with within_limits(LimitSettings(retries=5, retry_delay=0), [source_of(table)], tmp_path):
            check_shape("orders", 10**12, 100, SelectionSettings(**small))

    state = limited(return_state=True)
    with pytest.raises(TableTooLargeError, match=r"^orders has 1,000,000,000,000 rows"):
        state.result()
    assert server.get(f"/flow_runs/{state.state_details.flow_run_id}")["run_count"] == 1


@pytest.mark.parametrize(
    ("tables", "limits", "promotion", "names"),
    [
        (["/srv/orders.csv.gz"], {}, None, ["orders"]),
        (["/srv/orders-2026-11-21.parquet"], {"data_set": "orders"}, None, ["orders"]),
        (["/srv/orders-2026-11-21.parquet"], {}, "orders", ["orders"]),
        (["s3://b/two.parquet", "/srv/one.csv", "/old/one.csv"], {}, None, ["one", "two"]),
        (["postgresql://me@h/shop#web.orders"], {}, None, ["orders"]),
    ],
)
def test_a_data_set_is_named_by_its_limits_its_promotion_or_its_table(
    tables, limits, promotion, names
):
    gate = None if promotion is None else chaffinch.PromotionSettings(name=promotion)
    assert data_sets(LimitSettings(**limits), list(map(source_of, tables)), gate) == names


@pytest.mark.e2e
def test_runs_of_one_data_set_wait_for_each_other_and_others_do_not(
    server, served, table, small, store, tmp_path
):
    """What a run that continues holds is held here by the test."""
    other = tmp_path / "other.csv"
    other.write_bytes(table.read_bytes())
    on_demand = served["feature_selection/select-on-demand"]
    every_night = served[nightly("harvest")]

    def waits(run: str) -> bool:
        logged = server.find("logs", logs={"flow_run_id": {"any_": [run]}})
        said = "waiting for another process that works on data set harvest"
        return any(line["message"].endswith(said) for line in logged)

    with Store.open(store).turn("harvest"):
        waiting = [
            start(server, on_demand, data=str(table), settings=small),
            start(server, every_night, data=str(other), settings=small),
        ]
        elsewhere = start(server, on_demand, data=str(other), settings=small)
        assert server.ended(elsewhere)["state_type"] == "COMPLETED"
        eventually(lambda: all(map(waits, waiting)))
        assert {server.get(f"/flow_runs/{run}")["state_name"] for run in waiting} == {"Running"}
    assert [server.ended(run)["state_type"] for run in waiting] == ["COMPLETED"] * 2


@pytest.mark.e2e
def test_a_form_offers_the_limits_and_refuses_what_cannot_be(server, served, table, small):
    on_demand = served["feature_selection/select-on-demand"]
    limits = {"retries": 2, "retry_delay": 1, "timeout": 1440, "stage_timeout": 720}
    assert on_demand["parameters"]["limits"] == {**limits, "data_set": None}
    assert served["comparison/compare-on-demand"]["parameters"]["limits"]["timeout"] is None
    unasked = served[nightly("harvest")]["parameters"]["limits"]
    assert unasked == {**limits, "data_set": "harvest"}
    parameters = {"data": str(table), "settings": small, "limits": {"timeout": 0}}
    assert server.start(on_demand["id"], parameters).status_code == 409


def ended_while_another_has_the_turn(started: Any, store: Path, parameters: Any) -> Any:
    """Return the state of a run that is not to wait for the turn of harvest."""
    try:
        with Store.open(store).turn("harvest"), stopped_after(60, "it waits for its turn"):
            return started(**parameters, return_state=True)
    except OutOfTime as error:
        pytest.fail(str(error))


@pytest.mark.parametrize(
    ("settings", "execution", "said"),
    [
        ({"shares": [50, 50, 50, 50]}, {}, "shares"),
        ({}, {"cluster": "foo"}, "cluster must be 'auto', 'local', 'none' or a scheduler's"),
        ({"columns": {"keep": ["first"], "drop": ["first"]}}, {}, "both keep and drop"),
        ({"model": {"name": "lightgmb"}}, {}, "'lightgmb'"),
        ({"loss": "squared_eror"}, {}, "'squared_eror'"),
    ],
)
@pytest.mark.e2e
def test_what_cannot_be_fails_at_once_and_waits_for_no_turn(
    server, table, small, tmp_path, settings, execution, said
):
    parameters = {
        "data": str(table),
        "settings": {**small, **settings},
        "execution": {"store": str(tmp_path), "cluster": "none", **execution},
        "limits": {"timeout": None, "stage_timeout": None},
    }
    try:
        state = ended_while_another_has_the_turn(chaffinch.feature_selection, tmp_path, parameters)
    except InputError as error:  # of parameters, before there is a run
        message = str(error)
    else:
        message = state.message
        assert state.is_failed()
        assert server.get(f"/flow_runs/{state.state_details.flow_run_id}")["run_count"] <= 1
    assert said in message


@pytest.mark.e2e
def test_a_comparison_of_an_unknown_model_waits_for_no_turn_either(server, table, tmp_path):
    parameters = {
        "data": [str(table)],
        "settings": {"target": "yield", "models": ["linear", "lightgmb"]},
        "execution": {"store": str(tmp_path), "cluster": "none"},
        "limits": {"timeout": None, "stage_timeout": None},
    }
    state = ended_while_another_has_the_turn(chaffinch.comparison, tmp_path, parameters)
    assert "'lightgmb'" in state.message

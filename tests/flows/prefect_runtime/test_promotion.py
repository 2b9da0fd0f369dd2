"""The gate in a flow, with a real server: who is asked, what is promoted, and who hears of it."""

import json
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import ExecutionSettings, InputError, PromotionSettings, SelectionSettings
from chaffinch.flows.cli.commands import cli
from chaffinch.storage.runs.decisions import needed_decision
from chaffinch.storage.runs.store import Run
from tests.flows.cli import programs
from tests.flows.cli.programs import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def started(table, small, tmp_path_factory):
    """A store with a run that keeps what tells nothing."""
    store = tmp_path_factory.mktemp("promotion")
    noise = chaffinch.select(
        table, "yield", method="anova_f", n_features=1, keep=["noise_a"], store=store,
        model=chaffinch.ModelSettings(**small["model"]),
    )  # fmt: skip
    assert noise.features == ["noise_a"]
    return store, noise


@pytest.fixture
def store(started, tmp_path):
    return Path(shutil.copytree(started[0], tmp_path / "store"))


@pytest.fixture
def flow(table, small, store, server):
    """Return a function that runs the flow to its end; gives the flow run's id and the result."""

    def run(promotion=None, data=table, **settings):
        state = chaffinch.feature_selection(
            str(data),
            SelectionSettings(**{**small, **settings}),
            ExecutionSettings(store=store, cluster="none"),
            promotion,
            return_state=True,
        )
        return str(state.state_details.flow_run_id), state.result()

    return run


def events_of(server, name):
    return server.events(f"chaffinch.dataset.{name}")


def verdict(server, flow_run):
    artifacts = server.artifacts(flow_run)
    (key,) = (key for key in artifacts if key.endswith("-verdict"))
    return artifacts[key]["data"]


def test_what_is_better_is_promoted_once_and_the_event_carries_its_contract(
    flow, server, started, store
):
    asked = PromotionSettings(name="better", most_changed=1)
    chaffinch.promote(started[1].run, "better", store=store)
    flow_run, result = flow(asked)
    entry = chaffinch.promotions("better", store=store)[-1]
    assert (entry.run, entry.how) == (result.run, "automatic")
    assert chaffinch.promoted("better", store=store) == result.contract
    assert "Promoted as better: its loss is lower" in verdict(server, flow_run)
    assert "Gained: first, second. Lost: noise" in verdict(server, flow_run)

    (event,) = eventually(lambda: events_of(server, "better"))
    assert event["event"] == "chaffinch.promoted"
    assert event["payload"]["contract"] == json.loads(
        (result.folder / "selection.json").read_bytes()
    )
    assert event["payload"]["promotion"]["run"] == result.run
    assert event["payload"]["left_out"] == []
    involved = [one["prefect.resource.id"] for one in event["related"]]
    assert f"prefect.flow-run.{flow_run}" in involved

    again, _ = flow(asked)
    assert len(chaffinch.promotions("better", store=store)) == 2
    assert "of better stays: the run keeps the same features" in verdict(server, again)
    assert len(events_of(server, "better")) == 1


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")
def test_what_the_gate_promotes_the_alias_in_mlflow_follows(
    flow, server, started, store, tmp_path, monkeypatch
):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    chaffinch.promote(started[1].run, "followed", mlflow="shop", store=store)
    _, result = flow(PromotionSettings(name="followed", most_changed=1))
    version = MlflowClient().get_model_version_by_alias("shop", "promoted")
    assert version.tags["chaffinch.run"] == result.run
    assert chaffinch.promotions("followed", store=store)[-1].run == result.run


def test_where_too_much_changes_it_is_left_for_a_person_and_the_run_is_done(
    flow, server, started, store
):
    chaffinch.promote(started[1].run, "cautious", store=store)
    flow_run, result = flow(PromotionSettings(name="cautious"))
    assert len(chaffinch.promotions("cautious", store=store)) == 1
    said = verdict(server, flow_run)
    assert "Not promoted as cautious, for a person to decide: 100 % of the features" in said
    by_hand = f"chaffinch promote {result.run} --name cautious --store {store} promotes it."
    assert by_hand in said.replace("\\", "")
    assert events_of(server, "cautious") == []


def question(server, known):
    """Return the flow run that is paused and none of those known, its form, and what it tells."""
    import httpx

    wanted = {"state": {"type": {"any_": ["PAUSED"]}}}
    for run in server.find("flow_runs", flow_runs=wanted):
        keys = run["state"]["state_details"]["run_input_keyset"]
        if run["id"] not in known:
            try:
                asked = [
                    server.get(f"/flow_runs/{run['id']}/input/{keys[key]}")
                    for key in ("schema", "description")
                ]
            except httpx.HTTPStatusError:  # the form comes a moment after the pause
                return None
            return run["id"], *asked
    return None


@pytest.mark.parametrize("answer", [True, False])
def test_a_flow_that_waits_goes_on_with_what_a_person_says(flow, server, store, answer):
    from prefect.flow_runs import resume_flow_run

    name = f"asked-{answer}"
    known = [run["id"] for run in server.find("flow_runs")]
    with ThreadPoolExecutor(1) as thread:
        asked = PromotionSettings(name=name, wait=0.02)
        ended = thread.submit(copy_context().run, flow, asked)
        run, form, told = eventually(lambda: question(server, known))
        assert list(form["properties"]) == ["promote", "reason"]
        assert told.startswith(f"Not promoted as {name}, for a person to decide: nothing was promo")
        paused = server.get(f"/flow_runs/{run}")["state"]
        waits = "waits for a decision, at most 0.02 h: nothing was promoted yet"
        assert (paused["type"], paused["message"][: len(waits)]) == ("PAUSED", waits)
        resume_flow_run(run, {"promote": answer, "reason": "looked at it"})
        flow_run, result = ended.result(timeout=300)
    assert flow_run == run
    assert server.get(f"/flow_runs/{flow_run}")["state_type"] == "COMPLETED"
    (row,) = (
        row for row in chaffinch.run_history(store=store).itertuples() if row.run == result.run
    )
    word = "Promoted" if answer else "Not promoted"
    assert row.decision.endswith(f"; answered: {word} as {name}: looked at it")
    assert not row.is_open
    assert f"{word} as {name}: looked at it" in verdict(server, flow_run)
    if not answer:
        with pytest.raises(InputError, match="nothing was promoted as"):
            chaffinch.promoted(name, store=store)
        assert events_of(server, name) == []
        return
    (entry,) = chaffinch.promotions(name, store=store)
    assert (entry.run, entry.how, entry.reason) == (result.run, "by hand", "looked at it")
    assert len(eventually(lambda: events_of(server, name))) == 1


def test_where_nobody_answers_the_run_is_done_and_nothing_promoted(flow, server, store):
    flow_run, result = flow(PromotionSettings(name="unanswered", wait=0.0005))
    assert server.get(f"/flow_runs/{flow_run}")["state_type"] == "COMPLETED"
    assert "Not promoted as unanswered: no answer came in 0.0005 h." in verdict(server, flow_run)
    assert result.features == ["first", "second"]
    assert not (store / "promotions").exists()


def test_another_promotion_meanwhile_is_not_overtaken(flow, server, started, store):
    from prefect.flow_runs import resume_flow_run

    known = [run["id"] for run in server.find("flow_runs")]
    with ThreadPoolExecutor(1) as thread:
        asked = PromotionSettings(name="raced", wait=0.02)
        ended = thread.submit(copy_context().run, flow, asked)
        run, *_ = eventually(lambda: question(server, known))
        chaffinch.promote(started[1].run, "raced", store=store)
        resume_flow_run(run, {"promote": True, "reason": "too late"})
        flow_run, _ = ended.result(timeout=300)
    assert [one.run for one in chaffinch.promotions("raced", store=store)] == [started[1].run]
    assert "was promoted as 'raced' meanwhile; compare with it" in verdict(server, flow_run)
    _, state, message = ended_as(server, flow_run)
    assert state == "NeedsDecision"
    assert message.startswith("needs a decision: Not promoted as raced: ")


def again(run):
    """Start a flow run again, and return its final state."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import AwaitingRetry

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, AwaitingRetry(), force=True)
        flow_run = client.read_flow_run(run)
    return run_flow(chaffinch.feature_selection, flow_run, flow_run.parameters, return_type="state")


def test_an_answer_is_about_one_contract_beside_one_that_is_promoted(flow, server, started, store):
    """A run that starts again after another promotion asks anew; the old approval is not for it."""
    from prefect.flow_runs import resume_flow_run

    known = [run["id"] for run in server.find("flow_runs")]
    asked = PromotionSettings(name="again", wait=0.02)
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(copy_context().run, flow, asked)
        run, *_ = eventually(lambda: question(server, known))
        chaffinch.promote(started[1].run, "again", store=store)
        resume_flow_run(run, {"promote": True, "reason": "of the first question"})
        ended.result(timeout=300)
        ended = thread.submit(copy_context().run, again, run)
        same, *_ = eventually(lambda: question(server, known))
        assert same == run
        resume_flow_run(run, {"promote": False, "reason": "of the second question"})
        ended.result(timeout=300)
    assert [one.run for one in chaffinch.promotions("again", store=store)] == [started[1].run]


WAITS = """
import sys
import chaffinch

table, store, settings = sys.argv[1:]
chaffinch.feature_selection(
    table,
    chaffinch.SelectionSettings.model_validate_json(settings),
    chaffinch.ExecutionSettings(store=store, cluster="none"),
    chaffinch.PromotionSettings(name="killed", wait=0.1),
)
"""


def test_a_run_that_is_killed_while_it_waits_asks_again(server, table, small, store, tmp_path):
    """As often as it is killed: nobody has answered."""
    from prefect.flow_runs import resume_flow_run

    known = [run["id"] for run in server.find("flow_runs")]
    command = (sys.executable, "-c", WAITS, str(table), str(store), json.dumps(small))
    with programs.started(*command, env=server.env, log=tmp_path / "log") as program:
        run, *_ = eventually(lambda: question(server, known))
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    first = server.get(f"/flow_runs/{run}")["state"]["state_details"]["pause_key"]
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(copy_context().run, again, run)
        eventually(
            lambda: (
                (state := server.get(f"/flow_runs/{run}")["state"])["type"] == "PAUSED"
                and state["state_details"]["pause_key"] != first
            )
        )
        resume_flow_run(run, {"promote": True, "reason": "asked again"})
        ended.result(timeout=300)
    (entry,) = chaffinch.promotions("killed", store=store)
    assert (entry.how, entry.reason) == ("by hand", "asked again")


def test_a_run_that_a_person_promoted_while_it_waited_is_in_use_already(flow, server, store):
    from prefect.flow_runs import resume_flow_run

    known = [run["id"] for run in server.find("flow_runs")]
    with ThreadPoolExecutor(1) as thread:
        asked = PromotionSettings(name="by-hand", wait=0.02)
        ended = thread.submit(copy_context().run, flow, asked)
        run, *_ = eventually(lambda: question(server, known))
        (waiting,) = (path.name for path in (store / "runs").glob("*gbmo*"))
        chaffinch.promote(waiting, "by-hand", store=store)
        resume_flow_run(run, {"promote": True, "reason": "as I said"})
        flow_run, _ = ended.result(timeout=300)
    assert "It is in use as by-hand already." in verdict(server, flow_run)
    assert ended_as(server, flow_run)[1] == "Completed"


def test_a_run_that_asks_for_nothing_is_compared_all_the_same(flow, server, started, store):
    flow_run, _ = flow()
    assert "Compared with" not in verdict(server, flow_run)
    chaffinch.promote(started[1].run, store=store)
    flow_run, _ = flow()
    said = verdict(server, flow_run)
    assert "Compared with what is promoted as harvest:" in said
    assert "difference -" in said
    assert len(chaffinch.promotions("harvest", store=store)) == 1


def test_what_could_not_be_promoted_is_refused_before_any_work(flow, store, started):
    chaffinch.promote(started[1].run, "other", store=store)
    with pytest.raises(InputError, match="as 'other' predicts 'yield' but this run 'second'"):
        flow(PromotionSettings(name="other"), target="second")
    assert len(list((store / "runs").iterdir())) == 1


def test_what_was_promoted_and_cannot_be_read_is_for_a_person(flow, server, started, store):
    chaffinch.promote(started[1].run, "torn", store=store)
    (contract,) = (store / "promotions" / "contracts").iterdir()
    contract.unlink()
    flow_run, result = flow(PromotionSettings(name="torn", most_changed=1))
    said = verdict(server, flow_run)
    assert "for a person to decide: the promoted contract, of" in said
    assert "cannot be read" in said
    assert len(chaffinch.promotions("torn", store=store)) == 1
    remedy = ["promote", result.run, "--name", "torn", "--store", str(store)]
    assert CliRunner().invoke(cli, remedy, catch_exceptions=False).exit_code == 0
    assert chaffinch.promoted("torn", store=store) == result.contract


def test_another_task_is_not_promoted_by_itself_and_no_work_is_lost(
    flow, server, started, store, table
):
    chaffinch.promote(started[1].run, "same", store=store)
    classes = store / "classes.csv"
    header, *rows = table.read_text().splitlines()
    of_two = [f"{r.rpartition(',')[0]},{float(r.rpartition(',')[2]) > 0}" for r in rows]
    classes.write_text("\n".join([header, *of_two]) + "\n")
    flow_run, result = flow(PromotionSettings(name="same", most_changed=1), data=classes)
    assert server.get(f"/flow_runs/{flow_run}")["state_type"] == "COMPLETED"
    said = verdict(server, flow_run).replace("\\", "")
    assert "Not promoted as same: what is promoted as 'same' is a regression of 'yield' but" in said
    assert "such as same-classification" in said
    assert [one.run for one in chaffinch.promotions("same", store=store)] == [started[1].run]
    chaffinch.promote(result.run, "same-classification", store=store)
    with pytest.raises(InputError, match="'same-classification' is a classification of 'yield' b"):
        flow(PromotionSettings(name="same-classification"), task="regression")
    assert len(list((store / "runs").iterdir())) == 2


def test_the_server_hears_of_what_is_done_on_the_command_line(server, started, store):
    options = ["--store", str(store)]
    for command in (
        ["promote", started[1].run, "--name", "by-hand"],
        ["promote", started[1].run, "--name", "by-hand"],
    ):
        ended = CliRunner().invoke(cli, [*command, *options], catch_exceptions=False)
        assert (ended.exit_code, ended.stderr) == (0, "")
    found = eventually(lambda: (both := events_of(server, "by-hand"))[1:] and both)
    assert [one["payload"]["promotion"]["how"] for one in found] == ["by hand", "by hand"]


def test_a_contract_that_is_too_long_for_the_server_comes_without_what_is_named(
    server, started, store
):
    from prefect.settings import PREFECT_EVENTS_MAXIMUM_SIZE_BYTES, temporary_settings

    from chaffinch.flows.prefect_runtime.events import send_pending
    from chaffinch.tasks.promotion.promote import kept_run, promote_by

    promote_by(kept_run(started[1].run, store), "long", "by hand", "", owes_event=True)
    whole = len(json.dumps(chaffinch.promoted("long", store=store).to_dict()))
    with temporary_settings({PREFECT_EVENTS_MAXIMUM_SIZE_BYTES: whole}):
        assert send_pending("long", store) is None
    (event,) = eventually(lambda: events_of(server, "long"))
    assert event["payload"]["left_out"] == ["candidates", "dropped"]
    assert "candidates" not in event["payload"]["contract"]
    assert event["payload"]["contract"]["features"][0]["name"] == "noise_a"


def ended_as(server, flow_run):
    state = server.get(f"/flow_runs/{flow_run}")["state"]
    return state["type"], state["name"], state["message"]


def edited(table, path, edit):
    """Write the table with its promoted column edited; the first row is kept as it is."""
    import pandas as pd

    rows = edit(pd.read_csv(table))
    rows.to_csv(path, index=False)
    return path


EDITS = {
    "missing": lambda rows: rows.drop(columns="noise_a"),
    "another kind": lambda rows: rows.assign(noise_a=[f"code {i % 7}" for i in range(len(rows))]),
    "unique text": lambda rows: rows.assign(noise_a=[f"code {i}" for i in range(len(rows))]),
    "all missing": lambda rows: rows.assign(noise_a=None),
}


@pytest.mark.parametrize(
    ("edit", "gate"),
    [
        *((edit, None) for edit in EDITS),
        ("missing", PromotionSettings(name="harvest", most_changed=1)),
    ],
)
def test_a_night_that_lacks_a_promoted_column_needs_a_decision(
    flow, server, started, store, table, tmp_path, edit, gate
):
    chaffinch.promote(started[1].run, "harvest", store=store)
    newer = edited(table, tmp_path / "harvest.csv", EDITS[edit])
    flow_run, result = flow(gate, newer)
    kind, name, message = ended_as(server, flow_run)
    assert (kind, name) == ("COMPLETED", "NeedsDecision")
    assert message.startswith("needs a decision: features of the promoted set are gone from the ne")
    assert "'noise_a'" in message
    assert result.features
    assert needed_decision(Run(result.folder)) == message.removeprefix("needs a decision: ")
    assert len(chaffinch.promotions("harvest", store=store)) == 1
    (event,) = eventually(
        lambda: [
            one
            for one in server.events(f"prefect.flow-run.{flow_run}")
            if one["event"] == "prefect.flow-run.NeedsDecision"
        ]
    )
    of_run = {"flow_run_id": {"any_": [flow_run]}}
    warned = (30, message)
    eventually(
        lambda: warned in [(o["level"], o["message"]) for o in server.find("logs", logs=of_run)]
    )
    assert event["resource"]["prefect.resource.id"] == f"prefect.flow-run.{flow_run}"


def test_a_night_on_which_nothing_beats_a_constant_needs_a_decision(
    flow, server, started, store, table, tmp_path
):
    chaffinch.promote(started[1].run, "harvest", store=store)
    noise = edited(
        table, tmp_path / "harvest.csv", lambda rows: rows.drop(columns=["first", "second"])
    )
    message = ended_as(server, flow(None, noise)[0])[2]
    assert message == "needs a decision: no model is shown to predict better than a constant"
    # nothing is promoted under another name: a person has started it, and looks at it
    other = edited(noise, tmp_path / "other.csv", lambda rows: rows)
    assert ended_as(server, flow(None, other)[0])[1] == "Completed"


def test_who_wants_it_red_has_a_run_that_fails_and_is_not_tried_again(flow, server, store):
    with pytest.raises(RuntimeError, match=r"^needs a decision: nothing was promoted yet"):
        flow(PromotionSettings(name="failing", unattended="fail"))
    (run,) = server.find("flow_runs", flow_runs={"name": {"like_": "failing gbmo"}})
    assert run["run_count"] == 1
    _, name, message = ended_as(server, run["id"])
    assert (name, message[:32]) == ("Failed", "needs a decision: nothing was pr")


def test_the_gate_undecided_is_a_state_and_a_set_that_stays_is_none(flow, server, started, store):
    chaffinch.promote(started[1].run, "cautious", store=store)
    undecided, result = flow(PromotionSettings(name="cautious"))
    assert ended_as(server, undecided)[1] == "NeedsDecision"
    chaffinch.promote(result.run, "cautious", store=store)
    again, _ = flow(PromotionSettings(name="cautious"))
    assert ended_as(server, again)[:2] == ("COMPLETED", "Completed")

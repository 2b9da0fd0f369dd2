"""Differentiable selection from large files: as two commands, and as a flow."""

import inspect
import json
import signal

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

import chaffinch
from chaffinch import InputError
from chaffinch.flows.cli.shuffle_and_descend import descend, shuffle
from chaffinch.flows.differentiable_selection import differentiable_selection
from chaffinch.tasks.settings.descent import DescentSettings, SharingSettings, ShuffleSettings
from tests.flows.cli.programs import CHAFFINCH, environment, eventually, started
from tests.refusals import chaffinch_here


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write the same rows, of which three columns predict the target, in each format."""
    path = tmp_path_factory.mktemp("rows")
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 40)) * (random.random((3000, 40)) < 0.5)
    y = X[:, [4, 11, 30]] @ [3, -2, 2] + random.normal(size=3000)
    order = np.argsort(y)
    X, y = X[order], y[order]
    for number, part in enumerate((slice(0, 1000), slice(1000, 3000))):
        dump_svmlight_file(X[part], y[part], str(path / f"{number}.svm"), zero_based=False)
    names = [f"c{d}" for d in range(40)]
    pd.DataFrame(X, columns=names).assign(y=y).to_parquet(path / "rows.parquet")
    return path


def said(command, *arguments):
    """Return what a command prints, on standard output and on standard error."""
    ended = CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout, ended.stderr


@pytest.mark.e2e
def test_from_several_texts_to_the_features_by_command(folder, tmp_path):
    table, out = tmp_path / "table", tmp_path / "out"
    texts = (folder / "0.svm", folder / "1.svm")
    told, steps = said(shuffle, *texts, "--one-based", "--to", table, "--block-rows", 1000)
    assert told == f"Wrote {table}: 3,000 rows of 40 columns, blocks: 3\n"
    assert "1/1 shuffle the rows: done after " in steps
    told, steps = said(descend, table, "--n-features", 3, "--to", out)
    first, last = told.splitlines()
    assert first.startswith("Kept 3 of 40, the best first: ")
    assert set(first.partition("first: ")[2].split(", ")) == {"5", "12", "31"}
    assert last == f"Features: {out}/features.json"
    for line in ("1/2 read all rows once: done after ", "2/2 descend: done after "):
        assert line in steps
    scores = {
        one["name"]: one["score"]
        for one in json.loads((out / "features.json").read_bytes())["features"]
    }
    assert first.endswith(", ".join(sorted(scores, key=lambda name: -scores[name])))
    state = out / "state.safetensors"
    more, nothing = said(
        descend, table, "--n-features", 2, "--steps", 2, "--start", state, "--to", out,
        "--order", 2, "--quiet", "--json",
    )  # fmt: skip
    assert nothing == ""
    content = json.loads((out / "features.json").read_bytes())
    del content["sha256"]
    assert json.loads(more) == content
    assert (len(content["path"]), content["settings"]["order"]) == (2, 2)


def test_from_parquet_by_command(folder, tmp_path, caplog):
    table, source = tmp_path / "table", folder / "rows.parquet"
    asked = ("--target", "y", "--drop", "c0,c1", "--sparse", "--to", table, "--json")
    found = json.loads(said(shuffle, source, *asked)[0])
    written = chaffinch.open_shuffled(table)
    assert found == {
        "table": str(table),
        "rows": 3000,
        "columns": 38,
        "blocks": len(written.block_rows),
        "hash": written.hash,
    }
    asked = ("--penalty", 0.5, "--task", "regression", "--cluster", "none", "--json")
    content = json.loads(said(descend, table, *asked, "--to", tmp_path / "out")[0])
    assert {"c4", "c11", "c30"} <= {one["name"] for one in content["features"]}
    assert content["settings"] == DescentSettings(penalty=0.5, task="regression").model_dump()
    told, _ = said(descend, table, "--penalty", 1e9, "--to", tmp_path / "none")
    assert told == f"Kept 0 of 38\nFeatures: {tmp_path}/none/features.json\n"
    assert "no feature is worth a penalty of 1e+09; give a lower one" in caplog.text


@pytest.mark.e2e
def test_what_cannot_be_is_a_line_and_a_descent_that_is_stopped_says_that_it_goes_on(
    folder, home, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    table = str(tmp_path / "table")
    for command, line in (
        (("shuffle", str(folder / "0.svm"), "--to", table), "zero_based must be given"),
        (("descend", table, "--n-features", "3", "--to", "out"), f"there is no file {table}"),
        (
            ("descend", str(folder / "rows.parquet"), "--n-features", "3", "--to", "out"),
            f"{folder}/rows.parquet may have its rows in an order of their own",
        ),
        (("descend", table, "--to", "out"), "one of n_features and penalty must be given"),
    ):
        ended = chaffinch_here(*command)
        assert (ended.returncode, ended.stdout) == (2, "")
        (error,) = ended.stderr.splitlines()
        assert error.startswith(f"Error: {line}")
    assert not (tmp_path / "out").exists()
    X = np.random.default_rng(0).normal(size=(20_000, 300))  # a descent of seconds
    wide = pd.DataFrame(X, columns=[f"c{d}" for d in range(X.shape[1])]).assign(y=X[:, 0])
    wide.to_parquet(tmp_path / "wide.parquet")
    said(shuffle, tmp_path / "wide.parquet", "--target", "y", "--to", table)
    log, out = tmp_path / "log", tmp_path / "out"
    long = ("descend", table, "--n-features", "3", "--order", "8", "--batch-rows", "10000")
    long += ("--blocks-per-step", "2", "--to", str(out))
    with started(*CHAFFINCH, *long, env=environment(home), log=log) as going:
        eventually(out.exists)
        going.send_signal(signal.SIGTERM)
        assert going.wait(60) == 143
    said_last = log.read_text().splitlines()[-1]
    assert said_last == "Stopped. The same command continues where it was seconds ago."


@pytest.mark.e2e
def test_as_a_flow(folder, server, tmp_path):
    asked = DescentSettings(n_features=3, blocks_per_step=3)
    state = differentiable_selection(
        str(tmp_path / "table"),
        str(tmp_path / "out"),
        asked,
        files=[str(folder / "rows.parquet")],
        shuffle=ShuffleSettings(target="y", block_rows=1000),
        sharing=SharingSettings(cluster="local", workers=2),
        return_state=True,
    )
    found = state.result()
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    assert run["name"].startswith("table 3 features 20")  # its date follows
    assert found.features == ["c4", "c11", "c30"]
    artifacts = server.artifacts(run["id"])
    assert artifacts["differentiable-selection-progress"]["data"] == 100
    shown = json.loads(artifacts["differentiable-selection-features"]["data"])
    assert {one["feature"] for one in shown} == set(found.features)
    assert [one["score"] for one in shown] == sorted(
        (one["score"] for one in found.content["features"]), reverse=True
    )

    assert eventually(lambda: server.completed_tasks(run["id"]) == ["shuffle the rows", "descend"])
    start, more = str(found.folder / "state.safetensors"), str(tmp_path / "more")
    again = differentiable_selection(str(tmp_path / "table"), more, asked, start=start)
    assert again.content["start"] == found.content["state"]
    assert len(list(tmp_path.rglob("features.json"))) == 2


def test_settings_of_the_shuffle_without_files_are_refused_before_any_work(tmp_path):
    asked = (str(tmp_path / "table"), str(tmp_path / "out"), DescentSettings(n_features=3))
    with pytest.raises(InputError) as refusal:
        inspect.unwrap(differentiable_selection.fn)(
            *asked, shuffle=ShuffleSettings(target="y", block_rows=1000)
        )
    assert str(refusal.value) == (
        "the settings of the shuffle are for files, and there are none to shuffle, but they set "
        "block_rows, target; give files, or leave shuffle out"
    )
    assert not any(tmp_path.iterdir())

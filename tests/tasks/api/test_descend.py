"""A descent into a folder: what it leaves there, and that a kill costs next to nothing."""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import dump_svmlight_file

import chaffinch
from chaffinch import InputError
from chaffinch.storage.files import is_sealed, write_file
from chaffinch.storage.runs import stages
from chaffinch.tasks.api.descend import descend
from chaffinch.tasks.api.shuffle import shuffle_files
from chaffinch.tasks.selection.checkpoint_file import seal_of
from chaffinch.tasks.settings.descent import DescentSettings, SharingSettings, ShuffleSettings
from tests.tasks.api.test_differentiable_selection import INFORMATIVE, synthetic

ASKED = DescentSettings(n_features=3, steps=20)
TO_THE_END = DescentSettings(n_features=3)
NAME_IT = r"name the state that a descent left, such as state\.safetensors, or begin again, without"


def written(folder, name="table", **options):
    """Return the path of a table with names."""
    X, y = synthetic(**options)
    frame = pd.DataFrame(X, columns=[f"column {d}" for d in range(X.shape[1])]).assign(y=y)
    frame.to_parquet(folder / f"{name}-raw.parquet")
    asked = ShuffleSettings(target="y", sparse=True, block_rows=1000)
    path = folder / f"{name}.parquet"
    shuffle_files([str(folder / f"{name}-raw.parquet")], path, asked)
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Write a table, and one of newer rows."""
    folder = tmp_path_factory.mktemp("tables")
    return written(folder), written(folder, "newer", seed=1)


def left_in(folder):
    """Return the bytes of the features and the state."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def unfinished_in(folder):
    """Return the checkpoints below a folder."""
    return [path for path in folder.rglob("*.safetensors") if path.parent.name == ".unfinished"]


def stopped(data, folder, asked):
    """Descend for four steps."""

    def stop(step, done, total):
        if (step, done) == ("descend", 4):
            raise StoppedError

    with pytest.raises(StoppedError):
        descend(data, folder, asked, on_progress=stop)


def test_the_folder_has_the_features_of_the_same_descent_in_python_and_its_state(tables, tmp_path):
    found = descend(tables[0], tmp_path / "out", TO_THE_END)
    assert found.features == [f"column {position}" for position in INFORMATIVE]
    content = json.loads((tmp_path / "out" / "features.json").read_bytes())
    assert is_sealed(content)
    assert {**found.content, "sha256": content["sha256"]} == content
    table = chaffinch.open_shuffled(tables[0])
    plain = chaffinch.differentiable_selection(table, n_features=3)
    assert content["features"] == [
        {
            "position": position,
            "name": f"column {position}",
            "score": plain.scores[position],
            "kept": plain.kept[position],
        }
        for position in plain.features
    ]
    assert [step["loss"] for step in content["path"]] == plain.losses.tolist()
    assert [step["kept"] for step in content["path"]] == plain.sums.tolist()
    assert [step["penalty"] for step in content["path"]] == plain.penalties.tolist()
    assert content["table"] == {"hash": table.hash, "rows": 4000, "columns": 60}
    chaffinch.save_state(plain.state, tmp_path / "state")
    of_python = (tmp_path / "state").read_bytes()
    assert left_in(tmp_path / "out")["state.safetensors"] == of_python
    assert content["state"] == seal_of(of_python)


def test_it_is_the_same_to_the_byte_wherever_and_whoever_computes(tables, tmp_path, scheduler):
    asked = DescentSettings(penalty=0.5, steps=6, blocks_per_step=4)
    descend(tables[0], tmp_path / "here", asked)
    descend(tables[0], tmp_path / "there", asked, sharing=SharingSettings(cluster=scheduler))
    assert left_in(tmp_path / "here") == left_in(tmp_path / "there")
    assert not list((tmp_path / "here").rglob("*checkpoint*"))


def test_newer_rows_go_on_from_the_state_even_where_they_replace_it(tables, tmp_path):
    old, newer = tables
    first = descend(old, tmp_path / "out", TO_THE_END)
    begun = (tmp_path / "out" / "state.safetensors").read_bytes()
    (tmp_path / "state").write_bytes(begun)
    apart = descend(newer, tmp_path / "apart", TO_THE_END, start=tmp_path / "state")
    again = descend(
        newer, tmp_path / "out", TO_THE_END, start=tmp_path / "out" / "state.safetensors"
    )
    assert left_in(tmp_path / "out") == left_in(tmp_path / "apart")
    assert again.content["rows_seen"] == 8_000
    assert again.content["start"] == first.content["state"] == seal_of(begun)
    assert again.features == apart.features == first.features
    assert (
        descend(newer, tmp_path / "fresh", TO_THE_END).content["features"]
        != again.content["features"]
    )


def of_names(folder, names, seed=0):
    """Return the path of a table of the same world, t = 3a - 2b and noise, with columns so called.

    Numbers in place of names are those of columns that are counted from 1.
    """
    random = np.random.default_rng(seed)
    X = random.normal(size=(2000, 8))
    t = 3 * X[:, 0] - 2 * X[:, 1] + 0.1 * random.normal(size=2000)
    path = folder / f"{names}-{seed}.parquet"
    if names[0].isdigit():
        text = folder / "rows.svm"
        dump_svmlight_file(X, t, str(text), zero_based=False)
        shuffle_files([str(text)], path, ShuffleSettings(zero_based=False))
        return path
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(t=t)
    frame[[*names, "t"]].to_parquet(folder / "raw.parquet")
    sparse = ShuffleSettings(target="t", sparse=True)
    shuffle_files([str(folder / "raw.parquet")], path, sparse)
    return path


def test_newer_rows_have_the_columns_of_the_start_by_name_and_in_its_order(tmp_path):
    asked = DescentSettings(n_features=2)
    start, turned = tmp_path / "old" / "state.safetensors", "hgfedcba"
    descend(of_names(tmp_path, "abcdefgh"), tmp_path / "old", asked)
    newer = of_names(tmp_path, "abcdefgh", seed=1)
    said = "X must have the column 'a', as at the start, where it has 'h'; give the same columns in"
    with pytest.raises(InputError, match=said):
        descend(of_names(tmp_path, turned, seed=1), tmp_path / "new", asked, start=start)
    assert not left_in(tmp_path / "new")
    found = descend(newer, tmp_path / "new", asked, start=start)
    assert found.features == ["a", "b"]
    assert found.content["rows_seen"] == 4000


def test_a_start_without_names_takes_any_and_the_state_that_is_left_has_them(tmp_path):
    asked = DescentSettings(n_features=2)
    descend(of_names(tmp_path, "12345678"), tmp_path / "old", asked)
    start = tmp_path / "old" / "state.safetensors"
    table = of_names(tmp_path, "abcdefgh", seed=1)
    assert descend(table, tmp_path / "new", asked, start=start).features == ["a", "b"]
    left = tmp_path / "new" / "state.safetensors"
    again = descend(of_names(tmp_path, "12345678", seed=2), tmp_path / "again", asked, start=left)
    assert again.features == ["1", "2"]
    with pytest.raises(InputError, match="X must have the column 'a', as at the start"):
        descend(
            of_names(tmp_path, "hgfedcba"), tmp_path / "new", asked,
            start=tmp_path / "again" / "state.safetensors",
        )  # fmt: skip


@pytest.mark.usefixtures("at_every_step")
def test_a_stopped_descent_of_equal_rows_with_other_names_is_another_one(tmp_path):
    def stop(step, done, total):
        if (step, done) == ("descend", 4):
            raise StoppedError

    X, y = synthetic(1500, 26)
    tables = []
    for names in (ascii_lowercase, ascii_lowercase[::-1]):
        pd.DataFrame(X, columns=list(names)).assign(t=y).to_parquet(tmp_path / "raw.parquet")
        tables.append(tmp_path / f"{names}.parquet")
        shuffle_files([str(tmp_path / "raw.parquet")], tables[-1], ShuffleSettings(target="t"))
    with pytest.raises(StoppedError):
        descend(tables[0], tmp_path / "out", ASKED, on_progress=stop)
    descend(tables[1], tmp_path / "out", ASKED)
    descend(tables[1], tmp_path / "whole", ASKED)
    assert left_in(tmp_path / "out") == left_in(tmp_path / "whole")


class StoppedError(Exception):
    """What stops a descent in the middle."""


@pytest.fixture
def at_every_step(monkeypatch):
    """Write a checkpoint after every step."""
    monkeypatch.setattr(stages, "_SECONDS_APART", 0.0)
    monkeypatch.setattr(stages, "_SHARE", math.inf)


@pytest.fixture(scope="module")
def begun(tables, tmp_path_factory):
    """A folder with a descent of five steps, and what one that goes on from there leaves."""
    old, newer = tables
    folder = tmp_path_factory.mktemp("begun")
    for name in ("begun", "whole"):
        descend(old, folder / name, DescentSettings(n_features=3, steps=5))
    descend(newer, folder / "whole", ASKED, start=folder / "begun" / "state.safetensors")
    return folder / "begun", left_in(folder / "whole")


@pytest.mark.usefixtures("at_every_step")
@pytest.mark.parametrize(
    ("at", "in_place"),
    [
        (1, False),
        (8, True),
        ("features.json", True),
        ("state.safetensors", True),
        ("state.safetensors", False),
    ],
)
def test_one_that_was_stopped_goes_on_as_if_it_never_had_been(
    tables, begun, tmp_path, monkeypatch, at, in_place
):
    """At a step, or before a file is written; in place the start is what will be replaced."""
    _, newer = tables
    start = shutil.copytree(begun[0], tmp_path / "begun") / "state.safetensors"
    folder = tmp_path / ("begun" if in_place else "stopped")

    def stop_at_a_step(step, done, total):
        if (step, done, total) == ("descend", at, 20):
            raise StoppedError

    def stop_at_a_file(path, content):
        if path.name == at:
            raise StoppedError
        write_file(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("chaffinch.tasks.api.descend.write_file", stop_at_a_file)
        with pytest.raises(StoppedError):
            descend(newer, folder, ASKED, start=start, on_progress=stop_at_a_step)
    made = []
    descend(newer, folder, ASKED, start=start, on_progress=lambda *said: made.append(said))
    first = 20 if isinstance(at, str) else at - 1
    steps = [done for step, done, total in made if (step, total) == ("descend", 20)]
    assert steps == list(range(first, 21))
    assert left_in(folder) == begun[1]
    assert not unfinished_in(folder)


KILLED = """
import math, os, signal, sys
from chaffinch.storage.runs import stages as checkpoints
from chaffinch.tasks.api import descend
from tests.tasks.api.test_descend import ASKED

checkpoints._SECONDS_APART, checkpoints._SHARE = 0.0, math.inf

def kill(step, done, total):
    if (step, done) == ("descend", 9):
        os.kill(os.getpid(), signal.SIGKILL)

descend.descend(*sys.argv[1:], ASKED, on_progress=kill)
"""


@pytest.mark.e2e
def test_one_that_was_killed_goes_on(tables, tmp_path):
    command = [sys.executable, "-c", KILLED, str(tables[0]), str(tmp_path / "out")]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], check=False)
    assert ended.returncode == -signal.SIGKILL
    made = []
    descend(tables[0], tmp_path / "out", ASKED, on_progress=lambda *said: made.append(said))
    assert ("descend", 8, 20) in made
    assert ("descend", 7, 20) not in made
    descend(tables[0], tmp_path / "whole", ASKED)
    assert left_in(tmp_path / "out") == left_in(tmp_path / "whole")


@pytest.mark.usefixtures("at_every_step")
@pytest.mark.parametrize("other", ["steps", "rows"])
def test_what_another_command_did_not_finish_is_left_for_it(tables, tmp_path, other, caplog):
    stopped(tables[0], tmp_path / "out", ASKED)
    asked = DescentSettings(n_features=3, steps=21) if other == "steps" else ASKED
    data, made = tables[other == "rows"], []
    descend(data, tmp_path / "out", asked, on_progress=lambda *said: made.append(said))
    assert ("descend", 0, asked.steps) in made
    assert f"{tmp_path / 'out'} has what other commands did not finish" in caplog.text
    descend(data, tmp_path / "whole", asked)
    assert left_in(tmp_path / "out") == left_in(tmp_path / "whole")
    made.clear()
    descend(tables[0], tmp_path / "out", ASKED, on_progress=lambda *said: made.append(said))
    assert ("descend", 2, 20) not in made
    assert ("descend", 3, 20) in made
    descend(tables[0], tmp_path / "whole", ASKED)
    assert left_in(tmp_path / "out") == left_in(tmp_path / "whole")
    assert not unfinished_in(tmp_path / "out")


@pytest.mark.usefixtures("at_every_step")
def test_of_what_other_commands_did_not_finish_the_newest_are_left(tables, tmp_path):
    kept = []
    for steps in range(10, 15):
        stopped(tables[0], tmp_path / "out", DescentSettings(n_features=3, steps=steps))
        kept += [path for path in unfinished_in(tmp_path / "out") if path not in kept]
    assert len(kept) == 5
    assert sorted(unfinished_in(tmp_path / "out")) == sorted(kept[-3:])


@pytest.mark.usefixtures("at_every_step")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: content[:-9] + bytes(9), "the state is damaged (it was changed)"),
        (lambda content: content[:99], "the state cannot be read ("),
    ],
)
def test_a_damaged_checkpoint_is_of_no_use(tables, tmp_path, damage, said, caplog):
    stopped(tables[0], tmp_path / "out", ASKED)
    (checkpoint,) = unfinished_in(tmp_path / "out")
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    made = []
    descend(tables[0], tmp_path / "out", ASKED, on_progress=lambda *said: made.append(said))
    assert ("descend", 0, 20) in made
    assert (
        f"checkpoint {checkpoint} cannot be used, so its work starts again: {said}" in caplog.text
    )
    assert "without start" not in caplog.text  # there was none
    descend(tables[0], tmp_path / "whole", ASKED)
    assert left_in(tmp_path / "out") == left_in(tmp_path / "whole")


def test_a_checkpoint_is_not_written_after_every_step(tables, tmp_path):
    def look(step, done, total):
        assert not unfinished_in(tmp_path)

    descend(tables[0], tmp_path / "out", ASKED, on_progress=look)


def test_columns_of_svmlight_are_named_as_it_counts(tmp_path):
    X, y = synthetic(1500, 30)
    for first, is_zero_based in ((0, True), (1, False)):
        text = tmp_path / f"{first}.svm"
        dump_svmlight_file(X, y, str(text), zero_based=is_zero_based)
        asked = ShuffleSettings(zero_based=is_zero_based)
        table = shuffle_files([str(text)], tmp_path / "x.parquet", asked)
        found = descend(table.path, tmp_path / "out", DescentSettings(n_features=3))
        assert [one["position"] for one in found.content["features"]] == INFORMATIVE
        assert found.features == [str(position + first) for position in INFORMATIVE]


@pytest.mark.parametrize("block_rows", [2000, 1000], ids=["one block", "two blocks"])
def test_a_column_that_is_too_large_is_told_as_the_files_call_it(tmp_path, block_rows):
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3)) * [1, 1, 1e200]
    y = X[:, 0] + random.normal(size=2000)
    text, raw, table = (tmp_path / name for name in ("x.svm", "raw.parquet", "table"))
    dump_svmlight_file(X, y, str(text), zero_based=False)
    pd.DataFrame(X, columns=list("abc")).assign(t=y).to_parquet(raw)
    for source, asked, name in (
        (text, {"zero_based": False}, "3"),
        (raw, {"target": "t"}, "'c'"),
        (raw, {"target": "t", "sparse": True}, "'c'"),
    ):
        shuffle_files([str(source)], table, ShuffleSettings(**asked, block_rows=block_rows))
        with pytest.raises(InputError, match=f"finite but column {name} has larger ones; divide"):
            descend(table, tmp_path / "out", DescentSettings(n_features=1))


def test_files_are_known_by_what_they_hold(tmp_path):
    X, y = synthetic(300)
    text, parquet = tmp_path / "rows.parquet", tmp_path / "rows.svm"  # the names do not count
    dump_svmlight_file(X, y, str(text))
    names = [f"column {d}" for d in range(60)]
    pd.DataFrame(X, columns=names).assign(y=y).to_parquet(parquet)
    path = tmp_path / "out"

    def shuffled(files, **asked):
        return shuffle_files(list(map(str, files)), path, ShuffleSettings(**asked))

    sparse = shuffled([text, text], zero_based=True, n_columns=70, dtype="float32", seed=3)
    assert sparse.shape == (600, 70)
    assert sparse.read(0)[0].dtype == np.float32
    dense = shuffled([parquet], target="y", drop=names[1:])
    assert dense.columns == ("column 0",)
    assert not scipy.sparse.issparse(dense.read(0)[0])
    assert scipy.sparse.issparse(shuffled([parquet], target="y", sparse=True).read(0)[0])
    before = path.read_bytes()
    copy = tmp_path / "copy"
    copy.write_bytes(before)
    already = (
        "copy is a table in random order already, .* give it to chaffinch descend as it is, or"
    )
    for files, asked, said in (
        ([copy], {"target": "target"}, already),
        ([parquet, copy], {"target": "y"}, already),
        ([parquet], {}, "target must be named, as the files are Parquet; .* as in --target price"),
        ([text], {}, "zero_based must be given, .* does not show it: give --zero-based where"),
        ([parquet], {"target": "y", "zero_based": False}, "zero_based is for text in the format"),
        ([parquet], {"target": "y", "n_columns": 5}, "n_columns is for text in .* leave it out"),
        ([text], {"zero_based": True, "target": "y"}, "target is for Parquet but the files are"),
        ([text], {"zero_based": True, "sparse": True}, "sparse is for Parquet but .* leave it out"),
        ([text, parquet], {"target": "y"}, "rows.svm is Parquet but rows.parquet is not; give fil"),
        ([tmp_path / "none"], {"target": "y"}, "there is no file .*none"),
    ):
        with pytest.raises(InputError, match=said) as refusal:
            shuffled(files, **asked)
        assert "\n" not in str(refusal.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a.csv", "A.CSV.gz", "a.tsv"])
def test_delimited_text_is_refused_by_its_name_whatever_else_is_asked(tmp_path, name):
    (tmp_path / name).write_text("y,a\n1,2\n")
    for asked in (ShuffleSettings(), ShuffleSettings(target="y"), ShuffleSettings(zero_based=True)):
        with pytest.raises(
            InputError, match=rf"^{name} is delimited text .*; write it as Parquet$"
        ):
            shuffle_files([str(tmp_path / name)], tmp_path / "out.parquet", asked)


def test_what_cannot_be_is_an_error_of_the_user_in_one_line(tables, tmp_path):
    folder = tmp_path / "out"
    told = []
    with pytest.raises(InputError, match=r"n_features must be in 1\.\.60 but is 61"):
        descend(
            tables[0],
            folder,
            DescentSettings(n_features=61),
            on_progress=lambda *said: told.append(said),
        )
    assert told == []
    assert not folder.exists()
    for asked, said in (
        ({}, "one of n_features and penalty must be given but they are None and None; say how"),
        ({"n_features": 3, "order": 9},
         "order must be in 1..8 but is 9: with .*; take a lower one"),
        ({"n_features": 3, "blocks_per_step": 10}, "blocks_per_step must be in 1..4"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said) as refusal:
            descend(tables[0], folder, DescentSettings(**asked))
        assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match=r"start .*none cannot be read: No such file"):
        descend(tables[0], folder, ASKED, start=tmp_path / "none")
    with pytest.raises(InputError, match="in random order, with chaffinch shuffle or by"):
        descend(str(tables[0]).replace(".parquet", "-raw.parquet"), folder, ASKED)
    for content in (b"", b"garbage" * 9, b'{"format_version": 1}'):
        (tmp_path / "garb").write_bytes(content)
        with pytest.raises(InputError, match=rf"^start .*garb: the state .*{NAME_IT}"):
            descend(tables[0], folder, ASKED, start=tmp_path / "garb")
    with pytest.raises(InputError, match="garb is a file, but the features go into a folder; name"):
        descend(tables[0], tmp_path / "garb", ASKED)
    earlier = tmp_path / "earlier"
    descend(tables[0], earlier, DescentSettings(n_features=3, steps=1))
    for start in (earlier / "features.json", tables[0]):
        with pytest.raises(InputError, match=rf"^start {start}: the state cannot .*{NAME_IT}"):
            descend(tables[0], folder, ASKED, start=start)
    said = rf"^start must be a file but {earlier} is a folder; name .* {earlier}/state.safetensors$"
    with pytest.raises(InputError, match=said):
        descend(tables[0], folder, ASKED, start=earlier)
    assert not left_in(folder)
    (folder / "state.safetensors").mkdir()
    with pytest.raises(InputError, match=r"state\.safetensors must be a file but .* is a folder"):
        descend(tables[0], folder, ASKED, on_progress=lambda *_: pytest.fail("work was done"))
    assert not left_in(folder)

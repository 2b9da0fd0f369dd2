"""A finished run is read back only if it is whole, and the remedy that is named mends it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings, StorageError
from chaffinch.storage.runs.store import Store
from tests.refusals import chaffinch_here
from tests.synthetic import bad_table, good_table

QUICK = {
    "model": ModelSettings(tuning="none", parameters={"n_estimators": 20, "min_child_samples": 3}),
    "method": "gbmo",
}
# The files that a result is read from, and the stage that wrote each.
READ = {
    "selection.json": "evaluate",
    "elimination.parquet": "optimise_mask",
    "model/model.txt": "retrain",
    "report.html": "write_report",
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store with one finished run, never changed."""
    store = tmp_path_factory.mktemp("kept")
    return store, chaffinch.select(bad_table(), "y", **QUICK, store=store)


@pytest.fixture
def finished(kept, tmp_path):
    """A copy of it to damage."""
    store, result = kept
    shutil.copytree(store, tmp_path / "store")
    return tmp_path / "store", tmp_path / "store" / "runs" / result.run


def again(store):
    """Give the same command again."""
    return chaffinch.select(bad_table(), "y", **QUICK, store=store)


def refused(store, run, message):
    """Hold that reading the run back is refused in that one line."""
    with pytest.raises(StorageError) as refusal:
        chaffinch.load_run(run.name, store=store)
    assert str(refusal.value) == message


def another_digit(whole):
    """Change one digit, which leaves JSON, a model or a page as readable as it was."""
    place = max(whole.rfind(b"1"), whole.rfind(b"2"))
    return whole[:place] + b"7" + whole[place + 1 :]


DAMAGES = {
    "another digit": another_digit,
    "cut short": lambda whole: whole[: len(whole) // 2],
    "an empty object": lambda whole: b"{}",
    "no bytes": lambda whole: b"",
}


@pytest.mark.parametrize(("name", "damage"), [*zip(READ, DAMAGES, strict=True)])
def test_a_changed_file_is_refused_by_name_and_mended_by_the_same_command(name, damage, finished):
    store, run = finished
    whole = (run / name).read_bytes()
    (run / name).write_bytes(DAMAGES[damage](whole))
    refused(
        store,
        run,
        f"{name} of run {run.name!r} has changed since it was written; "
        "make the same selection again to replace it",
    )
    before = {path.stem: path.stat().st_mtime_ns for path in (run / "stages").iterdir()}
    again(store)
    after = {path.stem: path.stat().st_mtime_ns for path in (run / "stages").iterdir()}
    assert after.pop(READ[name]) > before.pop(READ[name])
    chaffinch.load_run(run.name, store=store).model.predict(bad_table())
    if name != "report.html":  # which tells the time
        assert (run / name).read_bytes() == whole


@pytest.mark.parametrize("name", READ)
def test_a_missing_file_is_refused_by_name_and_mended_by_the_same_command(name, finished):
    store, run = finished
    (run / name).unlink()
    refused(
        store,
        run,
        f"{name} of run {run.name!r} is missing; make the same selection again to replace it",
    )
    again(store)
    assert chaffinch.load_run(run.name, store=store).run == run.name


def test_a_file_that_leads_elsewhere_is_refused(finished, tmp_path):
    store, run = finished
    outside = tmp_path / "outside.html"
    (run / "report.html").rename(outside)
    (run / "report.html").symlink_to(outside)
    with pytest.raises(
        StorageError, match=r"report.html of run .* is refused: .*; remove the link"
    ):
        chaffinch.load_run(run.name, store=store)


def test_what_no_manifest_names_is_not_looked_at(kept, finished):
    store, run = finished
    for left in ("model/.aside-1.txt", "model/notes", "stages/.aside-2.json", "notes/a"):
        (run / left).parent.mkdir(exist_ok=True)
        (run / left).write_bytes(b"half")
    back = chaffinch.load_run(run.name, store=store)
    assert back.contract == kept[1].contract
    assert back.model.predict(bad_table()).shape == (60,)


@pytest.mark.parametrize("stage", ["describe", "choose_mask", "evaluate", "write_report"])
def test_a_run_without_one_of_its_manifests_is_not_finished(stage, finished):
    store, run = finished
    (run / "stages" / f"{stage}.json").unlink()
    with pytest.raises(InputError, match="is not finished; run it again to continue it"):
        chaffinch.load_run(run.name, store=store)
    done = chaffinch_here("runs", "--store", store, "--json")
    (listed,) = json.loads(done.stdout)
    assert (listed["state"], listed["next_stage"]) == ("unfinished", stage)
    again(store)
    assert chaffinch.load_run(run.name, store=store).run == run.name


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (rb'"seconds": \d', b'"seconds": 9'),
        (rb'"verdict": "[a-z ]+"', b'"verdict": "helps a lot"'),
        (rb"\A\{", b""),
        (rb'"selection.json": "[0-9a-f]+",\s*', b""),
    ],
)
def test_a_changed_manifest_is_refused_by_name_and_mended(good, bad, finished):
    store, run = finished
    manifest = run / "stages" / "evaluate.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(re.sub(good, bad, whole, count=1))
    assert manifest.read_bytes() != whole
    with pytest.raises(StorageError) as refusal:
        chaffinch.load_run(run.name, store=store)
    assert str(refusal.value).startswith(f"{manifest} is damaged (")
    assert str(refusal.value).endswith("); remove it and run again")

    done = chaffinch_here("runs", "--store", store)
    assert done.returncode == 0
    assert " damaged " in done.stdout
    assert "chaffinch show RUN reports what is damaged and how to repair it." in done.stdout

    manifest.unlink()
    again(store)
    assert chaffinch.load_run(run.name, store=store).run == run.name


def test_the_listing_reads_no_file_but_manifests_and_contracts(finished):
    store, run = finished
    for name in {*READ} - {"selection.json"}:
        (run / name).write_bytes(b"{}")
    (listed,) = json.loads(chaffinch_here("runs", "--store", store, "--json").stdout)
    assert (listed["run"], listed["state"]) == (run.name, "finished")


@pytest.mark.parametrize("name", ["store.json", "runs/{run}/stages/evaluate.json"])
def test_a_later_release_is_named_at_every_door(name, finished):
    store, run = finished
    path = store / name.format(run=run.name)
    document = path.read_bytes()
    later = document.replace(b'"format_version": 1', b'"format_version": 7')
    assert later != document
    path.write_bytes(later)
    message = (
        f"{path} was written by a later release (format 7); this one reads up to 1; "
        "update chaffinch"
    )
    refused(store, run, message)
    done = chaffinch_here("show", run.name, "--store", store)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {message}\n")


def as_formerly(found):
    """What an earlier writer had in place of a contract, or a result of the stage."""
    found = json.loads(json.dumps(found))
    del found["judged_on"]
    for name in ("all_features_over_constant", "tolerance", "share_lost_at_most"):
        del found["comparison"][name]
    found["comparison"] |= {"verdict": "does not help", "sentence": "Selection does not help here."}
    found.get("settings", {}).pop("tolerance", None)
    return found


def test_a_contract_of_an_earlier_release_is_read_and_shown(finished):
    store, run = finished
    kept = Store.find(store)
    (record,) = [r for r in kept.existing(run.name).records() if r.stage == "evaluate"]
    with kept.run(run.name).stage("evaluate", record.key) as writer:
        for each in record.files:
            content = (run / each).read_bytes()
            if each == "selection.json":
                content = json.dumps(as_formerly(json.loads(content))).encode()
            writer.write(each, content)
        writer.result = as_formerly(record.result)
    back = chaffinch.load_run(run.name, store=store)
    assert back.comparison["verdict"] == "does not help"
    assert back.verdict == "Selection does not help here."
    done = chaffinch_here("show", run.name, "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Selection does not help here." in done.stdout
    (listed,) = json.loads(chaffinch_here("runs", "--store", store, "--json").stdout)
    assert (listed["verdict"], listed["judged_on"]) == ("does not help", "test")
    assert listed["loss_selected"] == back.losses["test"]["selected"]
    assert chaffinch.load_contract(run / "selection.json") == back.contract
    newer = chaffinch.select(bad_table(), "y", **QUICK, seed=1, store=store)
    found = chaffinch.difference(newer, run.name, store=store)
    assert found.is_same or found.loss.tolerance == 0.02


READ_AGAIN_AND_AGAIN = """
import sys
import chaffinch
run, store = sys.argv[1:]
print("ready", flush=True)
while sys.stdin.readline():
    try:
        chaffinch.load_run(run, store=store)
        print("whole", flush=True)
    except chaffinch.InputError as error:
        print(error, flush=True)
"""


def test_a_stage_that_is_done_again_is_no_part_of_a_finished_run(finished):
    store, run = finished
    (record,) = [
        r for r in Store.find(store).existing(run.name).records() if r.stage == "write_report"
    ]
    command = [sys.executable, "-c", READ_AGAIN_AND_AGAIN, run.name, str(store)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:

        def asked():
            reader.stdin.write("\n")
            reader.stdin.flush()
            return reader.stdout.readline()

        assert reader.stdout.readline() == "ready\n"
        assert asked() == "whole\n"
        with Store.find(store).run(run.name).stage("write_report", record.key) as writer:
            writer.write("report.html", b"<p>another")
            assert asked() == f"run {run.name!r} is not finished; run it again to continue it\n"
        assert asked() == "whole\n"
        reader.stdin.close()


# What is read back


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    store = tmp_path_factory.mktemp("good")
    result = chaffinch.select(
        good_table(), "churned", method="flbmo", n_features=3, store=store,
        model=ModelSettings(tuning="none"),
    )  # fmt: skip
    return result, chaffinch.load_run(result.run, store=store)


def test_features_and_candidates_index_a_frame(good):
    table = good_table()
    for result in good:
        assert list(table[result.features].columns) == result.features
        assert list(table[result.candidates].columns) == sorted(table.columns[:-1])
        assert list(table[result.model.features].columns) == result.features


def test_what_a_user_does_to_the_lists_changes_no_result(good):
    table = good_table()
    for result in good:
        features, candidates = list(result.features), list(result.candidates)
        result.features.clear()
        result.candidates.append("later")
        result.model.features.reverse()
        assert (result.features, result.candidates) == (features, candidates)
        assert result.model.features == features
        assert list(result.transform(table).columns) == features
        assert isinstance(result.to_frame(), pd.DataFrame)


def test_a_result_names_its_run_its_features_and_its_verdict(good):
    result, back = good
    assert repr(result) == repr(back)
    for said in (result.run, repr(result.features), result.verdict):
        assert said in repr(result)
    assert Path(back.folder).name == back.run

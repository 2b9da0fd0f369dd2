"""The lowest versions that the installation allows run what `pip install chaffinch` promises."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import chaffinch
from tests.synthetic import good_table

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
import pandas, sklearn, chaffinch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
table = pandas.read_csv(sys.argv[1])
X, y = table.drop(columns="churned"), table["churned"]
selected = chaffinch.select(table, "churned", method="gbmo", store=sys.argv[2])
again = chaffinch.load_run(selected.run, store=sys.argv[2])
steps = make_pipeline(
    chaffinch.FeatureSelector("anova_f", n_features=2, keep=["age"]), LogisticRegression()
)
numbers = X.select_dtypes("number").fillna(0.0)
scores = cross_validate(steps, numbers, y, cv=2, error_score="raise")["test_score"]
contract = selected.contract.to_dict()
print(json.dumps([contract, selected.features, again.features, len(scores), sklearn.__version__]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return the Python of an environment with the lowest versions of what is needed directly."""
    folder = tmp_path_factory.mktemp("lowest")
    uv = Path(sys.executable).with_name("uv")
    copy = folder / "checkout"
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, tracked.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder / "venv"], check=True)
    lowest = ("--resolution", "lowest-direct", copy)
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *lowest], check=True)
    return python


def test_select_a_selector_and_the_command_work(python, tmp_path):
    path, store = tmp_path / "table.csv", tmp_path / "store"
    good_table(300).to_csv(path, index=False)
    left_out = {"PYTHONPATH", "PREFECT_API_URL"}  # as other tests of the process set them
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    run = partial(subprocess.run, capture_output=True, text=True, check=False, env=env)
    done = run([python, "-W", "ignore", "-c", SCRIPT, path, store])
    assert done.returncode == 0, done.stderr
    contract, selected, again, n_scores, version = json.loads(done.stdout)
    assert version.startswith("1.6.")
    newest = chaffinch.select(path, "churned", method="gbmo")
    assert selected == again == newest.features
    for one in (contract, expected := newest.contract.to_dict()):
        del one["versions"]
    assert contract == expected
    assert n_scores == 2

    command = [python.with_name("chaffinch"), "run", path, "--target", "churned", "--json"]
    options = ["--method", "gbmo", "--store", store]
    done = run([*command, *options])
    assert done.returncode == 0, done.stderr
    assert [one["name"] for one in json.loads(done.stdout)["features"]] == selected

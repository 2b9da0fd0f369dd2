"""What `pip install chaffinch` without extras can do, and what it says about the rest."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.synthetic import good_table

pytestmark = pytest.mark.e2e

EXTRAS = (
    "torch", "xgboost", "catboost", "ortools", "prefect", "fastapi", "uvicorn", "httpx", "dask",
    "distributed", "sqlalchemy", "psycopg", "deltalake", "duckdb", "pyiceberg",
    "adbc_driver_manager",
    "mlflow", "obstore", "openlineage", "pandera",
)  # fmt: skip
BEGIN = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {EXTRAS} else super().find_spec(name, path, target)

    @classmethod
    def find_distributions(cls, context):
        left_out = str(context.name).removesuffix("-cpu") in {EXTRAS}
        return iter(()) if left_out else super().find_distributions(context)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
import chaffinch
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[::3, :6]; y = y.iloc[::3]
"""


def program(text):
    script = BEGIN + textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-c", script],
        env={name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_select_report_and_selector_need_no_extra(tmp_path):
    done = program(f"""
        result = chaffinch.select(X, y, store={str(tmp_path / "store")!r})
        result.report({str(tmp_path / "report.html")!r})
        again = chaffinch.load_run(result.run, store={str(tmp_path / "store")!r})
        print((again.model.predict(X) == result.model.predict(X)).all())
        print(chaffinch.FeatureSelector("gbmo", model="linear").fit(X, y).transform(X).shape[0])
    """)
    assert (done.stdout, done.stderr) == (f"True\n{-(-569 // 3)}\n", "")
    assert (tmp_path / "report.html").stat().st_size > 10_000


LACKING = {
    'chaffinch.select(X, y, model="mlp")': "torch",
    'chaffinch.select(X, y, method="pefs")': "torch",
    'chaffinch.select(X, y, model="xgboost")': "xgboost",
    'chaffinch.select(X, y, model="catboost")': "catboost",
    'chaffinch.select(X, y, cluster="local")': "flows",
    "chaffinch.select(X, y, alternatives={'number': 1, 'search': 'simultaneous'})": "alternatives",
    "chaffinch.find_alternatives(chaffinch.qualities.Univariate([3, 2, 1]), k=1, "
    "n_alternatives=1, tau=1, search='simultaneous')": "alternatives",
    'chaffinch.select("sqlite:///a.db#table", "y")': "flows",
    'chaffinch.select("duckdb:///a.duckdb#table", "y")': "duckdb",
    'chaffinch.promoted("orders", store="s3://shop/store")': "objects",
    'chaffinch.exports.to_mlflow("orders")': "mlflow",
    'chaffinch.exports.to_openlineage("orders")': "openlineage",
    'chaffinch.exports.to_pandera("orders")': "pandera",
}


def test_what_needs_an_extra_names_it_in_a_line():
    done = program(f"""
        for call in {[*LACKING]}:
            try:
                eval(call)
            except chaffinch.InputError as error:
                print(error)
    """)
    said = done.stdout.splitlines()
    assert len(said) == len(LACKING), done.stderr
    for line, extra in zip(said, LACKING.values(), strict=True):
        assert line.endswith(f'which is not installed; run pip install "chaffinch[{extra}]"')


def commands(*several):
    """Run commands one after the other in one program; return it with the exit code of each."""
    done = program(f"""
        from chaffinch.flows.cli.main import main
        for words in {[["chaffinch", *map(str, words)] for words in several]}:
            sys.argv = words
            try:
                main()
            except SystemExit as end:
                print("ended with", end.code)
    """)
    ends = [line for line in done.stdout.splitlines() if line.startswith("ended with")]
    return done, [int(line.split()[-1]) for line in ends]


def test_the_commands_of_a_run_need_no_extra(tmp_path):
    table, store = tmp_path / "table.csv", ("--store", tmp_path / "store")
    good_table().to_csv(table, index=False)
    asked = (table, "--target", "churned", "--model", "linear", "--tuning", "none")
    done, codes = commands(("run", *asked, *store), ("runs", *store))
    assert codes == [0, 0], done.stderr
    (folder,) = (tmp_path / "store" / "runs").iterdir()
    by_gate = ("promote", folder.name, "--gate", *store)
    done, codes = commands(by_gate, ("promote", folder.name, *store), by_gate)
    assert codes == [5, 0, 0], done.stderr
    done, codes = commands(("run", *asked, *store))
    assert codes == [0], done.stderr
    assert "Compared with what is promoted as table:" in done.stderr


def test_commands_for_prefect_name_its_extra_in_a_line(tmp_path):
    table = tmp_path / "table.csv"
    good_table().to_csv(table, index=False)
    lacking = {
        "a run on a Prefect server": ("run", table, "--target", "y", "--prefect"),
        "chaffinch serve": ("serve", "--data", table, "--target", "y"),
        "chaffinch announce": ("announce", table),
        "chaffinch automations": ("automations",),
    }
    done, codes = commands(*lacking.values())
    assert codes == [2] * len(lacking)
    why = 'needs the package prefect, which is not installed; run pip install "chaffinch[flows]"'
    assert done.stderr.splitlines() == [f"Error: {what} {why}" for what in lacking]

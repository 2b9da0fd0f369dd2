"""What `pip install chaffinch` without extras can do, and what it says about the rest."""

import subprocess
import sys
import textwrap

import pytest

EXTRAS = (
    "torch", "xgboost", "ortools", "prefect", "fastapi", "uvicorn", "httpx", "dask",
    "distributed", "sqlalchemy", "psycopg", "click", "yaml",
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
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
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


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ('chaffinch.select(X, y, model="mlp")', "torch"),
        ('chaffinch.select(X, y, method="pefs")', "torch"),
        ('chaffinch.select(X, y, model="xgboost")', "xgboost"),
        ('chaffinch.select(X, y, cluster="local")', "flows"),
        ("chaffinch.select(X, y, alternatives=1)", "alternatives"),
        (
            "chaffinch.find_alternatives(chaffinch.qualities.Univariate([3, 2, 1]), k=1, "
            "n_alternatives=1, tau=1, search='simultaneous')",
            "alternatives",
        ),
        ('chaffinch.select("sqlite:///a.db#table", "y")', "flows"),
    ],
)
def test_what_needs_an_extra_names_it_in_a_line(call, extra):
    done = program(f"""
        try:
            {call}
        except chaffinch.InputError as error:
            print(error)
    """)
    assert f'which is not installed; run pip install "chaffinch[{extra}]"' in done.stdout, (
        done.stderr
    )
    assert done.stdout.count("\n") == 1


def test_the_command_names_its_extra_in_a_line():
    done = program("""
        from chaffinch.flows.cli.main import main
        main()
    """)
    message = 'Error: the command needs prefect; run pip install "chaffinch[flows]"\n'
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)

"""A wrong input is refused in one line, the same at every door, before any work is done.

Each line names what is wrong, with its value, and how to correct it. Nothing is left behind: no
run, and no file half written.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from chaffinch import InputError
from tests.documents import ROOT
from tests.refusals import AMOUNTS, chaffinch_here, changed, left_in, select
from tests.synthetic import N, bad_table
from tests.tasks.snapshots import check_sentence, sentences_of


@dataclass
class Bad:
    """Something bad, with the options as `chaffinch run` names them."""

    name: str
    data: Any = field(default_factory=bad_table)
    at_command: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def bad(name, data=None, *, at_command=False, **options):
    data = bad_table() if data is None else data
    return Bad(name, data, at_command, {"target": "y", **options})


def typed(name, data=None, **options):
    """Something bad that is typed at the command line as well."""
    return bad(name, data, at_command=True, **options)


PRICES = {"y": AMOUNTS}
FEW_ROWS = bad_table(y=range(N))[:4]
RARE = {"y": ["no"] * 56 + ["yes"] * 4}

TABLES = [
    typed("no such target", bad_table(price=AMOUNTS), target="prize"),
    bad("no rows", bad_table()[:0]),
    bad("no columns", pd.DataFrame()),
    typed("one class", bad_table(y="no")),
    typed("rare class", bad_table(**RARE)),
    bad("few rows", FEW_ROWS),
    typed("constant features", bad_table(a=1, b="x", c=0.5)),
    bad("two columns of one name", bad_table().set_axis(["a", "a", "c", "y"], axis=1)),
    typed("target with gaps", bad_table(y=changed(changed(["no", "yes"] * 30, 7, None), 20, None))),
    typed("infinite feature", bad_table(b=changed(AMOUNTS, 3, -np.inf))),
    bad("infinite target", bad_table(y=changed(AMOUNTS, -1, np.inf))),
    bad("text said to be numbers", bad_table(a=["low", "high"] * 30), numeric=["a"]),
    typed("one slip of text", bad_table(a=changed(map(str, AMOUNTS), 4, "1,2"))),
    bad("values of two kinds", bad_table(a=[None, 1, 2.5, "x"] * 15)),
    bad("complex numbers", bad_table(a=np.full(N, 1 + 2j))),
    bad("one day that is none", bad_table(a=changed(map(str, pd.date_range("2024-01-01",
        periods=N).date), 5, "2024-02-30")), time="a"),
    bad("times of which some lack a zone", bad_table(a=[
        f"2024-01-{1 + i % 28:02} 10:00{'Z' if i else ''}" for i in range(N)]), time="a"),
    bad("fields that a semicolon separates",
        bad_table().rename(columns={"a": "a;b", "y": "c;y"})),
    bad("dates of another form", bad_table(a=[f"{1 + i % 28:02}.01.2024" for i in range(N)]),
        time="a"),
    *(bad(f"{role} of lists", bad_table(a=[[1]] * N), **{role: given})
      for role, given in (("weight", "a"), ("group", "a"), ("time", "a"), ("keep", ["a"]),
                          ("numeric", ["a"]), ("categorical", ["a"]))),
    bad("target of lists", bad_table(y=[[1]] * N)),
    bad("nothing but dates and lists", bad_table(a=[[1]] * N, **dict.fromkeys("bc",
        pd.date_range("2026", periods=N)))),
    typed("dates to keep", bad_table(a=pd.date_range("2026-01-01", periods=N)), keep=["a"]),
    typed("large target", bad_table(y=[1.5e300, 2e300, 3e300] * 20), task="regression"),
    typed("small target", bad_table(y=[1.5e-300, 2e-300, 3e-300] * 20), task="regression"),
    typed("large feature", bad_table(a=changed(AMOUNTS, 1, 1e300))),
    typed("commas in numbers", bad_table(a=["2,5", "3,25"] * 30)),
    bad("every column dropped", drop=["a", "b", "c"]),
]  # fmt: skip

TASKS = [
    typed("numbers as classes", bad_table(**PRICES), task="classification"),
    typed("text as a number", task="regression"),
    typed("classifier of a number", bad_table(**PRICES), model="RandomForestClassifier"),
    bad("regressor of a class", model="Ridge"),
    bad("no probabilities", model="SVC"),
    typed("loss of numbers for classes", loss="squared_error"),
    bad("loss of classes for numbers", bad_table(**PRICES), loss="log_loss"),
    bad("scorer of classes for numbers", bad_table(**PRICES), loss="roc_auc"),
    bad("model without weights", bad_table(w=1.5), weight="w", model="KNeighborsClassifier"),
]  # fmt: skip

RANKINGS = [
    typed("ranking without weights", bad_table(w=1.5), weight="w", method="anova_f"),
    typed("ranking by a network", method="select_from_model", model="mlp"),
    bad("ranking by a model that has no ranking", method="select_from_model",
        model="KNeighborsClassifier"),
    typed("SHAP values of what has no trees", method="tree_shap", model="linear"),
    bad("SHAP values of linear trees", method="tree_shap", parameters={"linear_tree": True}),
    bad("a lowest score of what has no scores", method={"kind": "flbmo", "min_score": 0.5}),
    bad("a lowest score beside a number", method={"kind": "mrmr", "min_score": 0.5}, n_features=2),
    bad("a lowest score that is no number", method={"kind": "mrmr", "min_score": float("nan")}),
    typed("more than there are", method="mrmr", n_features=4),
    typed("refits of a network", method="rfe", model="mlp"),
    bad("refits of a model that has no ranking", method="rfecv", model="KNeighborsClassifier"),
    typed("a swarm of more than there are", method="particle_swarm", n_features=4),
    bad("no individuals", method={"kind": "particle_swarm", "individuals": 0}),
    bad("no pull", method={"kind": "particle_swarm", "social": -1}),
    bad("no inertia", method={"kind": "particle_swarm", "inertia": float("inf")}),
    typed("more than there are, trained and masked in turn", method="afs_bm", n_features=4),
    bad("no rejections", method={"kind": "afs_bm", "rejections": 0}),
    bad("no patience", method={"kind": "afs_bm", "patience": 0}),
    bad("slack below zero", method={"kind": "afs_bm", "slacks": [0.1, -0.1]}),
    bad("no slack", method={"kind": "afs_bm", "slacks": []}),
    bad("start of none such", method={"kind": "afs_bm", "start": ["a", "z"]}),
    bad("start misspelt", bad_table(height=AMOUNTS), method={"kind": "afs_bm",
        "start": ["heigth"]}),
    bad("nothing to tune every round", tuning="none", method={"kind": "afs_bm",
        "tune_every_round": True}),
    bad("a penalty above all contests", method={"kind": "pefs", "penalties": [0.1, 1.5]}),
    bad("a penalty below none", method={"kind": "pefs", "penalties": [-0.1]}),
    bad("penalties beside a number", method={"kind": "pefs", "penalties": [0.1],
        "n_features": [2]}),
    bad("one mask at a time", method={"kind": "pefs", "samples": 1}),
    bad("no hidden layer", method={"kind": "pefs", "hidden_layer_sizes": ()}),
    typed("more than there are, by probability", method="pefs", n_features=4),
    bad("a batch of more rows than there are", method={"kind": "pefs", "batch_size": 500}),
    bad("a device of an earlier release", method={"kind": "pefs", "device": "cuda"}),
    bad("all in one step", method={"kind": "rfe", "step": 1}),
    bad("neither true nor false", method={"kind": "rfecv", "within_one_standard_error": "maybe"}),
    bad("a step of one at a time", method={"kind": "sequential_forward", "step": 0.1}),
    bad("a name that is no text", method={"kind": "gbmo", "\ud800": 1}),
]  # fmt: skip

DFS = [
    bad("too high an order", method={"kind": "dfs", "order": 9}),
    bad("no order", method={"kind": "dfs", "order": 0}),
    bad("no step", method={"kind": "dfs", "steps": 0}),
    bad("steps of another method", method={"kind": "mission", "steps": 5}),
    typed("weights for dfs", method="dfs", weight="a"),
]  # fmt: skip

WORDS = [
    typed("method", method="gmbo"),
    bad("model", model="lightgmb"),
    bad("model by its class", model="XGBClassifier"),
    bad("model like none", model="zzz"),
    bad("loss", loss="log_los"),
    bad("loss by its short name", loss="rmse"),
    bad("tuning", tuning="big"),
    bad("tuning without a grid", tuning="paper", model="linear"),
    bad("task", task="ranking"),
    bad("baseline", baseline="mode"),
    typed("cluster", cluster="locall"),
    bad("parameter", parameters={"num_leavs": 31}),
    bad("parameter's value", parameters={"num_leaves": 1}),
    bad("one text for several columns", keep="a"),
]  # fmt: skip

NUMBERS = [
    typed("no features", n_features=0),
    typed("fewer than none", n_features=-1, method="flbmo"),
    typed("more features than there are", n_features=40),
    bad("more, exactly", n_features=4, method="flbmo"),
    typed("fewer features than are kept", n_features=1, keep=["a", "b"]),
    bad("half a feature", n_features=2.5),
    typed("one fold", folds=1),
    bad("many folds", folds=21),
    typed("seed below", seed=-1),
    bad("seed above", seed=2**32),
    bad("no local process", cluster=0),
]  # fmt: skip

ROLES = [
    typed("kept and dropped", keep=["a"], drop=["a"]),
    bad("target kept", keep=["y"]),
    bad("target as series", time="b", history={"lags": [1], "columns": ["a"], "series": "y"}),
    bad("category and number", categorical=["a"], numeric=["a"]),
    bad("constant kept", bad_table(a=1), keep=["a"]),
    bad("group and time", group="a", time="b"),
    typed("weight of zero", bad_table(w=[1.5, 2.5, 0.0] * 20), weight="w"),
    bad("negative weight", bad_table(w=[1, -1, 2] * 20), weight="w"),
    bad("weight of text", bad_table(w=["a", "b", "c"] * 20), weight="w"),
    bad("missing weight", bad_table(w=[1, 2, None] * 20), weight="w"),
    bad("coarse group", bad_table(g=["a", "b"] * 30), group="g"),
    bad("time of text", bad_table(t=["a", "b", "c"] * 20), time="t"),
    *(bad(f"no such {role}", bad_table(height=AMOUNTS), at_command=role == "weight",
        **{role: ["heigth"] if role == "keep" else "heigth"}) for role in ("keep", "weight",
        "group", "time")),
    *(bad(f"no such {role}", bad_table(height=AMOUNTS), at_command=role == "drop",
        **{role: ["heigth"]}) for role in ("drop", "categorical", "numeric")),
    *(bad(f"{role} like none", at_command=role == "drop", **{role: ["zzz"]}) for role in ("drop",
        "categorical", "numeric")),
]  # fmt: skip

# As Python has no such arguments
AT_COMMAND = [
    bad("a lowest score of what has no scores", method="flbmo", min_score=0.5),
    bad("a lowest score beside a number", method="mrmr", n_features=2, min_score=0.5),
    bad("a lowest score that is no number", method="mrmr", min_score=float("nan")),
    bad("no workers", workers=0),
    bad("workers of nobody", cluster="none", workers=2),
]  # fmt: skip

SAID = "refusals/bad input"
EVERY = [*TABLES, *TASKS, *RANKINGS, *DFS, *WORDS, *NUMBERS, *ROLES]


def as_arguments(options):
    for name, value in options.items():
        yield "--" + name.replace("_", "-")
        yield ",".join(value) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_it_is_refused_in_one_line_and_nothing_is_left(case, tmp_path):
    before = case.data.copy()
    with pytest.raises(InputError) as refusal:
        select(case.data, store=tmp_path / "store", **case.options)

    check_sentence(SAID, case.name, refusal.value)
    assert not left_in(tmp_path)
    pd.testing.assert_frame_equal(case.data, before)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    "case",
    [*AT_COMMAND, *(case for case in EVERY if case.at_command)],
    ids=lambda case: case.name,
)
def test_the_command_line_says_the_same(case, tmp_path):
    case.data.to_csv(tmp_path / "table.csv", index=False)
    asked = ("run", tmp_path / "table.csv", "--store", tmp_path / "store")
    done = chaffinch_here(*asked, *as_arguments(case.options))
    assert (done.returncode, done.stdout) == (2, "")
    error = done.stderr.removeprefix("Error: ").removesuffix("\n")
    if case in AT_COMMAND:
        check_sentence("refusals/at the command line", case.name, error)
        return
    in_python = sentences_of(SAID)[case.name]
    assert error == re.sub(r"\(drop=\['(\w+)'\]\)", r"(--drop \1)", in_python)
    assert not left_in(tmp_path)


def test_the_words_that_troubleshooting_quotes_are_said():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    section = page.partition("## Refused tables and settings")[2].partition("\n## ")[0]
    quoted = re.findall(r'^\| "(.*)" \|', section.replace('| "words of the error" |', ""), re.M)
    assert len(quoted) > 10
    said = sentences_of(SAID).values()
    assert [words for words in quoted if not any(words in message for message in said)] == []

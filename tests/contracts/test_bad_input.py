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
from chaffinch.tasks.selection.models import MODELS
from chaffinch.tasks.settings.method import declared, kinds, rankings
from tests.documents import ROOT
from tests.refusals import AMOUNTS, chaffinch_here, changed, left_in, select
from tests.synthetic import N, bad_table


@dataclass
class Bad:
    """Something bad, with the options as `chaffinch run` names them, and what is said of it."""

    name: str
    message: str
    data: Any = field(default_factory=bad_table)
    at_command: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def bad(name, message, data=None, *, at_command=False, **options):
    data = bad_table() if data is None else data
    return Bad(name, message, data, at_command, {"target": "y", **options})


PRICES = {"y": AMOUNTS}
FEW_ROWS = bad_table(y=range(N))[:4]
RARE = {"y": ["no"] * 56 + ["yes"] * 4}
NEEDS = "needs 5, for the folds"

TABLES = [
    bad("no such target", "target 'prize' is no column of the table; did you mean 'price'?",
        bad_table(price=AMOUNTS), target="prize", at_command=True),
    bad("no rows", "the table has columns but no rows; give at least one", bad_table()[:0]),
    bad("no columns", "the table has no columns; give at least one", pd.DataFrame()),
    bad("one class", "target 'y' has the same value in every row, so there is nothing to learn: "
        "give rows with at least 2 different values, or another target",
        bad_table(y="no"), at_command=True),
    bad("rare class", f"class 'yes' has 4 rows but {NEEDS}; give more rows of it, or use fewer "
        "folds", bad_table(**RARE), at_command=True),
    bad("few rows", f"the table has 4 rows but {NEEDS}; give more rows, or use fewer folds",
        FEW_ROWS),
    bad("constant features", "the table has no feature: left out: 'a', 'b' and 'c' (constant); "
        "give columns of numbers or text that vary", bad_table(a=1, b="x", c=0.5), at_command=True),
    bad("two columns of one name", "the table names column 'a' twice, at positions 1 and 2; "
        "rename one", bad_table().set_axis(["a", "a", "c", "y"], axis=1)),
    bad("target with gaps", "target 'y' is missing in 2 of 60 rows, first in row 8: fill or "
        "remove these rows, or set drop_rows_without_target",
        bad_table(y=changed(changed(["no", "yes"] * 30, 7, None), 20, None)), at_command=True),
    bad("infinite feature", "column 'b' must hold finite numbers but row 4 is infinite; correct "
        "it, or leave it empty where it is a feature, or leave the column out (drop=['b'])",
        bad_table(b=changed(AMOUNTS, 3, -np.inf)), at_command=True),
    bad("infinite target", "column 'y' must hold finite numbers but row 60 is infinite; correct "
        "it, or leave it empty where it is a feature", bad_table(y=changed(AMOUNTS, -1, np.inf))),
    bad("text said to be numbers", "column 'a' must hold numbers but row 1 holds 'low'; correct it "
        "or leave it out of numeric", bad_table(a=["low", "high"] * 30), numeric=["a"]),
    bad("one slip of text", "column 'a' is written with several marks in its numbers, such as "
        "'1,2' in row 5; write them as plain numbers, or name the column as categorical, or leave "
        "the column out (drop=['a'])",
        bad_table(a=changed(map(str, AMOUNTS), 4, "1,2")),
        at_command=True),
    bad("values of two kinds", "column 'a' holds 1 in row 2 but 'x' in row 4; give it values of "
        "one type, or leave the column out (drop=['a'])",
        bad_table(a=[None, 1, 2.5, "x"] * 15)),
    bad("complex numbers", "column 'a' holds complex numbers, such as (1+2j) in row 1; give the "
        "real and the imaginary part as columns of their own, or leave the column out "
        "(drop=['a'])", bad_table(a=np.full(N, 1 + 2j))),
    bad("one day that is none", "time column 'a' holds dates but row 6 holds '2024-02-30', which "
        "is no date such as 2023-01-31; correct it",
        bad_table(a=changed(map(str, pd.date_range("2024-01-01", periods=N).date), 5,
                            "2024-02-30")), time="a"),
    bad("dates of another form", "time column 'a' is a date in text written as '00.00.0000', in "
        "the format %d.%m.%Y; write dates as 2023-01-31, as pandas.to_datetime reads them, or add "
        "#date_format=%d.%m.%Y or "
        "the like to the path of delimited text",
        bad_table(a=[f"{1 + i % 28:02}.01.2024" for i in range(N)]), time="a"),
    *(bad(f"{role} of lists", f"{role} column 'a' is of type list<item: int64>; give {remedy}",
          bad_table(a=[[1]] * N), **{role: ["a"] if is_list else "a"})
      for role, is_list, remedy in (("weight", False, "numbers above 0"),
                                    ("group", False, "numbers or text"),
                                    ("time", False, "timestamps or numbers"),
                                    ("keep", True, "numbers or text"),
                                    ("numeric", True, "numbers"),
                                    ("categorical", True, "numbers or text"))),
    bad("target of lists", "target 'y' is of type list<item: int64>; give numbers or classes",
        bad_table(y=[[1]] * N)),
    bad("nothing but dates and lists", "the table has no feature: left out: 'a' (type "
        "list<item: int64>: to use one, make it numbers or text), 'b' and 'c' (timestamps: to use "
        "one, set dates to parts, or name it as the time column or as categorical); give "
        "columns of numbers or text that vary",
        bad_table(a=[[1]] * N, **dict.fromkeys("bc", pd.date_range("2026", periods=N)))),
    bad("dates to keep", "keep column 'a' is no use as a feature (timestamps: to use one, set "
        "dates to parts, or name it as the time column or as categorical); take it off the keep "
        "list",
        bad_table(a=pd.date_range("2026-01-01", periods=N)), keep=["a"], at_command=True),
    bad("large target", "target 'y' must lie within -1e+30..1e+30, which models can compute with, "
        "but is 3e+300 in row 3: rescale it", bad_table(y=[1.5e300, 2e300, 3e300] * 20),
        task="regression", at_command=True),
    bad("small target", "target 'y' must vary by at least 1e-30, which models can tell from "
        "nothing, but varies by 1.5e-300: rescale it",
        bad_table(y=[1.5e-300, 2e-300, 3e-300] * 20), task="regression", at_command=True),
    bad("large feature", "column 'a' must lie within -1e+30..1e+30, which models can compute "
        "with, but is 1e+300 in row 2: rescale it, or leave empty what stands for a missing "
        "value; or leave the column out (drop=['a'])",
        bad_table(a=changed(AMOUNTS, 1, 1e300)), at_command=True),
    bad("commas in numbers", "column 'a' is written with decimal commas in its numbers, such as "
        "'2,5' in row 1; write them as plain numbers, as column.str.replace(',', '.')."
        "astype(float) does in pandas, or add #decimal=, to the path of delimited text, for all "
        "its columns, or name the column as categorical, or leave the column out (drop=['a'])",
        bad_table(a=["2,5", "3,25"] * 30), at_command=True),
    bad("every column dropped", "the table has no feature: every column is dropped or has "
        "another role; drop fewer, or give more", drop=["a", "b", "c"]),
]  # fmt: skip

TASKS = [
    bad("numbers as classes", "target 'y' has 60 different values, not all whole numbers, but "
        "classes must be at most 50 whole numbers, or text; set task to regression, or name 'y' "
        "as categorical", bad_table(**PRICES), task="classification", at_command=True),
    bad("text as a number", "target 'y' holds text but the task is regression; set task to "
        "classification, or give a column of numbers", task="regression", at_command=True),
    bad("classifier of a number", "RandomForestClassifier is no regressor but the target is a "
        "number; use one, or linear", bad_table(**PRICES), model="RandomForestClassifier",
        at_command=True),
    bad("regressor of a class", "Ridge is no classifier but the target is a class; use one, or "
        "linear", model="Ridge"),
    bad("no probabilities", "SVC gives no class probabilities with these parameters; change "
        "them, take another model, such as LogisticRegression, or pass the instance "
        "CalibratedClassifierCV(SVC(), ensemble=False) instead",
        model="SVC"),
    bad("loss of numbers for classes", "loss 'squared_error' is for regression but the target "
        "asks for classification; use 'log_loss'", loss="squared_error", at_command=True),
    bad("loss of classes for numbers", "loss 'log_loss' is for classification but the target "
        "asks for regression; use 'squared_error'", bad_table(**PRICES), loss="log_loss"),
    bad("scorer of classes for numbers", "loss 'roc_auc' cannot score regression; use "
        "'squared_error' or another scorer", bad_table(**PRICES), loss="roc_auc"),
    bad("model without weights", "KNeighborsClassifier takes no sample weights; use another "
        "model, or no weights", bad_table(w=1.5), weight="w",
        model="KNeighborsClassifier"),
]  # fmt: skip

*OTHERS, LAST = [kind for kind in rankings() if declared(kind).traits.takes_weights]
TAKE_WEIGHTS = f"{', '.join(OTHERS)} or {LAST}"

RANKINGS = [
    bad("ranking without weights", "method anova_f takes no sample weights; leave out the weight "
        f"column 'w', or use {TAKE_WEIGHTS}", bad_table(w=1.5), weight="w", method="anova_f",
        at_command=True),
    bad("ranking by a network", "select_from_model needs a model with gains or coefficients but "
        "mlp has none; use permutation, or another model such as lightgbm",
        method="select_from_model", model="mlp", at_command=True),
    bad("ranking by a model that has no ranking", "select_from_model needs a model with gains or "
        "coefficients but KNeighborsClassifier has none; use permutation, or another model such "
        "as lightgbm", method="select_from_model", model="KNeighborsClassifier"),
    bad("SHAP values of what has no trees", "tree_shap needs the model lightgbm or xgboost or "
        "catboost but has linear; use permutation, or one of these", method="tree_shap",
        model="linear", at_command=True),
    bad("SHAP values of linear trees", "tree_shap needs leaves of one value but lightgbm parameter "
        "'linear_tree' is True; leave it out, or use permutation", method="tree_shap",
        parameters={"linear_tree": True}),
    bad("a lowest score of what has no scores", "there is no setting 'min_score'; there are "
        "n_features", method={"kind": "flbmo", "min_score": 0.5}),
    bad("a lowest score beside a number", "n_features and min_score exclude each other but are 2 "
        "and 0.5; give one of them", method={"kind": "mrmr", "min_score": 0.5}, n_features=2),
    bad("a lowest score that is no number", "min_score must be a finite number but is nan",
        method={"kind": "mrmr", "min_score": float("nan")}),
    bad("more than there are", "n_features must be in 1..3 but is 4", method="mrmr", n_features=4,
        at_command=True),
    bad("refits of a network", "rfe needs a model with gains or coefficients but mlp has none; use "
        "permutation, or another model such as lightgbm", method="rfe", model="mlp",
        at_command=True),
    bad("refits of a model that has no ranking", "rfecv needs a model with gains or coefficients "
        "but KNeighborsClassifier has none; use permutation, or another model such as lightgbm",
        method="rfecv", model="KNeighborsClassifier"),
    bad("a swarm of more than there are", "n_features must be in 1..3 but is 4",
        method="particle_swarm", n_features=4, at_command=True),
    bad("no individuals", "individuals must be at least 1 but is 0",
        method={"kind": "particle_swarm", "individuals": 0}),
    bad("no pull", "social must be at least 0.0 but is -1", method={"kind": "particle_swarm",
        "social": -1}),
    bad("no inertia", "inertia must be a finite number but is inf",
        method={"kind": "particle_swarm", "inertia": float("inf")}),
    bad("more than there are, trained and masked in turn", "n_features must be in 1..3 but is 4",
        method="afs_bm", n_features=4, at_command=True),
    bad("no rejections", "rejections must be at least 1 but is 0",
        method={"kind": "afs_bm", "rejections": 0}),
    bad("no patience", "patience must be at least 1 but is 0",
        method={"kind": "afs_bm", "patience": 0}),
    bad("slack below zero", "slacks must be at least 0.0 but is -0.1",
        method={"kind": "afs_bm", "slacks": [0.1, -0.1]}),
    bad("no slack", "slacks must be a list of at least 1 but is []",
        method={"kind": "afs_bm", "slacks": []}),
    bad("start of none such", "start names 'z', which is no feature of the table; there are 'a', "
        "'b' and 'c'", method={"kind": "afs_bm", "start": ["a", "z"]}),
    bad("start misspelt", "start names 'heigth', which is no feature of the table; nearest: "
        "height", bad_table(height=AMOUNTS), method={"kind": "afs_bm", "start": ["heigth"]}),
    bad("nothing to tune every round", "tune_every_round needs hyper-parameters to choose from but "
        "tuning is none; leave it out, or set tuning to small", tuning="none",
        method={"kind": "afs_bm", "tune_every_round": True}),
    bad("a penalty above all contests", "penalties must be at most 1.0 but is 1.5",
        method={"kind": "pefs", "penalties": [0.1, 1.5]}),
    bad("a penalty below none", "penalties must be at least 0.0 but is -0.1",
        method={"kind": "pefs", "penalties": [-0.1]}),
    bad("penalties beside a number", "penalties and n_features exclude each other but are 0.1 and "
        "2; give one of them", method={"kind": "pefs", "penalties": [0.1], "n_features": [2]}),
    bad("one mask at a time", "samples must be at least 2 but is 1",
        method={"kind": "pefs", "samples": 1}),
    bad("no hidden layer", "hidden_layer_sizes must be a list of at least 1 but is ()",
        method={"kind": "pefs", "hidden_layer_sizes": ()}),
    bad("more than there are, by probability", "n_features must be in 1..3 but is 4",
        method="pefs", n_features=4, at_command=True),
    bad("a batch of more rows than there are", "batch_size must be at most 27, the number of "
        "training rows, but is 500; leave it out, or give more rows",
        method={"kind": "pefs", "batch_size": 500}),
    bad("a device of an earlier release", "device must be cpu but is 'cuda'; GPUs are not "
        "supported any more, so leave it out and select again",
        method={"kind": "pefs", "device": "cuda"}),
    bad("all in one step", "step must be below 1.0 but is 1", method={"kind": "rfe", "step": 1}),
    bad("neither true nor false", "within_one_standard_error must be true or false but is 'maybe'",
        method={"kind": "rfecv", "within_one_standard_error": "maybe"}),
    bad("a step of one at a time", "there is no setting 'step'; there are n_features",
        method={"kind": "sequential_forward", "step": 0.1}),
    bad("a name that is no text", "the name of a setting is not valid Unicode text; correct it",
        method={"kind": "gbmo", "\ud800": 1}),
]  # fmt: skip

DFS = [
    bad("too high an order", "order must be in 1..8 but is 9: with each order more the noise of "
        "the estimate grows fourfold, beyond what rows can make up for; take a lower one",
        method={"kind": "dfs", "order": 9}),
    bad("no order", "order must be in 1..8 but is 0; 4 is a good start",
        method={"kind": "dfs", "order": 0}),
    bad("no step", "steps must be at least 1 but is 0", method={"kind": "dfs", "steps": 0}),
    bad("steps of another method", "there is no setting 'steps'; there are n_features, min_score",
        method={"kind": "mission", "steps": 5}),
    bad("weights for dfs", "method dfs takes no sample weights; leave out the weight column 'a', "
        f"or use {TAKE_WEIGHTS}", method="dfs", weight="a", at_command=True),
]  # fmt: skip

WORDS = [
    bad("method", f"method must be one of {', '.join(kinds())} but is 'gmbo'; did you mean gbmo?",
        method="gmbo", at_command=True),
    bad("model", "there is no model 'lightgmb'; did you mean lightgbm?", model="lightgmb"),
    bad("model by its class", "there is no model 'XGBClassifier'; did you mean xgboost?",
        model="XGBClassifier"),
    bad("model like none", f"there is no model 'zzz'; give {', '.join(MODELS)}, or the "
        "name of a classifier or regressor of scikit-learn, such as RandomForestClassifier",
        model="zzz"),
    bad("loss", "loss must be one of absolute_error, log_loss, squared_error or a scikit-learn "
        "scorer's name but is 'log_los'; did you mean log_loss or neg_log_loss or "
        "d2_log_loss_score?", loss="log_los"),
    bad("loss by its short name", "loss must be one of absolute_error, log_loss, squared_error or "
        "a scikit-learn scorer's name but is 'rmse'; did you mean neg_root_mean_squared_error or "
        "neg_root_mean_squared_log_error or neg_mean_squared_error?", loss="rmse"),
    bad("tuning", "tuning must be 'small', 'paper', 'paper:bmo', 'paper:afs-bm' or 'none' but is "
        "'big'", tuning="big"),
    bad("tuning without a grid", "the paper has no grid for 'linear', only for lightgbm, xgboost, "
        "mlp; set tuning to small or none", tuning="paper", model="linear"),
    bad("task", "task must be 'auto', 'regression' or 'classification' but is 'ranking'",
        task="ranking"),
    bad("baseline", "baseline must be 'mean', 'median', 'minimum' or 'zero' but is 'mode'",
        baseline="mode"),
    bad("cluster", "cluster must be 'auto', 'local', 'none' or a scheduler's address such as "
        "tcp://host:8786 but is 'locall'", cluster="locall", at_command=True),
    bad("parameter", "lightgbm has no parameter 'num_leavs'; did you mean num_leaves?",
        parameters={"num_leavs": 31}),
    bad("parameter's value", "lightgbm parameter 'num_leaves' must be a whole number in 2..131072 "
        "but is 1", parameters={"num_leaves": 1}),
    bad("one text for several columns", "keep must be a list but is 'a'; write ['a']", keep="a"),
]  # fmt: skip

NUMBERS = [
    bad("no features", "n_features must be at least 1 but is 0", n_features=0, at_command=True),
    bad("fewer than none", "n_features must be at least 1 but is -1", n_features=-1,
        method="flbmo", at_command=True),
    bad("more features than there are", "n_features must be in 1..3 but is 40", n_features=40,
        at_command=True),
    bad("more, exactly", "n_features must be in 1..3 but is 4", n_features=4, method="flbmo"),
    bad("fewer features than are kept", "n_features must be in 2..3 but is 1 (2 are on the keep "
        "list)", n_features=1, keep=["a", "b"], at_command=True),
    bad("half a feature", "n_features must be a whole number but is 2.5", n_features=2.5),
    bad("one fold", "folds must be at least 2 but is 1", folds=1, at_command=True),
    bad("many folds", "folds must be at most 20 but is 21", folds=21),
    bad("seed below", "seed must be at least 0 but is -1", seed=-1, at_command=True),
    bad("seed above", "seed must be at most 4294967295 but is 4294967296", seed=2**32),
    bad("no local process", "cluster must be at least 1 local process but is 0; for this process "
        "alone, leave it out", cluster=0),
]  # fmt: skip

ROLES = [
    bad("kept and dropped", "column 'a' is named for both keep and drop; name it once",
        keep=["a"], drop=["a"], at_command=True),
    bad("target kept", "target 'y' is named for keep as well; name it once", keep=["y"]),
    bad("target as series", "target 'y' is named for series as well; name it once",
        time="b", history={"lags": [1], "columns": ["a"], "series": "y"}),
    bad("category and number", "column 'a' is named both categorical and numeric; name it "
        "once", categorical=["a"], numeric=["a"]),
    bad("constant kept", "keep column 'a' is no use as a feature (constant); take it off the keep "
        "list", bad_table(a=1), keep=["a"]),
    bad("group and time", "group 'a' and time 'b' cannot both order the parts; name one of them",
        group="a", time="b"),
    bad("weight of zero", "weight column 'w' must be above 0 but is 0 in row 3: remove these rows "
        "or correct the weights", bad_table(w=[1.5, 2.5, 0.0] * 20), weight="w", at_command=True),
    bad("negative weight", "weight column 'w' must be above 0 but is -1 in row 2: remove these "
        "rows or correct the weights", bad_table(w=[1, -1, 2] * 20), weight="w"),
    bad("weight of text", "weight column 'w' must hold numbers above 0 but holds text; name "
        "another", bad_table(w=["a", "b", "c"] * 20), weight="w"),
    bad("missing weight", "weight column 'w' is missing in 20 of 60 rows, first in row 3: fill or "
        "remove these rows", bad_table(w=[1, 2, None] * 20), weight="w"),
    bad("coarse group", "group column 'g' has 2 different values but "
        f"{NEEDS}; give rows of more groups, or name a finer one",
        bad_table(g=["a", "b"] * 30), group="g"),
    bad("time of text", "time column 't' holds text, which has no order in time; give timestamps "
        "or numbers, as by pandas.to_datetime, or by julianday in SQLite",
        bad_table(t=["a", "b", "c"] * 20), time="t"),
    *(bad(f"no such {role}", f"{role} column 'heigth' is no column of the table; did you mean "
          "'height'?", bad_table(height=AMOUNTS), at_command=role == "weight",
          **{role: ["heigth"] if role == "keep" else "heigth"})
      for role in ("keep", "weight", "group", "time")),
    *(bad(f"no such {role}", "there is no column 'heigth'; nearest: height",
          bad_table(height=AMOUNTS), at_command=role == "drop", **{role: ["heigth"]})
      for role in ("drop", "categorical", "numeric")),
    *(bad(f"{role} like none", "there is no column 'zzz'; there are 'a', 'b', 'c' and 'y'",
          at_command=role == "drop", **{role: ["zzz"]})
      for role in ("drop", "categorical", "numeric")),
]  # fmt: skip

# As Python has no such arguments
AT_COMMAND = [
    bad("a lowest score of what has no scores", "min_score is for a ranking but the method is "
        f"flbmo; leave it out, or use one of {', '.join(rankings())}", method="flbmo",
        min_score=0.5),
    bad("a lowest score beside a number", "n_features and min_score exclude each other but are 2 "
        "and 0.5; give one of them", method="mrmr", n_features=2, min_score=0.5),
    bad("a lowest score that is no number", "min_score must be a finite number but is nan",
        method="mrmr", min_score=float("nan")),
    bad("no workers", "workers must be at least 1 but is 0; for this process alone, leave it out "
        "and set cluster to 'none'", workers=0),
    bad("workers of nobody", "workers must be left out unless cluster is local, whose processes "
        "they are, but is 2 with cluster none; leave it out, or set cluster to local",
        cluster="none", workers=2),
]  # fmt: skip

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

    assert str(refusal.value) == case.message
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
    in_its_words = re.sub(r"\(drop=\['(\w+)'\]\)", r"(--drop \1)", case.message)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {in_its_words}\n")
    assert not left_in(tmp_path)


def test_the_words_that_troubleshooting_quotes_are_said():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    section = page.partition("## Refused tables and settings")[2].partition("\n## ")[0]
    quoted = re.findall(r'^\| "(.*)" \|', section.replace('| "words of the error" |', ""), re.M)
    assert len(quoted) > 10
    assert [words for words in quoted if not any(words in case.message for case in EVERY)] == []

"""What is no file, table, name, path or estimator is told in one line, whoever asks."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import chaffinch
from chaffinch import InputError, ModelSettings
from tests.refusals import chaffinch_here, changed, left_in, select
from tests.synthetic import N, bad_table
from tests.tasks.snapshots import check_sentence


@pytest.mark.usefixtures("served")
def test_a_file_that_is_not_there(tmp_path):
    (tmp_path / "prices_2026.csv").write_text("a,y\n1,2\n")
    missing = tmp_path / "prices_2025.csv"
    message = f"there is no file {missing}; nearest: prices_2026.csv"

    with pytest.raises(InputError) as refusal:
        chaffinch.select(missing, "y")
    assert str(refusal.value) == message
    done = chaffinch_here("run", missing, "--target", "y", "--store", tmp_path / "store")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {message}\n")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.csv", b""),
        ("head.csv", b"a,b,y\n"),
        ("twice.csv", b"a,a,y\n1,2,3\n"),
        ("ragged.csv", b"a,y\n1,2\n1,2,3\n"),
        ("torn.parquet", b"PAR1"),
        ("table.xlsx", b"PK"),
    ],
)
def test_a_file_that_is_no_table(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as refusal:
        chaffinch.select(tmp_path / name, "y", store=tmp_path / "store")
    check_sentence("refusals/files that are no tables", name, refusal.value)
    assert not left_in(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"target": "z"},
        {"drop": ["z"]},
        {"keep": ["z"]},
    ],
)
def test_names_are_looked_up_in_the_header_before_the_rows_are_read(options, tmp_path):
    (tmp_path / "x.csv").write_text("a,b,y\n1,2,3\nthis row cannot be read\n")
    with pytest.raises(InputError) as refusal:
        select(tmp_path / "x.csv", **options)
    check_sentence("refusals/names of columns", options, refusal.value)


@pytest.mark.parametrize("source", [None, 3, [[1, 2]], {"a": [1]}])
def test_what_is_no_table_at_all(source):
    with pytest.raises(InputError, match=r"a source must be a path to \.csv") as refusal:
        chaffinch.select(source, "y")
    assert f"but is {type(source).__name__}" in str(refusal.value)


@pytest.mark.parametrize("options", [{"loss": "#"}, {"parameters": {"#": 1}}, {"model": "#"}])
def test_a_name_like_none_is_not_answered_with_all_there_are(options):
    with pytest.raises(InputError, match=r"known are|give lightgbm") as refusal:
        select(bad_table(), **options)
    assert len(str(refusal.value)) < 400


TABLE_IN_PLACE_OF = [
    pytest.param(lambda table: chaffinch.reselect(table, table), "a former run", id="former"),
    pytest.param(lambda table: chaffinch.load_contract(table), "a former run", id="contract"),
    pytest.param(lambda table: chaffinch.difference(table, table), "a former run", id="before"),
    pytest.param(lambda table: chaffinch.select(table, table), "target", id="target"),
    pytest.param(lambda table: chaffinch.compare(table, table), "target", id="compared"),
    pytest.param(lambda table: chaffinch.with_history(table, "y", time=table), "time", id="time"),
]
TABLE_IN_PLACE_OF += [
    pytest.param(lambda table, o=o: chaffinch.select(table, "y", **{o: table}), said, id=o)
    for o, said in {
        "model": "an estimator",
        **{option: option for option in ("weight", "method", "loss", "alternatives", "store")},
        **{option: option for option in ("cluster", "n_features", "columns", "history")},
        "settings": "settings",
    }.items()
]


@pytest.mark.parametrize(("call", "said"), TABLE_IN_PLACE_OF)
def test_a_table_in_place_of_a_name_is_told_by_its_type(call, said):
    with pytest.raises(InputError, match=rf"^{said} must .* of type DataFrame") as refusal:
        call(bad_table())
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("target", [[0.0, 1.0], np.arange(2.0)])
def test_values_in_place_of_the_target_of_a_comparison_are_told_the_remedy(target):
    with pytest.raises(InputError, match=r"target must be the name of a column .*; add it to the "):
        chaffinch.compare(bad_table(), target)


def test_a_table_in_place_of_a_run_is_told_by_its_type(tmp_path):
    chaffinch.select(bad_table(), "y", model="linear", store=tmp_path)
    for call in (chaffinch.load_run, chaffinch.promote, chaffinch.promotions, chaffinch.rollback):
        with pytest.raises(InputError, match=r"^a name must be text but is of type DataFrame$"):
            call(bad_table(), store=tmp_path)


@pytest.mark.parametrize("value", [np.inf, [1.0, np.nan], {"a": -np.inf}, object()])
def test_a_model_parameter_that_json_cannot_hold(value):
    with pytest.raises(InputError, match="model parameter 'C' must be a JSON value, with finite"):
        ModelSettings(name="linear", parameters={"C": value})


def test_a_number_of_numpy_is_a_model_parameter_like_any_other():
    given = {"num_leaves": np.int64(7), "learning_rate": np.float32(0.5)}
    assert ModelSettings(parameters=given).parameters == {"num_leaves": 7, "learning_rate": 0.5}


@pytest.mark.parametrize("model", [3, Ridge, lambda: None])
def test_what_is_no_estimator(model):
    with pytest.raises(InputError, match="an estimator must be an instance with scikit-learn's"):
        chaffinch.select(bad_table(), "y", model=model)


def test_an_estimator_that_no_file_can_bring_back():
    nameless = make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression())
    with pytest.raises(InputError, match="<lambda>, which cannot be kept in a file; define the"):
        chaffinch.select(bad_table(), "y", model=nameless)


def test_a_model_that_turns_out_unable_to_learn_the_table():
    with pytest.raises(InputError, match="model MultinomialNB cannot be fitted, try another: Neg"):
        chaffinch.select(bad_table(), "y", model="MultinomialNB")


def test_rows_are_counted_as_in_the_users_file(tmp_path):
    for row in (0, 17, N - 1):
        table = bad_table(y=changed(["no", "yes"] * 30, row, None))
        table.to_csv(tmp_path / "table.csv", index=False)
        for source in (table, tmp_path / "table.csv"):
            with pytest.raises(InputError, match=f"first in row {row + 1}: "):
                chaffinch.select(source, "y", drop=["c"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "target must be given"),
        (("--target", "y", "--folds", "five"), "Invalid value for '--folds': 'five' is not a"),
        (("--target", "y", "--task", "ranking"), "Invalid value for '--task': 'ranking' is"),
        (("--target", "y", "--kep", "a"), "No such option '--kep'."),
    ],
)  # fmt: skip
def test_what_the_command_line_itself_refuses(arguments, message):
    done = chaffinch_here("run", "table.csv", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {message}")
    assert done.stderr.count("\n") == 1


LONG = "x" * 300
PATHS = [
    (LONG, "is too long, with 300 bytes and 300 in one level of it"),
    (f"{LONG}/orders.csv", "is too long, with 311 bytes and 300 in one level of it"),
    ("y/" * 3000, "is too long, with 5,999 bytes and 1 in one level of it"),
    ("orders\0.csv", r"'orders\x00.csv' holds "),
    ("orders\ud800.csv", r"'orders\ud800.csv' holds a character that no path can"),
]
DOORS = {
    "select": lambda given: chaffinch.select(given, "y"),
    "store": lambda given: chaffinch.select(bad_table(), "y", store=given),
    "load_run": lambda given: chaffinch.load_run("any", store=given),
    "load_contract": lambda given: chaffinch.load_contract(given),
    "start": lambda given: chaffinch.differentiable_selection(
        np.eye(60, 4), np.arange(60.0), n_features=2, start=given
    ),
    "checkpoint": lambda given: chaffinch.probabilistic_selection(
        np.eye(60, 4), np.arange(60.0), n_features=2, checkpoint=given
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("given", "said"), PATHS, ids=["long", "below", "deep", "nul", "half"])
def test_a_path_that_no_file_can_have(door, given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refusal:
        DOORS[door](given)
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 200
    assert str(refusal.value).isprintable()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["", " "])
def test_a_run_of_no_name(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = "a run must be named but is empty text; give a run's name, its folder or its selection"
    for door in (chaffinch.load_contract, lambda run: chaffinch.reselect(run, bad_table())):
        with pytest.raises(InputError) as refusal:
            door(given)
        assert str(refusal.value) == f"{said}.json"

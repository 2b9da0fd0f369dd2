"""What holds of every method, whatever the model and the table."""

import functools
import re

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import ModelSettings
from chaffinch.flows.cli.output import show
from chaffinch.methods import Pefs
from chaffinch.tasks.selection.models import MODELS
from chaffinch.tasks.settings.method import class_of, declared, kinds, rankings
from tests.synthetic import good_table

METHODS = kinds()
MASKED = ["gbmo", "flbmo", "afs_bm"]
PROBABLE = ["pefs"]
REFITTED = [kind for kind in METHODS if declared(kind).traits.refits]
# find the number themselves, and keep at most K
UP_TO = [kind for kind in METHODS if declared(kind).traits.limits_size]
QUICK = ["lightgbm", "linear"]
WITH_SHAP = [name for name, kind in MODELS.items() if kind.offers("shap_values")]
OF_THE_MODEL = {"select_from_model": QUICK, "permutation": QUICK, "tree_shap": WITH_SHAP}
FILTERS = [name for name in rankings() if name not in OF_THE_MODEL]
# The model matters to the rankings that ask it; a filter needs it for its refits alone.
ANY_METHOD = [
    name for name, kind in MODELS.items() if kind.of_method is None and kind.suits("classification")
]
PAIRS = [("gbmo", model) for model in ANY_METHOD]
PAIRS += [(method, model) for method in ("auto", *MASKED[1:]) for model in QUICK]
PAIRS += [(name, model) for name, read in OF_THE_MODEL.items() for model in read]
PAIRS += [(name, "linear") for name in FILTERS]
PAIRS += [(name, "linear") for name in PROBABLE]  # it has a network of its own
PAIRS += [pytest.param("auto", m, marks=pytest.mark.e2e) for m in ANY_METHOD if m not in QUICK]
SHORT = {"lightgbm": {"n_estimators": 30}, "xgboost": {"n_estimators": 30}}
SHORT |= {"catboost": {"iterations": 30}}
SHORT |= {"mlp": {"max_iter": 60, "learning_rate_init": 0.01}}
REFITS = [(name, "linear") for name in REFITTED]  # their cost is that of their fits
ONE_OF_EACH_CLASS = [*{class_of(kind): kind for kind in METHODS}.values()]
INFORMATIVE = {"age", "colour", "income"}


def model_of(method):
    """Return the quickest model for a method."""
    return "linear" if method in (*REFITTED, *FILTERS, *PROBABLE) else "lightgbm"


def select(table, method, model=None, *, seed=0, n_features=3, most_sweeps=4, **options):
    model = model or model_of(method)
    settings = ModelSettings(name=model, tuning="none", parameters=SHORT.get(model, {}))
    if method == "pefs":
        method = Pefs(hidden_layer_sizes=(20,), most_sweeps=most_sweeps)
    return chaffinch.select(
        table, "churned", method=method, model=settings, n_features=n_features, seed=seed, **options
    )


def table_of(seed=0):
    return good_table(400, seed).assign(same=1.5)


@functools.cache
def result_of(method, model=None, seed=0):
    """Return the result of a table of 400 rows, which several laws look at."""
    if model == model_of(method):
        return result_of(method, None, seed)
    return select(table_of(seed), method, model, seed=seed, most_sweeps=12)


@pytest.mark.parametrize(("method", "model"), [*PAIRS, *REFITS])
def test_informative_features_are_found_and_no_constant_among_them(method, model):
    n_seeds = 2 if method in FILTERS else 1
    kept = [set(result_of(method, model, seed).features) for seed in range(n_seeds)]
    assert all(0 < len(features) <= 3 for features in kept)
    assert method in UP_TO or all(len(features) == 3 for features in kept)
    assert not any("same" in features for features in kept)
    if method == "relieff":  # a category hardly differs between near rows
        assert all(features >= {"age", "income"} for features in kept)
        return
    assert sum(len(features - INFORMATIVE) for features in kept) <= (method in FILTERS)
    assert any("colour" in features for features in kept)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_columns_and_rows_does_not_matter(method):
    """No method learns of it: columns are ordered by name before, and rows by their content."""
    turned = table_of()[[*reversed(table_of().columns)]].sample(frac=1, random_state=3)
    results = result_of(method), select(turned, method, most_sweeps=12)
    one, other = (result.contract.to_dict() for result in results)
    hashes = [contract.pop("dataset")["hash"] for contract in (one, other)]
    orders = [contract.pop("table_order") for contract in (one, other)]
    assert one == other
    assert orders[0] == orders[1][::-1]
    assert hashes[0] != hashes[1]  # which is of the columns in their order


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("method", ["auto", "pefs"])
def test_one_seed_gives_one_result_and_report_kept_or_not_and_the_table_is_not_changed(
    method, tmp_path
):
    table = good_table()
    before = table.copy()
    passing = select(table, method, seed=5)
    kept = select(table, method, seed=5, store=tmp_path / "store")
    assert passing.contract == kept.contract
    assert timeless(passing.report(tmp_path / "passing.html")) == timeless(
        kept.folder / "report.html"
    )
    pd.testing.assert_frame_equal(table, before)


def timeless(report):
    """Return a report without its date and the duration of each stage."""
    shown, heading, _ = report.read_text().rpartition('<h2 id="time">')
    assert heading
    return re.sub(r"\d+ \w+ \d{4}, \d\d:\d\d UTC", "", shown)


@pytest.mark.parametrize("method", ONE_OF_EACH_CLASS)
def test_frame_terminal_and_report_order_the_kept_features_by_the_same_ranks(
    method, tmp_path, capsys
):
    result = result_of(method)
    frame = result.to_frame().sort_values("rank")
    assert frame["rank"].tolist() == [*range(1, len(frame) + 1)]
    kept = frame.loc[frame["kept"], "feature"].tolist()
    assert set(kept) == set(result.features)
    if result.scores is not None and method != "auto":
        assert frame["score"].is_monotonic_decreasing
    show(result, as_json=False)
    printed = re.search(r"^Kept \d+ of \d+: (.*)$", capsys.readouterr().out, re.MULTILINE)[1]
    page = result.report(tmp_path / "report.html").read_text()
    in_report = re.search(r'<a href="#features">Kept</a>.*?</strong> (.*)\.</p>', page)[1]
    assert re.findall(r"\w+", printed) == re.findall(r"\w+", in_report) == kept


@pytest.mark.parametrize("method", ONE_OF_EACH_CLASS)
def test_what_must_be_kept_is_kept_and_counts(method):
    result = select(good_table(), method, keep=["noise_1", "noise_3"])
    assert {"noise_1", "noise_3"} < set(result.features)
    assert len(result.features) == 3
    if "features" in result.path:
        assert all({"noise_1", "noise_3"} <= set(names) for names in result.path["features"])
        return
    assert not {"noise_1", "noise_3"} & set(result.path["feature"])


@pytest.mark.parametrize(
    ("method", "n_features"),
    [
        (name, n_features)
        for name in METHODS
        for n_features in ([6] if name in REFITTED else [1, 4])
        if name not in (*UP_TO, *FILTERS)  # of which 3 are asked for above
    ],
)
def test_as_many_are_kept_as_are_asked_for(method, n_features):
    model = "lightgbm" if method == "tree_shap" else "linear"
    assert len(select(good_table(), method, model, n_features=n_features).features) == n_features


# These alone of the rankings look at what features have in common.
PARTING_COPIES = ["mrmr", "fcbf", "jmi", "cmim", "lasso"]


@pytest.mark.parametrize(
    "method", [*MASKED, *PARTING_COPIES, "sequential_forward", "sequential_backward"]
)
def test_a_copy_of_a_feature_is_not_needed_beside_it(method):
    """The lowest index wins a tie, so the copy further left goes first."""
    table = good_table(400)
    table.insert(0, "income_again", table["income"])
    result = select(table, method)
    assert not {"income", "income_again"} <= set(result.features)


@pytest.mark.parametrize("method", ONE_OF_EACH_CLASS)
def test_the_contract_tells_which_near_copies_are_dropped_and_which_are_kept_together(method):
    table = good_table(400)
    table["salary"], table["shade"] = 2 * table["income"] - 1, table["colour"].str.upper()
    result = select(table, method)
    kept, reasons = {*result.features}, {one.name: one.reason for one in result.contract.dropped}
    pairs = [("income", "salary"), ("colour", "shade")]
    for one, other in [*pairs, *(pair[::-1] for pair in pairs)]:
        if one not in kept:
            assert (reasons[one] == f"near copy of {other!r}") == (other in kept)
    assert not any("near copy" in reasons.get(name, "") for name in ("age", "noise_1"))
    together = [pair for pair in pairs if kept.issuperset(pair)]
    notes = [note for note in result.notes if "near copies" in note]
    assert len(notes) == bool(together)
    assert all(repr(name) in note for note in notes for pair in together for name in pair)
    listed = select(table, method, keep=["income", "salary"])
    assert not any("'salary'" in note for note in listed.notes)


@pytest.mark.parametrize("method", FILTERS)
def test_of_equal_scores_the_first_by_name_leaves_first(method):
    table = good_table(400)
    table["again"] = table["income"]
    result = select(table, method, "linear")
    is_equal = result.scores["income"] == result.scores["again"]
    assert is_equal == (method not in PARTING_COPIES)
    leaving = [name for name in result.path["feature"] if name in ("again", "income")]
    assert leaving[:1] == ["again"]


@pytest.mark.parametrize("method", METHODS)
def test_a_table_of_one_feature_keeps_it(method):
    table = good_table()[["colour", "churned"]]
    assert select(table, method, n_features=1).features == ["colour"]


def test_noise_alone_is_not_called_a_gain():
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(400, 8)), columns=list("abcdefgh"))
    table["churned"] = random.permutation(["yes", "no"] * 200)
    low, high = select(table, "gbmo", "linear", n_features=4).comparison["interval"]
    assert low < 0.05
    assert high > -0.05

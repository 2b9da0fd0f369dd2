"""PEFS in a run: the rows it looks at, who computes, what it leaves, and how it is shown."""

import json
import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings, SelectionSettings
from chaffinch.methods import Pefs
from chaffinch.tasks.methods.pefs import searches_of
from chaffinch.tasks.selection.core import Rows
from tests.synthetic import good_table
from tests.tasks.methods.synthetic_problem import problem
from tests.tasks.pipeline.stages import goes_on_from_what_was_found, stage
from tests.tasks.reporting.synthetic_report import Page

LINEAR = ModelSettings(name="linear", tuning="none")
QUICK = Pefs(hidden_layer_sizes=(16,), most_sweeps=6, penalties=(0.05, 0.2), seeds=2)
SWIFT = QUICK.model_copy(update={"most_sweeps": 2, "seeds": 1})
ONCE = SWIFT.model_copy(update={"penalties": (0.1,)})
SIZED = Pefs(hidden_layer_sizes=(16,), most_sweeps=6, n_features=(2, 0.5))
COLUMNS = [
    "step", "search", "iteration", "penalty", "loss", "entropy", "stability", "probabilities",
    "features", "features_left",
]  # fmt: skip


def select(data=None, target="churned", *, method=QUICK, model=LINEAR, **options):
    data = good_table() if data is None else data
    return chaffinch.select(data, target, method=method, model=model, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store, and a result in it."""
    store = tmp_path_factory.mktemp("store")
    return store, select(store=store)


def material_of(*, d=6, same=(), missing=False, weight=None, **given):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, d))
    X[:, list(same)] = 2.0
    y = 2 * X[:, 0] - 2 * X[:, d - 1] + 0.3 * random.normal(size=300)
    if missing:
        X[3, 1] = np.nan
    return problem(Rows(X, y, weight), 200, **given)


# What is searched, and by whom


def test_workers_change_no_bit(two_workers) -> None:
    assert QUICK.search(material_of()) == QUICK.search(material_of(workers=two_workers))


@pytest.fixture(scope="module")
def found():
    """What the searches find, for penalties and for sizes."""
    return {method: method.search(material_of()) for method in (QUICK, SIZED)}


def test_each_penalty_has_as_many_searches_as_seeds_and_each_seed_its_own(found) -> None:
    found = searches_of(found[QUICK])
    assert [(one.asked, one.seed) for one in found.searches] == [
        (0.05, 0), (0.05, 1), (0.2, 0), (0.2, 1),
    ]  # fmt: skip
    first, second = (one.probabilities for one in found.searches[:2])
    assert (first != second).any()
    assert found.probabilities(0.05) == pytest.approx((first + second) / 2)
    alone = searches_of(QUICK.model_copy(update={"seeds": 1}).search(material_of()))
    assert (alone.searches[0].probabilities == first).all()


def test_there_is_nothing_to_search_where_all_or_only_those_to_keep_are_asked_for() -> None:
    sized = SIZED.model_copy(update={"n_features": (6, 2)})
    found = searches_of(sized.search(material_of(keep=(1, 4))))
    assert [one.sweeps[-1].iteration for one in found.searches] == [0, 0]
    assert [found.mask(size).tolist() for size in (6, 2)] == [
        [True] * 6, [False, True, False, False, True, False],
    ]  # fmt: skip
    alone = searches_of(QUICK.search(material_of(d=1)))
    assert alone.mask(0.05).tolist() == [True]


def test_features_that_are_all_the_same_in_every_row_are_refused() -> None:
    with pytest.raises(InputError, match="no use in any of the 6 features: each is the same in"):
        QUICK.search(material_of(same=range(6)))


# What it leaves


def test_masks_stand_for_choice_by_penalty_or_by_size(found) -> None:
    standing = QUICK.candidates(found[QUICK])
    assert sorted(penalty for one in standing for penalty in one.settings) == [0.05, 0.2]
    assert all(one.mask[[0, 5]].all() for one in standing)
    by_size = SIZED.candidates(found[SIZED])
    assert [(int(one.mask.sum()), one.settings) for one in by_size] == [
        (2, [2]), (3, [0.5]),
    ]  # fmt: skip


@pytest.mark.parametrize("method", [QUICK, SIZED])
def test_what_is_written_of_a_search_is_read_back_whole(found, method, tmp_path) -> None:
    pq.write_table(found[method].steps, tmp_path / "found.parquet")
    facts = json.loads(json.dumps(found[method].facts))
    back = replace(found[method], steps=pq.read_table(tmp_path / "found.parquet"), facts=facts)
    assert back == found[method]


def test_the_path_has_a_row_for_each_sweep_with_the_probability_of_each_feature(kept) -> None:
    store, result = kept
    path = result.path
    assert list(path.columns) == COLUMNS
    assert path["step"].tolist() == list(range(1, len(path) + 1))
    assert sorted(set(path["search"])) == [1, 2, 3, 4]
    for one in path.itertuples():
        probable = np.array(one.probabilities) >= 0.5
        assert list(one.features) == list(np.array(result.candidates)[probable])
        assert one.features_left == probable.sum()
    penalties = [one["penalty"] for one in stage(store, result, "optimise_mask")["searches"]]
    assert penalties == [0.05, 0.05, 0.2, 0.2]
    assert not result.steps.any()
    assert all(one["reason"] == "not chosen by pefs" for one in result.contract["dropped"])


def test_the_scores_are_the_probabilities_behind_the_chosen_mask(kept) -> None:
    store, result = kept
    best = min(
        stage(store, result, "choose_mask")["candidates"],
        key=lambda one: one["model_validation_loss"],
    )
    searches = stage(store, result, "optimise_mask")["searches"]
    numbers = [i for i, one in enumerate(searches, 1) if one["penalty"] == best["settings"][0]]
    last = [result.path[result.path["search"] == i]["probabilities"].iloc[-1] for i in numbers]
    assert list(result.scores.values()) == pytest.approx(np.mean(last, axis=0))
    assert list(result.scores) == result.candidates
    assert result.features == [name for name, score in result.scores.items() if score >= 0.5]


def test_a_run_is_read_back_and_goes_on_from_what_was_found(kept) -> None:
    store, result = kept
    back = chaffinch.load_run(result.run, store=store)
    assert back.contract == result.contract
    assert back.scores == result.scores
    pd.testing.assert_frame_equal(back.path, result.path)
    goes_on_from_what_was_found(result, lambda: select(store=store))


def test_a_number_of_features_is_kept_exactly_in_place_of_penalties() -> None:
    result = select(method=QUICK.model_copy(update={"seeds": 1}), n_features=2)
    assert len(result.features) == 2
    assert result.settings["method"]["penalties"] is None
    assert result.path["penalty"].nunique() > 1


def test_weights_weigh_and_a_scorer_will_do() -> None:
    of_r2 = SelectionSettings(target="y", seed=3, loss="r2")
    plain, weighted, scored = (
        searches_of(ONCE.search(material_of(**given))).searches[0]
        for given in ({}, {"weight": np.tile([1e-6, 1.0], 150)}, {"settings": of_r2})
    )
    assert (plain.probabilities != weighted.probabilities).all()
    assert -1 < scored.held_out_loss < 0


def test_in_a_comparison_it_has_its_own_choice_and_the_sizes_asked_for(tmp_path) -> None:
    compared = chaffinch.compare(
        good_table(100), "churned", methods=[ONCE, "anova_f"], models=[LINEAR], folds=2, seeds=1,
        sizes=[2], store=tmp_path,
    )  # fmt: skip
    results = compared.results
    ours = results[results["method"] == "pefs"]
    assert len(ours) == 4
    assert ours["size"].isna().sum() == 2
    assert (ours[ours["size"] == 2]["n_features"] == 2).all()


# What is asked for


def test_the_same_penalties_in_another_order_are_no_other_settings() -> None:
    assert Pefs(penalties=(0.2, 0.1, 0.2)) == Pefs(penalties=(0.1, 0.2))
    assert Pefs().penalties == (0.01, 0.02, 0.04, 0.08, 0.15)
    assert Pefs(n_features=(3,)).penalties is None


def test_settings_of_an_earlier_release_name_the_cpu_and_are_read() -> None:
    recorded = SelectionSettings(target="y", method=SWIFT).model_dump(mode="json")
    assert "device" not in recorded["method"]
    recorded["method"]["device"] = "cpu"
    assert SelectionSettings(**recorded).method == SWIFT
    with pytest.raises(InputError, match=r"^device must be cpu but is 'cuda'; GPUs are not"):
        SelectionSettings(target="y", method=recorded["method"] | {"device": "cuda"})


# The report


@pytest.mark.parametrize("method", [QUICK, SIZED])
def test_the_report_shows_where_each_search_ended_and_how_probable_each_feature_is(
    method, kept, tmp_path
) -> None:
    result = kept[1] if method is QUICK else select(method=method)
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    assert page.open == []
    assert page.heading_before("Losses") == "The searches"
    assert len(page.charts) == 3  # the interval, how they settled, the probabilities
    searches = page.tables["Searches"]
    assert searches[0][0] == ("Penalty" if method is QUICK else "Features asked for")
    ends = result.path.groupby("search").last()
    assert [int(row[2].replace(",", "")) for row in searches[1:]] == ends["iteration"].tolist()
    assert [int(row[5]) for row in searches[1:]] == ends["features_left"].tolist()
    assert page.tables["Candidate sizes"][0][1] == (
        "Penalty" if method is QUICK else "Size asked for"
    )
    kept = page.tables[f"Kept features ({len(result.features)})"]
    known = ["Association", "Values", "Type", "Missing", "Baseline"]
    assert kept[0] == ["Feature", "Why", "Price", "Probability", *known]
    assert {row[0]: float(row[3]) for row in kept[1:]} == pytest.approx(
        {name: result.scores[name] for name in result.features}, rel=1e-3
    )
    rows = page.tables["Losses of the two final models (log loss)"]
    assert [row[-1] for row in rows[1:3]] == [
        "tuning, fitting, the baseline, the probabilities",
        "the losses of the networks; then fitting",
    ]  # fmt: skip


OF_SEARCHES = (
    "A network and the probability", "Each search", "Entropy", "Stability", "Probability",
    "of the search", "the probabilities", "the losses of the networks", "lowest loss won",
    "how many features to keep",
)  # fmt: skip


def searched(d, keep=(), **asked):
    """Return the result of a run on a made-up table of d features."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(200, d)), columns=list("abcd")[:d])
    table = X.assign(y=2 * X["a"] + 0.3 * random.normal(size=200))
    method = Pefs(hidden_layer_sizes=(8,), most_sweeps=1, **asked)
    return select(table, "y", method=method, keep=keep)


@pytest.mark.parametrize(
    ("d", "asked", "why", "why_one"),
    [
        (4, {"n_features": (4,)}, "as many were asked for as there are", "one size was asked for"),
        (1, {}, "there is one feature, and nothing to choose from", "there was one set alone"),
        (
            4,
            {"n_features": (2, 0.5), "keep": ["b", "c"]},
            "no more were asked for than are on the keep list",
            "all sizes asked for led to the same features",
        ),
        (
            4,
            {"keep": ["a", "b", "c", "d"]},
            "all features are on the keep list",
            "there was one set alone",
        ),
    ],
)
def test_where_nothing_is_searched_nothing_is_told_of_searches(
    d, asked, why, why_one, tmp_path, caplog
):
    with caplog.at_level(logging.INFO, logger="chaffinch"):
        result = searched(d, **asked)
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    assert page.open == []
    assert f"Nothing was searched, and no network trained: {why}" in page.text
    assert f"Nothing was to be chosen, as {why_one}." in page.text
    told = page.text.replace(why, "")
    assert [said for said in OF_SEARCHES if said in told] == []
    assert "Searches" not in page.tables
    assert page.charts in ([], ["Difference"])  # at most the interval
    assert result.scores is None
    assert "score" not in result.to_frame()
    losses = page.tables["Losses of the two final models (squared error)"]
    assert [row[-1] for row in losses[1:4]] == [
        "tuning, fitting, the baseline", "fitting alone", "the loss of the one candidate",
    ]  # fmt: skip
    of_pefs = [said for said in caplog.messages if said.startswith("pefs, ")]
    assert of_pefs
    assert all(said.endswith(": nothing to search, as one set is left") for said in of_pefs)

"""Alternatives in a run: sets that differ from the chosen one, retrained and scored."""

import json
from functools import partial
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import chaffinch
from chaffinch import AlternativeSettings, InputError
from chaffinch.flows.cli.output import show
from chaffinch.tasks.methods.alternatives import Search
from chaffinch.tasks.settings.alternatives import CLIMBED, GREEDY, QualityName
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.synthetic import good_table
from tests.tasks.methods.synthetic_alternatives import LINE, select, table, two_that_share_nothing
from tests.tasks.snapshots import check_sentence

pytestmark = pytest.mark.usefixtures("undrawn")
THREE_FOLDS = LINE.model_copy(update={"folds": 3})


@pytest.fixture(scope="module")
def found() -> chaffinch.SelectionResult:
    return two_that_share_nothing()


def test_sets_have_as_many_features_as_were_chosen_and_differ_from_it_and_each_other(found) -> None:
    sets = [set(one["features"]) for one in found.alternatives["sets"]]
    assert [len(features) for features in sets] == [2, 2]
    together = [*found.features, *(name for features in sets for name in features)]
    assert len(set(together)) == 6  # tau 1: they share nothing
    assert found.alternatives["chosen"]["features"] == found.features


def test_quality_is_the_sum_of_the_features_and_each_set_the_best_there_is(found) -> None:
    ranked = select(alternatives=None, method="mutual_information")
    chosen, first, second = (
        found.alternatives["chosen"],
        *found.alternatives["sets"],
    )
    for one in (chosen, first, second):
        total = sum(ranked.scores[name] for name in one["features"])
        assert one["quality"] == pytest.approx(total, rel=1e-12)
    left = sorted(
        (score for name, score in ranked.scores.items() if name not in chosen["features"]),
        reverse=True,
    )
    assert first["quality"] == pytest.approx(sum(left[:2]))
    assert second["quality"] == pytest.approx(sum(left[2:4]))
    assert {one["status"] for one in found.alternatives["sets"]} == {"optimal"}


def test_what_is_selected_does_not_depend_on_them(found) -> None:
    plain = select(alternatives=None)
    assert plain.alternatives is None
    for field in ("features", "losses", "comparison", "dropped", "model"):
        assert plain.contract[field] == found.contract[field]


ROLES = {
    "folds": {},
    "time": {"time": "day"},
    "split": {"columns": {"split": "part"}},
}


@pytest.mark.parametrize("role", ROLES)
def test_the_default_selects_the_same_with_them_and_without(role, tmp_path) -> None:
    data = table().assign(
        day=range(400), part=["train"] * 250 + ["validation"] * 75 + ["test"] * 75
    )
    named = {"time": "day", "split": "part"}
    data = data.drop(columns=[name for of, name in named.items() if of != role])
    options = {"method": "auto", "n_features": 3, "model": THREE_FOLDS, **ROLES[role]}
    with_them = select(data, alternatives=2, **options)
    plain = select(data, alternatives=None, **options)
    contract = with_them.contract.to_dict()
    assert contract["settings"].pop("alternatives")["number"] == 2
    without = plain.contract.to_dict()
    without["settings"].pop("alternatives")
    assert contract == without
    assert len(with_them.alternatives["sets"]) == 2
    assert with_them.alternatives["judged_on"] == contract["judged_on"]
    if role == "folds":
        page = with_them.report(tmp_path / "report.html").read_text()
        assert "Out-of-fold loss" in page
        assert "compare them with each other, not with the verdict" in page


@pytest.mark.parametrize("quality", ["permutation", "masked_loss"])
def test_without_a_test_part_sets_are_found_and_compared_on_the_rows_that_folds_hold_out(
    quality, tmp_path
) -> None:
    asked = AlternativeSettings(number=2, quality=quality)
    options = {"method": "auto", "n_features": 3, "model": THREE_FOLDS}
    result = select(alternatives=asked, store=tmp_path, **options)
    found = result.alternatives
    assert found["judged_on"] == "out_of_fold"
    chosen, *others = [found["chosen"], *found["sets"]]
    for one in others:
        difference = one["test_loss"] - chosen["test_loss"]
        assert one["difference"] == pytest.approx(difference, rel=1e-9)
        low, high = one["interval"]
        assert low <= one["difference"] <= high
    rows = pq.read_table(result.folder / "out_of_fold.parquet")
    (path,) = tmp_path.rglob("table.parquet")
    held_out = pd.read_parquet(path).iloc[rows["row"].to_numpy()]
    features, fold = chosen["features"], rows["fold"].to_numpy()
    predicted = np.empty(len(fold))
    for number in np.unique(fold):
        fitted = held_out[fold != number]
        model = LogisticRegression(C=1.0).fit(fitted[features], fitted["y"])
        probabilities = model.predict_proba(held_out.loc[fold == number, features])
        predicted[fold == number] = probabilities[:, 1]
    loss = log_loss(held_out["y"], predicted)
    assert chosen["test_loss"] == pytest.approx(loss, rel=0.02)  # but for the penalty's scale


def test_the_price_curve_falls_with_tau_and_is_made_only_when_asked_for(found) -> None:
    assert found.alternatives["prices"] == []
    asked = {**found.settings["alternatives"], "price_curve": True}
    priced = select(alternatives=AlternativeSettings(**asked)).alternatives
    assert priced["sets"] == found.alternatives["sets"]
    prices = priced["prices"]
    assert [price["tau"] for price in prices] == [t / 10 for t in range(1, 11)]
    first = [price["qualities"][0] for price in prices]
    assert first == sorted(first, reverse=True)
    asked = [one["quality"] for one in found.alternatives["sets"]]
    assert prices[-1]["qualities"] == asked


@pytest.mark.xdist_group("dask")
@pytest.mark.e2e
def test_whoever_computes_finds_the_same(found, tmp_path) -> None:
    there = select(alternatives=AlternativeSettings(**found.settings["alternatives"]),
                   cluster=2, store=tmp_path)  # fmt: skip
    assert there.alternatives == found.alternatives
    written = json.loads((there.folder / "alternatives.json").read_bytes())
    assert written == there.alternatives
    again = chaffinch.load_run(there.run, store=tmp_path)
    assert again.alternatives == found.alternatives


@pytest.mark.parametrize(("quality", "n_measured"), [("mrmr", 8), ("permutation", 8), ("fcbf", 0)])
def test_progress_has_the_searches_in_it_and_is_whole_only_when_all_are_done(
    quality, n_measured
) -> None:
    told: list[tuple[int, int]] = []
    select(
        alternatives=AlternativeSettings(number=1, quality=quality),
        verbose=lambda step, *items: told.append(items) if step == "search_alternatives" else None,
    )
    begun, *between, ended = told
    assert (begun, ended) == ((0, 1), (1, 1))
    n_items = n_measured + 1  # the search asked for
    assert {total for _, total in between} == {n_items}
    done = [n for n, _ in between]
    assert done == sorted(done)
    assert set(done) >= set(range(1, n_items + 1))
    assert done.index(n_items) == len(done) - 1


def test_what_must_be_kept_is_in_every_set() -> None:
    result = select(alternatives=2, n_features=3, keep=["a3"])
    assert len(result.alternatives["sets"]) == 2
    for one in result.alternatives["sets"]:
        assert "a3" in one["features"]


@pytest.mark.parametrize("tau", [0.5, 0.55])
def test_what_is_asked_for_is_searched_for_once_and_is_its_own_price(tau, monkeypatch) -> None:
    """Within a time limit two searches for the same may find different sets."""
    seen, sets = [], Search.sets
    monkeypatch.setattr(Search, "sets", lambda search, at: (seen.append(at), sets(search, at))[1])
    asked = AlternativeSettings(number=2, tau=tau)
    select(alternatives=asked, n_features=3)
    assert seen == [tau]
    seen.clear()
    asked = asked.model_copy(update={"price_curve": True})
    found = select(alternatives=asked, n_features=3).alternatives
    assert seen.count(tau) == 1
    taus = [price["tau"] for price in found["prices"]]
    assert taus == [tenths / 10 for tenths in range(1, 11)]
    assert found["prices"][-1]["status"] == "infeasible"  # there are eight features
    if tau in taus:
        price = found["prices"][taus.index(tau)]
        assert price["qualities"] == [one["quality"] for one in found["sets"]]
        assert price["status"] == found["status"] == "optimal"


@pytest.mark.parametrize("quality", get_args(QualityName))
def test_what_is_proven_of_the_sets_of_every_quality(quality) -> None:
    result = select(alternatives=AlternativeSettings(number=2, quality=quality))
    statuses = [one["status"] for one in result.alternatives["sets"]]
    proven = "feasible" if quality in CLIMBED else "optimal"
    assert statuses[:1] == [proven]
    if quality != "fcbf":  # of which copies are in conflict
        assert statuses == [proven] * 2


@pytest.mark.parametrize("quality", get_args(QualityName))
def test_every_quality_finds_the_same_sets_with_workers(quality, scheduler) -> None:
    asked = AlternativeSettings(number=2, quality=quality)
    result = select(alternatives=asked)
    assert select(alternatives=asked, cluster=scheduler).alternatives == result.alternatives


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_all_at_once_they_are_worth_no_less_in_all(found, aggregate, tmp_path) -> None:
    asked = {**found.settings["alternatives"], "search": "simultaneous", "aggregate": aggregate}
    result = select(alternatives=AlternativeSettings(**asked))
    together = result.alternatives
    worths = [
        [one["quality"] for one in result["sets"]] for result in (together, found.alternatives)
    ]
    value = {"sum": sum, "min": min}[aggregate]
    assert value(worths[0]) >= value(worths[1]) - 1e-12
    assert together["status"] == "optimal"
    page = result.report(tmp_path / "report.html").read_text()
    assert "the best there is" not in page  # beside the chosen set alone there may be better ones
    is_of_sum = aggregate == "sum"
    assert page.count("No other such sets are worth more in all: proven.") == is_of_sum
    assert page.count("the best together with the others") == 2 * is_of_sum


@pytest.mark.parametrize(
    "settings",
    [
        {"number": 0},
        {"number": 10**11},
        {"number": 2, "tau": 0},
        {"number": 2, "tau": 1.5},
        {"number": True},
        {"number": 2, "tau": True},
        {"number": 2, "time_limit": True},
        {"number": 2, "aggregate": "min"},
        {"number": 2, "search": "simultaneous", "quality": "masked_loss"},
        {"number": 2, "search": "greedy_balancing", "quality": "mrmr", "together": True},
        {"number": 2, "search": "greedy_balancing"},
    ],
)
def test_what_cannot_be_is_refused_in_one_line(settings) -> None:
    with pytest.raises(InputError) as error:
        AlternativeSettings(**settings)
    check_sentence("refusals/alternatives", settings, error.value)


@pytest.mark.parametrize("given", [True, False, "3", 2.5, [1]])
def test_a_number_of_alternatives_is_a_whole_number(given) -> None:
    for ask in (select, partial(SelectionSettings, target="y")):
        with pytest.raises(InputError) as error:
            ask(alternatives=given)
        assert str(error.value) == (
            "alternatives must be how many to find, or how to search for them, but is "
            f"{given!r}; give a whole number or AlternativeSettings"
        )


@pytest.mark.parametrize("given", [3, np.int64(3)])
def test_settings_take_a_number_of_alternatives_as_select_does(given) -> None:
    by_settings = SelectionSettings(target="y", alternatives=AlternativeSettings(number=3))
    assert SelectionSettings(target="y", alternatives=given) == by_settings


@pytest.mark.parametrize("given", [{}, {"tau": 0.5}])
def test_without_a_number_that_is_what_is_said_to_be_missing(given) -> None:
    with pytest.raises(InputError) as error:
        select(alternatives=given)
    assert str(error.value) == (
        f"alternatives must have a number, how many sets to find, but is {given!r}; give one, as "
        "in {'number': 3}"
    )
    with pytest.raises(InputError, match=r"^number must be given$"):
        AlternativeSettings(**given)
    with pytest.raises(InputError, match=r"^there is no setting 'n'"):
        AlternativeSettings(n=2, **given)
    with pytest.raises(InputError, match=r"^(tau is for|alternatives have no).*; say how many, as"):
        SelectionSettings(target="y", alternatives=given)


def test_weights_and_categories_take_part() -> None:
    data = good_table().assign(weight=1.0)
    result = chaffinch.select(
        data, "churned", method="flbmo", n_features=2, model=LINE, weight="weight", alternatives=1
    )
    assert len(result.alternatives["sets"]) == 1
    with pytest.raises(InputError, match="quality mrmr takes no sample weights; leave out the"):
        chaffinch.select(
            data,
            "churned",
            weight="weight",
            alternatives=AlternativeSettings(number=1, quality="mrmr"),
        )


@pytest.mark.parametrize("quality", ["mrmr", "cfs"])
def test_how_features_depend_on_each_other_is_measured_once_for_all_runs(quality, tmp_path) -> None:
    def run(**options):
        asked = {"number": 1, "quality": quality, "tau": 0.5}
        seed = options.pop("seed", 0)
        return select(
            alternatives=AlternativeSettings(**asked | options), seed=seed, store=tmp_path
        )

    def kept() -> dict[str, str]:
        manifests = sorted((tmp_path / "dependencies" / "stages").glob("*.json"))
        return {path.name: json.loads(path.read_bytes())["finished"] for path in manifests}

    first = run()
    measured = kept()
    assert len(measured) == 1
    second = run(tau=1.0, number=2)
    assert second.run != first.run
    assert kept() == measured
    alone = select(alternatives=AlternativeSettings(number=2, quality=quality, tau=1.0))
    assert second.alternatives == alone.alternatives

    (matrix,) = (tmp_path / "dependencies").glob("*.npy")
    matrix.write_bytes(matrix.read_bytes()[:-8])  # cut short: measured again, not believed
    third = run(tau=1.0, number=2, price_curve=True)
    assert third.alternatives["sets"] == alone.alternatives["sets"]
    assert kept().keys() == measured.keys()
    assert kept() != measured
    run(seed=1)
    assert len(kept()) == 2


@pytest.mark.parametrize("model", ["mlp", "KNeighborsClassifier"])
def test_a_model_without_gains_is_refused_in_the_name_of_the_quality(model) -> None:
    with pytest.raises(InputError, match=r"^quality model_gain needs a model with .*"):
        select(model=model, alternatives=AlternativeSettings(number=1, quality="model_gain"))


@pytest.mark.parametrize("search", ["sequential", "simultaneous", *GREEDY])
def test_together_one_set_more_is_found_as_without_a_run(search) -> None:
    """As the paper searches: the first set takes the place of the chosen one."""
    asked = AlternativeSettings(
        number=2, tau=0.5, quality="mutual_information", search=search, together=True
    )
    result = select(alternatives=asked, n_features=3)
    ranked = select(alternatives=None, method="mutual_information").scores
    quality = chaffinch.qualities.Univariate(list(ranked.values()), list(ranked))
    found = chaffinch.find_alternatives(quality, k=3, n_alternatives=2, tau=0.5, search=search)
    assert len(found) == 3
    sets = [set(one["features"]) for one in result.alternatives["sets"]]
    assert sorted(map(sorted, sets)) == sorted(sorted(one.features) for one in found)
    assert result.alternatives["status"] == found.status


def test_greedy_searches_take_no_near_copies_either() -> None:
    asked = AlternativeSettings(
        number=2, quality="mutual_information", search="greedy_balancing", together=True
    )
    data = table().assign(again=lambda given: given["a0"] * 2)
    found = select(data, alternatives=asked, n_features=2).alternatives
    assert found["near_copies"]
    copies = {name for copies in found["near_copies"].values() for name in copies}
    assert not copies & {name for one in found["sets"] for name in one["features"]}


def test_where_a_greedy_search_runs_out_of_features_it_says_so(capsys) -> None:
    asked = AlternativeSettings(
        number=5, tau=1, quality="mutual_information", search="greedy_replacement", together=True
    )
    result = select(alternatives=asked, n_features=3)
    assert result.alternatives["status"] == "not_solved"
    assert len(result.alternatives["sets"]) == 2  # of eight features
    show(result, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "6 were asked for, but no further one was found on the way of the greedy search" in shown
    assert "A lower tau, or another search, may find more." in shown

"""Sets that are all shown to lose no more than the tolerance, by rows that did not find them."""

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import Ridge

import chaffinch
from chaffinch import AlternativeSettings, InputError, ModelSettings
from chaffinch.flows.cli.output import show
from chaffinch.tasks.reporting.text import bound_of_share
from chaffinch.tasks.statistics.size_curve import SizeCurve

pytestmark = pytest.mark.usefixtures("undrawn")
MODEL = ModelSettings(name="linear", tuning="none")


def three(**settings) -> chaffinch.methods.Auto:
    return chaffinch.methods.Auto(n_features=3, exactly=True, **settings)


def table(n_rows: int = 600, noise: float = 0.25) -> pd.DataFrame:
    """Three causes, each in three features with a little noise, and a feature of no use."""
    random = np.random.default_rng(0)
    causes = random.normal(size=(n_rows, 3))
    columns = {
        f"{name}{copy}": causes[:, j] + noise * random.normal(size=n_rows)
        for j, name in enumerate("abc")
        for copy in range(3)
    }
    target = causes.sum(axis=1) + random.normal(size=n_rows)
    return pd.DataFrame(columns).assign(useless=random.normal(size=n_rows), y=target)


def select(data=None, *, number=1, quality="binned_mrmr", **options):
    data = table() if data is None else data
    asked = AlternativeSettings(number=number, quality=quality, certified=True)
    options = {"method": three(), "model": MODEL, "tolerance": 0.1, **options}
    return chaffinch.select(data, "y", alternatives=asked, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def by_folds(store) -> chaffinch.SelectionResult:
    return select(number=2, store=store)


@pytest.fixture(scope="module")
def by_test() -> chaffinch.SelectionResult:
    return select(method=three(validation="holdout"))


def check_apart(certified) -> None:
    sets = [{*one["features"]} for one in certified["sets"]]
    for one, other in combinations(sets, 2):
        assert 1 - len(one & other) / 3 >= certified["tau"] - 1e-9


def test_by_folds_all_sets_are_shown_at_the_last_tau(by_folds) -> None:
    certified = by_folds.alternatives["certified"]
    assert certified["is_shown"]
    assert not certified["has_chosen"]
    assert len(certified["sets"]) == 3  # the two asked for, and one in place of the chosen set
    assert all(one["share_lost_at_most"] <= 0.1 for one in certified["sets"])
    taus = [one["tau"] for one in certified["tested"]]
    assert taus == sorted(taus)
    assert certified["tau"] == [one["tau"] for one in certified["tested"] if one["is_shown"]][-1]
    check_apart(certified)


def test_print_and_notebook_show_the_sets_that_their_sentence_is_about(by_folds) -> None:
    for shown in (repr(by_folds.alternatives), by_folds.alternatives._repr_html_()):
        _, _, certified = shown.partition("Certified: 3 sets")
        for one in by_folds.alternatives["certified"]["sets"]:
            assert ", ".join(one["features"]) in certified


def test_other_rows_certify_by_refits_without_them_than_find(by_folds, store) -> None:
    certified = by_folds.alternatives["certified"]
    assert certified["rows"] == {"finding": 240, "certifying": 360}  # two folds, and three
    rows = pq.read_table(by_folds.folder / "out_of_fold.parquet").to_pandas()
    (path,) = store.rglob("table.parquet")
    data = pd.read_parquet(path)
    certifying = rows[rows["fold"] >= 2]
    y = data["y"].to_numpy()[certifying["row"]]
    losses = {
        name: np.square(np.stack(certifying[name]) - y) for name in ("all_features", "constant")
    }
    of_all, constant = losses["all_features"].mean(), losses["constant"].mean()
    assert certified["all_features_loss"] == pytest.approx(of_all, rel=1e-9)
    for one in certified["sets"]:
        predicted = pd.Series(0.0, certifying["row"])
        for _, held_out in certifying.groupby("fold"):
            outside = data.drop(held_out["row"])
            model = Ridge(alpha=1.0).fit(outside[one["features"]], outside["y"])
            predicted[held_out["row"]] = model.predict(data.loc[held_out["row"], one["features"]])
        of_rows = np.square(predicted.to_numpy() - y)
        loss = of_rows.mean()
        curve = SizeCurve(
            (10, 3),
            np.array([losses["all_features"], of_rows]),
            losses["constant"],
            np.ones(len(y)),
            np.arange(len(y)),
            certifying["fold"].to_numpy(),
        )
        # three folds of 120 rows, fitted on 480; Fieller's bound is near that by the bootstrap
        _, bound = curve.shares_lost(np.sqrt(1 + 3 * 120 / 480))[1]
        assert one["share_lost_at_most"] == pytest.approx(bound, rel=0.1)
        assert one["loss"] == pytest.approx(loss, rel=2e-3)  # but for the penalty's scale
        share = (one["loss"] - of_all) / (constant - of_all)
        assert one["share_lost"] == pytest.approx(share, rel=1e-9)


def test_sets_are_those_of_the_rows_that_find_alone(by_folds, store) -> None:
    certified = by_folds.alternatives["certified"]
    rows = pq.read_table(by_folds.folder / "out_of_fold.parquet").to_pandas()
    (path,) = store.rglob("table.parquet")
    finding = pd.read_parquet(path).iloc[np.sort(rows.loc[rows["fold"] < 2, "row"])]
    assert len(finding) == certified["rows"]["finding"]
    quality = chaffinch.qualities.binned_mrmr(finding[list(by_folds.candidates)], finding["y"])
    found = chaffinch.find_alternatives(quality, k=3, n_alternatives=2, tau=certified["tau"])
    sets = [sorted(one["features"]) for one in certified["sets"]]
    assert sets == [sorted(one.features) for one in found]


def test_a_test_part_certifies_the_chosen_set_too_as_the_verdict_judges_it(by_test) -> None:
    certified, losses = by_test.alternatives["certified"], by_test.losses["test"]
    assert certified["has_chosen"]
    chosen, *others = certified["sets"]
    assert len(others) == 1
    assert chosen["features"] == by_test.features
    assert chosen["loss"] == pytest.approx(losses["selected"], rel=1e-12)
    assert certified["all_features_loss"] == losses["all_features"]
    comparison = by_test.contract.comparison
    assert chosen["share_lost_at_most"] == comparison.share_lost_at_most
    assert chosen["verdict"] == comparison.verdict
    check_apart(certified)


def test_what_is_selected_and_the_other_alternatives_do_not_depend_on_it(by_folds) -> None:
    asked = AlternativeSettings(**{**by_folds.settings["alternatives"], "certified": False})
    plain = chaffinch.select(
        table(), "y", alternatives=asked, method=three(), model=MODEL, tolerance=0.1
    )
    assert "certified" not in plain.alternatives
    assert plain.alternatives["sets"] == by_folds.alternatives["sets"]
    assert plain.features == by_folds.features


def test_where_nothing_is_shown_the_closest_bound_and_what_would_help_are_given(capsys) -> None:
    result = select(table(300, noise=0.7), tolerance=0.001)
    certified = result.alternatives["certified"]
    assert not certified["is_shown"]
    assert [one["is_shown"] for one in certified["tested"]] == [False]
    worst = max(one["share_lost_at_most"] for one in certified["sets"])
    assert worst == certified["tested"][0]["share_lost_at_most"] > 0.001
    show(result, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Not certified: 2 sets, any two" in shown
    assert f"A tolerance of {bound_of_share(worst)}" in shown  # rounded up, so that it helps


def test_too_few_such_sets_are_no_certificate(capsys) -> None:
    nine = chaffinch.methods.Auto(n_features=9, exactly=True)
    result = select(number=12, method=nine)
    assert result.alternatives["certified"]["sets"] == []
    assert result.alternatives["certified"]["tau"] is None
    show(result, as_json=False)
    assert "there are not so many sets that differ so much" in capsys.readouterr().out


def test_in_time_order_earlier_rows_find_and_later_ones_certify() -> None:
    data = table().assign(day=range(600))
    result = select(data, time="day", method=three(validation="folds"))
    rows = result.alternatives["certified"]["rows"]
    assert rows == {"finding": 300, "certifying": 300}  # 100 rows before the folds, and two folds


def test_too_few_rows_to_find_sets_are_refused_before_anything_is_trained() -> None:
    data = table(60).assign(y=["rare"] * 6 + ["often"] * 54)
    steps: list[str] = []
    with pytest.raises(InputError, match="of certified sets, 24 rows find them, too few") as error:
        select(data, verbose=lambda step, *_: steps.append(step))
    assert "\n" not in str(error.value)
    assert "train_base_model" not in steps


def test_own_folds_find_and_certify_too() -> None:
    rows = np.arange(600)
    cv = [(rows[rows % 4 != fold], rows[rows % 4 == fold]) for fold in range(4)]
    found = select(cv=cv).alternatives["certified"]
    assert found["rows"] == {"finding": 300, "certifying": 300}
    assert len(found["sets"]) == 2


@pytest.mark.parametrize("validation", ["folds", "holdout"])
def test_certified_sets_may_have_another_size_than_the_chosen(validation) -> None:
    asked = AlternativeSettings(number=1, quality="binned_mrmr", certified=True, certified_size=5)
    result = chaffinch.select(
        table(),
        "y",
        alternatives=asked,
        method=three(validation=validation),
        model=MODEL,
        tolerance=0.1,
    )
    certified = result.alternatives["certified"]
    sizes = [len(one["features"]) for one in certified["sets"]]
    assert sizes == ([3, 5] if certified["has_chosen"] else [5, 5])
    assert [len(one["features"]) for one in result.alternatives["sets"]] == [3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"certified_size": 5}, "certified_size is 5 but no certified sets are asked for; add"),
        ({"certified": True, "certified_size": 10}, "certified_size must be below 10, the number"),
    ],
)
def test_a_size_that_cannot_be_is_refused_in_one_line(given, message) -> None:
    with pytest.raises(InputError, match=message) as error:
        chaffinch.select(table(), "y", model=MODEL, alternatives={"number": 1, **given})
    assert "\n" not in str(error.value)


def test_sets_with_a_leak_are_not_certified_until_it_is_on_the_keep_list() -> None:
    data = table(300).assign(leak=lambda given: given["y"] * 2)
    certified = select(data, quality="permutation").alternatives["certified"]
    assert certified["leaks"] == ["leak"]
    assert not certified["is_shown"]
    kept = select(data, quality="permutation", keep=["leak"]).alternatives["certified"]
    assert kept["leaks"] == []
    assert kept["is_shown"]


@pytest.mark.parametrize("quality", ["relieff", "model_gain", "masked_loss", "wrapper"])
def test_qualities_of_rankings_models_and_climbs_find_sets_in_some_rows_alone(quality) -> None:
    data = table(200)[["a0", "a1", "b0", "b1", "c0", "y"]]
    certified = select(data, quality=quality).alternatives["certified"]
    assert [len(one["features"]) for one in certified["sets"]] == [3, 3]


def test_progress_rises_to_the_end_of_all_searches() -> None:
    told: list[tuple[int, int]] = []
    select(
        quality="permutation",
        verbose=lambda step, *items: told.append(items) if step == "search_alternatives" else None,
    )
    _, *between, _ = told
    done = [n for n, _ in between]
    assert done == sorted(done)
    assert done[-1] == between[-1][1]
    assert done.count(done[-1]) == 1


def test_of_large_folds_as_many_rows_judge_as_the_search_predicted() -> None:
    result = select(table(6_000), settings={"mask_rows": 1_000})
    assert result.alternatives["certified"]["rows"] == {"finding": 2_400, "certifying": 3_000}
    difference = result.alternatives["sets"][0]["difference"]
    losses = (result.alternatives["sets"][0], result.alternatives["chosen"])
    assert difference == pytest.approx(losses[0]["test_loss"] - losses[1]["test_loss"])

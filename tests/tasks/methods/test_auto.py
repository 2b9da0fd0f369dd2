"""The cross-fitted default against a plain nested cross-validation, and what its folds may see."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import chaffinch
from chaffinch import Constraints, Group, InputError, ModelSettings
from chaffinch.methods import Auto
from chaffinch.storage.sources import source_of
from chaffinch.tasks.data.splitting.splits import fold_indices
from chaffinch.tasks.pipeline.ingestion import ingest
from chaffinch.tasks.pipeline.run import select_features
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.workers.interface import InProcess

pytestmark = pytest.mark.usefixtures("undrawn")
LINEAR = ModelSettings(name="LinearRegression", tuning="none")
THREE_FOLDS = LINEAR.model_copy(update={"folds": 3})
HOLDOUT = {"kind": "auto", "validation": "holdout"}
SIGNAL = ["a", "b", "c"]


def table_of(seed=0, n_rows=300, n_noise=5, noise=1.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3 + n_noise))
    y = X[:, :3] @ np.array([2.0, 1.0, 1.0]) + noise * random.normal(size=n_rows)
    names = [*SIGNAL, *(f"noise{j}" for j in range(n_noise))]
    return pd.DataFrame(X, columns=names).assign(y=y)


def select(table, target="y", model=LINEAR, **options):
    return chaffinch.select(table, target, model=model, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def found(store):
    return select(table_of(), store=store)


@pytest.fixture(scope="module")
def run_of(store):
    """Return a function that runs the pipeline, once for equal settings, and reads it back."""

    def run(table, method="auto", model=LINEAR, **options):
        settings = SelectionSettings(target="y", model=model, method=method, **options)
        execution = ExecutionSettings(store=store, cluster="none")
        records = select_features(source_of(table), settings, execution).records()
        done = SelectionRun(settings, ingest(source_of(table), settings, store / "datasets"))
        done.records = {record.stage: record for record in records}
        return done

    return run


def mask_of_fold(result, number):
    return np.isin(result.features, result.facts["folds"][number])


def test_predictions_and_choices_are_those_of_a_plain_nested_cross_validation(run_of):
    run = run_of(table_of())
    rows, folds = run.rows("train"), run.folds("train")
    found = run.out_of_fold.to_pandas().set_index("row").sort_index()
    assert sorted(found.index) == list(range(300))
    everything, chosen = np.empty(300), np.empty(300)
    for number, (fitted, held_out) in enumerate(folds):
        mask = mask_of_fold(run.search_result, number)
        for made, columns in ((everything, slice(None)), (chosen, mask)):
            model = LinearRegression().fit(rows.X[fitted][:, columns], rows.y[fitted])
            made[held_out] = model.predict(rows.X[held_out][:, columns])
        assert set(found["fold"][held_out]) == {number}
        assert found["constant"][held_out].unique() == pytest.approx([rows.y[fitted].mean()])
    np.testing.assert_allclose(np.stack(found["all_features"]), everything, rtol=1e-9)
    np.testing.assert_allclose(np.stack(found["selected"]), chosen, rtol=1e-9)
    losses = run.contract.losses["out_of_fold"]
    assert losses.all_features == pytest.approx(np.square(everything - rows.y).mean())
    assert losses.selected == pytest.approx(np.square(chosen - rows.y).mean())
    assert run.search_result.facts["sizes"][0]["loss"] == pytest.approx(losses.all_features)
    assert run.contract.judged_on == "out_of_fold"


def test_a_feature_that_corrects_another_one_stays_with_it():
    random = np.random.default_rng(0)
    measured, weak, noise = random.normal(size=(3, 400))
    other = measured + 0.5 * random.normal(size=400)  # of y it has the opposite sign alone
    y = other - 0.9 * measured + 0.15 * weak + 0.5 * random.normal(size=400)
    columns = {"measured": measured, "other": other, "weak": weak, "noise": noise, "y": y}
    ranks = select(pd.DataFrame(columns)).to_frame().set_index("feature")["rank"]
    assert max(ranks["measured"], ranks["other"]) < ranks["weak"] < ranks["noise"]


def test_the_final_models_are_fitted_on_all_rows(run_of):
    run = run_of(table_of())
    rows, mask = run.rows("train"), run.mask
    assert len(rows) == 300
    plain = LinearRegression().fit(rows.X[:, mask], rows.y).predict(rows.X[:, mask])
    np.testing.assert_allclose(run.selected_model.predict(rows.X[:, mask]), plain)


def test_what_a_fold_holds_out_has_no_part_in_its_order(run_of):
    run = run_of(table_of(), {"kind": "auto", "n_features": 1}, THREE_FOLDS)
    rows, context = run.rows("train"), run.problem("optimise_mask")
    for number, fold in enumerate(run.folds("train")[:2]):  # the others are found alike
        # as if all hung on the last column: in the rows outside the fold, then in those inside
        for changed, top in zip(fold, (7, 0), strict=True):
            y = rows.y.copy()
            y[changed] = 1000 * rows.X[changed, 7]
            found = run.method.search(replace(context, rows=lambda *_, y=y: replace(rows, y=y)))
            assert np.flatnonzero(mask_of_fold(found, number)) == [top]


def test_groups_stay_whole_and_are_the_units_of_the_verdict():
    table = table_of().assign(patient=np.arange(300) // 6)
    result = select(table, model=THREE_FOLDS, group="patient")
    assert "a" in result.features
    assert result.contract["comparison"]["units"] == 50


def test_time_order_asks_for_a_test_part_later_than_all_that_was_searched():
    table = table_of().assign(day=np.arange(300))
    contract = select(table, model=THREE_FOLDS, time="day").contract
    assert "a" in {feature["name"] for feature in contract["features"]}
    assert contract["judged_on"] == "test"
    assert contract["dataset"]["rows_by_part"] == {"train": 255, "test": 45}


def test_in_time_order_folds_hold_out_what_follows(run_of):
    table = table_of().assign(day=np.arange(300))
    method = {"kind": "auto", "validation": "folds"}
    run = run_of(table, method, columns={"time": "day"})
    folds = fold_indices(run.roles("train"), run.settings)
    # the first block is only fitted on, and the first fold holds no other fold to order by
    assert run.out_of_fold.num_rows == sum(len(held_out) for _, held_out in folds[1:])


@pytest.mark.parametrize(
    ("options", "n_test"),
    [
        ({"method": HOLDOUT}, 45),
        ({"settings": {"shares": (40, 20, 10, 30)}}, 90),
    ],
)
def test_a_test_part_is_held_out_where_it_is_asked_for(options, n_test):
    contract = select(table_of(), **options).contract
    assert contract["judged_on"] == "test"
    assert contract["dataset"]["rows_by_part"]["test"] == n_test
    assert set(SIGNAL) <= {feature["name"] for feature in contract["features"]}


def test_many_rows_leave_a_test_part(monkeypatch):
    monkeypatch.setattr("chaffinch.tasks.methods.auto.MANY_ROWS", 200)
    contract = select(table_of()).contract
    assert contract["judged_on"] == "test"


def test_folds_leave_no_test_part_for_shares():
    folds = {"kind": "auto", "validation": "folds"}
    with pytest.raises(InputError, match="a test part but validation is folds; leave out shares"):
        select(table_of(), method=folds, settings={"shares": (50, 20, 20, 10)})


@pytest.mark.parametrize("loss", ["r2", "absolute_error"])
def test_every_loss_chooses(loss, few_resamples):
    assert select(table_of(), model=THREE_FOLDS, loss=loss, n_features=3).features == SIGNAL


def test_weights_decide_which_rows_matter():
    table = table_of(n_rows=400)
    other = np.arange(400) % 2 == 1
    table.loc[other, "y"] = 3 * table.loc[other, "noise0"]
    light = table.assign(w=np.where(other, 1e-6, 1.0))
    heavy = table.assign(w=np.where(other, 1.0, 1e-6))
    assert select(light, weight="w", n_features=3).features == SIGNAL
    assert select(heavy, weight="w", n_features=1).features == ["noise0"]


def test_a_target_too_large_for_the_gains_of_a_booster(run_of):
    table = table_of(n_noise=3)
    model = ModelSettings(tuning="none", folds=3, parameters={"n_estimators": 20})
    run = run_of(table.assign(y=1e25 * table["y"]), model=model)
    assert not np.isfinite(run.base_model.importances()).all()
    assert np.flatnonzero(run.mask).tolist() == [0, 1, 2]


def test_classes_of_any_number(run_of):
    random = np.random.default_rng(0)
    X = random.normal(size=(240, 6))
    y = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
    table = pd.DataFrame(X, columns=list("abcdef")).assign(y=np.array(["x", "y", "z"])[y])
    run = run_of(table, {"kind": "auto", "n_features": 2}, "linear")
    assert {"a", "b"} == set(np.array(list("abcdef"))[run.mask])
    assert np.stack(run.out_of_fold["selected"].to_pylist()).shape == (240, 3)


def test_the_shares_of_the_contract_are_those_of_the_recorded_folds(run_of):
    run = run_of(table_of())
    recorded, found = run.result("optimise_mask"), run.contract.stability
    assert found.n_folds == len(recorded["folds"]) == 5
    assert found.index == recorded["stability"]
    assert found.share_of_folds == {
        name: sum(name in fold for fold in recorded["folds"]) / 5
        for name in run.contract.candidates
    }


def test_a_fold_that_chose_fewer_features_counts_where_all_are_kept(run_of):
    for seed in range(19, 40):  # the first of them, unless another release rounds otherwise
        run = run_of(table_of(seed, n_rows=60, n_noise=2, noise=3.0))
        shares = run.contract.stability.share_of_folds.values()
        if run.mask.all() and min(shares) < 1:
            losses = run.contract.losses["out_of_fold"]
            assert losses.selected == losses.all_features
            assert run.contract.stability.index is not None
            return
    pytest.fail("no selection kept all features where a fold kept fewer")


def test_a_search_that_was_stored_is_read_back(found, store, monkeypatch):
    monkeypatch.setattr(Auto, "search", lambda *_: pytest.fail("it searches again"))
    assert select(table_of(), store=store).contract == found.contract


@pytest.mark.parametrize("roles", [{}, {"group": "patient"}, {"time": "day"}])
def test_two_folds_are_refused_before_any_work(roles):
    table = table_of().assign(patient=np.arange(300) // 6, day=np.arange(300))
    drop = [name for name in ("patient", "day") if name not in roles.values()]
    two = LINEAR.model_copy(update={"folds": 2})
    message = "folds must be at least 3 for method auto but is 2; use more folds, or another"
    with pytest.raises(InputError, match=message):
        select("no-such-table.csv", model=two, drop=drop, **roles)
    with pytest.raises(InputError, match=message):
        chaffinch.compare("no-such-table.csv", "y", models=[two], drop=drop, **roles)
    assert select(table, model=two, method="gbmo", drop=drop, **roles).features


def test_workers_change_no_bit(run_of, two_workers):
    run = run_of(table_of(n_rows=120))
    context = run.problem("optimise_mask")
    here = run.method.search(context)
    there = run.method.search(replace(context, workers=two_workers))
    assert there == here


class _Ahead(InProcess):
    """Workers that finish the fits of many sizes, the larger ones first, before they are needed."""

    def as_done(self, function, shared, items):
        results = [(number, function(shared, item)) for number, item in enumerate(items)]
        yield from reversed(results)


def test_fits_that_are_ready_before_their_turn_change_no_bit(run_of):
    run = run_of(table_of(n_rows=120))
    context = run.problem("optimise_mask")
    here, ahead = (
        run.method.search(replace(context, workers=workers)) for workers in (InProcess(), _Ahead())
    )
    assert len(here.facts["sizes"]) < 8  # the larger sizes were not needed
    assert ahead == here


def test_where_all_features_are_kept_the_verdict_says_why():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=X.sum(axis=1) + random.normal(size=300))
    result = select(table)
    closest = result.curve.iloc[1:].sort_values("share_lost_at_most").iloc[0]
    assert result.verdict == (
        "Every one of the 4 features was kept, because no smaller number is shown to lose no more "
        f"than is tolerated; {closest.n_features:.0f} features lose at most "
        f"{100 * closest.share_lost_at_most:.3g}% of what all features explain."
    )
    assert result.contract["comparison"]["verdict"] == "cannot tell"
    assert result.contract["comparison"]["difference"] == 0


@pytest.mark.parametrize("asked", [{"keep": list("abc")}, {}])
def test_the_reason_is_not_given_where_nothing_could_leave(asked):
    columns = ["a", "b", "c", "y"] if asked else ["a", "y"]
    verdict = select(table_of()[columns], **asked).verdict
    assert verdict.endswith("kept, so there is nothing smaller to compare.")


def test_another_number_of_features_has_the_labels_of_the_table(tmp_path):
    table = table_of().rename(columns={"a": 1, "b": 2})
    result = select(table, store=tmp_path)
    assert set(result.at(len(result.candidates)).features) == {*table.columns} - {"y"}


@pytest.mark.parametrize("size", [2, 6, 8])
def test_another_number_of_features_is_judged_on_the_same_folds_and_as_its_price_says(
    found, store, size
):
    other = found.at(size)
    assert set(other.features) == {name for name, rank in found.ranks.items() if rank <= size}
    assert other.contract.judged_on == "out_of_fold"
    ours, losses = (result.losses["out_of_fold"] for result in (found, other))
    assert losses["all_features"] == ours["all_features"]
    prices = found.curve.set_index("n_features")
    assert (size in prices.index) == (size != 6)
    if size == 2:
        price, judged = prices.loc[2], other.comparison
        assert losses["selected"] == pytest.approx(price["loss"])
        assert judged["difference"] == pytest.approx(price["difference"])
        assert judged["share_lost_at_most"] == pytest.approx(price["share_lost_at_most"], rel=0.1)
    assert other.curve["n_features"].tolist() == ([8] if size == 8 else [8, size])
    assert size == 8 or f"chosen separately in each fold ({size} each)" in other.verdict
    assert other.at(size).run == other.run
    assert chaffinch.load_run(other.run, store=store).contract == other.contract


@pytest.mark.parametrize(
    "constraints",
    [
        Constraints(costs={"a": 5, "copy": 1, "b": 1, "c": 1}, budget=4),
        Constraints(costs={"a": 2, "copy": 1, "b": 1, "c": 2}, budget=4),
        Constraints(groups=[Group(["a", "b"], at_most=1)]),
    ],
    ids=["too dear alone", "too dear beside others", "at most one of two"],
)
def test_of_near_copies_the_one_that_constraints_allow_stands_for_the_others(constraints):
    noise = np.random.default_rng(1).normal(size=300)
    table = table_of().assign(copy=lambda made: made["a"] + 0.05 * noise)
    result = select(table, constraints=constraints, n_features=3)
    assert set(result.features) == {"copy", "b", "c"}
    assert result.comparison["share_lost_at_most"] < 0.02


def test_a_near_copy_that_leaves_names_what_stands_for_it():
    table = table_of().assign(
        copy=lambda made: 2 * made["a"] + 1, other=lambda made: made["b"] ** 3
    )
    dropped = {one.name: one.reason for one in select(table).contract.dropped}
    stands_for = {"copy": "a", "a": "copy", "b": "other", "other": "b"}
    copies = {name: why for name, why in dropped.items() if why.startswith("near copy of")}
    assert len(copies) == 2
    assert all(why == f"near copy of {stands_for[name]!r}" for name, why in copies.items())
    assert dropped["noise0"] == "removed by auto"


@pytest.mark.parametrize("size", [0, 9, 2.5])
def test_no_number_beyond_the_features_is_asked_of_a_run(found, size):
    with pytest.raises(InputError, match="n_features must be"):
        found.at(size)


def test_a_run_that_cannot_be_followed_says_so(tmp_path):
    for options, message in (
        ({"method": HOLDOUT}, "in memory only, without its rows; give select a store"),
        (
            {"method": "correlation", "n_features": 3, "store": tmp_path},
            r"is of method correlation, not auto; select again, with n_features=2$",
        ),
        ({"method": "gbmo", "store": tmp_path}, r"n_features=2, which keeps at most so many$"),
        (
            {"method": HOLDOUT, "model": Ridge(), "store": tmp_path},
            "may be of an estimator of your own",
        ),
    ):
        result = select(table_of(), **options)
        with pytest.raises(InputError, match=message):
            result.at(2)


def test_exactly_takes_a_number_and_nothing_that_chooses_one():
    with pytest.raises(InputError, match="exactly needs n_features"):
        select(table_of(), method=Auto(exactly=True))
    with pytest.raises(InputError, match="within_one_standard_error has no use"):
        Auto(exactly=True, n_features=2, within_one_standard_error=True)


@pytest.mark.parametrize(("n_levels", "seed"), [(30, 2), (300, 0)])
def test_levels_that_a_linear_model_has_memorised_are_not_kept(n_levels, seed):
    random = np.random.default_rng(seed)
    table = table_of(seed, n_rows=600).drop(columns="y")
    segment, customer = random.integers(0, 5, 600), random.integers(0, n_levels, 600)
    effect = np.array([-1, -0.5, 0, 0.5, 1])[segment]
    table["y"] = 2 * table["a"] + table["b"] + effect + random.normal(size=600)
    table["segment"], table["customer"] = "s" + segment.astype("U9"), "c" + customer.astype("U9")
    result = select(table, model=ModelSettings(name="linear", folds=3))
    assert {"a", "b", "segment"} <= set(result.features)
    assert result.ranks["customer"] > 3
    assert "customer" not in result.features


def test_noise_leaves_also_where_too_few_rows_show_that_nothing_is_lost():
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 12))
    X[:, 6:] = random.integers(0, 40, (300, 6))
    table = pd.DataFrame(X).add_prefix("x")
    for name in table.columns[6:]:
        table[name] = "c" + table[name].astype(int).astype(str)
    score = X[:, 0] + X[:, 1] + 0.7 * X[:, 2]
    table["y"] = np.where(random.random(300) < 1 / (1 + np.exp(-score)), "yes", "no")
    few_trees = {"n_estimators": 20, "num_leaves": 6, "min_child_samples": 5}
    model = ModelSettings(name="lightgbm", tuning="none", folds=3, parameters=few_trees)
    result = select(table, model=model)
    assert result.features == ["x0", "x1", "x2"]
    bounds = result.curve.set_index("n_features")["share_lost_at_most"]
    assert bounds[3] > 0.02
    assert result.contract.comparison.verdict == "cannot tell"


def test_where_all_features_explain_nothing_few_are_chosen_only_if_they_do():
    random = np.random.default_rng(0)
    X, noise = random.normal(size=(60, 20)), random.normal(size=60)
    table = pd.DataFrame(X).add_prefix("x")
    with_signal = select(table.assign(y=3 * X[:, 0] + noise), model=THREE_FOLDS)
    assert "x0" in with_signal.features
    assert len(with_signal.features) < 5
    of_noise = select(table.assign(y=noise), model=THREE_FOLDS)
    assert len(of_noise.features) == 1
    assert "nothing to select from" in of_noise.verdict


@pytest.mark.parametrize("options", [{}, {"validation": "holdout"}, {"n_features": 2}])
def test_a_search_counts_as_many_items_as_are_estimated(options):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(300, 7))).add_prefix("x")
    table["y"] = table["x0"] + random.normal(size=300)
    totals = set()

    def on_progress(stage, done, total):
        if stage == "optimise_mask" and done:
            totals.add(total)

    method = Auto(**options)
    chaffinch.select(table, "y", model=LINEAR, method=method, verbose=on_progress)
    assert totals - {1} == {len(method.fits(300, 7, 5))}

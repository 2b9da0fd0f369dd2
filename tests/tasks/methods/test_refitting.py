"""Methods that refit: the rows they look at, who computes, what they leave, and the report."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_selection import RFE, RFECV, SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.methods import ParticleSwarm, Ranking, Sequential
from chaffinch.tasks.settings.method import declared, kinds, method_of
from chaffinch.tasks.workers.interface import InProcess
from tests.synthetic import good_table
from tests.tasks.methods.synthetic_problem import TREES, crossed, problem
from tests.tasks.pipeline.stages import goes_on_from_what_was_found, stage
from tests.tasks.reporting.synthetic_report import Page
from tests.tasks.synthetic_runs import rows_of

pytestmark = pytest.mark.usefixtures("undrawn")

LINEAR = ModelSettings(name="linear", tuning="none")
SWARM = ParticleSwarm(individuals=4, generations=4)

REFITTED = [kind for kind in kinds() if declared(kind).traits.refits]


def select(data=None, target="churned", *, model=LINEAR, **options):
    data = good_table() if data is None else data
    return chaffinch.select(data, target, model=model, **options)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A store, and the result of each method in it."""
    store = tmp_path_factory.mktemp("store")
    return store, {name: select(method=name, store=store) for name in REFITTED}


# The rows they look at


def prices(seed=0, n=300):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)) + 0.6 * random.normal(size=(n, 1))
    table = pd.DataFrame(X.round(6), columns=list("abcdef"))
    return table.assign(y=(X @ [3.0, 0.1, -2.0, 0.0, 1.0, 0.3] + random.normal(size=n)).round(6))


def regress(method, store):
    return chaffinch.select(prices(), "y", method=method, model=LinearRegression(), store=store)


def line():
    return make_pipeline(StandardScaler(), LinearRegression())


def coefficients(pipeline):
    return pipeline[-1].coef_


def test_rfe_fits_the_development_rows_and_no_others(tmp_path) -> None:
    result = regress("rfe", tmp_path)
    train = rows_of(result, "train", "mask_validation")
    theirs = RFE(line(), n_features_to_select=1, step=1, importance_getter=coefficients)
    ranking = theirs.fit(train[list("abcdef")], train["y"]).ranking_
    assert result.scores == dict(zip("abcdef", (7.0 - ranking).tolist(), strict=True))


def test_rfecv_judges_by_folds_of_the_development_rows(tmp_path) -> None:
    result = regress("rfecv", tmp_path)
    train = rows_of(result, "train", "mask_validation")
    theirs = RFECV(
        line(), cv=KFold(5, shuffle=True, random_state=0), scoring="neg_mean_squared_error",
        importance_getter=coefficients,
    )  # fmt: skip
    theirs.fit(train[list("abcdef")], train["y"])
    record = stage(tmp_path, result, "optimise_mask")
    assert [size["n_features"] for size in record["sizes"]] == [6, 5, 4, 3, 2, 1]
    losses = [size["loss"] for size in record["sizes"]]
    np.testing.assert_allclose(losses[::-1], -theirs.cv_results_["mean_test_score"], rtol=1e-9)
    errors = [size["standard_error"] for size in record["sizes"]]
    spread = theirs.cv_results_["std_test_score"] / 2  # sqrt(5 - 1), for theirs divides by 5
    np.testing.assert_allclose(errors[::-1], spread, rtol=1e-6)
    assert result.mask.tolist() == theirs.support_.tolist()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_sequential_fits_the_training_rows_and_judges_on_the_mask_validation_rows(
    direction, tmp_path
) -> None:
    method = Sequential(kind=f"sequential_{direction}", n_features=(3,))
    result = regress(method, tmp_path)
    rows = rows_of(result)
    split = [rows_of(result, part).index.tolist() for part in ("train", "mask_validation")]
    theirs = SequentialFeatureSelector(
        line(), n_features_to_select=3, direction=direction, cv=[tuple(split)],
        scoring="neg_mean_squared_error",
    )  # fmt: skip
    theirs.fit(rows[list("abcdef")], rows["y"])
    assert result.mask.tolist() == theirs.get_support().tolist()
    train, held_out = (rows.iloc[index] for index in split)
    predicted = line().fit(train[result.features], train["y"]).predict(held_out[result.features])
    assert result.path["loss"].iloc[-1] == pytest.approx(np.mean((predicted - held_out["y"]) ** 2))


def test_a_swarm_judges_on_the_mask_validation_rows(tmp_path) -> None:
    result = regress(SWARM, tmp_path)
    train, held_out = (rows_of(result, part) for part in ("train", "mask_validation"))
    for kept, loss in zip(result.path["features"], result.path["loss"], strict=True):
        predicted = line().fit(train[kept], train["y"]).predict(held_out[kept])
        assert loss == pytest.approx(np.mean((predicted - held_out["y"]) ** 2))


# Who computes


def test_workers_change_no_bit(two_workers) -> None:
    for name in sorted(set(REFITTED)):
        method = method_of(SWARM if name == "particle_swarm" else name)
        here, there = (
            method.search(problem(crossed(), 100, TREES, workers=workers))
            for workers in (InProcess(), two_workers)
        )
        assert there == here, name


class Diverging(LinearRegression):
    """Predicts no number from two features."""

    def predict(self, X):
        return super().predict(X) * (np.nan if X.shape[1] == 2 else 1)


@pytest.mark.parametrize(
    "method",
    [
        Ranking(kind="anova_f", n_features=(1, 2, 3)),
        Sequential(kind="sequential_forward", n_features=(3,)),
    ],
    ids=lambda method: method.kind,
)
def test_a_loss_that_is_no_number_is_refused_and_never_the_lowest(method, tmp_path) -> None:
    refused = "squared_error must be finite but is nan with 2 of 6 features kept; choose another"
    with pytest.raises(InputError, match=refused):
        select(prices(), "y", model=Diverging(), method=method, store=tmp_path)


# What they leave


def test_whole_masks_have_a_row_each_and_no_steps_of_features(results) -> None:
    store, of = results
    for name in ("sequential_forward", "particle_swarm"):
        result = of[name]
        assert list(result.path.columns) == ["step", "features", "loss", "features_left"]
        assert result.path["step"].tolist() == list(range(1, len(result.path) + 1))
        assert list(map(len, result.path["features"])) == result.path["features_left"].tolist()
        assert result.scores is None
        assert not result.steps.any()
        dropped = [entry for entry in result.contract["dropped"] if "step" not in entry]
        assert len(dropped) == len(result.candidates) - len(result.features) > 0
        assert dropped[0]["reason"] == f"not chosen by {name}"
        assert all(feature["step"] is None for feature in result.contract["features"])
    forward, swarm = of["sequential_forward"].path, of["particle_swarm"]
    assert forward["features_left"].tolist() == [1, 2, 3]  # up to half of six
    assert len(swarm.path) == 25
    assert swarm.features == swarm.path["features"].iloc[-1].tolist()
    assert swarm.path["loss"].is_monotonic_decreasing
    (candidate,) = stage(store, swarm, "choose_mask")["candidates"]
    assert candidate["settings"] == []


def test_what_leaves_feature_by_feature_has_a_step_each(results) -> None:
    _, of = results
    for name in ("rfe", "rfecv"):
        assert list(of[name].path.columns) == ["step", "feature", "score", "features_left"]
        assert of[name].path["score"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert of[name].scores[of[name].candidates[int(np.argmin(of[name].steps))]] == 6.0
    backward = of["sequential_backward"]
    assert list(backward.path.columns) == ["step", "feature", "loss", "features_left"]
    assert backward.path["features_left"].tolist() == [5, 4, 3, 2, 1]
    assert sorted(backward.steps) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", sorted({*REFITTED} - {"rfe", "particle_swarm"}))
def test_a_run_is_read_back_and_goes_on_from_what_was_found(name, results) -> None:
    store, of = results
    back = chaffinch.load_run(of[name].run, store=store)
    assert back.contract == of[name].contract
    pd.testing.assert_frame_equal(back.path, of[name].path)
    goes_on_from_what_was_found(of[name], lambda: select(method=name, store=store))


# What is asked for


@pytest.mark.parametrize("name", list(REFITTED))
def test_weights_weigh_and_progress_is_told_to_the_end(name, results) -> None:
    told = []
    table = good_table().assign(w=np.where(good_table()["colour"] == "red", 1e-6, 1.0))
    weighted = select(
        table, method=name, weight="w", verbose=lambda *progress: told.append(progress)
    )
    assert weighted.losses != results[1][name].losses
    assert not weighted.path.equals(results[1][name].path)
    done = [(count, total) for stage, count, total in told if stage == "optimise_mask"]
    assert done[-2][0] == done[-2][1] > 1
    assert all(count <= total for count, total in done)


def useless():
    """Too few rows for a leaf of LightGBM's."""
    random = np.random.default_rng(0)
    return pd.DataFrame(random.normal(size=(30, 4)), columns=list("abcd")).assign(
        y=["no", "yes"] * 15
    )


@pytest.mark.parametrize("name", list(REFITTED))
def test_a_model_that_uses_no_feature_is_refused_rather_than_followed(name) -> None:
    lightgbm = ModelSettings(tuning="none", folds=2, parameters={"n_estimators": 2})
    with pytest.raises(InputError, match=r"(of|in) any of the 4 features: "):
        select(useless(), "y", model=lightgbm, method=name)


def test_rfecv_needs_rows_for_its_folds_even_without_tuning() -> None:
    table = good_table(60).assign(churned=["no"] * 50 + ["yes"] * 10)
    select(table, method="rfe")
    with pytest.raises(InputError, match=r"10 rows but needs 13 \(10 to train on, for the folds"):
        select(table, method="rfecv", model=LINEAR.model_copy(update={"folds": 10}))


# The report


@pytest.mark.parametrize(
    ("name", "heading", "n_charts", "train", "mask_validation", "model_validation"),
    [
        ("rfe", "The ranking", 1, "tuning, fitting, the ranking", "fitting, the ranking",
         "how many features to keep"),
        ("rfecv", "The ranking", 2, "tuning, fitting, the ranking", "fitting, the ranking",
         "the loss of the one candidate"),
        ("sequential_forward", "The masks found", 1, "tuning, fitting", "the losses of the "
         "refits; then fitting", "how many features to keep"),
        ("sequential_backward", "The elimination curve", 2, "tuning, fitting", "the losses of the "
         "refits; then fitting", "how many features to keep"),
        ("boruta", "The ranking", 1, "tuning, fitting, the ranking", "fitting, the ranking",
         "the loss of the one candidate"),
        ("particle_swarm", "The masks found", 1, "tuning, fitting", "the losses of the refits; "
         "then fitting", "the loss of the one candidate"),
    ],
)  # fmt: skip
def test_the_report_shows_what_was_measured_and_nothing_else(
    name, heading, n_charts, train, mask_validation, model_validation, results, tmp_path
) -> None:
    result = results[1][name]
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    assert page.open == []
    assert page.heading_before("Losses") == heading
    assert len(page.charts) == n_charts
    assert declared(name).traits.refits in page.text
    rows = page.tables["Losses of the two final models (log loss)"]
    assert [row[-1] for row in rows[1:4]] == [train, mask_validation, model_validation]
    assert not {"Mask", "Baseline is", "Loss once masked", "Slack"} & set(page.texts)
    assert "base model is not refitted" not in page.text
    kept = page.tables[f"Kept features ({len(result.features)})"][0]
    evidence = {
        "rfe": ["Rank"],
        "rfecv": ["Rank"],
        "boruta": ["Rank", "Score"],
        "sequential_backward": ["Rank", "Loss once removed"],
    }
    known = ["Association", "Values", "Type", "Missing", "Baseline"]
    assert kept == ["Feature", "Why", "Price", *evidence.get(name, []), *known]


def test_the_report_has_the_figures_of_the_run(results, tmp_path) -> None:
    store, of = results

    def tables(name):
        return Page(of[name].report(tmp_path / f"{name}.html").read_bytes()).tables

    masks = tables("particle_swarm")["Masks found"]
    assert len(masks) == 26
    assert masks[-1][1] == str(len(of["particle_swarm"].features))
    assert float(masks[-1][2]) == pytest.approx(
        of["particle_swarm"].path["loss"].iloc[-1], rel=1e-3
    )
    assert tables("particle_swarm")["Candidate sizes"][1][1] == "\N{EN DASH}"
    sizes = stage(store, of["rfecv"], "optimise_mask")["sizes"]
    shown = tables("rfecv")["Cross-validated sizes"][1:]
    assert [row[0] for row in shown] == [str(size["n_features"]) for size in sizes]
    assert [float(row[1]) for row in shown] == pytest.approx(
        [size["loss"] for size in sizes], rel=1e-3
    )


@pytest.mark.parametrize("names", ["abcdefgh", "hgfedcba"])
def test_boruta_orders_what_it_confirms_by_importance(names) -> None:
    """All of these have a hit in every round; the names decide nothing."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(400, 8)), columns=[*names])
    slopes = [4, 2, 1, 0.5, 0, 0, 0, 0]
    table = X.assign(y=X @ slopes + 0.3 * random.normal(size=400))
    linear = chaffinch.ModelSettings(name="linear", tuning="none")
    found = chaffinch.select(table, "y", method="boruta", model=linear)
    assert set(found.features) == {*names[:4]}
    ranks = found.to_frame().set_index("feature")["rank"]
    assert list(ranks[[*names[:4]]]) == [1, 2, 3, 4]

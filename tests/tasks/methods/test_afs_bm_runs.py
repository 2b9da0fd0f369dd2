"""Training and masking in turn, in a run: the rows it looks at, who computes, what it leaves."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import chaffinch
from chaffinch import ModelSettings, SelectionSettings
from chaffinch.methods import AfsBm
from chaffinch.tasks.reporting.losses import candidate_sizes
from chaffinch.tasks.workers.interface import InProcess
from tests.synthetic import good_table
from tests.tasks.methods.synthetic_problem import TREES, crossed, problem
from tests.tasks.pipeline.stages import goes_on_from_what_was_found, stage
from tests.tasks.reporting.synthetic_report import Page, numbered, synthetic
from tests.tasks.synthetic_runs import rows_of

pytestmark = pytest.mark.usefixtures("undrawn")

LINEAR = ModelSettings(name="linear", tuning="none")
COLUMNS = [
    "step", "slack", "rejections", "round", "trained_loss", "tried", "tried_losses", "rejected",
    "removed", "features", "loss", "features_left",
]  # fmt: skip


def select(data=None, target="churned", *, method="afs_bm", model=LINEAR, **options):
    data = good_table() if data is None else data
    return chaffinch.select(data, target, method=method, model=model, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store, and a result in it."""
    store = tmp_path_factory.mktemp("store")
    return store, select(store=store)


# The rows it looks at


def prices(seed=0, n=300):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 8)) + 0.6 * random.normal(size=(n, 1))
    table = pd.DataFrame(X.round(6), columns=list("abcdefgh"))
    y = X @ [3.0, 0.1, -2.0, 0.0, 1.0, 0.3, 0.0, 0.05] + random.normal(size=n)
    return table.assign(y=y.round(6))


@pytest.mark.parametrize("start", [(), ("a", "b", "c", "d")])
def test_it_trains_on_the_training_rows_and_masks_the_mask_validation_rows(start, tmp_path) -> None:
    method = AfsBm(slacks=(0.01, 0.05), rejections=3, start=start)
    result = select(
        prices(), "y", method=method, model=LinearRegression(), store=tmp_path, keep=["d"]
    )
    train, held_out = (rows_of(result, part) for part in ("train", "mask_validation"))
    baseline = train.mean()

    def loss_without(masked):
        table = held_out[features].assign(**{name: baseline[name] for name in masked})
        return np.mean((line.predict(table) - held_out["y"]) ** 2)

    assert list(result.path.columns) == COLUMNS
    for one in result.path.itertuples():
        if one.round == 1:
            features = list(start) or list("abcdefgh")
        line = make_pipeline(StandardScaler(), LinearRegression())
        line.fit(train[features], train["y"])
        assert one.trained_loss == pytest.approx(loss_without([]))
        masked = []
        for tried, loss in zip(one.tried, one.tried_losses, strict=True):
            assert loss == pytest.approx(loss_without([*masked, tried]))
            masked += [tried] if tried in one.removed else []
        assert masked == list(one.removed)
        assert one.loss == pytest.approx(loss_without(masked))
        features = [name for name in features if name not in masked]
        assert list(one.features) == features
        assert "d" not in one.tried
    assert "d" in result.features
    assert set(result.features) <= set(start or "abcdefgh")


# Who computes, and how it is tuned


def test_workers_change_no_bit(two_workers) -> None:
    few = AfsBm(slacks=(0.1, 0.01), rejections=4)
    here, there = (
        few.search(problem(crossed(), 100, TREES, workers=workers))
        for workers in (InProcess(), two_workers)
    )
    assert there == here


def test_hyper_parameters_are_those_of_the_base_model_or_tuned_for_each_mask() -> None:
    model = ModelSettings(tuning="small", parameters=TREES.parameters)
    settings = SelectionSettings(target="y", model=model, seed=3)
    material = problem(crossed(), 100, settings=settings)
    recipe = material.tuner.recipe_for(
        material.rows("train"), material.schema, material.folds("train")
    )
    material = problem(crossed(), 100, recipe, settings=settings)
    once = AfsBm(slacks=(0.1,), rejections=2, patience=1)
    for method in (once, once.model_copy(update={"tune_every_round": True})):
        found = method.search(material)
        train, held_out = material.rows("train"), material.rows("mask_validation")
        recipes, mask = [], np.ones(8, dtype=bool)
        for one, kept in zip(found.steps.to_pylist(), found.masks, strict=True):
            rows, schema = train.select(mask), material.schema.select(mask)
            recipe = material.recipe
            if method.tune_every_round:
                recipe = material.tuner.recipe_for(rows, schema, material.folds("train"))
            prediction = recipe.fit(rows, schema).predict(held_out.X[:, mask])
            assert one["trained_loss"] == pytest.approx(material.loss(held_out.y, prediction, None))
            recipes.append(json.dumps(dict(recipe.parameters)))
            mask = kept
        assert (len(set(recipes)) > 1) == method.tune_every_round


# What it leaves


def test_the_path_has_a_row_for_each_round_of_each_slack(kept) -> None:
    _, result = kept
    path = result.path
    assert path["step"].tolist() == list(range(1, len(path) + 1))
    assert sorted(set(path["slack"])) == [0.01, 0.02, 0.03, 0.05]
    for _, walk in path.groupby("slack"):
        assert walk["round"].tolist() == list(range(1, len(walk) + 1))
        assert walk["features_left"].is_monotonic_decreasing
        assert [len(names) for names in walk["removed"][-5:]] == [0] * 5
        for one in walk.itertuples():
            assert set(one.tried) == set(one.removed) | set(one.rejected)
            assert len(one.tried) == len(one.tried_losses)
            assert len(one.features) == one.features_left
    assert result.scores is None
    assert not result.steps.any()
    assert all(feature["step"] is None for feature in result.contract["features"])
    dropped = [entry for entry in result.contract["dropped"] if "step" not in entry]
    assert len(dropped) == len(result.candidates) - len(result.features) > 0
    assert dropped[0]["reason"] == "not chosen by afs_bm"


def test_the_slack_whose_mask_does_best_on_the_model_validation_rows_wins(tmp_path) -> None:
    method = AfsBm(slacks=(0.0, 0.001, 0.5, 0.6, 40.0))
    result = select(method=method, store=tmp_path)
    candidates = stage(tmp_path, result, "choose_mask")["candidates"]
    assert sorted(slack for one in candidates for slack in one["settings"]) == [*method.slacks]
    sizes = [one["n_features"] for one in candidates]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    best = min(candidates, key=lambda one: one["model_validation_loss"])
    assert len(result.features) == best["n_features"]
    last = result.path[result.path["slack"] == best["settings"][0]].iloc[-1]
    assert result.features == list(last["features"])


def noisy(seed=1):
    """A table on which walks that are less patient end earlier."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(400, 20))
    y = X[:, :4].sum(axis=1) + random.normal(size=400)
    return pd.DataFrame(X.round(6), columns=[f"x{j:02}" for j in range(20)]).assign(y=y.round(6))


def test_several_rejections_and_patiences_are_the_walks_of_each_alone(tmp_path) -> None:
    lists = {"rejections": (1, 6), "patience": (1, 4)}
    slacks = (0.0, 0.002)
    several = select(noisy(), "y", method=AfsBm(slacks=slacks, **lists), store=tmp_path)
    tried = stage(tmp_path, several, "choose_mask")["candidates"]
    alone = {
        (mu, beta): select(
            noisy(), "y", method=AfsBm(slacks=slacks, rejections=mu, patience=beta), store=tmp_path
        )
        for mu in lists["rejections"]
        for beta in lists["patience"]
    }
    ends = [stage(tmp_path, one, "choose_mask")["candidates"] for one in alone.values()]

    def losses(candidates):
        pairs = ((one["n_features"], one["model_validation_loss"]) for one in candidates)
        return {(n, round(loss, 9)) for n, loss in pairs}

    assert losses(tried) == set().union(*map(losses, ends))
    assert len(losses(tried)) > max(len(losses(end)) for end in ends)  # the lists matter
    assert [one["settings"] for one in tried] == [sorted(set(one["settings"])) for one in tried]
    best = min(tried, key=lambda one: one["model_validation_loss"])
    assert len(several.features) == best["n_features"]
    longest = several.path.groupby(["slack", "rejections"])["removed"].apply(list)
    assert len(longest) == 4
    for removed in longest:
        assert [len(names) for names in removed[-4:]] == [0] * 4


def test_a_run_is_read_back_and_goes_on_from_what_was_found(kept) -> None:
    store, result = kept
    back = chaffinch.load_run(result.run, store=store)
    assert back.contract == result.contract
    pd.testing.assert_frame_equal(back.path, result.path)
    goes_on_from_what_was_found(result, lambda: select(store=store))


# What is asked for


def test_the_same_slacks_and_start_in_another_order_are_no_other_settings() -> None:
    one = AfsBm(slacks=(0.1, 0.02), start=("b", "a"))
    assert one == AfsBm(slacks=(0.02, 0.1, 0.02), start=("a", "b"))


def test_a_penalty_keeps_fewer(tmp_path) -> None:
    sizes = [
        len(select(prices(), "y", method=AfsBm(slacks=(0.01,), penalty=penalty)).features)
        for penalty in (0, 1, 100)
    ]
    assert sizes[0] >= sizes[1] >= sizes[2] == 1


def test_what_is_kept_is_kept_whatever_it_begins_with() -> None:
    result = select(method=AfsBm(start=("age",)), keep=["noise_2"])
    assert set(result.features) == {"age", "noise_2"}


def test_weights_weigh_and_progress_is_told_to_the_end(kept) -> None:
    told = []
    table = good_table().assign(w=np.where(good_table()["colour"] == "red", 1e-6, 1.0))
    weighted = select(table, weight="w", verbose=lambda *progress: told.append(progress))
    assert not weighted.path.equals(kept[1].path)
    done = [(count, total) for name, count, total in told if name == "optimise_mask"]
    assert done[-2] == (4, 4)


# The report


def test_the_report_shows_the_rounds_and_nothing_that_was_not(kept, tmp_path) -> None:
    _, result = kept
    page = Page(result.report(tmp_path / "report.html").read_bytes())
    assert page.open == []
    assert page.heading_before("Losses") == "The rounds"
    assert len(page.charts) == 1
    rounds = page.tables["Rounds of training and masking"]
    assert "May put back" not in rounds[0]
    assert len(rounds) == 1 + len(result.path)
    assert rounds[0][0] == "Slack"
    first, path = rounds[1], result.path.iloc[0]
    assert first[:2] == ["0.01", "1"]
    assert [int(cell) for cell in (*first[3:5], first[7])] == [
        len(path["tried"]), len(path["rejected"]), path["features_left"],
    ]  # fmt: skip
    assert first[5] == (", ".join(path["removed"]) or "none")
    assert float(first[2]) == pytest.approx(path["trained_loss"], rel=1e-3)
    assert float(first[6]) == pytest.approx(path["loss"], rel=1e-3)
    assert page.tables["Candidate sizes"][0][1] == "Slack"
    rows = page.tables["Losses of the two final models (log loss)"]
    assert [row[-1] for row in rows[1:4]] == [
        "tuning, fitting, the baseline", "which feature to mask next; then fitting",
        "the loss of the one candidate",
    ]  # fmt: skip
    assert "base model is not refitted" not in page.text
    assert page.tables[f"Kept features ({len(result.features)})"][0][-1] == "Baseline"


def test_what_the_limit_alone_forced_out_is_said_to_be_so_and_only_then(kept, tmp_path) -> None:
    method = AfsBm(slacks=[0.0], n_features=2, rejections=8, patience=1)
    rows = prices().assign(y=lambda rows: rows[list("abcdefgh")].sum(axis=1))
    limited = select(rows, "y", method=method)
    page = Page(limited.report(tmp_path / "limited.html").read_bytes())
    forced = [one for one in limited.path.itertuples() if set(one.removed) & set(one.rejected)]
    assert forced
    assert "No more than 2 features were to be kept." in page.text
    for one in forced:
        assert f"{one.removed[0]} (slack 0, round {one.round})" in page.text
    free = Page(kept[1].report(tmp_path / "free.html").read_bytes())
    assert "were to be kept" not in free.text


def test_of_masks_of_one_size_only_the_chosen_one_is_marked() -> None:
    content = synthetic(numbered(4), 2)
    same = [
        {"n_features": 2, "settings": [slack], "model_validation_loss": loss}
        for slack, loss in ((0.01, 0.3), (0.02, 0.1), (0.05, 0.2))
    ]
    content.candidates[:] = same
    table = candidate_sizes(content)
    assert [row[-1] for row in table.rows] == ["", "chosen", ""]
    assert table.marked == 1

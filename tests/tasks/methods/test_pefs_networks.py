"""The model pefs-network: the network that the search of PEFS trained is the final model."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.methods import Pefs
from chaffinch.tasks.methods.fitting import Recipe
from chaffinch.tasks.selection.core import Rows
from chaffinch.tasks.selection.models import fit, load
from chaffinch.tasks.selection.pefs.checkpoint import read_result, result_to_bytes
from chaffinch.tasks.selection.pefs.network import Prepared
from chaffinch.tasks.selection.pefs.results import ProbabilisticSearch, Sweep
from chaffinch.tasks.selection.pefs.search import Rules, Search
from tests.synthetic import good_table
from tests.tasks.methods.synthetic_problem import problem

NETWORK = ModelSettings(name="pefs-network", tuning="none", parameters={"steps": 30})
QUICK = Pefs(hidden_layer_sizes=(16,), most_sweeps=4, penalties=(0.05, 0.2), seeds=2)
SIZED = Pefs(hidden_layer_sizes=(16,), most_sweeps=4, n_features=(2, 3))
KEEPS_NETWORKS = Recipe("pefs-network", {"steps": 5, "hidden_layer_sizes": [16]}, 0)


def table_of(n_rows=300):
    """Numbers and categories, of which some are missing."""
    table = good_table(n_rows)
    random = np.random.default_rng(1)
    for name in ("age", "colour"):
        table.loc[random.random(n_rows) < 0.1, name] = None
    return table


def select(method=QUICK, model=NETWORK, **options):
    return chaffinch.select(table_of(), "churned", method=method, model=model, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store, and a result in it."""
    store = tmp_path_factory.mktemp("store")
    return store, select(store=store)


def searched(method, recipe=KEEPS_NETWORKS):
    """Return a problem of 300 rows, of which all but the last 60 train, and the search's result."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 6))
    X[random.random(X.shape) < 0.05] = np.nan
    rows = Rows(X, np.nan_to_num(2 * X[:, 0] - 2 * X[:, 5]) + 0.3 * random.normal(size=300))
    train, held_out = rows.take(slice(240)), rows.take(slice(240, None))
    of_parts = {("train", "mask_validation"): train, ("model_validation",): held_out}
    of_parts |= {("train",): train, ("mask_validation",): held_out}
    posed = replace(
        problem(rows, 240, recipe, baseline=np.full(6, 0.5)), rows=lambda *parts: of_parts[parts]
    )
    return posed, method.search(posed), train


@pytest.mark.parametrize("method", [QUICK, SIZED])
def test_the_model_of_a_mask_is_the_network_of_its_search_under_that_mask(method) -> None:
    posed, result, train = searched(method)
    assert len(result.files) == 4 if method is QUICK else 2
    X = np.where(np.arange(36).reshape(6, 6) % 7, 0.3, np.nan)
    for candidate in method.candidates(result):
        mask, (request, *_) = candidate.mask, candidate.settings
        model = method.trained_model(posed, result, mask)
        of_seeds = []
        for nth in range(method.seeds):
            (seed,) = np.random.SeedSequence([posed.seed, nth]).generate_state(1, np.uint64)
            aim = {"n_features": request} if method is SIZED else {"penalty": request}
            rules = Rules(**aim, hidden_layer_sizes=(16,), most_sweeps=4)
            search = Search(Prepared.of(train, posed.schema, posed.baseline), rules, int(seed))
            search.run()
            of_seeds.append(search.network.predict(X, mask))
        found = model.predict(X[:, mask])
        assert any(np.allclose(found, of_seed, rtol=1e-6, atol=1e-9) for of_seed in of_seeds)


def test_other_models_are_fitted_again_and_nothing_is_kept_of_the_networks() -> None:
    posed, result, _ = searched(QUICK, Recipe("linear", {}, 0))
    assert not result.files
    assert QUICK.trained_model(posed, result, QUICK.candidates(result)[0].mask) is None


def test_a_stored_network_predicts_the_same_after_it_is_read_back(kept) -> None:
    store, result = kept
    table = table_of(80)
    back = chaffinch.load_run(result.run, store=store)
    assert back.contract["model"]["name"] == "pefs-network"
    assert 0 < len(back.features) < len(back.candidates)
    np.testing.assert_array_equal(
        back.model.predict_proba(table), result.model.predict_proba(table)
    )
    assert set(np.unique(back.model.predict(table))) <= {"yes", "no"}
    (folder,) = store.glob("runs/*/model") if (store / "runs").exists() else store.glob("*/model")
    assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    in_memory = select()
    expected = result.model.predict_proba(table)
    np.testing.assert_array_equal(in_memory.model.predict_proba(table), expected)
    assert in_memory.contract == result.contract


def test_a_missing_value_counts_as_the_baseline_and_other_columns_for_nothing(kept) -> None:
    _, result = kept
    table = table_of(80)
    baselines = {feature["name"]: feature["baseline"] for feature in result.contract["features"]}
    filled = table.assign(**{name: table[name].fillna(baselines[name]) for name in result.features})
    expected = result.model.predict_proba(table)
    np.testing.assert_allclose(result.model.predict_proba(filled), expected, rtol=1e-12)
    alone = table[list(result.features)]
    np.testing.assert_array_equal(result.model.predict_proba(alone), expected)


def test_a_search_that_has_ended_is_kept_with_its_network() -> None:
    sweep = Sweep(128, 0.5, 0.1, np.array([0.9, 0.2, 0.5]))
    parameters = (np.arange(6.0).reshape(3, 2), np.zeros(2))
    for of_network in (parameters, None):
        search = ProbabilisticSearch(0.1, 0, (sweep,), 0.4, of_network)
        back = read_result(result_to_bytes(search, "rows"), "rows")
        assert (back.asked, back.held_out_loss) == (0.1, 0.4)
        for found, expected in zip(back.parameters or (), of_network or (), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_the_network_of_all_features_is_trained_without_masks() -> None:
    posed, _, train = searched(SIZED)
    model = fit("pefs-network", train, posed.schema, {"steps": 300}, seed=0)
    error = np.mean((model.predict(train.X) - train.y) ** 2)
    assert error < 0.2 * train.y.var()
    same = load(model.kind, model.to_files(), posed.schema)
    np.testing.assert_array_equal(same.predict(train.X), model.predict(train.X))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"method": "gbmo"},
            "model pefs-network is trained by method pefs, but the method is gbmo; take method pe",
        ),
        (
            {"model": ModelSettings(name="pefs-network", parameters={"hidden_layer_sizes": [9]})},
            "model pefs-network takes hidden_layer_sizes from method pefs; set it there instead",
        ),
        (
            {"model": ModelSettings(name="pefs-network", parameters={"step": 9})},
            "pefs-network has no parameter 'step'; did you mean steps",
        ),
    ],
)
def test_it_is_refused_in_one_line_where_it_cannot_be(options, said) -> None:
    with pytest.raises(InputError, match=said) as refusal:
        select(**options)
    assert "\n" not in str(refusal.value)


def test_it_is_not_compared_as_a_comparison_fits_each_set_again(tmp_path) -> None:
    table = pd.DataFrame(good_table())
    with pytest.raises(InputError, match="model pefs-network cannot be compared, as a comparison"):
        chaffinch.compare(table, "churned", methods=[QUICK], models=[NETWORK], store=tmp_path)

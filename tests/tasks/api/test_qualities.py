"""Qualities of tables and models: the numbers of the rankings, with the table's names."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import mutual_info_regression
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mutual_info_score
from sklearn.neural_network import MLPRegressor
from xgboost import XGBClassifier, XGBRegressor

import chaffinch
from chaffinch import InputError, qualities
from tests.synthetic import good_table
from tests.tasks.snapshots import check_sentence

TABLE = good_table()
X, Y = TABLE.drop(columns="churned"), TABLE["churned"]
NUMBERS = X.drop(columns="colour").fillna(0.0)
NAMES = tuple(X.columns)

BINNED = ("binned_mutual_information", "binned_mrmr")


def best(quality, k=3):
    return set(chaffinch.find_alternatives(quality, k=k, n_alternatives=0, tau=1)[0].features)


@pytest.mark.parametrize("name", [*BINNED, "mutual_information", "relieff", "fcbf", "cfs", "mrmr"])
def test_what_matters_is_found_in_a_table(name):
    quality = getattr(qualities, name)(X, Y)
    assert quality.names == NAMES
    assert len({"age", "colour", "income"} & best(quality)) >= 2


@pytest.mark.parametrize("name", [*BINNED, "mutual_information", "relieff", "fcbf", "cfs", "mrmr"])
def test_numbers_near_the_largest_that_floats_hold_are_like_any_others(name):
    """A power of two changes no digit, and sums of these numbers are infinite."""
    ordinary = NUMBERS.astype(float)
    ordinary.iloc[::7, 0] = np.nan
    scale = 2.0 ** (1023 - np.frexp(ordinary.abs().max())[1])
    huge = ordinary * scale
    assert (huge.abs().max() > 1e307).all()
    expected, quality = (getattr(qualities, name)(table, Y) for table in (ordinary, huge))
    for part in ("values", "relevance", "redundancy"):
        if hasattr(expected, part):
            assert np.allclose(getattr(quality, part), getattr(expected, part), rtol=1e-12)


def test_numbers_are_those_of_the_rankings():
    y = NUMBERS["age"] * 2 + NUMBERS["income"]
    standardised = (NUMBERS - NUMBERS.mean()) / NUMBERS.std(ddof=0)
    expected = mutual_info_regression(
        standardised[["income"]], (y - y.mean()) / y.std(ddof=0), random_state=3
    )
    quality = qualities.mutual_information(NUMBERS, y, seed=3)
    assert quality.values[NUMBERS.columns.get_loc("income")] == pytest.approx(expected[0])


def test_the_redundancy_of_mrmr_is_estimated_both_ways_and_by_any_number_of_processes():
    quality = qualities.mrmr(X, Y)
    assert not np.allclose(quality.redundancy, quality.redundancy.T, atol=1e-6)
    assert (np.diag(quality.redundancy) == 0).all()
    several = qualities.mrmr(X, Y, processes=2)
    assert np.array_equal(several.redundancy, quality.redundancy)
    income = qualities.mutual_information(X, X["income"].fillna(X["income"].mean()))
    column = NAMES.index("income")
    others = np.arange(len(NAMES)) != column
    assert quality.redundancy[others, column] == pytest.approx(income.values[others])


@pytest.mark.parametrize("bins", [None, 2, 7, 1_000])
def test_information_in_bins_is_that_of_their_joint_counts(bins):
    """Of numbers with ties and gaps, of a category, and of one as good as the rows' names."""
    table = X.assign(copy=X["colour"], name=[f"row {row % 190}" for row in range(len(X))])
    quality = qualities.binned_mrmr(table, Y, bins=bins)
    n_bins = bins or int(np.clip(np.cbrt(len(table)), 2, 10))

    def labels(column):
        if column.dtype.kind not in "if":
            return column.astype(str)
        if column.nunique() <= n_bins:
            return pd.factorize(column, use_na_sentinel=False)[0]
        share = column.rank(method="average").sub(0.5) * n_bins // column.count()
        return share.fillna(-1)

    columns = [labels(table[name]) for name in table]
    for i, one in enumerate(columns):
        assert quality.relevance[i] == pytest.approx(mutual_info_score(one, Y), abs=1e-12)
        for j, other in enumerate(columns):
            expected = 0.0 if i == j else mutual_info_score(one, other)
            assert quality.redundancy[i, j] == pytest.approx(expected, abs=1e-12)
    alone = qualities.binned_mutual_information(table, Y, bins=bins)
    assert np.array_equal(alone.values, quality.relevance)


@pytest.mark.parametrize("n_values", [2, 50])
def test_a_rare_value_below_one_that_is_frequent_has_a_bin_of_its_own(n_values):
    frequent = np.where(np.arange(400) < 16, 0.0, 1.0)
    ties = frequent * np.maximum(1, np.arange(400) // 2 - 200 + n_values)
    y = np.where(frequent == 0, "rare", "frequent")
    quality = qualities.binned_mutual_information(pd.DataFrame({"ties": ties}), y)
    assert quality.values[0] == pytest.approx(mutual_info_score(ties == 0, y))


def test_the_uncertainty_of_a_pair_is_the_same_both_ways():
    quality = qualities.cfs(X.assign(copy=X["colour"]), Y)
    assert np.array_equal(quality.redundancy, quality.redundancy.T)
    assert quality.redundancy[NAMES.index("colour"), -1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "model",
    [
        LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1),
        XGBClassifier(n_estimators=20, n_jobs=1),
    ],
    ids=["lightgbm", "xgboost"],
)
def test_gains_of_boosted_trees(model):
    y = (Y == "yes").astype(int)
    model.fit(NUMBERS, y)
    quality = qualities.model_gain(model, NUMBERS)
    assert quality.names == tuple(NUMBERS.columns)
    assert best(quality, k=2) == {"age", "income"}
    total = model.booster_.feature_importance("gain") if hasattr(model, "booster_") else None
    if total is not None:
        assert np.array_equal(quality.values, total)


def test_importances_of_an_estimator_are_its_own():
    y = NUMBERS["age"] - 3 * NUMBERS["income"]
    line, forest = LinearRegression().fit(NUMBERS, y), RandomForestRegressor(5).fit(NUMBERS, y)
    assert qualities.model_gain(line, NUMBERS).values == pytest.approx([1, 0, 0, 3, 0], abs=1e-9)

    class Mine(RandomForestRegressor):
        pass

    for trees in (forest, Mine(5, random_state=0).fit(NUMBERS, NUMBERS["age"])):
        gains = qualities.model_gain(trees, NUMBERS)
        assert np.array_equal(gains.values, trees.feature_importances_)
    shuffled = qualities.permutation(line, NUMBERS, y, loss="squared_error")
    assert shuffled.values[NUMBERS.columns.get_loc("income")] == pytest.approx(
        18 * NUMBERS["income"].var(), rel=0.2
    )


def line_of(slope):
    line = LinearRegression().fit(NUMBERS, NUMBERS["age"])
    line.coef_[0] = slope
    return line


def fitted(kind, X, y):
    models = {
        "line": LinearRegression(),
        "forest": RandomForestRegressor(5, random_state=0),
        "lightgbm": LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1),
        "xgboost": XGBRegressor(n_estimators=5, n_jobs=1),
    }
    model = models[kind.removesuffix(" booster")].fit(X, y)
    if not kind.endswith("booster"):
        return model
    return model.booster_ if kind.startswith("lightgbm") else model.get_booster()


KINDS = ("line", "forest", "lightgbm", "xgboost", "lightgbm booster", "xgboost booster")


@pytest.mark.parametrize("kind", KINDS)
def test_importances_are_never_given_to_other_columns_than_those_of_the_training(kind):
    table = NUMBERS.rename(columns={"age": "age in years"})  # LightGBM keeps no blanks
    y = table["age in years"] - 3 * table["income"]
    model = fitted(kind, table, y)
    assert "income" in best(qualities.model_gain(model, table), k=2)
    turned = table[table.columns[::-1]]
    with pytest.raises(InputError, match=r"^X must have the columns that .* was trained on, age"):
        qualities.model_gain(model, turned)
    with pytest.raises(InputError, match="but has the same in another order; give it those"):
        qualities.model_gain(model, turned)
    with pytest.raises(InputError, match="but has others; give it those columns") as error:
        qualities.model_gain(model, table.rename(columns={"income": "wages"}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_was_trained_without_names_takes_those_of_the_table(kind):
    y = NUMBERS["age"] - 3 * NUMBERS["income"]
    model = fitted(kind, NUMBERS.to_numpy(), y)
    assert "income" in best(qualities.model_gain(model, NUMBERS), k=2)


def test_masked_losses_are_those_of_the_engine():
    y = NUMBERS["age"] - 3 * NUMBERS["income"]
    line = LinearRegression().fit(NUMBERS, y)
    engine = chaffinch.masked_loss(line, NUMBERS, y, loss="squared_error")
    quality = qualities.masked_loss_importance(engine, names=NUMBERS.columns)
    assert np.array_equal(quality.values, engine.without_each() - engine.loss)
    assert best(qualities.masked_loss(engine, names=NUMBERS.columns), k=2) == {"age", "income"}
    engine.remove(0)
    with pytest.raises(InputError, match="the engine must keep all features but has masked 1"):
        qualities.masked_loss_importance(engine)


def test_what_the_target_asks_for():
    whole = pd.Series(np.arange(len(X)) % 3)
    as_numbers = qualities.mutual_information(NUMBERS, whole.astype(float))
    as_classes = qualities.mutual_information(NUMBERS, whole)
    assert not np.array_equal(as_numbers.values, as_classes.values)
    told = qualities.mutual_information(NUMBERS, whole.astype(float), task="classification")
    assert np.array_equal(told.values, as_classes.values)


REFUSED = {
    **{
        f"{bins} bins": lambda bins=bins: qualities.binned_mrmr(X, Y, bins=bins)
        for bins in (1, 0, 2.5)
    },
    "text for a task": lambda: qualities.fcbf(X, Y, task="ranking"),
    "a target of fewer rows": lambda: qualities.fcbf(X, Y[:5]),
    "two rows": lambda: qualities.fcbf(X[:2], Y[:2]),
    "a regression of text": lambda: qualities.fcbf(X, Y, task="regression"),
    "a target of gaps": lambda: qualities.cfs(X, np.full(len(X), np.nan)),
    "a target with a gap": lambda: qualities.mutual_information(
        X, pd.Series(["a", None, "b"] * 80)
    ),
    "an infinite feature": lambda: qualities.cfs(X.assign(age=np.inf), Y),
    "no process": lambda: qualities.mrmr(X, Y, processes=0),
    "text for processes": lambda: qualities.mrmr(X, Y, processes="2"),
    "half a process": lambda: qualities.mrmr(X, Y, processes=1.5),
    "a seed below 0": lambda: qualities.mutual_information(X, Y, seed=-1),
    "text for a seed": lambda: qualities.relieff(X, Y, seed="a"),
    "a seed above all": lambda: qualities.mrmr(X, Y, seed=2**32),
    "a seed below 0 of a permutation": lambda: qualities.permutation(
        None, X, Y, loss="squared_error", seed=-1
    ),
    "no seed": lambda: qualities.mutual_information(X, Y, seed=None),
    "a model for an engine": lambda: qualities.masked_loss(LinearRegression()),
    "a model for an engine of importances": lambda: qualities.masked_loss_importance(
        LinearRegression()
    ),
    "gains beyond all numbers": lambda: qualities.model_gain(
        fitted("lightgbm", NUMBERS, NUMBERS["age"] * 1e20), NUMBERS
    ),
    "a slope that is no number": lambda: qualities.model_gain(line_of(np.nan), NUMBERS),
    "a network without importances": lambda: qualities.model_gain(
        MLPRegressor(max_iter=5000, hidden_layer_sizes=2).fit(NUMBERS, NUMBERS["age"]), NUMBERS
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_fits_nothing_is_refused(name):
    with pytest.raises(InputError) as refusal:
        REFUSED[name]()
    check_sentence("refusals/qualities", name, refusal.value)


def test_a_number_that_is_a_position_and_the_name_of_another_column_masks_neither():
    X = NUMBERS.set_axis([1, 0, *range(2, NUMBERS.shape[1])], axis=1)
    line = LinearRegression().fit(X.to_numpy(), NUMBERS["age"])
    engine = chaffinch.masked_loss(line, X, NUMBERS["age"], loss="squared_error")
    with pytest.raises(InputError, match="1 is a position, and the name of another column; give"):
        engine.remove(1)
    engine.remove("1")
    assert not engine.mask[0]

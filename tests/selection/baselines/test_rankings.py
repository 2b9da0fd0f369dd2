"""Rankings against scikit-learn's own figures, the papers' loops, and answers known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.feature_selection import (
    SelectFromModel,
    f_classif,
    f_regression,
    mutual_info_classif,
    mutual_info_regression,
)
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression
from xgboost import XGBRegressor

from chaffinch.tasks.methods.baselines.rankings import scorer_of
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.baselines.filters import (
    anova_f,
    correlation,
    mrmr,
    mutual_information,
    relieff,
)
from chaffinch.tasks.selection.baselines.importances import permutation, select_from_model
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.settings.method import plain_rankings

N = 400
FILTERS = [kind for kind in plain_rankings() if scorer_of(kind).reads == "training rows"]
CATEGORIES = (0, 0, 3, 0, 0)
SQUARED = Loss("squared_error", "regression")


def synthetic(n_classes=0, *, gaps=True, seed=0):
    """Features 0, 2 (a category) and 3 predict the target, 1 does not, and 4 is constant."""
    random = np.random.default_rng(seed)
    X = np.asfortranarray(random.normal(size=(N, 5)))
    X[:, 2], X[:, 4] = random.integers(0, 3, N), 7.0
    signal = 2 * X[:, 0] - 2 * X[:, 3] + 3 * (X[:, 2] == 1) + 0.5 * random.normal(size=N)
    if gaps:
        X[random.random(X.shape) < 0.05] = np.nan
    y = signal
    if n_classes:
        y = np.searchsorted(np.quantile(signal, np.arange(1, n_classes) / n_classes), signal)
    return Rows(X, y), Schema(tuple("abcde"), CATEGORIES, n_classes)


def one_hot(codes):
    codes = np.where(np.isnan(codes), -1, codes)
    return (codes[:, np.newaxis] == np.unique(codes)).astype(float)


def filled(column):
    return np.where(np.isnan(column), np.nanmean(column), column)[:, np.newaxis]


# Correlation


def test_correlation_is_that_of_numpy_and_of_a_category_its_best_value() -> None:
    rows, schema = synthetic()
    scores = correlation(rows, schema)
    for j in (0, 1, 3):
        expected = abs(np.corrcoef(filled(rows.X[:, j])[:, 0], rows.y)[0, 1])
        assert scores[j] == pytest.approx(expected, rel=1e-12)
    values = [abs(np.corrcoef(column, rows.y)[0, 1]) for column in one_hot(rows.X[:, 2]).T]
    assert scores[2] == pytest.approx(max(values), rel=1e-12)


def test_correlation_with_classes_is_the_greatest_with_one_against_the_rest() -> None:
    rows, schema = synthetic(3, gaps=False)
    against = [abs(np.corrcoef(rows.X[:, 0], rows.y == label)[0, 1]) for label in range(3)]
    assert correlation(rows, schema)[0] == pytest.approx(max(against), rel=1e-12)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_a_weight_of_two_in_a_correlation_is_the_row_twice(n_classes) -> None:
    rows, schema = synthetic(n_classes)
    times = np.random.default_rng(1).integers(1, 4, N)
    repeated = rows.take(np.repeat(np.arange(N), times))
    weighted = Rows(rows.X, rows.y, times.astype(float))
    np.testing.assert_allclose(
        correlation(weighted, schema), correlation(repeated, schema), rtol=1e-12, atol=1e-15
    )


# ANOVA F


def test_f_of_numbers_is_that_of_scikit_learn() -> None:
    (rows, schema), (classed, of_classes) = synthetic(), synthetic(3)
    for j in (0, 1, 3):
        expected = f_regression(filled(rows.X[:, j]), rows.y)[0][0]
        assert anova_f(rows, schema)[j] == pytest.approx(expected, rel=1e-9)
        expected = f_classif(filled(classed.X[:, j]), classed.y)[0][0]
        assert anova_f(classed, of_classes)[j] == pytest.approx(expected, rel=1e-9)


def test_f_of_a_category_is_that_of_its_best_one_hot_column() -> None:
    (rows, schema), (classed, of_classes) = synthetic(), synthetic(3)
    columns = one_hot(rows.X[:, 2])
    assert columns.shape == (N, 4)  # three values, and missing
    assert anova_f(rows, schema)[2] == pytest.approx(f_regression(columns, rows.y)[0].max())
    columns = one_hot(classed.X[:, 2])
    assert anova_f(classed, of_classes)[2] == pytest.approx(f_classif(columns, classed.y)[0].max())


def test_f_far_from_zero_is_the_f_near_zero() -> None:
    rows, schema = synthetic(2, gaps=False)
    numbers = Schema(schema.features, (0,) * 5, 2)
    far = Rows(np.round(rows.X, 3) + 1e9, rows.y)
    near = Rows(far.X - 1e9, rows.y)
    np.testing.assert_allclose(anova_f(far, numbers), anova_f(near, numbers), rtol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_a_feature_that_tells_all_has_the_greatest_f_whatever_the_rounding(seed) -> None:
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, 50 + seed)
    X = np.column_stack([random.normal(size=len(y)), np.array([0.1, 0.7, 1.3])[y], 0.3 * (y == 1)])
    scores = anova_f(Rows(X[:, :2], y), Schema(("none", "all"), (0, 0), 3))
    assert scores[1] > 1e12
    assert np.isfinite(scores).all()
    scores = anova_f(Rows(X[:, ::2], (y == 1) * 1), Schema(("none", "all"), (0, 0), 2))
    assert scores[1] > 1e12
    assert np.isfinite(scores).all()


# Mutual information


def test_mutual_information_is_that_of_scikit_learn_with_the_same_seed() -> None:
    def standard(values):
        return (values - values.mean()) / values.std()

    (rows, schema), (classed, of_classes) = synthetic(), synthetic(3)
    for j, is_code in ((0, False), (2, True), (3, False)):
        for of, labels, information in (
            (rows, standard(rows.y), mutual_info_regression),
            (classed, classed.y, mutual_info_classif),
        ):
            values = of.X[:, j]
            column = np.where(np.isnan(values), -1, values) if is_code else filled(values)[:, 0]
            column = column if is_code else standard(column)
            expected = information(
                column[:, np.newaxis], labels, discrete_features=is_code, random_state=5
            )[0]
            got = mutual_information(of, of_classes if of is classed else schema, 5)[j]
            assert got == pytest.approx(expected, abs=1e-6)


def test_a_category_that_names_each_row_has_no_mutual_information() -> None:
    rows = Rows(np.arange(20.0)[:, np.newaxis], np.linspace(0, 1, 20))
    assert mutual_information(rows, Schema(("name",), (20,)), 0).tolist() == [0.0]


# Minimum redundancy, maximum relevance


def test_mrmr_takes_the_loner_before_the_better_feature_that_repeats_another() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 2000))
    again = first + 0.1 * random.normal(size=2000)
    X = np.column_stack([again, second, first])
    rows, schema = Rows(X, 2 * first + second), Schema(("again", "second", "first"), (0, 0, 0))
    by_f = anova_f(rows, schema)
    assert by_f[2] > by_f[0] > by_f[1]
    assert mrmr(rows, schema).tolist() == [1.0, 2.0, 3.0]


def test_mrmr_takes_what_tells_nothing_last_of_all() -> None:
    x = np.random.default_rng(0).normal(size=200)
    rows = Rows(np.column_stack([np.ones(200), x, x, np.full(200, np.nan)]), x)
    assert mrmr(rows, Schema(tuple("abcd"), (0,) * 4)).tolist() == [0.0, 3.0, 4.0, 0.0]


def test_mrmr_is_the_papers_loop() -> None:
    rows, _ = synthetic(3, gaps=False)
    numbers = Schema(tuple("abd"), (0, 0, 0), 3)
    rows = Rows(rows.X[:, [0, 1, 3]], rows.y)
    f = f_classif(rows.X, rows.y)[0]
    relevance = np.sqrt(f * 2 / (f * 2 + N - 3))
    redundancy = np.abs(np.corrcoef(rows.X.T))
    left, chosen = [0, 1, 2], []
    while left:
        best = max(
            left, key=lambda j: relevance[j] - (redundancy[j, chosen].mean() if chosen else 0)
        )
        left.remove(best)
        chosen.append(best)
    assert np.argsort(-mrmr(rows, numbers)).tolist() == chosen


# Joint and conditional mutual information


def plain_information(x, y, *given):
    """I(X; Y | Z) by the probabilities of what occurs together, with Miller's correction."""
    of_given = [*zip(*given, strict=True)] or [()] * len(x)
    triples, total = [*zip(of_given, x, y, strict=True)], 0.0
    for z, a, b in set(triples):
        of_z = [(u, v) for w, u, v in triples if w == z]
        of_a, of_b = (sum(pair[i] == c for pair in of_z) for i, c in ((0, a), (1, b)))
        of_both = of_z.count((a, b))
        total += of_both / len(x) * np.log(of_both * len(of_z) / (of_a * of_b))
    with_x, with_y = {(w, u) for w, u, _ in triples}, {(w, v) for w, _, v in triples}
    n_more = len(with_x) + len(with_y) - len(set(triples)) - len(set(of_given))
    return total + n_more / (2 * len(x))


@pytest.mark.parametrize("name", ["jmi", "cmim"])
def test_joint_and_conditional_information_choose_as_the_papers_do(name) -> None:
    random = np.random.default_rng(3)
    codes = random.integers(0, 3, size=(80, 5))
    codes[:, 4] = np.where(random.random(80) < 0.8, codes[:, 0], codes[:, 4])
    y = ((codes[:, 0] + 2 * codes[:, 1] + random.integers(0, 2, 80)) // 2) % 3
    columns = codes.T.tolist()

    def merit(x, chosen):
        if not chosen:
            return plain_information(columns[x], y)
        if name == "jmi":
            pairs = ([*zip(columns[x], columns[z], strict=True)] for z in chosen)
            return sum(plain_information(pair, y) for pair in pairs)
        return min(
            plain_information(columns[x], y),
            *(plain_information(columns[x], y, columns[z]) for z in chosen),
        )

    chosen = []
    while len(chosen) < 5:
        chosen.append(max({*range(5)}.difference(chosen), key=lambda x: merit(x, chosen)))
    rows, schema = Rows(codes.astype(float), y), Schema(tuple("abcde"), (3,) * 5, 3)
    assert np.argsort(-scorer_of(name).scores(rows, schema, 0)).tolist() == chosen


@pytest.mark.parametrize("name", ["jmi", "cmim"])
def test_a_flag_that_matters_comes_before_noise_in_several_bins(name) -> None:
    random = np.random.default_rng(0)
    flags = (random.random((2000, 2)) < [0.5, 0.3]).astype(float)
    noise = random.normal(size=(2000, 15))
    y = random.random(2000) < 1 / (1 + np.exp(0.8 - 1.2 * flags.sum(axis=1)))
    rows = Rows(np.hstack([noise, flags]), y.astype(np.int64))
    schema = Schema(tuple(f"x{j}" for j in range(17)), (0,) * 17, 2)
    assert set(np.argsort(scorer_of(name).scores(rows, schema, 0))[-2:]) == {15, 16}


def test_conditional_information_takes_a_copy_last_of_what_tells_something() -> None:
    random = np.random.default_rng(0)
    best, other, noise = random.normal(size=(3, 2000))
    X = np.column_stack([best, other, noise, best])
    rows, schema = Rows(X, 2 * best + other), Schema(tuple("abcd"), (0,) * 4)
    assert scorer_of("cmim").scores(rows, schema, 0).tolist() == [1.0, 3.0, 2.0, 4.0]


# ReliefF


def plain_relieff(X, y, nearest=10):
    """The pseudocode of the paper's figure 2 for numbers in 0..1, all rows sampled."""
    weights = np.zeros(X.shape[1])
    share = np.bincount(y) / len(y)
    for i in range(len(X)):
        distance = np.abs(X - X[i]).sum(axis=1)
        for label in np.unique(y):
            members = [j for j in np.argsort(distance, kind="stable") if y[j] == label and j != i]
            mean = np.abs(X[members[:nearest]] - X[i]).mean(axis=0)
            weights += -mean if label == y[i] else share[label] / (1 - share[y[i]]) * mean
    return weights / len(X)


def plain_rrelieff(X, y, nearest=70, decay=20):
    """The pseudocode of figure 3, likewise."""
    unlike, differing, both = 0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for i in range(len(X)):
        order = [j for j in np.argsort(np.abs(X - X[i]).sum(axis=1), kind="stable") if j != i]
        influence = np.exp(-((np.arange(1, nearest + 1) / decay) ** 2))
        for j, d in zip(order[:nearest], influence / influence.sum(), strict=True):
            unlike += abs(y[i] - y[j]) * d
            differing += np.abs(X[i] - X[j]) * d
            both += abs(y[i] - y[j]) * np.abs(X[i] - X[j]) * d
    return both / unlike - (differing - both) / (len(X) - unlike)


def test_relieff_is_the_papers_loop() -> None:
    random = np.random.default_rng(0)
    X = random.random((120, 4))
    X[0], X[1] = 0, 1  # the ranges are 1
    names = Schema(tuple("abcd"), (0,) * 4, 3)
    y = np.digitize(X[:, 0] + 0.3 * random.random(120), [0.3, 0.8])
    np.testing.assert_allclose(relieff(Rows(X, y), names, 0), plain_relieff(X, y), atol=1e-12)
    y = X[:, 0] + 0.3 * random.random(120)
    y = (y - y.min()) / (y.max() - y.min())
    got = relieff(Rows(X, y), Schema(names.features, names.n_categories), 0)
    np.testing.assert_allclose(got, plain_rrelieff(X, y), atol=1e-12)


def test_relieff_finds_two_categories_that_tell_something_only_together() -> None:
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (600, 6)).astype(float)
    rows = Rows(X, (X[:, 1] != X[:, 4]).astype(np.int64))
    schema = Schema(tuple("abcdef"), (2,) * 6, 2)
    scores = relieff(rows, schema, 0)
    assert set(np.argsort(scores)[-2:]) == {1, 4}
    assert scores[[1, 4]].min() > 0.1 > scores[[0, 2, 3, 5]].max()


# Importances


def test_gains_are_those_that_select_from_model_ranks_by() -> None:
    rows, schema = synthetic(2)
    numbers = Schema(schema.features, (0,) * 5, 2)
    ours = models.fit("lightgbm", rows, numbers, {}, seed=3)
    theirs = LGBMClassifier(
        importance_type="gain", random_state=3, verbose=-1, n_jobs=1,
        deterministic=True, force_col_wise=True,
    )  # fmt: skip
    theirs.fit(rows.X, rows.y)
    scores = select_from_model(ours)
    np.testing.assert_allclose(scores, theirs.feature_importances_, rtol=1e-9)
    selector = SelectFromModel(theirs, prefit=True, max_features=2, threshold=-np.inf)
    kept = RankedPath.from_scores(scores).best(2)
    np.testing.assert_array_equal(kept, selector.get_support())

    rows, _ = synthetic()
    ours = models.fit("xgboost", rows, Schema(schema.features, (0,) * 5), {}, seed=3)
    theirs = XGBRegressor(importance_type="total_gain", tree_method="hist", n_jobs=1)
    theirs.fit(rows.X, rows.y)
    scores = select_from_model(ours)
    np.testing.assert_allclose(scores / scores.sum(), theirs.feature_importances_, rtol=1e-4)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_gains_that_are_not_finite_are_refused_and_never_ranked(name) -> None:
    """They grow with the square of the target, and are kept in float32."""
    rows, schema = synthetic()
    order = select_from_model(models.fit(name, rows, schema, {}, seed=0)).argsort()
    large = Rows(rows.X, rows.y * 2.0**50)
    np.testing.assert_array_equal(
        select_from_model(models.fit(name, large, schema, {}, seed=0)).argsort(), order
    )
    larger = models.fit(name, Rows(rows.X, rows.y * 1e19), schema, {}, seed=0)
    refused = f"^the importances of {name} must be finite but one is inf, as where the target has"
    with pytest.raises(ValueError, match=refused):
        select_from_model(larger)


def test_coefficients_are_summed_and_a_category_has_the_deviation_of_its_part() -> None:
    rows, schema = synthetic(3)
    rows.X[: N // 3, 2] = np.nan
    model = models.fit("linear", rows, schema, {}, seed=0)
    coefficients = model.estimator.coef_  # (3, 6): a, b, d; then three colours
    scores = select_from_model(model)
    np.testing.assert_allclose(scores[[0, 1, 3]], np.abs(coefficients[:, :3]).sum(axis=0))
    of_level = coefficients[:, 3 + np.nan_to_num(rows.X[:, 2]).astype(int)]
    part = np.where(np.isnan(rows.X[:, 2]), 0, of_level)
    assert scores[2] == pytest.approx(part.std(axis=1).sum())  # of the rows' scores
    assert scores[4] == 0  # a constant is left out


@pytest.mark.parametrize("n_categories", [2, 40])
def test_a_category_scores_in_a_line_as_its_effect_varies(n_categories) -> None:
    """The effect is that of a number; a category of noise has a score that ends with the noise."""
    random = np.random.default_rng(0)
    codes = random.integers(0, n_categories, (20_000, 2)).astype(float)
    effects = random.normal(size=n_categories)
    y = effects[codes[:, 0].astype(int)] + 0.1 * random.normal(size=len(codes))
    schema = Schema(("true", "noise"), (n_categories,) * 2)
    scores = select_from_model(models.fit("linear", Rows(codes, y), schema, {}, seed=0))
    assert scores[0] == pytest.approx(effects[codes[:, 0].astype(int)].std(), rel=0.01)
    assert scores[1] < 0.01


@pytest.mark.parametrize("name", ["mlp", "HistGradientBoostingRegressor", "KNeighborsRegressor"])
def test_a_model_without_importances_is_refused(name) -> None:
    model = models.fit(name, *synthetic(), {}, seed=0)
    with pytest.raises(ValueError, match="needs a model with gains or coefficients but"):
        select_from_model(model)


def test_the_permutation_importance_of_a_line_is_twice_its_squared_slope() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 3))
    y = X @ [1.0, 0.0, 3.0]
    schema = Schema(tuple("abc"), (0,) * 3)
    model = models.fit("linear", Rows(X, y), schema, {}, seed=0)
    scores = permutation(model, Rows(X, y), SQUARED, range(3), 0)
    np.testing.assert_allclose(scores, [2.0, 0.0, 18.0], rtol=0.05, atol=1e-6)


def test_permutation_agrees_with_scikit_learn_up_to_the_shuffles() -> None:
    rows, _ = synthetic(gaps=False)
    schema = Schema(tuple("abcde"), (0,) * 5)
    ours = models.fit("linear", rows, schema, {}, seed=0)
    theirs = LinearRegression().fit(rows.X, rows.y)
    expected = permutation_importance(
        theirs, rows.X, rows.y, scoring="neg_mean_squared_error", n_repeats=200, random_state=0
    ).importances_mean
    got = permutation(ours, rows, SQUARED, range(5), 0)
    np.testing.assert_allclose(got, expected, rtol=0.15, atol=0.02)


def test_permutation_scores_the_features_it_is_asked_for_whoever_asks_for_the_others() -> None:
    rows, schema = synthetic(2)
    model = models.fit("lightgbm", rows, schema, {}, seed=0)
    loss = Loss("log_loss", "classification")
    together = permutation(model, rows, loss, range(5), 7)
    apart = [permutation(model, rows, loss, [j], 7)[0] for j in range(5)]
    assert together.tolist() == apart


# Of every filter


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_what_tells_something_ranks_above_noise_and_a_constant(name, n_classes) -> None:
    rows, schema = synthetic(n_classes)
    scores = scorer_of(name).scores(rows, schema, 0)
    assert scores.shape == (5,)
    assert np.isfinite(scores).all()
    if name == "relieff":  # near rows share the category, so that it seldom differs between them
        scores[2] = np.inf
    assert RankedPath.from_scores(scores).best(3).tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("n_classes", [0, 3])
def test_the_place_of_a_column_does_not_matter_and_nothing_is_changed(name, n_classes) -> None:
    rows, schema = synthetic(n_classes)
    X, y = rows.X.copy(), rows.y.copy()
    turned = Rows(np.ascontiguousarray(rows.X[:, ::-1]), rows.y)
    reverse = Schema(schema.features[::-1], schema.n_categories[::-1], schema.n_classes)
    scores = scorer_of(name).scores(rows, schema, 1)
    np.testing.assert_array_equal(scores, scorer_of(name).scores(rows, schema, 1))
    np.testing.assert_allclose(scorer_of(name).scores(turned, reverse, 1)[::-1], scores, rtol=1e-9)
    np.testing.assert_array_equal(rows.X, X)
    np.testing.assert_array_equal(rows.y, y)


@pytest.mark.parametrize("name", FILTERS)
def test_a_column_without_any_value_and_small_numbers_do_no_harm(name) -> None:
    rows, schema = synthetic(2)
    X = rows.X.copy()
    X[:, 1], X[:, 0] = np.nan, X[:, 0] * 1e-200
    scores = scorer_of(name).scores(Rows(X, rows.y), schema, 0)
    assert np.isfinite(scores).all()
    assert scores[0] > scores[1]


@pytest.mark.parametrize("name", FILTERS)
def test_a_missing_category_is_a_value_of_its_own_and_a_missing_number_the_mean(name) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 300)
    X = np.column_stack([np.where(y == 1, np.nan, 0.0), np.where(y == 1, np.nan, 0.0)])
    X = np.column_stack([X, random.normal(size=300)])
    scores = scorer_of(name).scores(
        Rows(X, y), Schema(("code", "number", "noise"), (1, 0, 0), 2), 0
    )
    if name in ("fcbf", "jmi", "cmim"):  # where a missing number is a value of its own too
        expected = [0.0, 1.0] if name == "fcbf" else [2.0, 3.0]
        assert scores[:2].tolist() == expected
        return
    assert int(np.argmax(scores)) == 0
    assert scores[1] == 0


@pytest.mark.parametrize("name", FILTERS)
def test_the_unit_of_the_target_does_not_matter(name) -> None:
    rows, schema = synthetic()
    scores = scorer_of(name).scores(rows, schema, 0)
    for unit in (1e28, 1e-28):
        scaled = scorer_of(name).scores(Rows(rows.X, unit * rows.y), schema, 0)
        np.testing.assert_allclose(scaled, scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in FILTERS if not scorer_of(name).weights])
def test_weights_are_refused_where_the_score_has_no_place_for_them(name) -> None:
    rows, schema = synthetic()
    with pytest.raises(ValueError, match=f"{name} takes no sample weights"):
        scorer_of(name).scores(Rows(rows.X, rows.y, np.ones(N)), schema, 0)


@pytest.mark.parametrize("name", FILTERS)
def test_too_few_rows_are_refused_and_just_enough_are_ranked(name) -> None:
    rows, schema = synthetic(3, gaps=False)
    some = np.concatenate([np.flatnonzero(rows.y == label)[:1] for label in range(3)])
    with pytest.raises(ValueError, match=f"{name} needs at least 4 training rows but has 3"):
        scorer_of(name).scores(rows.take(some), schema, 0)
    enough = np.append(some, np.flatnonzero(rows.y == 0)[1])
    assert np.isfinite(scorer_of(name).scores(rows.take(enough), schema, 0)).all()


# From scores to the order of removal


def test_the_worst_leaves_first_and_of_equals_the_lowest_index() -> None:
    path = RankedPath.from_scores(np.array([2.0, 1.0, 2.0, 0.0, 1.0]))
    assert path.removed == (3, 1, 4, 0)
    assert path.best(2).tolist() == [True, False, True, False, False]
    assert path.best(5).all()
    with pytest.raises(ValueError, match=r"n_features must be in 1..5 but is 0"):
        path.best(0)


def test_what_must_be_kept_never_leaves() -> None:
    path = RankedPath.from_scores(np.array([2.0, 1.0, 3.0, 0.0]), keep=[3, 1])
    assert path.removed == (0, 2)
    with pytest.raises(ValueError, match=r"n_features must be in 2..4 but is 1"):
        path.best(1)


def test_a_lowest_score_keeps_what_reaches_it_and_what_must_be_kept() -> None:
    scores = np.array([2.0, 1.0, 3.0, 0.0])
    sizes = [RankedPath.from_scores(scores).size_at(score) for score in (-1, 1, 2.5, 9)]
    assert sizes == [4, 3, 1, 1]
    sizes = [RankedPath.from_scores(scores, keep=[3, 1]).size_at(score) for score in (-1, 2.5, 9)]
    assert sizes == [4, 3, 2]

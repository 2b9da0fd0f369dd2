"""Constraints are obeyed or refused: by every method, selector, comparison and reselection."""

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import chaffinch
from chaffinch import (
    Constraints,
    FeatureSelector,
    Group,
    InputError,
    ModelSettings,
)
from chaffinch.flows.cli.selection import selection_options
from chaffinch.methods import Pefs
from chaffinch.storage.sources import source_of
from chaffinch.tasks.pipeline.run import select_in_memory
from chaffinch.tasks.reporting.text import costs_in_words
from chaffinch.tasks.settings.method import class_of, declared, kinds
from tests.tasks.snapshots import check_sentence

LINEAR = ModelSettings(name="linear", tuning="none")
BOOSTED = ModelSettings(name="lightgbm", tuning="none", parameters={"n_estimators": 10})
N_FEATURES = 9
SIGNAL = ("x0", "x3", "x6")
ONE_OF_EACH_CLASS = {class_of(kind): kind for kind in kinds() if kind not in ("dfs", "pefs")}


def table_of(n_rows=120, seed=0, d=N_FEATURES):
    """Numbers x0, x1, ...; every third one matters."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(random.normal(size=(n_rows, d)), columns=[f"x{j}" for j in range(d)])
    noisy = 2 * table[list(SIGNAL)].sum(axis=1) + random.normal(size=n_rows)
    return table.assign(target=np.where(noisy > noisy.median(), "yes", "no"))


TABLE = table_of()
NAMES = sorted(TABLE.columns[:-1])


def together(random):
    return {"groups": [Group(some, all_or_none=True) for some in blocks(random)]}


def at_most(random):
    return {"groups": [Group(some, at_most=int(random.integers(3))) for some in blocks(random)]}


def at_least(random):
    return {"groups": [Group(some, at_least=int(random.integers(3))) for some in blocks(random)]}


def budget(random):
    return {"costs": costs(random), "budget": float(random.integers(0, 25)) / 10}


def sources(random):
    groups = [Group(some, cost=float(random.integers(20)) / 10) for some in blocks(random)]
    return {"groups": groups, "costs": costs(random), "budget": float(random.integers(0, 40)) / 10}


def all_kinds(random):
    first, second, third = blocks(random)
    groups = [
        Group(first, all_or_none=True, cost=0.5),
        Group(second, at_most=int(random.integers(1, 3))),
        Group(third, at_least=int(random.integers(2))),
    ]
    return {**budget(random), "groups": groups, "must_include": [str(random.choice(NAMES))]}


def blocks(random):
    """Three groups of the features, of different sizes, and one feature of none."""
    return [part.tolist() for part in np.split(random.permutation(NAMES)[1:], [2, 5])]


def costs(random):
    return {name: float(random.integers(1, 10)) / 10 for name in NAMES}


KINDS = [together, at_most, at_least, budget, sources, all_kinds]


def obeys(features, constraints):
    """Return whether features obey constraints, in the words of their documentation."""
    kept, spent = set(features), 0.0
    for group in constraints.groups:
        n_kept = len(kept.intersection(group.features))
        most = len(group.features) if group.at_most is None else group.at_most
        if not group.at_least <= n_kept <= most:
            return False
        if group.all_or_none and n_kept not in (0, len(group.features)):
            return False
        spent += group.cost if n_kept else 0
    spent += sum((constraints.costs or {}).get(name, 0) for name in kept)
    is_paid = constraints.budget is None or spent <= constraints.budget + 1e-9
    return is_paid and kept.issuperset(constraints.must_include)


def can_be_obeyed(constraints, d=N_FEATURES):
    every = (np.flatnonzero([n >> j & 1 for j in range(d)]) for n in range(1, 2**d))
    return any(obeys([NAMES[j] for j in some], constraints) for some in every)


def select(method="gbmo", model=LINEAR, table=TABLE, **options):
    if method == "pefs":
        method = Pefs(hidden_layer_sizes=(10,), most_sweeps=3)
    return chaffinch.select(table, "target", method=method, model=model, **options)


def check_obeyed_or_refused(constraints, **options):
    if can_be_obeyed(constraints):
        assert obeys(select(constraints=constraints, **options).features, constraints)
        return
    with pytest.raises(InputError) as error:
        select(constraints=constraints, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.e2e) for seed in (2,))])
@pytest.mark.parametrize("method", kinds())
def test_every_method_obeys_all_kinds_at_once(method, seed):
    model = BOOSTED if method == "tree_shap" else LINEAR
    constraints = Constraints(**all_kinds(np.random.default_rng(seed)))
    check_obeyed_or_refused(constraints, method=method, model=model)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["gbmo", "anova_f", "afs_bm"])
def test_every_kind_of_constraint_is_obeyed_or_refused(method, kind):
    check_obeyed_or_refused(Constraints(**kind(np.random.default_rng(0))), method=method)


@pytest.mark.parametrize("method", ONE_OF_EACH_CLASS.values())
def test_no_more_are_kept_than_are_asked_for(method):
    groups = [Group(["x0", "x1"], all_or_none=True), Group(["x3", "x4", "x5"], at_most=1)]
    model = BOOSTED if method == "tree_shap" else LINEAR
    constraints = Constraints(groups=groups)
    result = select(method, model, n_features=3, constraints=constraints)
    assert obeys(result.features, constraints)
    assert len(result.features) <= 3
    if not declared(method).traits.limits_size:  # the order goes on until the size is reached
        assert len(result.features) == 3


@pytest.mark.parametrize("method", ["auto", "gbmo", "flbmo", "rfecv"])
def test_what_is_worth_its_place_is_kept_within_the_constraints(method):
    """Of two that are worth the same, the one that fits; of a group, the one that matters."""
    table = TABLE.assign(x1=TABLE["x0"])
    constraints = Constraints(
        groups=[Group(["x3", "x4", "x5"], at_most=1)], costs={"x0": 5, "x1": 1}, budget=1
    )
    size = 3 if method == "flbmo" else None
    features = select(method, table=table, n_features=size, constraints=constraints).features
    assert {"x1", "x3", "x6"} <= set(features)


def test_the_curve_of_auto_has_the_numbers_that_constraints_allow():
    constraints = Constraints(groups=[Group(["x0", "x1", "x2", "x4"], at_most=1)])
    result = select("auto", constraints=constraints)
    numbers = result.curve["n_features"].tolist()
    assert numbers[0] == N_FEATURES
    assert max(numbers[1:]) == N_FEATURES - 3
    assert len(set(numbers)) == len(numbers)
    assert len(result.features) in numbers
    with pytest.raises(InputError, match=r"exactly 8 .* the constraints allow 6 here; ask for 6"):
        select(chaffinch.methods.Auto(n_features=8, exactly=True), constraints=constraints)


@pytest.mark.parametrize("method", ["gbmo", "auto", "rfe", "anova_f"])
def test_what_constraints_have_dropped_is_not_said_to_have_cost_least(method):
    constraints = Constraints(groups=[Group(list(SIGNAL), at_most=1)])
    size = 4 if method in ("rfe", "anova_f") else None
    why = select(method, n_features=size, constraints=constraints).why().set_index("column")
    assert "cost least" not in " ".join(why["why"])
    is_passed_over = why["why"].str.contains("the constraints kept features of lower rank")
    last_kept = why.loc[why["state"] == "kept", "rank"].max()
    above = why[(why["state"] == "dropped") & (why["rank"] < last_kept)].index
    assert list(why.index[is_passed_over]) == list(above)
    assert set(above) >= set(SIGNAL) - set(why.index[why["state"] == "kept"])


def test_what_a_budget_has_dropped_is_told_with_its_cost():
    supplier = Group(["x1"], cost=1)
    constraints = Constraints(costs={"x0": 3, "x3": 2, "x6": 0.5}, groups=[supplier], budget=4)
    why = select("auto", constraints=constraints).why().set_index("column")["why"]
    assert "it costs 3 of a budget of 4" in why["x0"]
    assert "it costs 0.5 of a budget of 4" in why["x6"]
    assert "its group costs 1 of a budget of 4" in why["x1"]
    assert "costs" not in why["x2"]


def test_the_lags_of_a_series_go_together():
    random = np.random.default_rng(0)
    table = TABLE.assign(day=np.arange(len(TABLE)), stock=random.normal(size=len(TABLE)))
    lags = [f"stock_lag_{n}" for n in (1, 2, 3)]
    constraints = Constraints(groups=[Group(lags, all_or_none=True), Group(["x0", *SIGNAL[1:]], 2)])
    result = select(
        table=table, time="day", history={"lags": [1, 2, 3], "columns": ["stock"]},
        constraints=constraints, keep=[lags[0]],
    )  # fmt: skip
    assert set(lags) <= set(result.features)
    assert len(set(SIGNAL) & set(result.features)) >= 2


def parsed(*typed):
    """Return the features that the options of the command line lead to."""
    found = []

    @click.command()
    @click.argument("data", required=False)
    @selection_options
    def run(data, settings, execution):
        chosen = select_in_memory(source_of(data), settings, execution)
        found.append([*chosen.contract.types])

    CliRunner().invoke(run, list(map(str, typed)), catch_exceptions=False)
    return found[0]


FILE = """
method = "gbmo"
model = {name = "linear", tuning = "none"}

[constraints]
budget = 2.5
costs = {x0 = 1, x3 = 1, x5 = 0.5}

[[constraints.groups]]
features = ["x6", "x7"]
all_or_none = true
cost = 1
"""


def test_the_same_features_by_select_by_selector_and_by_command(tmp_path):
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    costs, group = {"x0": 1, "x3": 1, "x5": 0.5}, Group(["x6", "x7"], all_or_none=True, cost=1)
    constraints = Constraints(groups=[group], costs=costs, budget=2.5)
    result = select(constraints=constraints)
    assert obeys(result.features, constraints)
    # the most that the budget allows of the three that matter
    assert len(set(SIGNAL).intersection(result.features)) == 2

    X, y = TABLE[NAMES], TABLE["target"]
    selector = FeatureSelector("gbmo", model=LINEAR, constraints=constraints)
    assert selector.fit(X, y).get_feature_names_out().tolist() == result.features
    by_place = Constraints(
        groups=[Group([6, 7], all_or_none=True, cost=1)], costs={0: 1, 3: 1, 5: 0.5}, budget=2.5
    )
    numbers = FeatureSelector("gbmo", model=LINEAR, constraints=by_place).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(numbers.get_support(), selector.get_support())

    (tmp_path / "selection.toml").write_text(FILE)
    file = ("--config", tmp_path / "selection.toml", "--cluster", "none")
    command = (tmp_path / "table.csv", "--target", "target", *file)
    assert parsed(*command) == result.features
    free = parsed(*command, "--budget", "100")
    assert set(SIGNAL) <= set(free)
    dearer = parsed(*command, "--cost", "x0=2.5", "--cost", "x3=2.5")
    assert not {"x0", "x3"} <= set(dearer)


def test_the_contract_has_the_constraints_and_the_costs():
    groups = [Group(["x6", "x7"], cost=4), Group(["x1", "x2"], all_or_none=True)]
    constraints = Constraints(groups=groups, costs={"x0": 1, "x3": 2}, budget=3)
    result = select(constraints=constraints)
    contract = result.contract
    assert contract["settings"]["constraints"]["costs"] == {"x0": 1, "x3": 2}
    assert contract["settings"]["constraints"]["groups"][1]["cost"] == 4
    assert set(result.features) >= {"x0", "x3"}
    losses = result.losses["test"]
    rise = losses["selected"] - losses["all_features"]
    assert result.costs == {"kept": 3, "all": 7, "loss_per_cost_saved": pytest.approx(rise / 4)}
    assert costs_in_words(contract).startswith("The kept features cost 3 of 7, with a budget of 3:")
    free = select()
    assert free.costs is None
    assert free.contract["settings"]["constraints"] is None


def test_lists_to_keep_and_to_drop_may_stand_in_the_constraints():
    inside = Constraints(must_include=["x1"], must_exclude=["x0"])
    assert select(constraints=inside).contract == select(keep=["x1"], drop=["x0"]).contract


def test_alternatives_obey():
    constraints = Constraints(
        groups=[Group(["x0", "x1"], all_or_none=True, cost=1), Group(["x3", "x6"], at_most=1)],
        costs={"x2": 2},
        budget=2,
    )
    result = select("flbmo", n_features=3, constraints=constraints, alternatives=4)
    sets = [one["features"] for one in result.alternatives["sets"]]
    assert len(sets) == 4
    assert all(obeys(features, constraints) for features in [result.features, *sets])


def test_a_comparison_obeys_also_at_sizes_that_are_asked_for():
    constraints = Constraints(groups=[Group(["x0", "x3"], at_most=1), Group(["x1"], at_least=1)])
    compared = chaffinch.compare(
        TABLE, "target", methods=["gbmo", "anova_f"], models=[LINEAR], folds=2, seeds=1,
        sizes=[3], constraints=constraints,
    )  # fmt: skip
    rows = compared.table.to_pandas().query("method in ['gbmo', 'anova_f']")
    assert set(rows["size"].dropna()) == {3}
    assert all(obeys(features, constraints) for features in rows["features"])


def test_a_reselection_obeys_what_the_former_run_obeyed_and_what_it_is_given():
    newer, pair = table_of(seed=1), Constraints(groups=[Group(["x0", "x1"], all_or_none=True)])
    former = select("flbmo", n_features=3, constraints=pair)
    again = chaffinch.reselect(former, newer)
    assert obeys(again.features, pair)
    assert again.contract["settings"]["constraints"] == former.contract["settings"]["constraints"]

    tight = Constraints(costs={"x0": 1, "x3": 1, "x6": 1}, budget=1)
    cheaper = chaffinch.reselect(former, newer, constraints=tight)
    assert obeys(cheaper.features, tight)
    assert cheaper.costs["all"] == 3
    with pytest.raises(InputError, match="must_include and must_exclude are not for a reselection"):
        chaffinch.reselect(former, newer, constraints=Constraints(must_include=["x0"]))


def test_a_former_feature_returns_and_leaves_with_what_goes_together_with_it():
    pair = Constraints(groups=[Group(["x6", "x7"], all_or_none=True)])
    former = select("flbmo", n_features=2, constraints=Constraints(must_exclude=["x6", "x7"]))
    again = chaffinch.reselect(former, table_of(400, seed=2), drop=[], constraints=pair)
    assert {"x6", "x7"} <= set(again.features)
    changes = {one["feature"]: one["change"] for one in again.changes["changes"]}
    assert changes["x6"] == changes["x7"] == "returned"


A_PAIR = Group(["x0", "x1"], at_most=1)


@pytest.mark.parametrize(
    ("constraints", "options"),
    [
        ({"groups": [A_PAIR]}, {"keep": ["x0", "x1"]}),
        ({"groups": [Group(["x0", "x1"], at_least=2)]}, {"drop": ["x1"]}),
        ({"groups": [Group(["x0", "x1"], at_least=3)]}, {}),
        ({"groups": [Group(["x0", "x1"], 2, 1)]}, {}),
        ({"groups": [Group(["x0", "x1"], 1, all_or_none=True)]}, {}),
        ({"groups": [Group(["x0", "x1"], all_or_none=True)]}, {"drop": ["x1"]}),
        ({"groups": [A_PAIR, Group(["x1", "x2"])]}, {}),
        ({"groups": [Group(["x0", "X9"])]}, {}),
        ({"groups": [Group(["x0", "target"])]}, {}),
        ({"groups": [Group(NAMES, at_most=0)]}, {}),
        ({"groups": [Group(NAMES, at_least=4)]}, {"n_features": 3}),
        ({"groups": [[0, 1]]}, {}),
        ({"costs": {"x77": 1}}, {}),
        ({"costs": {"x0": 4}, "budget": 3}, {"keep": ["x0"]}),
        ({"costs": dict.fromkeys(NAMES, 2), "budget": 1}, {}),
        ({"budget": 3}, {}),
        ({"costs": [1] * 9}, {}),
        ({"costs": {"x0": -1}}, {}),
        ({"max_sets_per_feature": 2}, {}),
        ({"groups": [Group(["x0", "x1"], cost=2)], "budget": 3}, {"alternatives": 1}),
    ],
)
def test_a_contradiction_is_named_in_one_line(constraints, options, tmp_path):
    with pytest.raises(InputError) as error:
        select("flbmo", constraints=Constraints(**constraints), **{"n_features": 3, **options},
               store=tmp_path / "store")  # fmt: skip
    check_sentence("refusals/constraints", f"{constraints}, {options}", error.value)
    assert not [*tmp_path.rglob("*train_base_model*")]


def test_a_feature_has_one_cost_by_name_and_by_position():
    selector = FeatureSelector("gbmo", model=LINEAR, constraints=Constraints(costs={0: 1, "x0": 2}))
    with pytest.raises(InputError, match="costs must name each feature once but name feature 'x0'"):
        selector.fit(TABLE[NAMES].to_numpy(), TABLE["target"])


def test_constraints_of_another_type_are_refused():
    with pytest.raises(InputError, match=r"constraints must be chaffinch\.Constraints but are \["):
        select(constraints=["x0"])

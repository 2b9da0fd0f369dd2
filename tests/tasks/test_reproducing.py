"""Published experiments again: the authors' protocol, many seeds, their figures beside ours."""

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import chaffinch
from chaffinch import InputError
from chaffinch.flows.cli import main
from chaffinch.tasks.reproducing.afs_bm_synthetic import (
    N_INFORMATIVE,
    afs_bm,
    by_lightgbm,
    equation_24,
)
from chaffinch.tasks.reproducing.afs_bm_synthetic import cut as cut_24
from chaffinch.tasks.reproducing.alternatives import normalised, outcomes, training_rows
from chaffinch.tasks.reproducing.experiment import Experiment, Figure
from chaffinch.tasks.reproducing.experiments import EXPERIMENTS
from chaffinch.tasks.reproducing.gbmo_sonar import cut as cut_sonar
from chaffinch.tasks.reproducing.gbmo_synthetic import cut, equation_22
from chaffinch.tasks.reproducing.names import TITLES
from chaffinch.tasks.reproducing.outcome import beside
from chaffinch.tasks.reproducing.protocol import Learner, Parts, results
from chaffinch.tasks.selection.vocabulary import Rows

LINE = Learner(lambda **p: Ridge(**p), {"alpha": [0.1, 1.0]}, "r2", "squared_error")
HERE = ["--cluster", "none"]
SLACKS, SIZES = (0.001, 0.1), (2, 4)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the command keeps its store by default


def made_up_parts(seed=0) -> Parts:
    random = np.random.default_rng(seed)
    X = random.uniform(size=(160, 8))
    y = 4 * X[:, 1] - 3 * X[:, 5] + 0.1 * random.normal(size=160)
    return Parts(*(Rows(X[rows::4], y[rows::4]) for rows in range(4)))


def found(parts) -> dict:
    return dict(results(LINE, parts, 0, slacks=SLACKS, sizes=SIZES, with_rfe=True))


def test_every_method_finds_what_the_target_is_made_of_at_a_size_that_it_tries() -> None:
    chosen = found(made_up_parts())
    assert list(chosen) == ["GBMO", "FLBMO", "All features", "CC", "MI", "RFE"]
    for name, choice in chosen.items():
        assert choice.mask[[1, 5]].all()
        if name in ("FLBMO", "CC", "MI", "RFE"):
            assert choice.mask.sum() in SIZES
    assert chosen["All features"].mask.all()


def test_the_test_part_plays_no_part_in_the_choice() -> None:
    parts = made_up_parts()
    junk = Rows(parts.test.X[::-1] * 100, -parts.test.y)
    others = found(Parts(parts.train, parts.mask_validation, parts.model_validation, junk))
    for name, choice in found(parts).items():
        assert (choice.mask == others[name].mask).all()
        assert choice.test_loss != others[name].test_loss


def test_the_loss_is_that_of_a_model_fitted_on_what_its_method_may_train_on() -> None:
    parts = made_up_parts()
    chosen = found(parts)
    both = parts.train_of_rivals
    assert len(both) == len(parts.train) + len(parts.mask_validation)
    for name, rows in (("FLBMO", parts.train), ("RFE", both)):
        mask = chosen[name].mask
        losses = [
            np.mean((fitted.predict(parts.test.X[:, mask]) - parts.test.y) ** 2)
            for fitted in (Ridge(alpha=a).fit(rows.X[:, mask], rows.y) for a in (0.1, 1.0))
        ]
        assert min(abs(chosen[name].test_loss - loss) for loss in losses) < 1e-12


def test_the_synthetic_rows_are_cut_as_published() -> None:
    X, y = equation_22(42)
    assert (X.shape, y.shape) == ((300, 100), (300,))
    assert X[0, :2] == pytest.approx([0.3745401188, 0.9507143064])  # numpy's seed 42
    assert y[0] == pytest.approx((X[0, :10] ** 2 + np.sin(X[0, :10])).sum())
    parts = cut(X, y, 42)
    rows = [len(p) for p in vars(parts).values()]
    assert rows == [135, 81, 40, 44]
    assert sorted(np.concatenate([p.y for p in vars(parts).values()])) == sorted(y)


def test_equation_24_is_the_authors_table() -> None:
    X, y = equation_24(222)  # the first numbers of the file that their program writes
    assert (X.shape, X[0, 0], y[0]) == ((300, 100), 0.5260284260841477, 15.529562312977003)
    assert [len(p) for p in vars(cut_24(X, y, 42)).values()] == [150, 60, 60, 30]


def test_afs_bm_finds_the_features_of_equation_24() -> None:
    chosen = afs_bm(by_lightgbm(), cut_24(*equation_24(7), 7), 7)
    assert chosen.mask[:N_INFORMATIVE].sum() >= 9
    assert chosen.mask[N_INFORMATIVE:].sum() <= 2


def test_rows_of_a_table_are_scaled_by_the_first_part_alone() -> None:
    random = np.random.default_rng(1)
    table = pd.DataFrame(random.normal(size=(200, 60))).assign(target=["rock", "mine"] * 100)
    parts = cut_sonar(table, 3)
    assert [len(p) for p in vars(parts).values()] == [90, 60, 20, 30]
    assert (parts.train.X.min(axis=0) == 0).all()
    assert (parts.train.X.max(axis=0) == 1).all()
    assert parts.test.X.min() < 0
    shuffled = table.sample(frac=1, random_state=3)["target"]
    assert parts.train.y.tolist() == (shuffled == "rock").astype(int).tolist()[:90]


Q0 = chaffinch.Univariate([9, 8, 7, 3, 2, 1])  # of the paper's examples


def test_a_seed_is_one_of_five_folds_of_which_the_search_sees_the_training_rows() -> None:
    table = pd.DataFrame({"row": np.arange(100.0), "target": ["a", "b"] * 50})
    trained = [training_rows(table, seed) for seed in range(10)]
    assert all(len(y) == 80 and y.sum() == 40 for _, y in trained)
    for first in (0, 5):  # every row is left out by one fold of each cross-validation
        left_out = [set(range(100)) - {*X[:, 0].astype(int)} for X, _ in trained[first : first + 5]]
        assert sorted(row for rows in left_out for row in rows) == list(range(100))
    assert set(trained[0][0][:, 0]) != set(trained[5][0][:, 0])


def test_what_came_of_each_alternative() -> None:
    sought = {"k": 2, "n_alternatives": 5, "tau": 1.0}
    found = chaffinch.find_alternatives(Q0, **sought)
    proven = [*outcomes(found, 5, is_greedy=False)]
    assert proven == ["optimal"] * 2 + ["infeasible"] * 3  # six features make three pairs
    greedy = chaffinch.find_alternatives(Q0, **sought, search="greedy_replacement")
    assert [*outcomes(greedy, 5, is_greedy=True)] == ["feasible"] * 2 + ["not_solved"] * 3
    assert normalised(found, (1, 2, 3)) == [10 / 17, 3 / 17, 0]


def test_the_tables_of_alternatives_are_counted_over_those_that_a_folder_holds(tmp_path) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(80, 15)), columns=[f"f{j}" for j in range(15)])
    table["target"] = (table["f0"] + table["f1"] > 0).astype(int)
    table.to_csv(tmp_path / "credit_a.csv", index=False)
    named = "alternatives-figure-5"
    outcome = chaffinch.reproduce(named, seeds=2, data=tmp_path)
    figures = {(one.row, one.column): one for one in outcome.figures}
    assert figures["data sets", "number"].mean == 1
    # Fifteen features make no two sets of ten that share less than five.
    assert figures["alternative 1", "tau = 0.6"].mean == 0
    assert 0.5 < figures["alternative 1", "tau = 0.1"].mean <= 1
    with pytest.raises(InputError, match="there is none of the 30 tables of the paper in"):
        chaffinch.reproduce(named, data=tmp_path / "nowhere")


def made_up(published: float | None, authors_seed: int | None = None) -> Experiment:
    return Experiment(
        name="gbmo-table-2",
        source="",
        figures=(Figure("a", "b", published),),
        read=lambda folder: None,
        measures=(lambda shared, seed: {("a", "b"): float(seed)},),
        authors_seed=authors_seed,
    )


def test_zeros_that_were_printed_count_as_digits() -> None:
    experiment = made_up(2.0)
    (printed,) = experiment.figures
    ours = {0: {("a", "b"): 2.004}, 1: {("a", "b"): 2.3}}
    for decimals, equal in ((None, 1.0), (2, 0.5), (3, 0.0)):
        told = replace(experiment, figures=(replace(printed, decimals=decimals),))
        assert beside(told, ours, 2).figures[0].share_equal == equal


@pytest.mark.parametrize(
    ("published", "below", "equal", "inside"),
    [
        (2.0, 2 / 4, 1 / 4, True),  # of 0, 1, 2 and 3
        (1.5, 2 / 4, 0, True),
        (3.4, 1, 0, False),
        (-1.0, 0, 0, False),
        (0.0, 0, 1 / 4, True),
        (None, None, None, None),
    ],
)
def test_where_the_published_figure_lies_among_ours(published, below, equal, inside) -> None:
    measured = {seed: {("a", "b"): float(seed)} for seed in range(4)}
    (figure,) = beside(made_up(published), measured, 4).figures
    assert (figure.share_below, figure.share_equal, figure.is_inside) == (below, equal, inside)
    assert (figure.mean, figure.lowest, figure.highest) == (1.5, 0, 3)
    assert figure.deviation == pytest.approx(np.std([0, 1, 2, 3], ddof=1))
    assert figure.at_authors_seed is None


def test_a_figure_is_equal_if_it_is_so_to_the_digits_that_were_printed() -> None:
    measured = {seed: {("a", "b"): 0.4563 + seed * 4e-5} for seed in range(3)}
    (figure,) = beside(made_up(0.4563), measured, 3).figures
    assert figure.share_equal == pytest.approx(2 / 3)
    assert figure.share_below == 0


def printed_by(command, experiment, monkeypatch, capfd) -> str:
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", experiment)
    monkeypatch.setattr(sys, "argv", ["chaffinch", "reproduce", "gbmo-table-2", *command])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    return capfd.readouterr().out


def test_one_seed_has_no_deviation(monkeypatch, capfd) -> None:
    experiment = made_up(1.0)
    one, many = (
        printed_by(["--seeds", seeds, *HERE], experiment, monkeypatch, capfd)
        for seeds in ("1", "2")
    )
    assert "\N{PLUS-MINUS SIGN}" in many
    assert "\N{PLUS-MINUS SIGN}" not in one
    assert "Ours is of one seed, which has no deviation" in one
    as_json = json.loads(
        printed_by(["--seeds", "1", *HERE, "--json"], experiment, monkeypatch, capfd)
    )
    assert as_json["figures"][0]["deviation"] is None
    assert as_json["meaning"].endswith("inside: the same to the digits printed.")


@pytest.mark.parametrize("counts", [(3, 5, 8, 13), (3, 3, 5, 5), (3, 3, 3, 5), (3, 3, 3, 3)])
def test_the_chance_of_one_seed_more_is_at_most_what_is_said(counts) -> None:
    """Each seed is as likely to be the one more; of equal counts it need not lie outside."""
    outside = [
        not min(others) <= count <= max(others)
        for place, count in enumerate(counts)
        for others in [counts[:place] + counts[place + 1 :]]
    ]
    has_ties = len(set(counts)) < len(counts)
    assert sum(outside) < 2 if has_ties else sum(outside) == 2
    found = beside(made_up(1.0), {s: {("a", "b"): float(counts[s])} for s in range(3)}, 3)
    for said in (found.meaning, found.as_json()["meaning"]):
        assert said.endswith(
            "a chance of at most 2 in 4: less where seeds come to the same figure."
        )


def test_what_is_of_other_units_is_not_compared_and_the_notes_say_why(monkeypatch, capfd) -> None:
    experiment = made_up(0.5)
    (printed,) = experiment.figures
    other = replace(printed, incomparable="theirs are of other units.")
    experiment = replace(experiment, figures=(other, replace(other, row="c")), notes=("One.",))
    measured = {seed: {("a", "b"): float(seed), ("c", "b"): 1.0} for seed in range(2)}
    found = beside(experiment, measured, 2)
    for figure in found.figures:
        assert (figure.published, figure.is_inside) == (0.5, None)
        assert (figure.share_below, figure.share_equal) == (None, None)
    assert found.notes == ("One.", "Inside is left blank for b: theirs are of other units.")
    shown = printed_by(
        ["--seeds", "2", *HERE], replace(experiment, figures=(other,)), monkeypatch, capfd
    )
    row = next(line for line in shown.splitlines() if "\N{PLUS-MINUS SIGN}" in line)
    assert "yes" not in row
    assert "no" not in row
    assert found.notes[1] in shown


@pytest.mark.parametrize("model", ["lightgbm", "xgboost"])
def test_losses_of_afs_bm_are_of_other_units_and_counts_are_not(model) -> None:
    figures = EXPERIMENTS[f"afs-bm-tables-2-3-{model}"].figures
    other = {figure.column for figure in figures if figure.incomparable is not None}
    same = {figure.column for figure in figures if figure.incomparable is None}
    assert other == {"test squared error"}
    assert same == {"informative", "redundant", "all ten"}


def test_squared_errors_that_were_printed_as_log_losses_are_not_compared() -> None:
    for name, other in (
        ("gbmo-tables-3-5-sonar", {"test log loss"}),
        ("gbmo-tables-4-6-sonar", set()),
    ):
        figures = EXPERIMENTS[name].figures
        assert {f.column for f in figures if f.incomparable is not None} == other
        assert {f.column for f in figures} == {"test log loss", "features"}


def test_seconds_of_another_machine_are_not_compared() -> None:
    for figure in EXPERIMENTS["alternatives-tables-3-5-6"].figures:
        assert (figure.incomparable is not None) == (figure.column == "seconds")


def test_the_authors_seed_is_run_as_well_and_is_none_of_the_others(monkeypatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", made_up(1.0, authors_seed=7))
    told = []
    outcome = chaffinch.reproduce(
        "gbmo-table-2", seeds=2, on_progress=lambda *progress: told.append(progress)
    )
    (figure,) = outcome.figures
    assert (figure.at_authors_seed, figure.mean, outcome.seeds) == (7, 0.5, (0, 1))
    assert told == [*[("measure", done, 3) for done in range(4)], ("measure", 1, 1)]


def test_parts_of_a_run_are_measured_apart_and_put_together(monkeypatch) -> None:
    one = made_up(1.0)
    parts = (lambda shared, seed: {("c", "d"): 2.0 * seed}, *one.measures)
    both = replace(one, figures=(*one.figures, Figure("c", "d", None)), measures=parts)
    monkeypatch.setitem(EXPERIMENTS, "gbmo-table-2", both)
    told = []
    outcome = chaffinch.reproduce(
        "gbmo-table-2", seeds=3, on_progress=lambda *progress: told.append(progress)
    )
    assert outcome.by_seed == {s: {("a", "b"): float(s), ("c", "d"): 2.0 * s} for s in range(3)}
    assert told[-2:] == [("measure", 6, 6), ("measure", 1, 1)]


def test_every_experiment_has_a_title_and_says_it_in_the_help() -> None:
    assert list(EXPERIMENTS) == list(TITLES)
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())


def test_what_cannot_be_is_refused_in_one_line(tmp_path) -> None:
    sonar = "gbmo-tables-4-6-sonar"
    refused = {
        "table must be one of gbmo-table-2, .* but is 'table 2'": ("table 2", {}),
        "seeds must be a whole number of at least 1 but is 0": ("gbmo-table-2", {"seeds": 0}),
        "needs the table sonar; name the folder that holds it": (sonar, {}),
        f"there is no sonar in {tmp_path}; it must end in": (sonar, {"data": tmp_path}),
    }
    for message, (table, options) in refused.items():
        with pytest.raises(InputError, match=message) as error:
            chaffinch.reproduce(table, **options)
        assert "\n" not in str(error.value)
    pd.DataFrame({"a": [1.0], "target": [0]}).to_csv(tmp_path / "sonar.csv", index=False)
    with pytest.raises(InputError, match="must have 60 features and a column 'target' but has"):
        chaffinch.reproduce(sonar, data=tmp_path)


def test_the_command_prints_a_table_or_every_seed(monkeypatch, capfd) -> None:
    experiment = made_up(1.0, authors_seed=42)
    command = ["--seeds", "2", *HERE]
    table, as_json = (
        printed_by([*command, *extra], experiment, monkeypatch, capfd) for extra in ([], ["--json"])
    )
    assert "published" in table
    assert "ours, seed 42" in table
    contents = json.loads(as_json)
    by_seed = {(v["seed"], v["row"], v["column"]): v["value"] for v in contents["by_seed"]}
    assert by_seed == {(seed, "a", "b"): float(seed) for seed in (0, 1, 42)}

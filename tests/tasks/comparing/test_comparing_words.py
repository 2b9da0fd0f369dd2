"""What a comparison says of its results, as a whole: verdicts, reasons, ranks, gaps and errors.

Each case is a table of results. What is said of it is in a snapshot, of which a change is reviewed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chaffinch.tasks.comparing.plan import Contender, Planned
from chaffinch.tasks.comparing.summary import Summary
from chaffinch.tasks.comparing.text import lines_of, verdict_over
from tests.tasks.comparing.synthetic_results import failing, synthetic_rows, table_of
from tests.tasks.comparing.synthetic_summary import CLEAR, THREE, summarise, with_constant
from tests.tasks.snapshots import check_snapshot

Rows = list[dict[str, Any]]
EVERY_CELL = tuple((seed, fold) for seed in range(3) for fold in range(5))
LUCKY = ["lucky", *(f"m{i}" for i in range(19))]


def of_methods(**how: Any) -> Rows:
    """Return rows of three methods: one better, one worse, and one that changes little."""
    return synthetic_rows(**{"methods": THREE, "differences": CLEAR, **how})


def of(rows: Rows, *methods: str) -> Rows:
    return [row for row in rows if row["method"] in methods]


def with_losses(rows: Rows, change: Callable[[dict[str, Any]], float]) -> Rows:
    return [{**row, "loss": row["loss"] + change(row)} for row in rows]


def sized(*sizes: int, methods: tuple[str, ...] = ("mrmr",)) -> Rows:
    return synthetic_rows(methods=methods, sizes=sizes, noise=0)


def own_size(rows: Rows) -> Rows:
    return [{**row, "size": None} for row in rows]


def near_in_turn(row: dict[str, Any], size: int = 5) -> float:
    """Return what makes a size a little worse in half of the folds and better in the others."""
    return (0.01 if row["fold"] % 2 == 0 else -0.008) if row["size"] == size else 0.0


STEADY = of_methods(noise=0.001)
TWO_SIZES = of_methods(sizes=(5, 10), noise=0.001)
WORSE = synthetic_rows(methods=("anova_f",), differences={"anova_f": 0.1}, noise=0.001)
SAME = synthetic_rows(methods=("gbmo",), noise=0)
NEAR = with_losses(sized(5, 20), near_in_turn)


def all_features_by_other_names() -> Rows:
    """The same losses with 29 features; and every feature, trained with seeds that do better."""
    rows = synthetic_rows(methods=THREE)
    of_all = of(rows, "all")
    copies = [{**row, "method": "copy", "n_features": 29} for row in of_all]
    better = [{**row, "method": "full"} for row in of_all]
    return rows + copies + with_losses(better, lambda row: 0.001 * (row["fold"] % 3) - 0.1)


def by_luck() -> Rows:
    """Alone the first of these would win; among twenty it does not."""
    rows = synthetic_rows(methods=LUCKY, noise=0.05)
    excess = iter(np.random.default_rng(1).normal(-0.035, 0.03, 15))
    reference = {(r["seed"], r["fold"]): r["loss"] for r in of(rows, "all")}
    for row in of(rows, "lucky"):
        row["loss"] = reference[row["seed"], row["fold"]] + next(excess)
    return rows


def lucky_beside_a_constant() -> Rows:
    differences = {**dict.fromkeys(LUCKY, -0.07), "lucky": -0.1}
    return synthetic_rows(methods=LUCKY, differences=differences)


def no_better_than_a_constant() -> Rows:
    rows = synthetic_rows(methods=("gbmo",), differences={"gbmo": -0.1})
    return rows + [{**row, "method": "none", "features": []} for row in of(rows, "gbmo")]


def that_fail(*errors: str, **how: Any) -> Rows:
    """Return rows whose methods fail with an error for each fold."""
    rows = synthetic_rows(n_folds=len(errors), n_seeds=1, **how)
    for row in rows:
        if row["method"] != "all":
            row["loss"], row["error"] = None, errors[row["fold"]]
    return rows


def own_and_other_sizes() -> Rows:
    """A method does better at its own size than at one that it is asked for."""
    rows = synthetic_rows(methods=("rfe", "gbmo"), differences={"rfe": -0.1, "gbmo": -0.1})
    own = with_losses(own_size(of(rows, "rfe")), lambda row: -0.1)
    asked = with_losses(of(rows, "rfe"), lambda row: 0.1 + 0.02 * (row["fold"] % 2))
    return of(rows, "all", "gbmo") + asked + own


def of_unlike_tables() -> Rows:
    narrow = synthetic_rows(tables=["narrow"], methods=THREE, sizes=(3, 6))
    return narrow + synthetic_rows(tables=["wide"], methods=THREE, sizes=(30, 60), n_total=90)


def that_failed_on_one_table() -> Rows:
    rows = synthetic_rows(tables=("a", "b"), methods=("mrmr", "relieff"), sizes=(2, 5))
    own = own_size([row for row in rows if row["size"] == 2])  # how a method fails
    failed = failing(of(own + rows, "all", "mrmr", "relieff"), lambda row: True, "no")
    return [row for row in rows if row["table"] == "a"] + [
        row for row in failed if row["table"] == "b" and row["size"] is None
    ]


ASKED = synthetic_rows(methods=("mrmr", "relieff"), sizes=(2, 5))
OWN = own_size([row for row in of(ASKED, "mrmr") if row["size"] == 2])
NOT_ASKED = [{**row, "method": "afs_bm"} for row in OWN]
CASES: dict[str, Rows] = {
    "three methods": of_methods(),
    "steady": with_constant(STEADY, 0.5, 0.001).to_pylist(),
    "steady but all explain little": with_constant(STEADY, 0.01, 0.001).to_pylist(),
    "two sizes": with_constant(TWO_SIZES, 0.5, 0.001).to_pylist(),
    "two sizes and none better": with_constant(
        of(TWO_SIZES, "all", "mrmr", "anova_f"), 0.5, 0.001
    ).to_pylist(),
    "worse": with_constant(WORSE, 0.5, 0.001).to_pylist(),
    "worse and nothing to select from": with_constant(WORSE, 0.0, 0.05).to_pylist(),
    "all features by other names": all_features_by_other_names(),
    "no difference": with_constant(SAME, 0.5, 0.1).to_pylist(),
    "no difference and no constant": SAME,
    "no difference of a score": with_constant(
        [{**row, "loss_name": "accuracy"} for row in SAME], 0.5, 0.1
    ).to_pylist(),
    "no better than a constant": no_better_than_a_constant(),
    "lucky alone": of(by_luck(), "all", "lucky"),
    "lucky among many": by_luck(),
    "lucky alone beside a constant": with_constant(
        of(lucky_beside_a_constant(), "all", "lucky"), -0.07, 0.01
    ).to_pylist(),
    "lucky among many beside a constant": with_constant(
        lucky_beside_a_constant(), -0.07, 0.01
    ).to_pylist(),
    "few cells of one method": [
        r for r in of_methods() if not (r["method"] == "mrmr" and (r["seed"] or r["fold"] > 2))
    ],
    "failed at every size": failing(
        of_methods(sizes=(5, 10)), lambda r: r["method"] == "mrmr", "needs classes"
    ),
    "failed in some cells": failing(
        of_methods(sizes=(5, 10)),
        lambda r: r["method"] == "mrmr" and r["fold"] < r["size"] // 5,
        "no",
    ),
    "failed with errors that differ in figures": that_fail(
        *(
            f"Tom's error is {figure}; give more"
            for figure in ("0.75", "1.6", "-2", "1e-07", "2e+20", "nan", "-inf", "12", "0")
        ),
        methods=("gbmo", "mrmr"),
    ),
    "without all features": of(of_methods(), *THREE),
    "one cell": of_methods(n_seeds=1, n_folds=1),
    "two cells": of_methods(n_seeds=1, n_folds=2),
    "a model that was not reached on a table": [
        row
        for row in synthetic_rows(tables=("a", "b"), models=("linear", "mlp"))
        if (row["table"], row["model"]) != ("b", "mlp")
    ],
    "tables of unlike numbers of features": of_unlike_tables(),
    "a table with fewer sizes": of_unlike_tables()
    + synthetic_rows(tables=["tiny"], methods=THREE, sizes=(1,), n_total=4),
    "own size and one that is asked for": synthetic_rows(methods=("flbmo",))
    + own_size(of(synthetic_rows(methods=("flbmo",)), "flbmo")),
    "own size is better": own_and_other_sizes(),
    "own sizes alone": [row for row in own_and_other_sizes() if row["size"] is None],
    "the smallest size is best": with_losses(sized(2, 5), lambda row: 0.5 * (row["size"] == 5)),
    "a smaller size is near the best": with_losses(
        sized(2, 5, 20, methods=("mrmr", "relieff")),
        lambda row: (
            0.5
            if row["size"] == 2 or (row["method"], row["size"]) == ("relieff", 5)
            else near_in_turn(row)
        ),
    ),
    **{
        f"near sizes beside a constant at {excess}": with_constant(NEAR, excess).to_pylist()
        for excess in (0.1, 0.001, -0.1)
    },
    "not asked for sizes": ASKED + OWN + NOT_ASKED,
    "none asked for sizes": NOT_ASKED + of(ASKED, "all"),
    "failed on one of two tables": that_failed_on_one_table(),
    "all features alone on one of two tables": failing(
        synthetic_rows(tables=("a", "b"), methods=("mrmr",)),
        lambda r: r["table"] == "b" and r["method"] == "mrmr",
        "no",
    ),
    "tables with unlike numbers of sizes": synthetic_rows(methods=("mrmr",), sizes=(2, 5))
    + [{**r, "table": "narrow"} for r in synthetic_rows(methods=("mrmr",), sizes=(2,))],
}


def of_a_plan() -> Summary:
    """Of 3 tables, 2 models, 6 cells and 3 contenders each, 2 cells are there."""
    rows = synthetic_rows(tables=("a",), methods=("gbmo", "mrmr"), n_seeds=1, n_folds=2)
    contenders = (Contender("all", None), Contender("gbmo", None), Contender("mrmr", 5))
    cells = tuple((seed, fold) for seed in range(3) for fold in range(2))
    meant = Planned(dict.fromkeys("abc", contenders), ("linear", "mlp"), cells, 0.02)
    return summarise(table_of(rows), meant)


def that_fails_as_planned() -> Summary:
    """A method that fails does so at every size that it was to be asked for."""
    of_all = of(synthetic_rows(methods=("mrmr",), sizes=(5, 10)), "all")
    failed = failing([{**row, "method": "mrmr"} for row in of_all], lambda row: True, "no")
    contenders = (Contender("all", None), *(Contender("mrmr", size) for size in (None, 5, 10)))
    meant = Planned({"wine": contenders}, ("linear",), EVERY_CELL, 0.02)
    return summarise(table_of(of_all + failed), meant)


def with_a_leak() -> Summary:
    rows = synthetic_rows(tables=[f"t{i}" for i in range(8)], methods=["gbmo"], differences=CLEAR)
    leak = of(rows, "gbmo")[0]["features"][0]
    return summarise(table_of(rows), leaks={"t3": frozenset({leak})})


SUMMARIES: dict[str, Callable[[], Summary]] = {
    "a plan of which little was reached": of_a_plan,
    "failed as planned": that_fails_as_planned,
    "a leak in one of eight tables": with_a_leak,
}


@pytest.mark.parametrize("name", [*CASES, *SUMMARIES])
def test_what_is_said_of_results(name: str) -> None:
    summary = SUMMARIES[name]() if name in SUMMARIES else summarise(table_of(CASES[name]))
    check_snapshot(f"comparison/{name}", [verdict_over(summary.tables), *lines_of(summary)])

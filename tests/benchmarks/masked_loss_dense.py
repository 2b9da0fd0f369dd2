"""``make bench-masked-loss-dense``: networks and linear models against one predict per feature.

Both sides in one run, one thread, CPU seconds, the engine's set-up included. The plain side copies
one column into the table, predicts and takes the loss, in the faster of the two memory layouts;
its seconds are those of a few features times the number that the search asks for.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chaffinch.tasks.selection.bmo import eliminate
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import BlackBox, masked_loss
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.vocabulary import Rows, Schema

RESULTS = Path("bench-results/masked_loss_dense.jsonl")
SIZES = {"small": (62, 60), "medium": (5_000, 300), "large": (50_000, 1_000)}
PLAIN_FEATURES = {"small": 60, "medium": 12, "large": 3}


@dataclass(frozen=True)
class Case:
    """A model, a loss, the goal at medium size, and the sizes whose whole elimination is run."""

    name: str
    model: str
    parameters: dict[str, Any] = field(default_factory=dict)
    n_classes: int = 0
    loss: str | None = None
    goal: int | None = None
    whole: tuple[str, ...] = ("small", "medium")


CASES = [
    Case("linear, squared error", "linear", goal=1000, whole=("small", "medium", "large")),
    Case("linear, absolute error", "linear", loss="absolute_error"),
    Case("logistic regression", "linear", n_classes=2),
    Case("multinomial regression", "linear", n_classes=4),
    Case("one hidden layer of 20, relu", "mlp", goal=80),
    Case("one hidden layer of 20, relu, two classes", "mlp", n_classes=2),
    Case("one hidden layer of 20, logistic", "mlp", {"activation": "logistic"}),
    Case("hidden layers of 20 and 10", "mlp", {"hidden_layer_sizes": [20, 10]}, goal=5),
    Case(
        "hidden layers of 100 and 50",
        "mlp",
        {"hidden_layer_sizes": [100, 50]},
        goal=5,
        whole=("small",),
    ),
]


def make_rows(n: int, d: int, n_classes: int) -> Rows:
    """Make a table in which every third feature counts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X[:, ::3] @ rng.normal(size=X[:, ::3].shape[1]) + rng.normal(size=n)
    if not n_classes:
        return Rows(X, y)
    return Rows(X, np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes)))


def run(case: Case, size: str) -> dict[str, object]:
    """Time both sides of one case at one size."""
    n, d = SIZES[size]
    rows = make_rows(n, d, case.n_classes)
    schema = Schema(tuple(f"feature {j}" for j in range(d)), (0,) * d, case.n_classes)
    parameters = case.parameters | ({"max_iter": 3} if case.model == "mlp" else {})
    train = rows.take(np.arange(min(n, 2000)))
    model = fit(case.model, train, schema, parameters, seed=0)
    loss, baseline = resolve_loss(case.loss, schema), rows.X.mean(axis=0)
    whole = size in case.whole

    start = time.process_time()
    engine = masked_loss(model, rows, loss, baseline)
    set_up = time.process_time() - start
    losses = engine.without_each()
    if whole:
        eliminate(engine, min_features=d // 4)
    seconds = time.process_time() - start
    if isinstance(engine, BlackBox):
        raise RuntimeError(f"{case.name} went to the black box")

    per_feature, difference = np.inf, 0.0
    for order in ("C", "F"):
        X = rows.X.copy(order=order)  # type: ignore[call-overload]
        start = time.process_time()
        with single_thread():
            for j in range(PLAIN_FEATURES[size]):
                X[:, j] = baseline[j]
                plain = loss(rows.y, model.predict(X))
                X[:, j] = rows.X[:, j]
                difference = max(difference, abs(losses[j] / plain - 1))
        per_feature = min(per_feature, (time.process_time() - start) / PLAIN_FEATURES[size])
    asked = sum(range(d // 4 + 1, d + 1)) if whole else d
    return {
        "case": case.name,
        "size": size,
        "rows": n,
        "features": d,
        "what": "whole elimination to a quarter" if whole else "one iteration",
        "set_up_seconds": round(set_up, 4),
        "seconds": round(seconds, 4),
        "plain_seconds_per_feature": round(per_feature, 6),
        "plain_seconds_extrapolated": round(per_feature * asked, 2),
        "times_faster": round(per_feature * asked / seconds, 1),
        "goal": case.goal if size == "medium" else None,
        "largest_relative_difference": float(f"{difference:.1e}"),
    }


def main() -> None:
    """Run every case at every size."""
    start = time.perf_counter()
    run(CASES[4], "small")
    print(f"first use, compilation included: {time.perf_counter() - start:.2f} s")
    RESULTS.parent.mkdir(exist_ok=True)
    print(f"{'case':42} {'size':7} {'seconds':>9} {'plain':>11} {'faster':>10}  goal")
    with RESULTS.open("w") as lines:
        for case in CASES:
            for size in SIZES:
                row = run(case, size)
                lines.write(json.dumps(row) + "\n")
                lines.flush()
                verdict = ""
                if row["goal"]:
                    met = row["times_faster"] >= row["goal"]  # type: ignore[operator]
                    verdict = f"{row['goal']} {'ok' if met else 'NOT MET'}"
                print(
                    f"{case.name:42} {size:7} {row['seconds']:9} "
                    f"{row['plain_seconds_extrapolated']:11} {row['times_faster']:10}  {verdict}",
                    flush=True,
                )
    print(f"Kept in {RESULTS}")


if __name__ == "__main__":
    main()

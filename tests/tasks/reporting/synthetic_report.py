"""A report's content made on the spot, and a parser that reads the page back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from chaffinch.tasks.contract import Contract
from chaffinch.tasks.reporting import ReportContent

ENDS = {
    "better": (-0.0312, -0.00101),
    "as good with fewer columns": (-0.0093, 0.0009),
    "worse": (0.0021, 0.0413),
    "cannot tell": (-0.0093, 0.0121),
}
OF_THE_FINAL_MODEL = {"Rise", "True", "ROC", "Calibration:", "Confusion"}
COUNTS = (1, 10, 100, 1000, 10000, 20000, 3000, 300, 30, 3, 0, 1)  # of rows, by value
VOID = {"meta", "link", "br", "hr", "img", "input"}
INLINE = {"a", "b", "code", "em", "span", "strong", "small", "abbr"}


def synthetic(
    names: Sequence[str], n_kept: int, verdict: str = "better", method: str = "gbmo"
) -> ReportContent:
    """Content in which the features leave in the table's order and the last one outlasts all."""
    n = len(names)
    path = [(s, names[s - 1], 0.1 + 0.9 / (n - s), n - s) for s in range(1, n)]
    steps: dict[str, int | None] = {name: step for step, name, _, _ in path}
    low, high = ENDS[verdict]
    difference = (low + high) / 2
    how: dict[str, Any] = {"kind": method}
    how |= {"slacks": [0.001, 0.01]} if method == "gbmo" else {"n_features": [1 / 6, 4]}
    contract = {
        "dataset": {
            "hash": "3b1f" * 16,
            "rows": 1234567,
            "rows_by_part": {
                "train": 555555,
                "mask_validation": 370370,
                "model_validation": 123457,
                "test": 185185,
            },
        },
        "target": {"name": "diagnosis", "task": "classification", "classes": ["benign", "bad"]},
        "features": [
            {"name": name, "type": "number", "baseline": 3.14159, "step": steps.get(name)}
            for name in names[n - n_kept :]
        ],
        "dropped": [
            {"name": name, "reason": f"removed by {method}", "step": steps[name]}
            for name in names[: n - n_kept]
        ]
        + [{"name": "customer_id", "reason": "identifier: every value is different"}],
        "candidates": list(names),
        "model": {
            "kind": "lightgbm",
            "name": "lightgbm",
            "parameters": {"num_leaves": 15, "learning_rate": 0.05},
        },
        "loss": "log_loss",
        "warnings": [],
        "settings": {
            "target": "diagnosis",
            "method": how,
            "columns": {"keep": [], "weight": None, "group": None, "time": None},
            "baseline": "median",
            "seed": 4711,
        },
        "seed": 4711,
        "versions": {"chaffinch": "0.1.0", "lightgbm": "4.6.99"},
        "losses": {
            part: {"all_features": loss, "selected": loss + difference}
            for part, loss in (
                ("train", 0.01234),
                ("mask_validation", 0.0321),
                ("model_validation", 0.1021),
                ("test", 0.0987),
            )
        },
        "comparison": {
            "difference": difference,
            "interval": [low, high],
            "confidence": 0.95,
            "units": 185185,
            "verdict": verdict,
            "sentence": f"The sentence of the verdict {verdict}.",
        },
    }
    return ReportContent(
        run="breast_cancer-3b1f09ac",
        contract=contract_of(contract),
        unmasked_loss=0.1302,
        path=path,
        candidates=[
            {"n_features": n_kept, "settings": how.get("slacks", [1 / 6]), **_loss(0.0771)},
            {"n_features": n, "settings": [0.0] if method == "gbmo" else [4], **_loss(0.0772)},
        ],
        tuning=[
            {"parameters": {"num_leaves": 7}, "loss": 0.2718},
            {"parameters": {"num_leaves": 15}, "loss": 0.1618},
        ],
        warnings=["3 duplicate rows", "class 'bad' has <1 % of the rows"],
        profile=[
            {"name": name, "role": "feature", "type": "number", "missing": 0, "mean": 98765.4}
            | {"minimum": -1.5, "maximum": 300000.0, "counts": COUNTS}
            for name in names
        ],
        seconds={"train_base_model": 12.345, "evaluate": 1.0},
    )


def contract_of(content: Mapping[str, Any]) -> Contract:
    return Contract.parse(json.dumps(content).encode())


def _loss(value: float) -> dict[str, float]:
    return {"model_validation_loss": value}


def numbered(n: int) -> list[str]:
    return [f"feature {i}" for i in range(n)]


def ranked(content: ReportContent, method: str = "anova_f") -> ReportContent:
    """The same, had the features been ranked: the later they leave, the higher their score."""
    names = content.contract.candidates
    how = {"kind": method, "n_features": [1 / 6, 4]}
    content = with_contract(content, settings={**content.contract.settings, "method": how})
    return replace(
        content,
        path=[(step, name, None, left) for step, name, _, left in content.path],
        scores={name: 100.5 + place for place, name in enumerate(names)},
    )


def explained(content: ReportContent) -> ReportContent:
    """The same with importances, stand-ins, predictions and an earlier promotion, all of them."""
    kept = list(content.contract.types)
    dropped = [name for name in content.contract.candidates if name not in set(kept)]
    alike = [{"feature": name, "association": 0.9} for name in (dropped or kept)[:20]]
    group = {"dropped": alike, "n_dropped": 99, "kept": alike, "n_kept": 20}
    importance = {
        "features": [
            {"feature": name, "rise": 1 / place, "interval": (0.5 / place, 2 / place)}
            for place, name in enumerate(kept[:200], 1)
        ],
        **{"rows": 2000, "n_kept": len(kept), "loss": 0.0826, "confidence": 0.95},
        "why_no_interval": "",
    }
    drift = {"distance": 0.3, "missing_before": 0.0, "missing_after": 0.125}
    chance = {"by_chance": 0.1, "missing_by_chance": 0.2}
    figures = {"rows": 1000, "loss_name": "log_loss", "judged_on": "test", "loss": 0.0826}
    figures["explained"] = 0.4, 0.6
    points = [{"predicted": place / 10, "share": place / 10, "rows": 18519} for place in range(10)]
    rates = [place / 199 for place in range(200)]
    return replace(
        content,
        explanation={
            "importance": importance,
            "with_target": {
                "rows": 2000,
                "associations": dict.fromkeys(content.contract.candidates, 0.512),
            },
            "stand_ins": {
                **{"threshold": 0.8, "rows": 2000, "n_dropped": len(dropped)},
                "n_with_stand_in": len(dropped) // 2,
                "groups": [{"feature": name, **group} for name in kept[:200]],
            },
            "predictions": {
                "positive": content.contract.target.classes[-1],
                "roc": {"false_positive": rates, "true_positive": rates},
                "calibration": points,
            },
        },
        promoted={
            **{"name": "orders", "run": "orders-1", "promoted": "2026-11-26T02:45:01.5+00:00"},
            **{"entered": kept, "left": dropped, "why_no_drift": ""},
            "is_same_table": False,
            **{"then": {**figures, "n_features": 7}, "now": {**figures, "n_features": len(kept)}},
            "drift": [{"feature": name, **drift, **chance} for name in kept[:200]],
            "rises": {
                "then": dict.fromkeys(dropped[:200], 0.25),
                "now": {name: 1 / place for place, name in enumerate(kept[:200], 1)},
            },
        },
    )


def with_contract(content: ReportContent, **changes: Any) -> ReportContent:
    return replace(content, contract=contract_of({**content.contract.to_dict(), **changes}))


class Page(HTMLParser):
    """The parsed page: its elements, its text, its tables, and whether every element is closed."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.open: list[str] = []
        self.flow: list[str] = []
        self.feed(page.decode())
        self.close()

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    @property
    def lines(self) -> list[str]:
        """What is read on the page, a line for each paragraph, row and chart, by its label."""
        lines = (re.sub(r"\s+", " ", line).strip() for line in "".join(self.flow).split("\0"))
        return [line for line in lines if line]

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def figures(self) -> list[dict[str, str | None]]:
        """The charts but for the small bars of cells."""
        return [one for one in self.of("svg") if one.get("class") not in ("bars", "beside")]

    @property
    def charts(self) -> list[str]:
        """The first words of the charts of the verdict and the search."""
        labels = [str(one["aria-label"]).partition(" ")[0] for one in self.figures]
        return [label for label in labels if label not in OF_THE_FINAL_MODEL]

    def heading_before(self, heading: str) -> str:
        return self.headings[self.headings.index(heading) - 1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in {"th", "td"}:
            self.flow.append(" | ")
        elif tag == "svg" and dict(attrs).get("class") not in ("bars", "beside"):
            self.flow.append(f"\0[{dict(attrs)['aria-label']}]\0")
        elif tag not in INLINE and "svg" not in self.open:
            self.flow.append("\0")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "caption":
            self.rows: list[list[str]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in {"th", "td"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"style", "script"} & {*self.open[-1:]}:
            return
        self.texts.append(data)
        if "svg" not in self.open:
            self.flow.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data.strip())
        if self.open and self.open[-1] == "caption":
            self.tables[data] = self.rows
        elif {"th", "td"} & {*self.open[-2:]}:  # a link may be in it
            self.rows[-1][-1] += data

"""A store with runs that were never computed: what a history reads, night by night."""

from __future__ import annotations

from collections.abc import Sequence

from chaffinch.storage.files import FORMAT_VERSION, to_json, write_file
from chaffinch.storage.runs.decisions import note_decision
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources.data_set_name import name_of_table
from tests.tasks.reporting.synthetic_report import numbered, synthetic

CANDIDATES = 12


def night(
    store: Store,
    number: int,
    kept: Sequence[int],
    *,
    source: str = "orders.parquet",
    loss: float = 0.5,
    moved: Sequence[str] | None = None,
    decision: str = "",
    name: str = "shop",
) -> Run:
    """Write what the run of a night leaves: `kept` are the places of its features among twelve.

    `name` is that of the promoted contract which a `decision` is about.
    """
    names = numbered(CANDIDATES)
    contract = {"format_version": FORMAT_VERSION, **synthetic(names, CANDIDATES).contract.to_dict()}
    contract["features"] = [
        feature for feature in contract["features"] if names.index(feature["name"]) in kept
    ]
    contract["losses"]["test"] = {"all_features": 0.45, "selected": loss}
    run = begun(store, number, source)
    with run.stage("evaluate", "key") as writer:
        writer.write("selection.json", to_json(contract))
    with run.stage("write_report", "key") as writer:
        writer.write("report.html", b"<!doctype html><title>a report</title>")
        if moved is not None:
            writer.result = {"compared_with": "orders-0", "moved": list(moved)}
    if decision:
        note_decision(run, name, decision)
    return run


def begun(store: Store, number: int, source: str = "orders.parquet") -> Run:
    """Write what a run leaves that has only begun, on a night counted from 1 January 2026."""
    run = store.run(f"{name_of_table(source, '')}-{number}")
    month, day = divmod(number, 28)
    document = {
        "format_version": FORMAT_VERSION,
        "name": run.name,
        "created": f"{2026 + month // 12}-{1 + month % 12:02}-{1 + day:02}T02:00:00.000000+00:00",
        "description": {"source": source, "settings": {"target": "diagnosis"}},
    }
    write_file(run.folder / "run.json", to_json(document))
    return run

"""``make fuzz``: random input to the public functions, and what failed.

A case is done, or refused in one printable line by InputError (exit code 2), StorageError or
WorkersError (exit code 1), within 120 s and 2 GB, and leaves nothing half written.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import click

from tests.fuzz import addresses, commands, contracts, doors, model_files, oracle, settings, tables
from tests.fuzz.ground import ground

FAMILIES = {
    "tables": (tables.draw, 24),
    "files": (tables.draw_file, 16),
    "doors": (doors.draw, 12),
    "settings": (settings.draw, 20),
    "addresses": (addresses.draw, 10),
    "contracts": (contracts.draw, 10),
    "model files": (model_files.draw, 6),
    "stores": (model_files.draw_store, 6),
    "commands": (commands.draw, 8),
}
_ON_GROUND = {"addresses", "contracts", "model files", "stores", "commands"}
_SHOWN = 3  # cases of a group


@click.command()
@click.option("--n", default=2000, show_default=True, help="Number of cases.")
@click.option("--seed", default=0, show_default=True, help="Draws them.")
@click.option("--case", "only", type=int, help="Only this case, with all that is known of it.")
@click.option("--family", type=click.Choice([*FAMILIES]), help="Only cases of this kind.")
@click.option("--verbose", is_flag=True, help="Print what became of each case.")
@click.option("--workers", type=int, envvar="CHAFFINCH_FUZZ_WORKERS", help="Cases at a time.")
def main(
    n: int, seed: int, only: int | None, family: str | None, verbose: bool, workers: int | None
) -> None:
    """Put random input to the public functions and print what failed; exit code 1 if any did."""
    logging.getLogger("chaffinch").addHandler(logging.NullHandler())
    families: oracle.Families = FAMILIES if family is None else {family: FAMILIES[family]}
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        indices = range(n) if only is None else [only]
        if only is None or oracle.drawn(seed, only, families)[1] in _ON_GROUND:
            ground(folder)
        click.echo(f"{len(indices)} cases, seed {seed}")
        outcomes = _run(seed, indices, families, folder, workers or os.cpu_count() or 1)
    finally:
        shutil.rmtree(folder)
    again = f"python -m tests.fuzz --seed {seed}" + (f" --family '{family}'" if family else "")
    for one in outcomes if verbose or only is not None else ():
        cut = slice(-300, None) if only is None else slice(None)
        said = repr(one.said[cut]) if only is None else one.said
        click.echo(f"{one.index} {one.family}: {one.what!r} {one.kind}: {said}")
    _report(outcomes, again)
    sys.exit(any(one.kind == "failed" for one in outcomes))


def _run(
    seed: int, indices: Iterable[int], families: oracle.Families, folder: Path, workers: int
) -> list[oracle.Outcome]:
    waiting, ended = [*indices][::-1], []
    running: list[oracle.Started] = []
    while waiting or running:
        while waiting and len(running) < workers:
            index = waiting.pop()
            running.append(oracle.start(seed, index, folder / str(index), families))
        for one in [*running]:
            outcome = one.outcome()
            if outcome is not None:
                running.remove(one)
                ended.append(outcome)
                if len(ended) % 500 == 0:
                    click.echo(f"{len(ended)} done", err=True)
                if outcome.kind == "failed":
                    click.echo(
                        f"case {outcome.index} ({outcome.family}): {outcome.key!r}", err=True
                    )
        time.sleep(0.005)
    return sorted(ended, key=lambda one: one.index)


def _report(outcomes: list[oracle.Outcome], again: str) -> None:
    groups = defaultdict(list)
    for one in outcomes:
        if one.kind == "failed":
            groups[one.key].append(one)
    for key, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        click.echo(f"\n{len(found)} x {key!r}")
        for one in found[:_SHOWN]:
            click.echo(f"  {again} --case {one.index}\n    {one.what[:600]!r}")
        click.echo(f"    {found[0].said.strip().splitlines()[-1][:600]!r}")
    click.echo("")
    for family in FAMILIES:
        of = [one for one in outcomes if one.family == family]
        if not of:
            continue
        kinds = Counter(one.kind for one in of)
        words = ", ".join(f"{kinds[kind]} {kind}" for kind in ("done", "refused", "failed"))
        seconds = sum(one.seconds for one in of) / len(of)
        click.echo(f"{family:12} {len(of):5}: {words}; {seconds:.2f} s of CPU each")
    failed = sum(map(len, groups.values()))
    click.echo(f"{len(outcomes)} cases, {failed} failed, in {len(groups)} groups")


if __name__ == "__main__":
    main()

"""``make fuzz``: random input to the public functions, and what became of it.

Each case is done, or refused in one printable line by InputError (exit code 2), StorageError or
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

from tests.fuzz import addresses, commands, contracts, model_files, oracle, settings, tables
from tests.fuzz.ground import ground

FAMILIES = {
    "tables": (tables.draw, 24),
    "files": (tables.draw_file, 16),
    "settings": (settings.draw, 20),
    "addresses": (addresses.draw, 10),
    "contracts": (contracts.draw, 10),
    "model files": (model_files.draw, 6),
    "stores": (model_files.draw_store, 6),
    "commands": (commands.draw, 8),
}
_SHOWN = 3


@click.command()
@click.option("--n", default=2000, show_default=True, help="Number of cases.")
@click.option("--seed", default=0, show_default=True, help="Draws them.")
@click.option("--case", "only", type=int, help="Only this case, with all that it said.")
@click.option("--family", type=click.Choice([*FAMILIES]), help="Only cases of this kind.")
@click.option("--verbose", is_flag=True, help="Print what became of each case.")
@click.option("--workers", type=int, envvar="CHAFFINCH_FUZZ_WORKERS", help="Cases at a time.")
def main(
    n: int, seed: int, only: int | None, family: str | None, verbose: bool, workers: int | None
) -> None:
    """Put random input to the public functions and print what failed."""
    logging.getLogger("chaffinch").addHandler(logging.NullHandler())
    began = time.monotonic()
    here = ground()
    click.echo(f"{n} cases, seed {seed}; ready after {time.monotonic() - began:.0f} s", err=True)
    families = FAMILIES if family is None else {family: FAMILIES[family]}
    indices = range(n) if only is None else [only]
    try:
        outcomes = _run(seed, indices, families, workers or os.cpu_count() or 1)
    finally:
        shutil.rmtree(here.store.parent)
    again = f"python -m tests.fuzz --seed {seed}" + (f" --family '{family}'" if family else "")
    if only is not None:
        click.echo(f"{outcomes[0].what}\n{outcomes[0].kind}: {outcomes[0].said}")
    elif verbose:
        for one in sorted(outcomes, key=lambda one: one.index):
            click.echo(
                f"{one.index} {one.family}: {one.what[:300]!r} {one.kind}: {one.said[-300:]!r}"
            )
    _report(outcomes, again)
    sys.exit(any(outcome.kind == "failed" for outcome in outcomes))


def _run(
    seed: int, indices: Iterable[int], families: oracle.Families, workers: int
) -> list[oracle.Outcome]:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-cases-"))
    waiting, running, ended = [*indices][::-1], [], []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                index = waiting.pop()
                running.append(oracle.start(seed, index, folder / str(index), families))
            for one in [*running]:
                outcome = one.outcome()
                if outcome is not None:
                    running.remove(one)
                    ended.append(outcome)
                    if outcome.kind == "failed":
                        click.echo(
                            f"case {outcome.index} ({outcome.family}): {outcome.key}", err=True
                        )
            time.sleep(0.005)
    finally:
        for one in running:
            one.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return ended


def _report(outcomes: list[oracle.Outcome], again: str) -> None:
    failures = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda one: one.index):
        if outcome.kind == "failed":
            failures[outcome.key].append(outcome)
    for key, found in sorted(failures.items(), key=lambda item: -len(item[1])):
        click.echo(f"\n{len(found)} x {key!r}")
        for one in found[:_SHOWN]:
            click.echo(f"  {again} --case {one.index}\n    {one.what[:600]!r}")
        last = found[0].said.strip().splitlines()[-1:]
        click.echo(f"    {last[0][:600] if last else ''!r}")
    click.echo("")
    for family in FAMILIES:
        of = [one for one in outcomes if one.family == family]
        if of:
            kinds = Counter(one.kind for one in of)
            seconds = sum(one.seconds for one in of)
            words = ", ".join(f"{kinds[kind]} {kind}" for kind in ("done", "refused", "failed"))
            click.echo(f"{family:12} {len(of):5}: {words}; {seconds / len(of):.2f} CPU s each")
    failed = sum(map(len, failures.values()))
    click.echo(f"{len(outcomes)} cases, {failed} failed, in {len(failures)} groups")


if __name__ == "__main__":
    main()

"""No time limit is used up by compiling: what a search needs is there before its clock starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
import chaffinch
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.branch_and_bound import solve as branch_and_bound
from chaffinch.tasks.selection.alternatives.branch_and_bound import convex_bound as convex_search
from chaffinch.tasks.selection.alternatives.find import make_ready

def compiled():
    modules = [m for name, m in sys.modules.items() if ".selection.alternatives" in name]
    kernels = {id(k): k for m in modules for k in vars(m).values() if hasattr(k, "signatures")}
    return {(k.__name__, str(s)) for k in kernels.values() for s in k.signatures}

kind, search, aggregate, k, n_alternatives = sys.argv[1:]
asked = {"search": search, "aggregate": aggregate or None}
has_rules = kind in ("Univariate", "FCBF") and search == "simultaneous"
random = np.random.default_rng(0)
values, pairs = random.uniform(size=20), random.uniform(size=(20, 20)) / 4
quality = chaffinch.qualities.Univariate(values)
if kind != "Univariate":
    quality = getattr(chaffinch.qualities, kind)(values, pairs)
make_ready(quality, find_alternatives, has_rules=has_rules, **asked)
convex_search._BEFORE_PART, branch_and_bound._WORK_BETWEEN_LOOKS = 0, 1  # as in a long search
before = compiled()
sizes = {"k": int(k), "n_alternatives": int(n_alternatives)}
rules = [None]
if has_rules:
    group = {"features": [0, 1, 2], "at_least": 1}
    rules.append(chaffinch.Constraints(groups=[chaffinch.Group(**group)], max_sets_per_feature=3))
for constraints in rules:
    found = find_alternatives(
        quality, **sizes, tau=0.5, constraints=constraints, time_limit=60, **asked
    )
print(found.status, len(before) > 0, compiled() - before)
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    "asked",
    [
        ("Univariate", "sequential", "", 5, 3),
        ("MRMR", "sequential", "", 7, 3),
        ("Univariate", "simultaneous", "", 5, 3),
        ("MRMR", "simultaneous", "", 7, 3),
        ("FCBF", "simultaneous", "sum", 5, 4),
        ("FCBF", "simultaneous", "min", 5, 4),
        ("Univariate", "simultaneous", "sum", 6, 8),  # of so many places sets are annealed
        ("Univariate", "simultaneous", "min", 6, 8),
    ],
)
def test_a_search_finds_all_it_calls_compiled(asked) -> None:
    command = [sys.executable, "-c", PROGRAM, *map(str, asked)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "optimal True set()\n"

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
from chaffinch.tasks.selection.alternatives.made_ready import make_ready

def compiled():
    modules = [m for name, m in sys.modules.items() if ".selection.alternatives" in name]
    kernels = {id(k): k for m in modules for k in vars(m).values() if hasattr(k, "signatures")}
    return {(k.__name__, str(s)) for k in kernels.values() for s in k.signatures}

kind, search = sys.argv[1:]
random = np.random.default_rng(0)
values, pairs = random.uniform(size=20), random.uniform(size=(20, 20)) / 4
quality = chaffinch.Univariate(values) if kind == "Univariate" else chaffinch.MRMR(values, pairs)
make_ready(quality, find_alternatives, search=search)
before = compiled()
found = find_alternatives(quality, k=5, n_alternatives=3, tau=0.6, search=search, time_limit=60)
print(found.status, len(before) > 0, compiled() - before)
"""


@pytest.mark.parametrize("search", ["sequential", "simultaneous"])
@pytest.mark.parametrize("kind", ["Univariate", "MRMR"])
def test_a_search_finds_all_it_calls_compiled(kind, search) -> None:
    command = [sys.executable, "-c", PROGRAM, kind, search]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "optimal True set()\n"

"""The settings of each method of selection, for `chaffinch.select` and the flows.

>>> import chaffinch
>>> method = chaffinch.methods.Auto(n_features=20, validation="holdout")
>>> chaffinch.select("table.csv", "price", method=method)  # doctest: +SKIP
"""

from chaffinch.tasks.methods.afs_bm import AfsBm
from chaffinch.tasks.methods.auto import Auto
from chaffinch.tasks.methods.baselines.boruta import Boruta
from chaffinch.tasks.methods.baselines.particle_swarm import ParticleSwarm
from chaffinch.tasks.methods.baselines.rankings import Ranking
from chaffinch.tasks.methods.baselines.rfe import Rfe, Rfecv
from chaffinch.tasks.methods.baselines.sequential import Sequential
from chaffinch.tasks.methods.bmo import Flbmo, Gbmo
from chaffinch.tasks.methods.dfs import Dfs
from chaffinch.tasks.methods.pefs import Pefs

__all__ = [
    "AfsBm",
    "Auto",
    "Boruta",
    "Dfs",
    "Flbmo",
    "Gbmo",
    "ParticleSwarm",
    "Pefs",
    "Ranking",
    "Rfe",
    "Rfecv",
    "Sequential",
]

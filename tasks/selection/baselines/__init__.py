"""What people use today: rank all features once, or refit the model as they search.

A ranking is a function under `ranking.ranking` that gives a score per feature, shape (d,), higher
is better. `ranking.RankedPath` is the order in which features leave; of equal scores the lowest
index leaves first. The searches of `wrappers` know neither models nor rows: they ask for the
losses, or the importances, of a model fitted on the features of a mask.
"""

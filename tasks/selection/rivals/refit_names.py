"""What the searches that refit the model are called; imports nothing, as `names.py` does not."""

from typing import Literal

SequentialName = Literal["sequential_forward", "sequential_backward"]

# What each does, said after its name.
REFITTING: dict[str, str] = {
    "rfe": "recursive feature elimination: the model is refitted on the training rows, a share of "
    "the features with the least importance leaves, and so on",
    "rfecv": "recursive feature elimination that keeps the number of features for which "
    "cross-validation inside the training rows has the lowest loss",
    "sequential_forward": "the feature whose refit has the lowest loss on the mask-validation rows "
    "is added, and so on",
    "sequential_backward": "the feature without which the refit has the lowest loss on the "
    "mask-validation rows is removed, and so on",
    "robust_elimination": "backward elimination by models that have seen masked rows, one for each "
    "fold and trained anew when three quarters of the features have left; of features whose losses "
    "on the rows held out are within one standard error the least used one leaves",
    "particle_swarm": "a swarm of masks moves towards those whose refits have the lowest loss on "
    "the mask-validation rows",
}

# Whose score is the place in an order of leaving, and what is said of it.
BY_PLACE = ("rfe", "rfecv", "robust_elimination")
PLACE = "the place in the order of leaving; what outlasts all others has the highest"

# Which mask features of their models as well.
MASKING = ("robust_elimination",)

# Which always find the number of features without the model-validation rows.
SIZED = ("rfecv", "particle_swarm")

# Which judge by folds even where nothing is tuned.
FOLDED = ("rfecv", "robust_elimination")

# Which ask a fitted model for its importances, and so need one that has them.
BY_IMPORTANCE = ("rfe", "rfecv")

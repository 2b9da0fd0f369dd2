"""What settings are checked by as well: nothing here loads numpy."""

from __future__ import annotations

from typing import Literal

from chaffinch.errors import InputError

HIGHEST_ORDER = 8  # of a descent

# Grids of hyper-parameters: of a paper, its Table 1; "paper" is 20 draws of "paper:bmo".
Tuning = Literal["small", "paper", "paper:bmo", "paper:afs-bm", "none"]


def check_order_is_known(order: int) -> None:
    """Raise InputError if there is no polynomial of an order."""
    if order > HIGHEST_ORDER:
        raise InputError(
            f"order must be in 1..{HIGHEST_ORDER} but is {order}: with each order more the noise "
            "of the estimate grows fourfold, beyond what rows can make up for; take a lower one"
        )
    if order < 1:
        raise InputError(f"order must be in 1..{HIGHEST_ORDER} but is {order}; 4 is a good start")


def check_one_aim(n_features: object, penalty: object) -> None:
    """Raise InputError unless exactly one of the two is set."""
    if n_features is None and penalty is None:
        raise InputError(
            "one of n_features and penalty must be given but they are None and None; say how many "
            "features to choose, by n_features, or what each costs, by penalty"
        )
    if n_features is not None and penalty is not None:
        raise InputError(
            f"one of n_features and penalty must be given but they are {n_features} and {penalty}; "
            "leave out penalty to choose so many features, or n_features to choose those that are "
            "worth the penalty"
        )

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

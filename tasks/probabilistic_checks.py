"""What was handed to `chaffinch.probabilistic_selection`, checked before any work."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.files import remove_file, write_file
from chaffinch.storage.names import nearest, quoted_with_reasons
from chaffinch.storage.paths import file_to_write, path_from
from chaffinch.tasks.checking import CONSTANT
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.magnitudes import check_magnitude
from chaffinch.tasks.pefs_settings import MOST_UNITS
from chaffinch.tasks.selection.errors import in_one_line
from chaffinch.tasks.selection.masked_loss.devices import device_named
from chaffinch.tasks.selection.pefs.rows import Prepared
from chaffinch.tasks.selection.vocabulary import Rows, Schema

if TYPE_CHECKING:
    import torch


def check_values(rows: Rows, schema: Schema) -> None:
    """Refuse a target of which nothing can be learnt, and numbers that are too large; InputError.

    The limits are those of `chaffinch.select`.
    """
    if schema.n_classes == 1 or (rows.y == rows.y[0]).all():
        raise InputError(
            "y has the same value in every row, so there is nothing to learn: give rows with at "
            "least 2 different values"
        )
    if not schema.n_classes:
        check_magnitude("y", rows.y.astype(np.float64, copy=False))
    for name, n_categories, column in zip(
        schema.features, schema.n_categories, rows.X.T, strict=True
    ):
        if not n_categories and not np.isnan(column).all():
            check_magnitude(f"feature {name!r} of X", column, " or drop it")


def check_varying(prepared: Prepared, n_features: int | None) -> None:
    """Refuse rows of which no feature varies, or fewer than are asked for; InputError.

    As `chaffinch.select` does, which leaves out what does not vary.
    """
    varying = prepared.varying
    n_varying, names = int(varying.sum()), np.array(prepared.schema.features, dtype=object)
    left_out = "left out are " + quoted_with_reasons(dict.fromkeys(names[~varying], CONSTANT))
    if not n_varying:
        raise InputError(f"X has no feature: {left_out}; give columns that vary")
    if n_features is not None and n_features > n_varying:
        why = "" if varying.all() else f"; {left_out}"
        raise InputError(f"n_features must be in 1..{n_varying} but is {n_features}{why}")


def layers_asked_for(given: Any, *, beside_network: bool) -> tuple[int, ...]:
    """Return the units of each hidden layer; those of the paper if none are given.

    Raises
    ------
    InputError
        If they are no sequence, too many, or there is a network, which has layers of its own.
    """
    if given is None:
        return (200, 200, 200)
    if beside_network:
        raise InputError(
            "hidden_layer_sizes and network exclude each other, as a network has layers of its "
            f"own, but hidden_layer_sizes is {in_one_line(given)}; leave one of them out"
        )
    if isinstance(given, str | bytes | Mapping | Set) or not isinstance(given, Iterable):
        raise InputError(
            "hidden_layer_sizes must be a sequence of whole numbers, units of each hidden layer, "
            f"but is {in_one_line(given)}"
        )
    layers = tuple(given)
    if any(isinstance(units, Integral) and int(units) > MOST_UNITS for units in layers):
        raise InputError(
            f"hidden_layer_sizes must have at most {MOST_UNITS:,} units in each layer but is "
            f"{in_one_line(layers)}"
        )
    return layers


def device_asked_for(given: Any) -> torch.device | None:
    """Return one of torch's devices, or None for the CPU; InputError if torch sees no such one."""
    with said_to_the_user():
        return device_named(given)


def check_device_takes(
    device: torch.device | None, *, network: object, previous: Sequence[object]
) -> None:
    """Refuse what is searched with on the CPU alone, if there is another device; InputError."""
    for name, is_given in (("network", network is not None), ("previous", len(previous) > 0)):
        if device is not None and is_given:
            raise InputError(
                f"{name} is searched with on the CPU alone but device is {str(device)!r}; leave "
                "one of them out"
            )


def seed_asked_for(given: Any) -> int:
    """Return a seed; InputError if it is no whole number of at least 0."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < 0:
        raise InputError(f"seed must be a whole number of at least 0 but is {in_one_line(given)}")
    return int(given)


def path_asked_for(given: Any) -> Path | None:
    """Return where to keep a checkpoint, behind a symbolic link; InputError if that is no file."""
    if given is None:
        return None
    return file_to_write(path_from(given, "checkpoint"), "checkpoint")


def check_can_be_written(path: Path) -> None:
    """Try to write a file beside a checkpoint, and remove it; InputError if that cannot be."""
    trial = path.with_name(f".trial-{uuid.uuid4().hex}")
    try:
        write_file(trial, b"")
        remove_file(trial)
    except (InputError, StorageError) as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise InputError(
            f"checkpoint {path} cannot be written: {reason}; name another file"
        ) from error


def sets_asked_for(given: Any, names: Sequence[str]) -> list[list[int]]:
    """Return previous sets by the positions of their features, sorted.

    Raises
    ------
    InputError
        If they are no sets, or a feature is none of the table.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(
            f"previous must be a sequence of sets of features but is {in_one_line(given)}; "
            "give [[...]]"
        )
    return [_positions(one, names) for one in given]


def _positions(given: Any, names: Sequence[str]) -> list[int]:
    if isinstance(given, str):
        raise InputError(f"previous must hold sets of features but holds the text {given!r}")
    if not isinstance(given, Collection):
        raise InputError(
            f"previous must hold sets of features but one is {in_one_line(given)}; give [[...]]"
        )
    return sorted({_position(feature, names) for feature in given})


def _position(feature: Any, names: Sequence[str]) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise InputError(
                f"previous names {feature!r}, which is no feature of X{nearest(feature, names)}"
            )
        return names.index(feature)
    if isinstance(feature, bool) or not isinstance(feature, Integral):
        raise InputError(
            f"previous names {feature!r}, which is neither the name nor the position of a feature; "
            "of a mask give numpy.flatnonzero(mask)"
        )
    return int(feature)

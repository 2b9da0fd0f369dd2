"""What can be set of PEFS, which trains a network and the probability of each feature."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.selection.errors import in_one_line
from chaffinch.tasks.selection.pefs.memory import check_memory
from chaffinch.tasks.setting_fields import SIZES, Count, Settings, Sizes, setting

_PENALTIES = (0.01, 0.02, 0.04, 0.08, 0.15)  # about equal steps of a logarithm
MOST_UNITS = 65_536  # of a hidden layer
_DEVICE = r"^(cpu|cuda(:[0-9]+)?)$"


def _cpu_or_cuda(value: Any) -> Any:
    if not isinstance(value, str) or not re.search(_DEVICE, value):
        raise ValueError(
            f"device must be cpu, cuda, or cuda:0, cuda:1, ... but is {in_one_line(value)}"
        )
    return value


Device = Annotated[str, BeforeValidator(_cpu_or_cuda), Field(pattern=_DEVICE)]


class Pefs(Settings):
    """Probabilistic embedded feature selection: a network and the probability of each feature.

    Without penalties and without a number of features, a grid of penalties is swept.
    """

    model_config = ConfigDict(title="PEFS")

    kind: Literal["pefs"] = setting(
        "pefs",
        0,
        "Kind",
        "Probabilistic embedded feature selection trains a network of its own and, at the same "
        "time, the probability of each feature, by which of two random masks has the lower loss.",
    )
    penalties: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1)] | (
        None
    ) = setting(
        None,
        1,
        "Penalties",
        "A feature stays if masks that have it win by more than this share of the contests. Each "
        "penalty is a search of its own; the one whose mask does best on the model-validation "
        "rows wins. By default 0.01, 0.02, 0.04, 0.08 and 0.15, unless there are sizes.",
    )
    n_features: Sizes | None = setting(
        None,
        2,
        "Sizes",
        f"{SIZES.description} The penalty is steered to each, in place of penalties.",
    )
    seeds: Count = setting(
        1, 3, "Seeds", "Searches for each penalty or size; their probabilities are averaged."
    )
    samples: Annotated[int, Field(ge=2)] = setting(
        2, 4, "Samples", "Masks that are compared on each mini-batch."
    )
    hidden_layer_sizes: tuple[Annotated[int, Field(ge=1, le=MOST_UNITS)], ...] = setting(
        (200, 200, 200), 5, "Hidden layers", "Units of each hidden layer.", min_length=1
    )
    batch_size: Annotated[int, Field(ge=2)] | None = setting(
        None,
        6,
        "Batch size",
        "Rows of a mini-batch. By default 128, or all training rows if there are fewer.",
    )
    most_sweeps: Count = setting(
        60,
        7,
        "Most sweeps",
        "A search ends after so many times as many iterations as there are features (of fewer "
        "than 128 features, 128), whether or not its probabilities have settled.",
    )
    device: Device = setting(
        "cpu",
        8,
        "Device",
        "Where the networks are trained: cpu, the searches shared out to the workers; or cuda, or "
        "cuda:1, ..., all searches at once on that GPU, by the process of the run.",
    )

    def check_device(self) -> None:
        """Refuse a device that torch does not see in this process; InputError."""
        from chaffinch.tasks.selection.masked_loss.devices import device_named

        with said_to_the_user():
            device_named(self.device)

    def check_memory(self) -> None:
        """Refuse hidden layers that do not fit into the memory that is free here; InputError.

        They are counted as if they had one input and one output, and mini-batches were as small as
        may be: the search itself, which knows the table, refuses what is too much with it.
        """
        with said_to_the_user():
            check_memory((1, *self.hidden_layer_sizes, 1), n_rows=2 * self.samples)

    def check_batch(self, n_rows: int) -> None:
        """Refuse a mini-batch of more rows than the `n_rows` to train on; InputError."""
        if self.batch_size is not None and self.batch_size > n_rows:
            raise InputError(
                f"batch_size must be at most {n_rows}, the number of training rows, but is "
                f"{self.batch_size}; leave it out, or give more rows"
            )

    @field_validator("penalties")
    @classmethod
    def _in_one_order(cls, given: tuple[float, ...] | None) -> tuple[float, ...] | None:
        """Sort: the same in another order are no other settings."""
        return None if given is None else tuple(sorted(set(given)))

    @model_validator(mode="before")
    @classmethod
    def _penalties_unless_sizes(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        is_told = any(values.get(name) is not None for name in ("penalties", "n_features"))
        return values if is_told else {**values, "penalties": _PENALTIES}

    @model_validator(mode="after")
    def _penalties_or_sizes(self) -> "Pefs":
        if self.penalties is not None and self.n_features is not None:
            penalties, sizes = (
                ", ".join(f"{one:g}" for one in given)
                for given in (self.penalties, self.n_features)
            )
            raise ValueError(
                f"penalties and n_features exclude each other but are {penalties} and {sizes}; "
                "give one of them"
            )
        return self

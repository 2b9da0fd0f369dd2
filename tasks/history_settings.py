"""What can be made of the past of a series: lags, and means and deviations of the rows before."""

from collections.abc import Collection, Iterable
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from chaffinch.storage.errors import InputError
from chaffinch.tasks.column_settings import ColumnSettings
from chaffinch.tasks.setting_fields import Count, Settings, setting


class HistorySettings(Settings):
    """Features made of earlier rows, strictly of earlier ones, series by series."""

    model_config = ConfigDict(title="History")

    lags: tuple[Count, ...] = setting(
        (),
        0,
        "Lags",
        "How many rows back a value is taken from, such as 1,2,3,7,14,28; rows are counted in time "
        "order, within a series.",
    )
    rolling: tuple[Annotated[int, Field(ge=2)], ...] = setting(
        (),
        1,
        "Rolling windows",
        "Numbers of rows before the present one that a mean and a deviation are taken of, such as "
        "4,7,28.",
    )
    columns: tuple[str, ...] = setting(
        (), 2, "Columns", "What they are made of: columns of numbers. By default the target."
    )
    series: str | None = setting(
        None, 3, "Series", "Column that tells one series from another. By default there is one."
    )
    scale: Literal["none", "series"] = setting(
        "none",
        4,
        "Scale",
        "series: the target, and the columns that history is made of, less the mean that each "
        "series has in the training part, and divided by how far it reaches from that there; "
        "losses and predictions are then on that scale.",
    )

    @field_validator("lags", "rolling", "columns")
    @classmethod
    def _in_one_order(cls, given: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """Sort: the same in another order are no other settings."""
        return tuple(sorted(set(given)))

    @model_validator(mode="after")
    def _makes_something(self) -> "HistorySettings":
        if not self.lags and not self.rolling:
            raise ValueError("history makes no feature; give lags, or rolling windows")
        if self.series in self.columns:
            raise ValueError(
                f"column {self.series!r} is said to be both series and one that history is made "
                "of; name it once"
            )
        return self


def roles_beside_scale(
    history: HistorySettings, columns: ColumnSettings
) -> tuple[tuple[str, str | None], ...]:
    """Return what a column that is brought to the scale of its series cannot be as well.

    Parameters
    ----------
    history : HistorySettings
        Names the series.
    columns : ColumnSettings
        Name what else there is.

    Returns
    -------
    tuple of (str, str or None)
        Each role, such as ``"time"``, and the column that is named for it, if any.
    """
    categorical = (("categorical", name) for name in columns.categorical)
    roles = (("series", history.series), ("time", columns.time), ("weight", columns.weight))
    return (*roles, *categorical)


def refuse_scaled_roles(scaled: Collection[str], roles: Iterable[tuple[str, str | None]]) -> None:
    """Refuse columns that are to be brought to the scale of their series and are something else.

    Parameters
    ----------
    scaled : collection of str
        Columns that are to be scaled.
    roles : iterable of (str, str or None)
        What else there is, such as ``"time"``, and the column that is named for it, if any.

    Raises
    ------
    InputError
        Naming the first such column.
    """
    for role, name in roles:
        if name in scaled:
            raise InputError(
                f"column {name!r} is said to be both {role} and one that is brought to the scale "
                "of its series; name it once"
            )

"""Settings of columns, and of features made of earlier rows: lags and rolling windows."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from chaffinch.errors import short_repr
from chaffinch.tasks.settings.base import Count, InOrder, Name, Names, Settings, setting

ROW_ROLES = ("weight", "group", "time", "split")  # of columns that describe rows


def _as_text(value: Any) -> Any:
    """Take a number or a timedelta for its text."""
    return value if value is None or isinstance(value, bool) else str(value)


class ColumnSettings(Settings):
    """What the columns of the table are for."""

    keep: Names = setting((), "Features that are never removed.")
    drop: Names = setting((), "Columns that are left out altogether.")
    categorical: Names = setting((), "Columns of numbers or dates that are categories.")
    numeric: Names = setting(
        (), "Columns that must be numbers, leading zeros or not; text is an error."
    )
    weight: Name | None = setting(None, "Column of sample weights, above 0.")
    group: Name | None = setting(None, "Column of groups; no group is split over two parts.")
    time: Name | None = setting(None, "Column of time order; later parts are strictly later rows.")
    split: Name | None = setting(
        None,
        "Column with your own parts: train, test, and optionally validation. The verdict comes "
        "from the test rows.",
    )
    embargo: Annotated[str | float | None, BeforeValidator(_as_text)] = setting(
        None,
        "Time that must lie between rows to fit on and later rows that judge, such as 7 days, or a "
        "number in the unit of the time column; rows in between are left out.",
    )
    drop_leaks: bool = setting(
        False,
        "Leave out features that predict the target, or one of its classes, without the others.",
    )
    drop_rows_without_target: bool = setting(
        False,
        "Leave out rows whose target is missing; the contract says how many. By default they are "
        "refused.",
        title="Drop rows without a target",
    )

    dates: Literal["none", "parts"] = setting(
        "none",
        "What becomes of columns of dates: parts makes features of them, namely year, month, day "
        "of week and hour where they vary, and sine and cosine of the cyclical ones. By default "
        "they are left out.",
    )

    @property
    def named(self) -> list[str]:
        """Every column that is named for something, each once."""
        roles = [name for role in ROW_ROLES if (name := getattr(self, role))]
        lists = (self.keep, self.drop, self.categorical, self.numeric)
        return list(dict.fromkeys([*(name for names in lists for name in names), *roles]))

    @model_validator(mode="after")
    def _one_role_each(self) -> "ColumnSettings":
        roles: dict[str, str] = {}
        named = [("keep", n) for n in self.keep] + [("drop", n) for n in self.drop]
        named += [(r, n) for r in ROW_ROLES if (n := getattr(self, r))]
        for role, name in named:
            if roles.setdefault(name, role) != role:
                raise ValueError(
                    f"column {name!r} is named for both {roles[name]} and {role}; name it once"
                )
        if self.group and self.time:
            raise ValueError(
                f"group {self.group!r} and time {self.time!r} cannot both order the parts; "
                "name one of them"
            )
        both = sorted(set(self.categorical) & set(self.numeric))
        if both:
            raise ValueError(
                f"column {both[0]!r} is named both categorical and numeric; name it once"
            )
        return self


class HistorySettings(Settings):
    """Features made of earlier rows, strictly of earlier ones, series by series."""

    model_config = ConfigDict(title="History")

    lags: Annotated[tuple[Count, ...], InOrder] = setting(
        (),
        "How many rows back a value is taken from, such as 1,2,3,7,14,28; rows are counted in time "
        "order, within a series.",
    )
    rolling: Annotated[tuple[Annotated[int, Field(ge=2)], ...], InOrder] = setting(
        (),
        "Numbers of rows before the present one that a mean and a deviation are taken of, such as "
        "4,7,28.",
        title="Rolling windows",
    )
    columns: Names = setting(
        (), "What they are made of: columns of numbers. By default the target."
    )
    series: Name | None = setting(
        None, "Column that names the series of a row. By default there is one."
    )

    @model_validator(mode="before")
    @classmethod
    def _without_scale(cls, values: Any) -> Any:
        """Accept the setting `scale` of earlier releases if nothing is scaled."""
        if not isinstance(values, dict) or "scale" not in values:
            return values
        if values["scale"] != "none":
            raise ValueError(
                f"series are not scaled any more but scale is {short_repr(values['scale'])}; scale "
                "the columns yourself, leave scale out and select again"
            )
        return {name: value for name, value in values.items() if name != "scale"}

    @model_validator(mode="after")
    def _makes_something(self) -> "HistorySettings":
        if not self.lags and not self.rolling:
            raise ValueError("history makes no feature; give lags, or rolling windows")
        if self.series in self.columns:
            raise ValueError(
                f"column {self.series!r} is named both as series and as one that history is made "
                "of; name it once"
            )
        return self

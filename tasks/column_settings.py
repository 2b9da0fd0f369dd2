"""What a person can say that the columns of a table are for."""

from pydantic import field_validator, model_validator

from chaffinch.tasks.setting_fields import Settings, setting


class ColumnSettings(Settings):
    """What the columns of the table are for."""

    keep: tuple[str, ...] = setting((), 0, "Keep", "Features that are never removed.")
    drop: tuple[str, ...] = setting((), 1, "Drop", "Columns that are left out altogether.")
    categorical: tuple[str, ...] = setting(
        (), 2, "Categorical", "Columns of numbers that are categories, kept as they are written."
    )
    numeric: tuple[str, ...] = setting(
        (), 3, "Numeric", "Columns that must be numbers, leading zeros or not; text is an error."
    )
    weight: str | None = setting(None, 4, "Weight", "Column of sample weights, above 0.")
    group: str | None = setting(
        None, 5, "Group", "Column of groups; no group is split over two parts."
    )
    time: str | None = setting(
        None, 6, "Time", "Column of time order; later parts are strictly later rows."
    )

    @property
    def named(self) -> list[str]:
        """Every column that is named for something, each once."""
        roles = filter(None, (self.weight, self.group, self.time))
        lists = (self.keep, self.drop, self.categorical, self.numeric)
        return list(dict.fromkeys([*(name for names in lists for name in names), *roles]))

    @field_validator("keep", "drop", "categorical", "numeric")
    @classmethod
    def _in_one_order(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Sort: the same columns in another order are no other settings."""
        return tuple(sorted(set(names)))

    @model_validator(mode="after")
    def _one_role_each(self) -> "ColumnSettings":
        roles: dict[str, str] = {}
        named = [("keep", n) for n in self.keep] + [("drop", n) for n in self.drop]
        named += [(r, n) for r in ("weight", "group", "time") if (n := getattr(self, r))]
        for role, name in named:
            if roles.setdefault(name, role) != role:
                raise ValueError(
                    f"column {name!r} is said to be both {roles[name]} and {role}; name it once"
                )
        if self.group and self.time:
            raise ValueError(
                f"group {self.group!r} and time {self.time!r} cannot both order the parts; "
                "name one of them"
            )
        both = sorted(set(self.categorical) & set(self.numeric))
        if both:
            raise ValueError(
                f"column {both[0]!r} is said to be both categorical and numeric; name it once"
            )
        return self

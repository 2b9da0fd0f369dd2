"""Certified sets in words and tables: for the report, the terminal and notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from chaffinch.storage.column_names import quoted
from chaffinch.tasks.reporting.charts import held_by_sets
from chaffinch.tasks.reporting.section import Block, Kind, Table, folded, note, numbers, paragraph
from chaffinch.tasks.reporting.text import (
    NOTHING,
    bound_of_share,
    counted,
    listed,
    number,
    rounded_share,
    share,
)
from chaffinch.tasks.statistics.verdict import part_in_words, too_few_units

NearCopies = Mapping[str, Sequence[str]]  # by the feature that stands for them

_MOST_TIMES = 100  # more rows by a larger factor are no remedy


def certified_blocks(
    certified: Mapping[str, Any], part: str, near_copies: NearCopies
) -> Iterator[Block]:
    """Return the part of the report about certified sets; `part` are the rows that judge."""
    yield paragraph(f"{certificate(certified)} {how_certified(certified, part)}")
    if remedy := what_would_help(certified):
        yield note(remedy)
    if certified["sets"]:
        yield table_of_certified_sets(certified, part)
        features = [member["features"] for member in certified["sets"]]
        by_name = dict(zip(names_of_sets(certified), features, strict=True))
        yield folded(marks_of_sets("Features of each set here", by_name, {}))
        if columns := what_may_be_lost(certified, near_copies):
            yield note(columns)


def certificate(certified: Mapping[str, Any]) -> str:
    """Return in a sentence which sets are shown to be within the tolerance, or that none are."""
    tolerated, n_sets = share(certified["tolerance"]), len(certified["sets"])
    if not certified["sets"]:
        return "Not certified: there are not so many sets that differ so much."
    apart = f"{counted(n_sets, 'set')}, any two with {_in_common(certified)},"
    if certified["is_shown"]:
        with_chosen = " the chosen one among them," if certified["has_chosen"] else ""
        return (
            f"Certified: {apart}{with_chosen} that each lose at most {tolerated} of what all "
            f"features explain, all together with {certified['confidence']:.0%} confidence."
        )
    return (
        f"Not certified: {apart} are not all shown to lose at most {tolerated} of what all "
        f"features explain: {_why_not(certified)}."
    )


def _in_common(certified: Mapping[str, Any]) -> str:
    sets, tau = certified["sets"], number(certified["tau"])
    most = max(_most_in_common(sets, place) for place in range(len(sets)))
    common = f"at most {counted(most, 'feature')}" if most else "nothing"
    return f"{common} in common (tau {tau})"


def _worst(certified: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    """Return the set with the highest bound and its name; None where bounds are not known."""
    sets, names = certified["sets"], names_of_sets(certified)
    if any(member["share_lost_at_most"] is None for member in sets):
        return "", None
    place = max(range(len(sets)), key=lambda i: sets[i]["share_lost_at_most"])
    name = "the chosen set" if names[place] == "chosen" else f"set {names[place]}"
    return name, sets[place]


def _why_not(certified: Mapping[str, Any]) -> str:
    """Return what is known of the set that keeps the others from being certified."""
    if few := too_few_units(certified["units"]):
        return f"{few[:1].lower()}{few[1:]}"
    if leaks := certified["leaks"]:
        alone = "which alone predicts" if len(leaks) == 1 else "which alone predict"
        return f"there are sets with {quoted(leaks)}, {alone} the target"
    name, worst = _worst(certified)
    if worst is None or worst["share_lost_at_most"] <= certified["tolerance"]:
        return "all features are not shown to explain more than a constant"
    bound = bound_of_share(worst["share_lost_at_most"])
    return f"{name} loses {rounded_share(worst['share_lost'])}, and at most {bound}"


def names_of_sets(certified: Mapping[str, Any]) -> list[str]:
    """Return the names of the sets, from 1; the chosen one has none."""
    first = 0 if certified["has_chosen"] else 1
    return [number(first + i) if first + i else "chosen" for i in range(len(certified["sets"]))]


def what_would_help(certified: Mapping[str, Any]) -> str:
    """Return in a sentence what may lead to certified sets; empty where some are."""
    if certified["is_shown"]:
        return ""
    if not certified["sets"]:
        return "Fewer alternatives, or another size (certified_size), may make room."
    if certified["leaks"]:
        return "Drop what is not known before the target, and put what is on the keep list."
    remedies = ["larger sets (certified_size)", "fewer alternatives", "another quality"]
    worst, tolerated = _worst(certified)[1], certified["tolerance"]
    bound = 0.0 if worst is None else worst["share_lost_at_most"]
    if worst is not None and bound > tolerated and not too_few_units(certified["units"]):
        remedies.insert(0, f"a tolerance of {bound_of_share(bound)}")
        lost = worst["share_lost"]
        # the distance of the bound falls with the square root of the rows
        if lost < tolerated:
            times = ((bound - lost) / (tolerated - lost)) ** 2
            n_rows = sum(certified["rows"].values())
            if 1 < times < _MOST_TIMES:
                remedies.append(f"about {float(f'{n_rows * times:.2g}'):,.0f} rows")
    else:
        remedies.append("more rows")
    text = f"{', '.join(remedies[:-1])} or {remedies[-1]}"
    return f"{text[0].upper()}{text[1:]} may help."


def how_certified(certified: Mapping[str, Any], part: str) -> str:
    """Return which rows found the sets, and which certify them."""
    finding, certifying = (number(certified["rows"][by]) for by in ("finding", "certifying"))
    which = f"{finding} rows found them, and {certifying} {part_in_words(part)} rows"
    tested = [f"{number(claim['tau'])}" for claim in certified["tested"]]
    order = f", tested in this order of tau: {listed(tested)}" if len(tested) > 1 else ""
    return f"{which} that had no part in it judge them{order}."


def what_may_be_lost(certified: Mapping[str, Any], near_copies: NearCopies) -> str:
    """Return which columns one of the certified sets does without; empty if none is certified.

    A near copy can take the place of a column that all sets have.
    """
    if not certified["is_shown"] or len(certified["sets"]) == 1:
        return ""
    sets = [member["features"] for member in certified["sets"]]
    common = [name for name in sets[0] if all(name in features for features in sets)]
    any_other = "Each column can be lost: one of these sets does without it"
    if not common:
        return f"{any_other}."
    copied = {name for stands, copies in near_copies.items() for name in (stands, *copies)}
    fixed = [name for name in common if name not in copied]
    replaced = [name for name in common if name in copied]
    text = f"{any_other}, but for {_all_of(fixed)}, which all have" if fixed else any_other
    if replaced:
        its_place = "its place" if len(replaced) == 1 else "the place of each"
        text += f"; a near copy can take {its_place}: {_all_of(replaced)}"
    return f"{text}."


def _all_of(names: Sequence[str]) -> str:
    return quoted(names, limit=len(names))


def table_of_certified_sets(certified: Mapping[str, Any], part: str) -> Table:
    """Return the sets with loss, share lost and its bound; all features come first."""
    rows = [("all features", number(certified["all_features_loss"]), *[number(None)] * 3)]
    names = names_of_sets(certified)
    for place, (name, member) in enumerate(zip(names, certified["sets"], strict=True)):
        rows.append(
            (
                name,
                number(member["loss"]),
                rounded_share(member["share_lost"]),
                bound_of_share(member["share_lost_at_most"]),
                number(_most_in_common(certified["sets"], place)),
            )
        )
    part = part_in_words(part).capitalize()
    columns: dict[str, Kind] = {"Set": "text"}
    columns |= numbers(f"{part} loss", "Share lost", "At most", "Most features in common")
    return Table("Certified sets" if certified["is_shown"] else "Sets tested", columns, rows, 0)


def _most_in_common(sets: Sequence[Mapping[str, Any]], place: int) -> int:
    features = {*sets[place]["features"]}
    others = [member["features"] for i, member in enumerate(sets) if i != place]
    return max((len(features.intersection(other)) for other in others), default=0)


def marks_of_sets(
    caption: str, sets: Mapping[str, Collection[str]], near_copies: NearCopies
) -> Table:
    """Return which sets, by their names, have each feature; what most have comes first."""
    rows = [
        (name, *("\N{BLACK CIRCLE}" if has else "" for has in held))
        for name, held in held_by_sets(sets).items()
    ]
    columns: dict[str, Kind] = {"Feature": "name", **dict.fromkeys(sets, "mark")}
    if near_copies:
        columns["Near copies"] = "name"
        rows = [(*row, listed(near_copies.get(row[0], [NOTHING]))) for row in rows]
    return Table(caption, columns, rows, file="alternatives.json")


def lines_of_certified_sets(
    certified: Mapping[str, Any],
    part: str,
    loss_name: str,
    n_names: int,
    near_copies: NearCopies,
) -> Iterator[str]:
    """Yield what the terminal says of certified sets; of a set the first names."""
    yield certificate(certified)
    for text in (how_certified(certified, part), what_would_help(certified)):
        if text:
            yield f"  {text}"
    for name, member in zip(names_of_sets(certified), certified["sets"], strict=True):
        lost = rounded_share(member["share_lost"])
        at_most = bound_of_share(member["share_lost_at_most"])
        loss = f"{part_in_words(part)} {loss_name} {member['loss']:.4g}"
        yield f"  {name}. {loss}, loses {lost}, at most {at_most}"
        yield f"     {listed(member['features'], n_names)}"
    if columns := what_may_be_lost(certified, near_copies):
        yield f"  {columns}"

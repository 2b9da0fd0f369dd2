"""The former run that a reselection starts from: its contract, and the settings derived from it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from chaffinch.errors import InputError, LaterReleaseError, StorageError, short_repr
from chaffinch.storage.files import check_regular, parse_json, path_from
from chaffinch.storage.runs.promotions import Promotion, Promotions
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources.data_set_name import name_of_table
from chaffinch.storage.sources.files import reading
from chaffinch.storage.sources.formats.csv import MISSING
from chaffinch.tasks.pipeline.run import may_be_own_estimator
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE
from chaffinch.tasks.results.contract import FeatureContract
from chaffinch.tasks.results.result import SelectionResult, load_result, load_run
from chaffinch.tasks.settings.columns import ROW_ROLES
from chaffinch.tasks.settings.method import RESELECT, method_of
from chaffinch.tasks.settings.reselection import ReselectionSettings
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings

STORE = "chaffinch-store"  # where names are looked up by default
AnyRun = SelectionResult | str | Path  # a result, the name of a run, its folder or selection.json
_GIVE = f"give a run's name, its folder or its {CONTRACT_FILE}"


@dataclass(frozen=True)
class Former:
    """A former run; for a contract without its run, `run` is empty and `folder` None."""

    run: str
    contract: FeatureContract
    folder: Path | None = None
    promoted_as: str | None = None  # the name of a promotion, if it was read by that

    @property
    def in_store(self) -> Run:
        """The run with its files; InputError for a contract without them."""
        if self.folder is None:
            raise InputError(
                "this needs a run in a store but is given a contract, or a result without a store; "
                "name a run, or select with store=..."
            )
        return Run(self.folder)

    def data_set(self, name: str | None) -> str:
        """Return `name`, the name under which the run was promoted, or its table's."""
        if known := name or self.promoted_as:
            return known
        remedy = "--name orders or name='orders'"
        if self.folder is None:
            raise InputError(
                f"a contract alone has no name of a data set; give one, as in {remedy}"
            )
        return name_of_table(self.in_store.description["source"], remedy)


def read_former(run: AnyRun, store: str | Path) -> Former:
    if isinstance(run, SelectionResult):
        return Former(run.run, run.contract, run.folder)
    if not isinstance(run, str | PathLike):
        raise InputError(
            f"a former run must be a result, a name or a path but is {short_repr(run)}; {_GIVE}"
        )
    path = path_from(run, "a run", _GIVE)
    check_regular(path, "a run", _GIVE)
    home = path.absolute()
    is_path = isinstance(run, PathLike) or os.sep in run or path.suffix == ".json"
    if is_path and not path.exists():
        raise InputError(f"there is no run and no selection.json at {path}; {_GIVE}")
    if path.is_file():
        return Former("", _read_contract(path))
    if Run(home).exists:
        result = load_result(Store.find(Store.of(home).path).existing(home.name))
    else:
        try:  # a name of the store may be that of a folder here as well, such as of a data set
            found = Store.find(store)
            if (promotion := found.in_use(str(run))) is not None:
                # a job reads it as it was promoted, and not a changed file of its run
                contract = read_contract(found.promotions, promotion)
                kept = found.named(promotion.run)
                folder = kept.folder if kept.exists else None
                return Former(promotion.run, contract, folder, promoted_as=str(run))
            result = load_run(str(run), store=store)
        except (InputError, StorageError):
            if path.is_dir():
                raise InputError(f"folder {run} is no run; {_GIVE}") from None
            raise
    return Former(result.run, result.contract, result.folder)


def read_contract(histories: Promotions, promotion: Promotion) -> FeatureContract:
    return FeatureContract.read(histories.contract(promotion), histories.path(promotion))


def _read_contract(path: Path) -> FeatureContract:
    with reading(path):
        content = path.read_bytes()
    try:
        with suppress(RecursionError):
            json.loads(content)
    except ValueError as error:
        raise InputError(f"{path.name} is no feature contract (not JSON); {_GIVE}") from error
    try:
        parse_json(content, path, {})
        return FeatureContract.parse(content)
    except LaterReleaseError:
        raise
    except (StorageError, ValueError) as error:
        # the remedy after it is for a store
        reason = str(error).rpartition("; ")[0] if isinstance(error, StorageError) else error
        raise InputError(f"{path.name} is no feature contract ({reason}); {_GIVE}") from error


def load_contract(
    given: SelectionResult | str | Path, *, store: str | Path = STORE
) -> FeatureContract:
    """Return the feature contract of a finished run.

    Parameters
    ----------
    given : SelectionResult, str or Path
        A result, the name of a run in the store, its folder, or a ``selection.json``.
    store : path or address
        The store of named runs.

    Returns
    -------
    FeatureContract

    Raises
    ------
    InputError
        If there is no such run, it is not finished, or the file is no feature contract.
    StorageError
        If the run is damaged, or a later release wrote it.

    Examples
    --------
    >>> contract = chaffinch.load_contract("selection.json")  # doctest: +SKIP
    >>> contract.validate("newer.parquet")  # doctest: +SKIP
    >>> pandas.read_parquet("newer.parquet", columns=contract.columns)  # doctest: +SKIP
    """
    return read_former(given, store).contract


def settings_of(
    former: Former, changes: ReselectionSettings, model: ModelSettings | None = None
) -> SelectionSettings:
    """Return the settings of a reselection: those of the former run with the requested changes."""
    before = SelectionSettings(**former.contract.settings)
    kinds = former.contract.types
    categories = {name for name, kind in kinds.items() if kind == "category"}
    categorical = {*before.columns.categorical, *categories}
    is_regression = former.contract.target.task == "regression"
    _check_roles(before, changes, categorical if is_regression else set())
    if model is None:
        model = _model_of(before.model, changes.model)
    target = before.target if changes.target is None else changes.target
    is_same, history = target == before.target, before.history
    if history is not None and not history.columns and not is_same:
        # lag features of the former target are still made of it
        history = history.model_copy(update={"columns": (before.target,)})
    columns = before.columns.model_dump()
    columns["categorical"] = categorical
    if changes.drop is not None:
        columns["drop"] = changes.drop
    for kind in ("categorical", "numeric"):  # dropped columns have no kind
        columns[kind] = set(columns[kind]) - set(columns["drop"])
    left_out = (column.name for column in former.contract.dropped)
    known = {*former.contract.candidates, *left_out, before.target}
    method = {
        "kind": RESELECT,
        "former": kinds,
        "known": tuple(known.difference(kinds)),
        "former_run": former.run,
        "gain": changes.gain,
        "slack": changes.slack,
        "rejections": changes.rejections,
        "former_classes": tuple(former.contract.target.classes) if is_same else (),
        "former_target": former.contract.target.type if is_same and is_regression else "",
        "former_rows": former.contract.dataset.hash,
        "former_words": _words(former.contract),
        "former_drop": before.columns.drop,
    }
    return SelectionSettings(
        **{
            **before.model_dump(),
            "target": target,
            "task": former.contract.target.task,
            "method": method_of(method),
            "model": model,
            "history": history,
            "columns": columns,
            "constraints": changes.constraints or before.constraints,
            "alternatives": None,
            "seed": before.seed if changes.seed is None else changes.seed,
        }
    )


def _words(contract: FeatureContract) -> dict[str, tuple[str, ...]]:
    """Return the categories of each feature that delimited text reads as missing."""
    words = {n: tuple(c for c in of if c in MISSING) for n, of in contract.categories.items()}
    return {name: of for name, of in words.items() if of}


def _check_roles(
    before: SelectionSettings, changes: ReselectionSettings, no_target: Collection[str]
) -> None:
    """Raise InputError if a column to drop or predict has another role in the former run."""
    columns = before.columns
    roles = dict.fromkeys(columns.keep, "one to keep")
    for role in ROW_ROLES:
        if name := getattr(columns, role):
            roles[name] = f"its {role}"
    not_dropped = roles | ({before.target: "its target"} if changes.target is None else {})
    not_target = roles | dict.fromkeys(columns.drop if changes.drop is None else (), "one to drop")
    not_target |= dict.fromkeys(no_target, "categorical")
    target = () if changes.target is None else (changes.target,)
    for to_be, names, otherwise in (
        ("dropped", changes.drop or (), not_dropped),
        ("the target", target, not_target),
    ):
        for name in names:
            if name in otherwise:
                raise InputError(
                    f"column {name!r} cannot be {to_be}, for the former run names it as "
                    f"{otherwise[name]}; choose another, or select again without a former run"
                )


def _model_of(before: ModelSettings, name: str | None) -> ModelSettings:
    """Return the model's settings; InputError if it may have been a user's estimator."""
    if name is not None:
        return before if name == before.name else ModelSettings(name=name)
    if may_be_own_estimator(before):
        raise InputError(
            f"the former run's model {before.name} may have been an estimator of your own, which "
            "a contract does not hold; give model, the estimator or its name"
        )
    return before

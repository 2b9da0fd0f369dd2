"""The run that is exported: its contract, and its folder if there is any."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaffinch.errors import InputError
from chaffinch.storage.runs.store import Run
from chaffinch.storage.sources.data_set_name import name_of_table
from chaffinch.tasks.results.contract import FeatureContract
from chaffinch.tasks.results.previous_run import read_former
from chaffinch.tasks.results.result import SelectionResult

# Adapters take a result, the name of a run, its folder or its selection.json.
Exportable = SelectionResult | str | Path
STORE = "chaffinch-store"


@dataclass(frozen=True)
class Exported:
    """A run, or a contract without its run, of which `run` is empty and `folder` None."""

    run: str
    contract: FeatureContract
    folder: Path | None
    promoted_as: str | None = None  # the name under which it was promoted

    @classmethod
    def of(cls, run: Exportable, store: str | Path) -> Exported:
        former = read_former(run, store)
        promoted_as = None
        if isinstance(run, str) and former.folder is not None:
            is_own = Path(run).absolute().name == former.run
            promoted_as = None if is_own else run
        return cls(former.run, former.contract, former.folder, promoted_as)

    @property
    def in_store(self) -> Run:
        """The run with its files; InputError for a contract without them."""
        if self.folder is None:
            raise InputError(
                "this needs a run in a store but is given a contract, or a result without a store; "
                "name a run, or select with store=..."
            )
        return Run(self.folder)

    def named(self, name: str | None, remedy: str) -> str:
        """Return `name`, the name under which the run was promoted, or its table's."""
        for known in (name, self.promoted_as):
            if known is not None:
                return known
        if self.folder is None:
            raise InputError(
                f"a contract alone has no name of a data set; give one, as in {remedy}"
            )
        return name_of_table(self.in_store.description["source"], remedy)

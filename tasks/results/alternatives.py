"""The alternatives of a run, scored: a dictionary that shows itself as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from chaffinch.tasks.reporting.alternatives import summarise_alternatives
from chaffinch.tasks.reporting.certified_sets import certificate, names_of_sets
from chaffinch.tasks.reporting.text import NOTHING, listed
from chaffinch.tasks.results.notebook import as_html

if TYPE_CHECKING:
    import pandas as pd


_OF_CERTIFIED = ["loss", "share_lost", "share_lost_at_most", "features"]


class ScoredAlternatives(dict[str, Any]):
    """The content of ``alternatives.json``, a dictionary that shows itself as a table."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per set, the chosen one first.

        Returns
        -------
        pandas.DataFrame
            ``set`` (``"chosen"``, or a number from 1), ``quality``, ``status``, the ``loss`` on the
            rows that judge, its ``difference`` to that of the chosen set, the ends ``low`` and
            ``high`` of the interval of the difference, and ``features``, a list. The chosen set has
            no status and no difference.
        """
        import pandas as pd

        rows = []
        for place, scored in enumerate([self["chosen"], *self["sets"]]):
            low, high = scored.get("interval") or (None, None)
            rows.append(
                {
                    "set": place or "chosen",
                    "quality": scored["quality"],
                    "status": scored.get("status", math.nan),
                    "loss": scored.get("test_loss"),  # of earlier releases the chosen set has none
                    "difference": scored.get("difference"),
                    "low": low,
                    "high": high,
                    "features": scored["features"],
                }
            )
        numbers = ["quality", "loss", "difference", "low", "high"]
        return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))

    def __repr__(self) -> str:
        """Return the summary and the table, and those of certified sets."""
        lines = []
        for _, sentence, table in self._shown():
            lines.append(sentence)
            if len(table):
                lines.append(table.to_string(index=False, na_rep=NOTHING))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import pandas as pd

        # a set is of no use with its features cut
        with pd.option_context("display.max_colwidth", None):
            shown = [as_html(title, [words], table) for title, words, table in self._shown()]
        return "\n".join(shown)

    def _shown(self) -> list[tuple[str, str, pd.DataFrame]]:
        """Return a title, a sentence and a table; of certified sets, which are others, too."""
        import pandas as pd

        shown = [("Alternatives", summarise_alternatives(self), self.to_frame())]
        certified = self.get("certified")
        if certified is not None:
            title = "Certified sets" if certified["is_shown"] else "Sets tested"
            sets = pd.DataFrame(certified["sets"], columns=_OF_CERTIFIED)
            sets.insert(0, "set", names_of_sets(certified))
            shown.append((title, certificate(certified), sets))
        return [
            (title, words, table.assign(features=table["features"].map(listed)))
            for title, words, table in shown
        ]

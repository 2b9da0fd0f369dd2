"""What a report says where nothing was searched, or nothing chosen: why there was no need to."""

from __future__ import annotations

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.wording import counted, number

_SEVERAL = {"slack": "slacks", "penalty": "penalties", "size": "sizes asked for"}


def not_searched(content: ReportContent) -> str | None:
    """Return why PEFS made no search, or not each; None where it made all that were asked for.

    Parameters
    ----------
    content : ReportContent

    Returns
    -------
    str or None
        A sentence.
    """
    left_out = [one for one in content.searches or () if one not in content.searches_made]
    if not left_out:
        return None
    sizes = sorted({one["n_features"] for one in left_out if "n_features" in one})
    said = "Nothing was searched, and no network trained"
    if content.searches_made:
        figures = [*map(number, sizes[:-1]), counted(sizes[-1], "feature")]
        said = f"For {' and '.join(figures)} nothing was searched"
    return f"{said}: {_why_one_set_is_left(content, sizes)}."


def _why_one_set_is_left(content: ReportContent, sizes: list[int]) -> str:
    kept = set(content.contract["settings"].get("columns", {}).get("keep", ()))
    n_listed = len(kept & set(content.contract["candidates"]))
    if content.n_candidates == 1:
        return "there is one feature, and nothing to choose from"
    if n_listed == content.n_candidates:
        return "all features are on the keep list"
    reasons = {
        content.n_candidates: "as many were asked for as there are",
        n_listed: "no more were asked for than are on the keep list",
    }
    return ", or ".join(reasons[size] for size in sizes)


def why_one_candidate(content: ReportContent) -> str | None:
    """Return why one set alone stood for choice; None where there were several.

    Parameters
    ----------
    content : ReportContent

    Returns
    -------
    str or None
        Part of a sentence.
    """
    if not content.has_one_candidate:
        return None
    method, asked = content.contract["settings"]["method"], content.candidates[0]["settings"]
    is_slack, is_penalty = content.method in ("gbmo", "afs_bm"), method.get("penalties") is not None
    what = "slack" if is_slack else "penalty" if is_penalty else "size"
    if content.searches is not None and not content.searches_made and is_penalty:
        return "there was one set alone"
    if len(asked) == 1:
        return f"one {what} was asked for"
    return f"all {_SEVERAL[what]} led to the same features"

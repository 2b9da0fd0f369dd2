"""The documents for users, and what stands in their code blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / room / "README.md" for room in ("deployments", "examples")),
    ]
)
INTERNAL = [ROOT / path / "README.md" for path in ("storage", "tasks/methods", "tasks/selection")]
# Folders of a store, and one that git ignores.
_ELSEWHERE = {
    "bench-results",
    "cells",
    "dependencies",
    "experiments",
    "model",
    "promotions",
    "stages",
}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"`(\w[\w./-]*(?:\.py|/))`")


def name_of(page: object) -> str:
    """Return the path of a page in the repository, for the names of tests; else nothing."""
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else ""


def blocks(page: Path, language: str = "") -> list[str]:
    """Return the code blocks of a page in one language; without a name, in a shell's."""
    return [code for kind, code in _FENCE.findall(page.read_text()) if kind == language]


def python(*, with_prefect: bool) -> list[tuple[Path, list[str]]]:
    """Return each page with its Python snippets that call a Prefect flow, or those that do not."""
    wanted = {
        page: [b for b in blocks(page, "python") if ("feature_selection(" in b) is with_prefect]
        for page in PAGES
    }
    return [(page, snippets) for page, snippets in wanted.items() if snippets]


def commands(page: Path) -> list[str]:
    """Return the lines of shell that run `chaffinch`, continued lines as one.

    The commands of a tutorial are in blocks named bash, those of a CI job in blocks named yaml.
    """
    shell = [block for name in ("", "bash") for block in blocks(page, name)]
    lines = "".join(shell).replace("\\\n", " ").splitlines()
    steps = [line.strip() for block in blocks(page, "yaml") for line in block.splitlines()]
    lines += [line.removeprefix("- run: ") for line in steps]
    return [line for line in lines if line.startswith("chaffinch ")]


def links(page: Path) -> list[str]:
    """Return the links of a page that lead to files of the repository, or places in them."""
    prose = _FENCE.sub("", page.read_text())
    return [link for link in _LINK.findall(prose) if not link.startswith("http")]


def paths(page: Path) -> set[str]:
    """Return the Python files and folders of the repository that a page names in backticks."""
    return {path.rstrip("/") for path in _PATH.findall(page.read_text())} - _ELSEWHERE


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page can be linked by, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}

"""How a page is made: a template that escapes whatever it is given, and shows what it cannot."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.tasks.reporting.wording import visible

if TYPE_CHECKING:
    from jinja2 import Template

_SHARED = Path(__file__).parent  # the style, and how a table is set


@cache
def template(path: Path) -> Template:
    """Return a template, which may include what stands beside it and what the reports share.

    Parameters
    ----------
    path : Path
        Of the template, absolute.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([path.parent, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def _shown(value: Any) -> Any:
    """Show the control characters of a text; leave markup and all else as it is."""
    return visible(value) if type(value) is str else value

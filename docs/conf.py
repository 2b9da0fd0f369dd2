"""Sphinx: `make docs` builds the site from the Markdown of the repository and from docstrings."""

import inspect
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

import chaffinch

project = "chaffinch"
author = "The chaffinch founders"
project_copyright = f"2026, {author}"
version = release = chaffinch.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]

# The source is the repository, so that links between its pages lead to the same place on a code
# host and on the site. README and CONTRIBUTING are for people who look at the repository.
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *(f"{room}/README.md" for room in ("deployments", "examples", "storage")),
    *(f"tasks/{room}/README.md" for room in ("methods", "selection")),
]
myst_heading_anchors = 4
smartquotes = False  # or --option becomes one dash
highlight_language = "sh"
default_role = "py:obj"  # `chaffinch.select` in a docstring is code, and a link if it is public

html_theme = "furo"
html_title = f"chaffinch {release}"
html_extra_path = ["redirect"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
pygments_style = "tango"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False  # two parameters that share a text have it once
napoleon_use_rtype = False


def add_settings(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Give the docstring of a class of settings its parameters, from the fields of pydantic."""
    if not (inspect.isclass(thing) and issubclass(thing, BaseModel)):
        return
    types = get_type_hints(thing)
    lines += ["", "Parameters", "----------"]
    for field, info in thing.model_fields.items():
        kind = stringify_annotation(types[field], "smart").replace("~", "")
        default = info.get_default(call_default_factory=True)
        required = default is PydanticUndefined
        lines += [f"{field} : {kind}" + ("" if required else f", default {default!r}")]
        lines += [f"    {info.description or ''}"]


def hide_signature(app: Sphinx, what: str, name: str, thing: Any, *rest: Any) -> Any:
    """Leave out the signature of a class of settings, as its parameters are listed."""
    return ("", None) if inspect.isclass(thing) and issubclass(thing, BaseModel) else None


def escape(app: Sphinx, context: Any, lines: list[str]) -> None:
    """Keep the stars of a cron schedule in the help of a command."""
    lines[:] = [line.replace(" *", r" \*") for line in lines]


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", add_settings, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("sphinx-click-process-options", escape)

"""Sphinx: `make docs` builds the site from the Markdown of the repository and from docstrings."""

import inspect
import logging
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation
from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.sorting import ExplicitOrder

import chaffinch

ROOT = Path(__file__).parents[1]

project = "chaffinch"
project_copyright = "2026, The chaffinch founders"
release = chaffinch.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
sys.path.append(str(ROOT / "docs"))
extensions += ["sphinx_gallery.gen_gallery", "beside_html"]

# The source is the repository, so that links between its pages lead to the same place on a code
# host and on the site.
root_doc = "docs/index"
include_patterns = ["docs/**", "CHANGELOG.md", "CONTRIBUTING.md"]
include_patterns += [f"{room}/README.md" for room in ("deployments", "examples", "storage")]
include_patterns += [f"tasks/{room}/README.md" for room in ("methods", "selection")]
myst_heading_anchors = 4
highlight_language = "sh"
default_role = "py:obj"  # `chaffinch.select` in a docstring is code, and a link if it is public

html_theme = "furo"
html_title = f"chaffinch {release}"
html_extra_path = ["redirect"]
html_static_path = ["static"]
html_css_files = ["site.css"]

# The gallery runs in a copy, so that what the examples write is not among the sources, and with a
# Prefect server of its own.
logging.basicConfig(level=logging.WARNING)  # else the theme's package a11y_pygments logs all
suppress_warnings = ["config.cache"]  # the gallery's settings have a function
GALLERY = ROOT / "build" / "gallery"
LISTED = (ROOT / "examples" / "README.md").read_text()  # its examples in their order
for folder in (GALLERY, ROOT / "docs" / "gallery"):
    shutil.rmtree(folder, ignore_errors=True)
shutil.copytree(ROOT / "examples" / "gallery", GALLERY)
os.environ.pop("PREFECT_API_URL", None)
os.environ |= {"PREFECT_HOME": str(GALLERY / "prefect"), "PREFECT_LOGGING_LEVEL": "ERROR"}
os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "120"  # of a busy machine


def as_svg(*arguments: Any, **options: Any) -> str:
    """Keep a chart of an example as SVG without a background, for site.css to turn in the dark."""
    return str(matplotlib_scraper(*arguments, format="svg", transparent=True, **options))


sphinx_gallery_conf = {
    "examples_dirs": str(GALLERY),
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": ExplicitOrder(re.findall(r"\(gallery/(\w+\.py)", LISTED)),
    "image_scrapers": (as_svg,),
    "ignore_repr_types": r"matplotlib",
    "write_computation_times": False,
    "show_signature": False,
    "min_reported_time": 600,
    "download_all_examples": False,
}

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False  # two parameters that share a text have it once
napoleon_use_rtype = False


def is_settings(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, BaseModel)


def add_settings(app: Sphinx, what: str, name: str, thing: Any, _: Any, lines: list[str]) -> None:
    """Give the docstring of a class of settings its parameters, from the fields of pydantic."""
    if not is_settings(thing) or thing is chaffinch.FeatureContract:
        return
    types = get_type_hints(thing)
    lines += ["", "Parameters", "----------"]
    for field, info in thing.model_fields.items():
        kind = re.sub(r"~?[\w.]+\.(\w+)", r"\1", stringify_annotation(types[field], "smart"))
        default = info.get_default(call_default_factory=True)
        if default is not PydanticUndefined:
            shown = re.sub(r"\d\.\d{9,}", lambda found: f"{float(found[0]):.3g}", repr(default))
            kind += f", default {shown}"
        lines += [f"{field} : {kind}", f"    {info.description or ''}"]


def hide_signature(app: Sphinx, what: str, name: str, thing: Any, _: Any, *signature: Any) -> Any:
    """Leave out the signature of a class of settings, and of one that no user constructs."""
    return ("", None) if is_settings(thing) or " _" in f"{signature[0]}" else None


def mark_options(app: Sphinx, context: Any, lines: list[str]) -> None:
    """Show options in the help of a command as code, and keep the stars of a cron schedule."""
    for i, line in enumerate(lines):
        if not (line.strip().startswith("..") or "`" in line):
            lines[i] = re.sub(r"--[a-z][a-z-]*", r"``\g<0>``", line.replace(" *", r" \*"))


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", add_settings, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("sphinx-click-process-description", mark_options)
    app.connect("sphinx-click-process-options", mark_options)

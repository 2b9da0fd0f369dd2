"""Sphinx extension: what the site has beside its pages, and a check of the links between all.

The site gets every page as Markdown, ``llms.txt`` with a list of them, and the reports that two
examples of the gallery have written.
"""

import html
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx_gallery.directives import imgsgnode
from sphinx_markdown_builder.builder import MarkdownBuilder

ROOT = Path(__file__).parents[1]
_LOG = logging.getLogger(__name__)
_TOCTREE = re.compile(r"^```\{toctree\}.*?^```\n*", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LINK_OF_HTML = re.compile(r'<[^>]*?\s(?:href|src)="([^"]*)"')
_PLACE = re.compile(r'\sid="([^"]*)"')
_NOISE = re.compile(
    r"<!--.*?-->\n*|<style.*?</style>\n*|#### NOTE\n\[Go to the end.*?\n\n", re.DOTALL
)

_ELSEWHERE = re.compile(r"[a-z]+:")


def with_gallery(page: str, text: str) -> str:
    """Let the links of a page to examples of the gallery lead to their pages."""
    if page == "examples/README":
        text = text.replace("(gallery/", "(../examples/gallery/")
    return re.sub(r"examples/gallery/(\w+)\.py\)", r"docs/gallery/\1.rst)", text)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = with_gallery(page, source[0])


def finish(app: Sphinx, error: Exception | None) -> None:
    """Write what is beside the pages once these are there."""
    if error is not None or app.builder.name != "html":
        return
    site = Path(app.outdir)
    copy_samples(site)
    pages, app.builder = app.builder, MarkdownBuilder(app, app.env)  # what resolves links asks it
    app.builder.init()
    for page in app.env.found_docs:
        write_markdown(app, page, site / f"{page}.md")
    app.builder = pages
    (site / "llms.txt").write_text("".join(lines_for_programs(app)))
    for page, link in sorted(broken_links(site)):
        _LOG.warning("%s links to %s, which is not there", page, link)


def copy_samples(site: Path) -> None:
    """Copy the reports that two examples have written."""
    written = ROOT / "build" / "gallery"
    (compared,) = written.glob("chaffinch-store/comparisons/*/report.html")
    (site / "samples").mkdir(exist_ok=True)
    shutil.copyfile(written / "report.html", site / "samples" / "report.html")
    shutil.copyfile(compared, site / "samples" / "comparison.html")


def write_markdown(app: Sphinx, page: str, destination: Path) -> None:
    """Write a page as Markdown: its source, or what a builder makes of another source."""
    source = Path(app.env.doc2path(page))
    if source.suffix == ".md":
        text = with_gallery(page, _TOCTREE.sub("", source.read_text()))
        destination.write_text(text.replace(".rst)", ".md)"))
        for link in local_links(text):  # programs and pictures, which are no pages
            if (linked := source.parent / link).suffix not in (".md", ".rst"):
                target = destination.parent / link
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(linked, target)
        return
    app.builder.prepare_writing({page})
    tree = app.env.get_and_resolve_doctree(page, app.builder)
    # what sphinx-gallery and napoleon make is said in nodes that Markdown has
    for code in list(tree.findall(lambda node: type(node).__name__ == "code_links_block")):
        code.replace_self(nodes.literal_block("", code.astext(), language="python"))
    for picture in list(tree.findall(imgsgnode)):
        picture.replace_self(nodes.image(uri=picture["uri"], alt=picture["alt"]))
    to_site = os.path.relpath(app.outdir, destination.parent)
    for picture in tree.findall(nodes.image):
        picture["uri"] = f"{to_site}/_images/{Path(picture['uri']).name}"
    for short in list(tree.findall(nodes.abbreviation)):  # the star of a signature
        short.replace_self(nodes.Text(short.astext()))
    app.builder.write_doc(page, tree)
    destination.write_text(_NOISE.sub("", destination.read_text()))


def lines_for_programs(app: Sphinx) -> Iterator[str]:
    """Return the lines of llms.txt, as llmstxt.org describes it: the pages by their captions."""
    env = app.env
    tree = env.get_doctree(app.config.root_doc)
    yield f"# {app.config.project}\n\n> {first_paragraph(tree)}\n"
    for part in tree.findall(addnodes.toctree):
        yield f"\n## {part['caption']}\n\n"
        for page in part["includefiles"]:
            for below in (page, *env.toctree_includes.get(page, ())):
                about = first_paragraph(env.get_doctree(below)).split(". ")[0].rstrip(".:")
                yield f"- [{env.titles[below].astext()}]({below}.md): {about}\n"


def first_paragraph(tree: nodes.document) -> str:
    """Return the first paragraph that is not in a note or a list, as one line."""
    paragraphs = tree.findall(nodes.paragraph)
    ours = (p.astext() for p in paragraphs if isinstance(p.parent, nodes.section))
    return " ".join(next(ours, "").split())


def local_links(text: str) -> list[str]:
    """Return the files that Markdown links to, without places in them."""
    links = _LINK.findall(_FENCE.sub("", text))
    return [link.partition("#")[0] for link in links if not re.match(r"#|[a-z]+:", link)]


def broken_links(site: Path) -> Iterator[tuple[Path, str]]:
    """Return the links of the site that lead to no file or place of it, each after its page."""
    places: dict[Path, set[str]] = {}
    texts = {path.resolve(): path.read_text() for path in site.rglob("*.html")}
    for path, text in texts.items():
        places[path] = {html.unescape(place) for place in _PLACE.findall(text)}
    for path, text in texts.items():
        for link in {unquote(html.unescape(link)) for link in _LINK_OF_HTML.findall(text)}:
            if _ELSEWHERE.match(link):
                continue
            file, _, place = link.partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            if not target.is_file() or (place and place not in places.get(target, {place})):
                yield path.relative_to(site.resolve()), link
    for path in (*site.rglob("*.md"), site / "llms.txt"):
        for link in local_links(path.read_text()):
            if not (path.parent / link).is_file():
                yield path.relative_to(site), link


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    app.connect("build-finished", finish)
    app.setup_extension("sphinx_markdown_builder")
    return {"parallel_read_safe": True, "parallel_write_safe": True}

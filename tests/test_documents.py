"""README and docs hold: snippets run, commands parse, links lead somewhere."""

import gzip
import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from chaffinch.flows.cli.commands import cli
from tests.documents import (
    INTERNAL,
    PAGES,
    ROOT,
    anchors,
    commands,
    links,
    name_of,
    paths,
    python,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Enter a folder with the tables that the snippets name."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for name in ("orders.parquet", "newer.parquet"):
        table = pd.DataFrame(random.normal(size=(300, 4)), columns=list("abcd"))
        table.assign(price=3 * table["a"] - 2 * table["b"]).to_parquet(name)
    X = random.normal(size=(1200, 20)) * (random.random((1200, 20)) < 0.3)
    with gzip.open("clicks.svmlight.gz", "wb") as file:
        dump_svmlight_file(X, X[:, 3] - X[:, 7], file, zero_based=False)


@pytest.mark.parametrize(("page", "snippets"), python(with_prefect=False), ids=name_of)
@pytest.mark.usefixtures("folder")
def test_the_python_snippets_of_a_page_run_in_their_order(page, snippets):
    names = {}
    for code in snippets:
        exec(compile(code, name_of(page), "exec"), names)  # noqa: S102


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_has_the_options_that_it_is_given(page):
    for line in commands(page):
        words = shlex.split(line, comments=True)
        words = words[1 : words.index(">") if ">" in words else None]
        command = cli.commands[words[0]]
        command.make_context(words[0], words[1:])


@pytest.mark.parametrize("page", [*PAGES, *INTERNAL], ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", [*PAGES, *INTERNAL], ids=name_of)
def test_every_path_in_backticks_is_one_of_the_repository(page):
    """It may leave out the first folders, as in `baselines/names.py`."""
    rooms = ("deployments", "examples", "flows", "src", "storage", "tasks", "tests")
    known = [f"/{room}" for room in rooms]
    known += [str(path) for room in rooms for path in (ROOT / room).rglob("*")]
    assert [one for one in paths(page) if not any(k.endswith(f"/{one}") for k in known)] == []

"""What log lines say beside their message, and what they never say."""

import io
import logging

import pytest

import chaffinch
from chaffinch import ModelSettings
from chaffinch.tasks.workers.logging import ContextFilter, logging_about
from tests.synthetic import good_table

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def said():
    """Return what a handler with the filter writes."""
    stream = io.StringIO()
    handler, log = logging.StreamHandler(stream), logging.getLogger("chaffinch")
    handler.addFilter(ContextFilter())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield lambda: stream.getvalue().splitlines()
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


def test_a_line_says_what_it_is_about_and_only_while_it_is(said, caplog):
    log = logging.getLogger("chaffinch.any")
    log.info("before")
    with logging_about(run="orders-1", dataset="abc"), logging_about(stage="split"):
        log.info("%d rows", 7)
    log.info("after")
    assert said() == ["before", "run=orders-1 dataset=abc stage=split: 7 rows", "after"]
    inside = caplog.records[1]
    assert (inside.run, inside.stage, inside.dataset) == ("orders-1", "split", "abc")


def test_each_record_is_one_printable_line(said):
    logging.getLogger("chaffinch").info("column %s", "a\nb\x1b[31m")
    assert said() == ["column a\\nb\\x1b[31m"]


def test_two_handlers_say_it_once_each(said):
    second = logging.StreamHandler(io.StringIO())
    second.addFilter(ContextFilter())
    log = logging.getLogger("chaffinch")
    log.addHandler(second)
    with logging_about(run="orders-1"):
        log.info("once")
    log.removeHandler(second)
    assert said() == ["run=orders-1: once"] == second.stream.getvalue().splitlines()


@pytest.mark.parametrize("address", ["postgresql://ann:{}@host/db", "https://:{}@host:1/x?y=1"])
def test_a_password_in_an_address_is_not_said(said, address):
    logging.getLogger("chaffinch").info("reading %s now", address.format("s3cr3t"))
    assert said() == [f"reading {address.format('***')} now"]


def test_every_line_of_a_run_says_its_run_and_data_set(said, tmp_path):
    quick = ModelSettings(name="linear", tuning="none")
    result = chaffinch.select(good_table(120), "churned", model=quick, store=tmp_path)
    dataset = result.contract["dataset"]["hash"][:16]
    begun = f"run={result.run} dataset={dataset} stage="
    of_stages = [line for line in said() if line.startswith("run=")]
    assert all(line.startswith(begun) for line in of_stages)
    assert any(line.startswith(f"{begun}optimise_mask: auto fits model") for line in of_stages)

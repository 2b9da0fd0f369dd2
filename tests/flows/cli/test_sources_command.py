"""The command on tables elsewhere: what it reads, how often, and that it tells no password."""

from pathlib import Path

import pandas as pd
import pytest

from tests.flows.cli.programs import chaffinch, run
from tests.object_storage import ObjectStorage
from tests.postgres import PASSWORD, Postgres
from tests.refusals import chaffinch_here

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("postgres")]

SMALL = (
    *("--target", "yield", "--n-features", "2", "--tuning", "none", "--cluster", "none"),
    *("--store", "shop-store"),
)


@pytest.fixture(scope="module")
def shop(postgres_server: Postgres, table: Path) -> Postgres:
    with postgres_server.connected() as connection:
        pd.read_csv(table).to_sql("harvest", connection, index=False)
    return postgres_server


def told_nothing(home: Path, *said: str) -> bool:
    """Return whether no file below a home, and nothing that was said, has the password in it."""
    files = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    return not any(PASSWORD.encode() in text for text in (*files, *(s.encode() for s in said)))


def test_a_table_of_a_database_is_read_once_and_the_same_run_is_found_again(shop, home):
    before = shop.log.read_text().count("DECLARE")
    ended = run(shop.at("harvest"), *SMALL, home=home, PGPASSWORD=PASSWORD)
    assert ended.returncode == 0, ended.stderr
    assert "Kept 2 of 6: first, second" in ended.stdout
    assert shop.log.read_text().count("DECLARE") == before + 1
    # its rows may have changed meanwhile: it is read again
    again = run(shop.at("harvest"), *SMALL, home=home, PGPASSWORD=PASSWORD)
    assert again.stdout == ended.stdout
    assert "tune and train the model: finished before" in again.stderr
    assert shop.log.read_text().count("DECLARE") == before + 2
    assert told_nothing(home, ended.stdout, ended.stderr, again.stdout, again.stderr)


def test_what_an_etl_job_need_not_read_of_an_object(shop, home, objects: ObjectStorage, table):
    pd.read_csv(table).to_parquet(home / "harvest.parquet")
    address = objects.put(home / "harvest.parquet", "harvest.parquet")
    (found,) = (home / "shop-store" / "runs").glob("harvest-auto-lightgbm-*")
    asked = ("columns", found.name, "--as", "parquet", "--source", address, "--store", "shop-store")
    ended = chaffinch(*asked, home=home, **objects.environment)
    assert (ended.returncode, ended.stdout) == (0, '["first", "second"]\n'), ended.stderr
    assert "2 columns are " in ended.stderr
    assert " belong to other columns" in ended.stderr


@pytest.mark.parametrize("wrong", ["password", "host", "address"])
def test_whoever_is_not_let_in_gets_one_line(shop, objects, tmp_path, monkeypatch, wrong):
    address, password = shop.at("harvest"), PASSWORD
    if wrong == "password":
        password = f"not {PASSWORD}"
    elif wrong == "host":
        address = address.replace("127.0.0.1", "no-host.invalid")
    else:
        address = address.replace("owner@", f"owner:{PASSWORD}@")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", password)
    monkeypatch.setenv("PREFECT_API_URL", objects.endpoint)  # or it starts a server meanwhile
    ended = chaffinch_here("run", address, *SMALL)
    # a host may be reached later
    assert (ended.returncode, ended.stdout) == (1 if wrong == "host" else 2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error: ")
    assert told_nothing(tmp_path, ended.stderr)
    assert not list(tmp_path.glob("shop-store/runs/*"))

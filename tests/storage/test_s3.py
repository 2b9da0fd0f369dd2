"""A table in S3-compatible storage is read as on this disk, and nobody learns the credentials."""

import gzip
import logging
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaffinch
from chaffinch.errors import InputError, StorageError, UnreachableError
from chaffinch.storage.sources.addresses import credentials, extra_credentials, without
from tests.flows.cli.programs import free_port
from tests.object_storage import ObjectStorage
from tests.sources import (
    check_source,
    column_bytes,
    column_names,
    has_types,
    ingest,
    read_source,
    source_fingerprint,
    source_name,
)

pytestmark = pytest.mark.xdist_group("objects")

FRAME = pd.DataFrame({"code": ["00500", "10001", None] * 20, "x": np.arange(60.0), "y": range(60)})


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same table in every form."""
    folder = tmp_path_factory.mktemp("here")
    FRAME.to_csv(folder / "orders.csv", index=False)
    text = (folder / "orders.csv").read_bytes()
    (folder / "orders.csv.gz").write_bytes(gzip.compress(text))
    FRAME.to_csv(folder / "orders.tsv", index=False, sep="\t")
    FRAME.to_parquet(folder / "orders.parquet")
    parts = folder / "parts"
    parts.mkdir()
    FRAME[30:].to_parquet(parts / "b.parquet")
    FRAME[:30].to_parquet(parts / "a.parquet")
    (parts / "_SUCCESS").touch()
    return folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Look into the folder for temporary files: no copy may stay there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


FORMS = ["orders.csv", "orders.csv.gz", "orders.tsv", "orders.parquet", "parts"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_on_this_disk_and_the_names_of_columns_take_no_copy(
    form: str, s3: ObjectStorage, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = s3.put(here / form, f"names/{form}")
    with monkeypatch.context() as no_disk:
        no_disk.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        assert column_names(address) == column_names(f"{address}/") == column_names(here / form)
    assert read_source(address).equals(read_source(here / form))
    assert has_types(address) == has_types(here / form)
    assert column_bytes(address) == column_bytes(here / form)


def test_a_bucket_may_be_the_folder_and_a_folder_have_any_name(
    s3: ObjectStorage, here: Path
) -> None:
    odd = s3.put(here / "orders.parquet", "token=1/a b%41:@(x)/orders.parquet")
    assert read_source(odd).num_rows == 60
    s3.files.create_dir("whole")
    s3.files.copy_file(s3.put(here / "orders.parquet", "o.parquet")[5:], "whole/o.parquet")
    assert read_source("s3://whole").num_rows == 60
    assert source_name("s3://whole/") == "whole"


def test_what_did_not_change_is_not_read_again(
    s3: ObjectStorage, here: Path, tmp_path: Path
) -> None:
    address = s3.put(here / "orders.csv", "again/orders.csv")
    first = ingest(address, tmp_path)
    n_read = s3.n_read("again/orders.csv")
    assert n_read > 0
    assert ingest(address, tmp_path) == first
    assert s3.n_read("again/orders.csv") == n_read

    changed = here / "orders.csv"
    before, text = source_fingerprint(address), changed.read_text()
    other = tmp_path / "orders.csv"
    other.write_text(text.replace("00500", "00501"))
    s3.put(other, "again/orders.csv")
    assert source_fingerprint(address) != before
    assert ingest(address, tmp_path).hash == ingest(other, tmp_path).hash != first.hash


def test_the_footer_is_enough_to_say_what_columns_take(
    s3: ObjectStorage, here: Path, tmp_path: Path
) -> None:
    table = pa.table({f"c{i}": np.random.default_rng(i).normal(size=50_000) for i in range(4)})
    path = tmp_path / "cut.parquet"
    pq.write_table(table, path)
    taken = column_bytes(path)
    whole = path.read_bytes()
    size_of_footer = int.from_bytes(whole[-8:-4], "little") + 8
    path.write_bytes(b"\0" * (len(whole) - size_of_footer) + whole[-size_of_footer:])
    address = s3.put(path, "cut.parquet")
    assert column_bytes(address) == taken
    with pytest.raises(InputError, match=r"cut.parquet is no readable Parquet file"):
        read_source(address)


def test_a_selection_and_its_model_and_contract(
    s3: ObjectStorage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(200, 4)).round(6), columns=list("abcd"))
    frame["y"] = (3 * frame["a"] + 0.1 * frame["b"]).round(6)
    frame.to_parquet(tmp_path / "rows.parquet")
    address = s3.put(tmp_path / "rows.parquet", "rows.parquet")
    model = chaffinch.ModelSettings(name="linear", tuning="none")
    with caplog.at_level(logging.DEBUG):
        result = chaffinch.select(address, "y", model=model, store=tmp_path / "store")
    assert result.run.startswith("rows-auto-linear-")
    assert result.contract["dataset"]["hash"] == ingest(frame, tmp_path / "other").hash
    np.testing.assert_array_equal(result.model.predict(address), result.model.predict(frame))
    result.contract.validate(address)
    assert result.contract.bytes_in(address) == result.contract.bytes_in(tmp_path / "rows.parquet")
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert len(files) > 15
    for hidden in (s3.secret, s3.key):
        assert hidden not in caplog.text
        assert not any(hidden.encode() in path.read_bytes() for path in files)


PLACES = {
    "no bucket": ("s3://nowhere/x.csv", "there is no bucket 'nowhere'"),
    "no key": ("s3://shop/bad/x.csv", "there is no s3://shop/bad/x.csv; look into the bucket"),
    "no ending": ("s3://shop/bad/x.xlsx", r"x.xlsx has no known ending; give a path to .csv"),
    "no Parquet": ("s3://shop/bad", r"folder s3://shop/bad has no .parquet files"),
    "folders": ("s3://shop/by", r"folder s3://shop/by holds the folder old, which is no partition"),
    "no rows": ("s3://shop/bad/empty.csv", r"empty.csv has columns but no rows"),
    "nothing": ("s3://shop/bad/nothing.csv", r"nothing.csv is empty; give a header"),
}


@pytest.mark.parametrize(("address", "message"), PLACES.values(), ids=PLACES.keys())
def test_what_is_not_there_or_no_table_is_one_line(
    address: str, message: str, s3: ObjectStorage, here: Path, tmp_path: Path
) -> None:
    for name, text in (("x.xlsx", "a"), ("empty.csv", "a,b\n"), ("nothing.csv", "")):
        (tmp_path / name).write_text(text)
        s3.put(tmp_path / name, f"bad/{name}")
    s3.put(here / "orders.parquet", "by/old/orders.parquet")
    check_source(address)  # asks nobody
    with pytest.raises(InputError, match=message) as caught:
        read_source(address)
    assert "\n" not in str(caught.value)


def refused(address: str) -> str:
    """Return the one line that every question about an address is answered with."""
    said = set()
    for ask in (read_source, source_fingerprint, column_bytes):
        with pytest.raises(InputError) as caught:
            ask(address)
        said.add(str(caught.value))
    (line,) = said
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("at", ["guarded/orders.parquet", "guarded"])
def test_wrong_credentials(
    name: str, at: str, s3: ObjectStorage, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(here / "orders.parquet", "guarded/orders.parquet")
    monkeypatch.setenv(name, "wrongANDhidden")
    line = refused(f"s3://shop/{at}")
    assert line.startswith(f"reading s3://shop/{at} is not allowed (")
    assert "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment" in line
    assert "wrongANDhidden" not in line


def test_half_of_the_credentials(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    line = refused("s3://shop/x.parquet")
    assert line == (
        "AWS_ACCESS_KEY_ID is there but AWS_SECRET_ACCESS_KEY is not; set both, or neither"
    )


def test_nobody_answers(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", nobody)
    with pytest.raises(UnreachableError) as caught:
        read_source("s3://shop/x.parquet")
    assert str(caught.value) == (
        f"{nobody} does not answer for s3://shop/x.parquet; check AWS_ENDPOINT_URL and the network"
    )


def test_no_space_for_a_copy(s3: ObjectStorage, here: Path) -> None:
    address = s3.put(here / "orders.csv", "orders.csv")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(StorageError, match=r"no space left for a copy of s3://shop/orders.csv"):
            read_source(address)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


SECRETS = [
    "s3://AKIAHIDDEN:hid/den+@shop/x.csv",
    "s3://shop/x.csv?access_key=AKIA&secret_key=hidden",
    "https://shop.s3.amazonaws.com/x.csv?X-Amz-Security-Token=hidden",
    "ftp://reader:hidden@host/x.csv",
]


@pytest.mark.parametrize("address", SECRETS)
def test_a_secret_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    for ask in (read_source, check_source, source_fingerprint, source_name, column_bytes):
        with pytest.raises(InputError, match="holds a password or another secret") as caught:
            ask(address)
        assert "hid" not in str(caught.value)
        assert "put it into the environment" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://host/x.csv", "nothing is read from https: addresses; give a path to .csv"),
        ("wasbs://shop/x.csv", "nothing is read from wasbs: addresses"),
        ("s3:/shop/x.csv", "nothing is read from s3: addresses; give .* s3://bucket/key"),
        ("s3:///x.csv", "an address in S3 is s3://bucket/key, with no [?] or #"),
        ("s3://shop/x.csv?versionId=3", "an address in S3 is s3://bucket/key, with no [?] or #"),
        (Path("s3://shop/x.csv"), r"given as text, but this is a path; leave out Path"),
        (Path("https://me:hidden@host/x.csv"), r"holds a password"),
    ],
)
def test_other_addresses_are_refused_before_anyone_is_asked(
    address: str | Path, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        check_source(address)
    assert "hidden" not in str(caught.value)


def test_what_belongs_together_comes_from_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"FIRST": "its own", "SECOND": "of the other place"}
    for name in kept:
        monkeypatch.delenv(name, raising=False)
    assert credentials("FIRST", "SECOND") == (None, None)
    with extra_credentials(kept.get):
        assert credentials("FIRST", "SECOND") == tuple(kept.values())
        monkeypatch.setenv("FIRST", "of the environment")
        assert credentials("FIRST", "SECOND") == ("of the environment", None)
    assert without("a and b", ["b", None, ""]) == "a and ***"

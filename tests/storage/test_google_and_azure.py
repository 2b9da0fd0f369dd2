"""Google's storage is read as S3 is; of Azure only addresses and refusals are tested."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch.errors import InputError, UnreachableError
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.cloud.azure import AzureSource
from tests.flows.cli.programs import free_port
from tests.object_storage import GoogleStorage
from tests.sources import check_source, ingest, read_source, source_fingerprint, source_name

pytestmark = pytest.mark.xdist_group("objects")

FRAME = pd.DataFrame({"x": np.arange(60.0), "y": 3 * np.arange(60.0), "z": np.arange(60) % 7})


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    FRAME.to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def test_a_selection(gcs: GoogleStorage, rows: Path) -> None:
    address = gcs.put(rows, "a b%41:@/rows.parquet")
    model = chaffinch.ModelSettings(name="linear", tuning="none")
    result = chaffinch.select(address, "y", model=model)
    assert result.features == ["x"]
    assert result.contract.bytes_in(address) == result.contract.bytes_in(rows)


def test_what_changed_is_read_again(gcs: GoogleStorage, rows: Path, tmp_path: Path) -> None:
    address = gcs.put(rows, "again.parquet")
    before, first = source_fingerprint(address), ingest(address, tmp_path)
    assert before is not None
    assert source_fingerprint(address) == before
    FRAME.assign(x=1.0).to_parquet(rows)
    gcs.put(rows, "again.parquet")
    assert source_fingerprint(address) != before
    assert ingest(address, tmp_path).hash != first.hash


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("gs://shop/none.csv", "there is no gs://shop/none.csv; look into the bucket"),
        ("gs://none/x.csv", "there is no bucket 'none'"),
    ],
)
def test_what_is_not_there(address: str, message: str, gcs: GoogleStorage) -> None:
    with pytest.raises(InputError, match=message):
        read_source(address)


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    host = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
    monkeypatch.setattr("chaffinch.storage.sources.cloud.gcs._ANSWER", pd.Timedelta(seconds=1))
    with pytest.raises(UnreachableError, match=f"^{host} does not answer for gs://shop/x.csv"):
        read_source("gs://shop/x.csv")


def test_credentials_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    message = r"^there are no credentials for gs://shop/x.csv \(Cannot open .*none.json\); name"
    with pytest.raises(InputError, match=message):
        read_source("gs://shop/x.csv")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("gs:///x.csv", "Google Cloud Storage is gs://bucket/key, with no [?] or #"),
        ("gs://shop/x.csv?generation=3", "Google Cloud Storage is gs://bucket/key"),
        ("abfss://shop/x.csv", "Azure is abfss://container@account.dfs.core.windows.net/path"),
        ("abfss://shop@me.blob.core.windows.net/x.csv", "Azure is abfss://container@account"),
        ("abfss://shop@me.dfs.core.windows.net/x.csv?a=b", "with no [?] or #"),
        ("abfss://shop@me.dfs.core.windows.net/x.csv?sig_token=hid", "holds a password"),
        ("abfss://shop:hid@me.dfs.core.windows.net/x.csv", "holds a password"),
    ],
)
def test_other_addresses_are_refused(address: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        check_source(address)
    assert "hid" not in str(caught.value)


def test_an_address_in_azure() -> None:
    address = "abfss://shop@me.dfs.core.windows.net/a b/orders.v2.parquet"
    source = source_of(f" {address}/ ")
    assert isinstance(source, AzureSource)
    assert (source.root, source.path) == ("shop", "shop/a b/orders.v2.parquet")
    assert source.address == address
    assert source_name(address) == "orders.v2.parquet"
    assert source_of("abfss://shop@me.dfs.core.windows.net").address.endswith(".net")


def test_a_key_that_is_none_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "hidden is no key!")
    address = "abfss://shop@me.dfs.core.windows.net/x.csv"
    with pytest.raises(InputError, match="not allowed; check AZURE_STORAGE_KEY") as caught:
        read_source(address)
    assert "hidden" not in str(caught.value)

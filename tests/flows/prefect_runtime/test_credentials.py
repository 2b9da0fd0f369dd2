"""Credentials reach a flow from the environment or a block, and Prefect keeps none in the open."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.system import Secret

import chaffinch
from chaffinch import ComparisonSettings, ExecutionSettings, InputError, SelectionSettings
from chaffinch.storage.runs.decisions import needed_decision
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings
from tests.flows.conftest import Server, day_of
from tests.object_storage import ObjectStorage

pytestmark = pytest.mark.e2e


def kept_by(server: Server) -> bytes:
    """Return all that the server has written to its disk."""
    home = Path(server.env["PREFECT_HOME"])
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


@pytest.fixture
def address(s3: ObjectStorage, table: Path) -> str:
    return s3.put(table, "harvest.csv")


@pytest.fixture
def in_blocks(
    server: Server, address: str, s3: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Keep what the storage asks for in secret blocks alone."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))  # there may be credentials in ~/.aws
    asked = {"AWS_ACCESS_KEY_ID": s3.key, "AWS_SECRET_ACCESS_KEY": s3.secret}
    blocks = {variable.lower().replace("_", "-"): asked[variable] for variable in asked}
    for variable, name in zip(asked, blocks, strict=True):
        monkeypatch.delenv(variable)
        Secret(value=blocks[name]).save(name)
    yield
    for name in blocks:
        Secret.delete(name)


@pytest.mark.usefixtures("in_blocks")
def test_what_the_environment_lacks_is_in_a_secret_block(
    server: Server,
    s3: ObjectStorage,
    address: str,
    small: dict[str, Any],
    tmp_path: Path,
) -> None:
    settings = SelectionSettings(**small)
    execution = ExecutionSettings(store=tmp_path, cluster="none")
    state = chaffinch.feature_selection(address, settings, execution, return_state=True)
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    assert run["state_type"] == "COMPLETED"
    assert run["name"] == f"harvest gbmo lightgbm {day_of(run)}"
    assert run["parameters"]["data"] == address
    (contract,) = tmp_path.glob("runs/*/selection.json")
    assert [f["name"] for f in json.loads(contract.read_bytes())["features"]] == ["first", "second"]
    assert address.encode() in kept_by(server)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for hidden in (s3.key, s3.secret):
        assert hidden.encode() not in written + kept_by(server)


@pytest.mark.usefixtures("in_blocks")
def test_a_store_in_object_storage_is_opened_by_secret_blocks(
    server: Server,
    s3: ObjectStorage,
    address: str,
    small: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "cache"))
    state = chaffinch.feature_selection(
        address,
        SelectionSettings(**small),
        ExecutionSettings(store="s3://shop/by-blocks", cluster="none"),
        PromotionSettings(name="harvest"),
        LimitSettings(retries=0),
        return_state=True,
    )
    assert state.name == "NeedsDecision"  # nothing was promoted before
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    assert run["parameters"]["execution"]["store"] == "s3://shop/by-blocks"
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for hidden in (s3.key, s3.secret):
        assert hidden.encode() not in written + kept_by(server)
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    (kept,) = Store.find("s3://shop/by-blocks").runs()
    assert needed_decision(kept)


def test_a_password_is_refused_before_prefect_records_it(
    server: Server, small: dict[str, Any], tmp_path: Path
) -> None:
    bad, execution = "postgresql://me:neverkept@host/shop#orders", ExecutionSettings(store=tmp_path)
    settings = SelectionSettings(**small)
    among_others = ComparisonSettings(target="yield", methods=("gbmo",), models=("linear",))
    for start in (
        lambda: chaffinch.feature_selection(bad, settings, execution),
        lambda: chaffinch.reselection("former", bad, execution=execution),
        lambda: chaffinch.comparison(["other.csv", bad], among_others, execution),
    ):
        with pytest.raises(InputError, match="holds a password or another secret"):
            start()
    assert b"neverkept" not in kept_by(server)

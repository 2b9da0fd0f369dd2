"""Versions of Prefect and FastAPI that fail together are refused before any work."""

import pytest

from chaffinch.flows.prefect_runtime.server import ServerError, check_versions
from tests.flows.cli.programs import environment, python, run

SAID = (
    "the server of Prefect 3.6.27 fails beside FastAPI 0.150.1: run "
    'pip install "fastapi<0.137", or pip install "prefect>=3.7.8"'
)


def installed(folder, prefect, fastapi):
    """Return a folder that packages of these versions seem to be installed in."""
    for name, version in (("prefect", prefect), ("fastapi", fastapi)):
        about = folder / f"{name}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    return str(folder)


@pytest.mark.parametrize(
    ("prefect", "fastapi", "fails"),
    [
        ("3.7.7", "0.136.9", False),
        ("3.7.7", "0.137.0", True),
        ("3.7.8", "0.137.0", False),
        ("3.10.0", "0.150.0", False),
    ],
)
def test_prefect_before_3_7_8_needs_fastapi_before_0_137(
    prefect, fastapi, fails, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(installed(tmp_path, prefect, fastapi))
    if not fails:
        check_versions()
        return
    with pytest.raises(ServerError, match=f"Prefect {prefect} fails beside FastAPI {fastapi}: run"):
        check_versions()


@pytest.mark.e2e
def test_a_run_and_a_flow_that_would_start_a_server_say_so(table, tmp_path):
    path = installed(tmp_path / "packages", "3.6.27", "0.150.1")
    ended = run(str(table), "--target", "yield", "--prefect", home=tmp_path, PYTHONPATH=path)
    assert (ended.returncode, ended.stderr) == (1, f"Error: {SAID}\n")
    env = environment(tmp_path, PYTHONPATH=path)
    called = python("from chaffinch import feature_selection", env=env)
    assert called.returncode == 1
    assert called.stderr.endswith(f"ServerError: {SAID}\n")

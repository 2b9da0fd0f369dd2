"""Which Prefect server a run takes, and the one line where there is none."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from tests.flows.cli.programs import free_port, in_process, run, still_running

pytestmark = pytest.mark.e2e


def said_before_any_work(table, home, *, asks=True, **more):
    """Return the one line that a run says where it does not even begin."""
    asked = ("--target", "yield", "--store", "store", *["--prefect"] * asks)
    ended = run(str(table), *asked, home=home, **more)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.endswith("\n")
    assert ended.stderr.count("\n") == 1
    assert not (home / "store").exists()
    assert still_running(home) == []
    return ended.stderr.strip()


@pytest.mark.parametrize("url", ["localhost", "http://127.0.0.1:{port}/api"])
def test_an_address_in_the_environment_where_nobody_is(table, tmp_path, monkeypatch, url):
    url = url.format(port=free_port())
    monkeypatch.setenv("PREFECT_API_URL", url)
    ended = in_process("run", table, "--target", "yield", "--store", tmp_path / "store")
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"Error: no Prefect server answers at {url} (")
    assert line.endswith("start it, or run without one by --no-prefect")
    assert not (tmp_path / "store").exists()
    done = in_process(
        "run", table, "--target", "yield", "--store", tmp_path / "store", "--tuning", "none",
        "--cluster", "none", "--n-features", "2", "--no-prefect",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("named_in", ["profiles.toml", "prefect.toml"])
def test_a_server_that_a_file_of_prefect_names_is_taken(table, tmp_path, named_in):
    url = f"http://127.0.0.1:{free_port()}/api"
    (tmp_path / "prefect").mkdir()
    profile = named_in == "profiles.toml"
    text = f'active = "far"\n[profiles.far]\nPREFECT_API_URL = "{url}"\n'
    file = tmp_path / "prefect" / named_in if profile else tmp_path / named_in
    file.write_text(text if profile else f'[api]\nurl = "{url}"\n')
    before = file.read_bytes()
    line = said_before_any_work(table, tmp_path, asks=profile)
    assert line.startswith(f"Error: no Prefect server answers at {url} (")
    assert file.read_bytes() == before


def test_no_address_where_no_server_may_be_started(table, tmp_path):
    switched_off = {"PREFECT_SERVER_EPHEMERAL_ENABLED": "false"}
    assert said_before_any_work(table, tmp_path, **switched_off) == (
        "Error: no Prefect server is named and embedding one is switched off: set "
        "PREFECT_API_URL, or PREFECT_SERVER_EPHEMERAL_ENABLED=true"
    )


@pytest.fixture
def somebody_else() -> Iterator[str]:
    """Serve something that is no Prefect API; return its address."""

    class Nothing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_where_somebody_else_is(table, tmp_path, monkeypatch, somebody_else):
    monkeypatch.setenv("PREFECT_API_URL", somebody_else)
    asked = ("run", table, "--target", "yield", "--store", tmp_path / "store")
    ended = in_process(*asked, PREFECT_API_URL=somebody_else)
    assert (ended.returncode, ended.stdout) == (1, "")
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"Error: the Prefect server at {somebody_else} failed (Client error ")
    assert last.endswith("PREFECT_API_URL, and the same command continues where it stopped")
    assert "Traceback" not in ended.stderr


def test_a_home_of_which_prefect_can_make_nothing(table, tmp_path):
    (tmp_path / "prefect").mkdir()
    (tmp_path / "prefect" / "prefect.db").write_text("no database, but a text of some length\n" * 9)
    ended = run(str(table), "--target", "yield", "--prefect", home=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(
        "Error: the Prefect server of this run did not start: it ended by itself"
    )
    assert "file is not a database" in last
    assert last.endswith("PREFECT_HOME, or name a server with PREFECT_API_URL")
    assert "Traceback" not in ended.stderr
    assert still_running(tmp_path) == []

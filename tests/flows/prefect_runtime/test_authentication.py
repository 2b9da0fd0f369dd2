"""The Prefect servers of the guide and of `chaffinch run` refuse strangers and foreign pages."""

import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests import browser
from tests.flows.cli.programs import (
    PREFECT,
    environment,
    eventually,
    free_port,
    in_process,
    run,
    started,
    stop,
    with_database,
)
from tests.flows.conftest import Server
from tests.flows.test_tutorials import nightly_commands, programs

pytestmark = pytest.mark.e2e
in_one_worker = pytest.mark.xdist_group("secrets")

SECRET = "hunter2-db-password"  # noqa: S105
# Makes a Secret block and a deployment with the auth string of its environment, and says where.
MAKES = f"""
import json
from prefect import flow
from prefect.blocks.system import Secret
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL
Secret(value={SECRET!r}).save("pgpassword")
with get_client(sync_client=True) as client:
    made = client.create_deployment(client.create_flow(flow(lambda: 1, name="any")), "any")
said = [PREFECT_API_URL.value(), PREFECT_API_AUTH_STRING.value(), str(made)]
print(json.dumps(said), flush=True)
"""
EMBEDS = f"""
from chaffinch.flows.prefect_runtime.server import prepare
prepare()
from chaffinch.flows.prefect_runtime.server import Server
server = Server()
server.check()
server.start()
with server.in_use():
    {MAKES.strip().replace(chr(10), chr(10) + "    ")}
    input()
"""
# A page of a site asks for Secret blocks, and shows what it could read as its title.
PAGE = """<title>waiting</title><script>
fetch("{url}/block_documents/filter", {{
    method: "POST",
    headers: {{"Content-Type": "application/json"}},
    body: '{{"include_secrets": true}}'
}}).then(answer => answer.text()).then(
    text => document.title = "read " + text, error => document.title = "refused: " + error)
</script>"""


@dataclass(frozen=True)
class Asked:
    """A server with a Secret block, and a deployment of it."""

    url: str
    auth_string: str
    deployment: str


@contextmanager
def ten_lines(home: Path) -> Iterator[Asked]:
    """Start the server as the lines of the guide do."""
    port = str(free_port())
    env = environment(
        home,
        PATH=programs(home / "bin"),
        PREFECT_SERVER_API_PORT=port,
        PREFECT_SERVER_UI_API_URL=f"http://127.0.0.1:{port}/api",
    )
    for name in ("PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"):
        del env[name]
    (home / "makes.py").write_text(MAKES)
    typed = [line.replace("4200", port) for line in nightly_commands()]
    first, last = (
        next(i for i, line in enumerate(typed) if line.startswith(start))
        for start in ("export", "until")
    )
    script = "\n".join([*typed[first : last + 1], "python makes.py > made", "sleep 1000"])
    made = home / "made"
    with started("bash", "-c", script, env=env, log=home / "log", cwd=home):
        yield Asked(*json.loads(eventually(lambda: made.exists() and made.read_text(), 120)))


@contextmanager
def embedded(home: Path) -> Iterator[Asked]:
    """Start the server that `chaffinch run` starts beside itself."""
    program = subprocess.Popen(
        (sys.executable, "-c", EMBEDS), env=environment(home), cwd=home, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        try:
            assert program.stdout is not None
            yield Asked(*json.loads(program.stdout.readline()))
        finally:
            stop(program)


@pytest.fixture(scope="module", params=[ten_lines, embedded], ids=lambda start: start.__name__)
def asked(request, tmp_path_factory) -> Iterator[Asked]:
    with request.param(with_database(tmp_path_factory.mktemp("home"))) as found:
        yield found


@in_one_worker
def test_who_does_not_know_the_secret_is_refused(asked):
    steps = [{"prefect.deployments.steps.run_shell_script": {"script": "id"}}]
    attacks = [
        ("POST", "/block_documents/filter", {"include_secrets": True}),
        ("PATCH", f"/deployments/{asked.deployment}", {"pull_steps": steps}),
        ("POST", f"/deployments/{asked.deployment}/create_flow_run", {"parameters": {}}),
    ]
    for method, path, body in attacks:
        for auth in (None, ("admin", ""), ("tests", "let-me-in")):
            foreign = {"Origin": "https://evil.example"}
            answer = httpx.request(method, asked.url + path, json=body, auth=auth, headers=foreign)
            assert answer.status_code == 401, (path, answer.text)
            assert "access-control-allow-origin" not in answer.headers


@in_one_worker
def test_a_page_of_another_site_reads_nothing(asked):
    program = browser.program()
    if program is None:
        pytest.skip("there is no Chromium here; make e2e-needs installs it")
    page = PAGE.format(url=asked.url).encode()

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever).start()
        try:
            with browser.opened(program) as tab:
                tab.goto(f"http://127.0.0.1:{site.server_port}/")
                tab.wait_for_function("document.title !== 'waiting'")
                title = tab.title()
        finally:
            site.shutdown()
    assert title == "refused: TypeError: Failed to fetch"


@in_one_worker
def test_the_secret_is_in_no_command_line(asked):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            assert asked.auth_string.encode() not in path.read_bytes(), path


def test_the_secret_of_a_run_is_in_no_line_and_no_file(table, home):
    """An empty address is none: the run starts a server of its own."""
    settings = (
        "--target",
        "yield",
        "--tuning",
        "none",
        "--cluster",
        "none",
        "--verbose",
        "--prefect",
    )
    ended = run(str(table), *settings, "--store", "secret-store", home=home, PREFECT_API_URL="")
    assert ended.returncode == 0, ended.stderr
    files = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert len(files) > 10
    secret = re.compile(rb"chaffinch:[\w-]{43}|Y2hhZmZpbmNoO")  # itself, or as base64
    for said in (ended.stdout.encode(), ended.stderr.encode(), *files):
        assert secret.search(said) is None


def test_a_server_that_asks_for_no_authentication_is_warned_of_in_a_line(tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    env = environment(with_database(tmp_path))
    del env["PREFECT_SERVER_API_AUTH_STRING"]
    command = (*PREFECT, "server", "start", "--port", str(port))

    def is_up() -> bool:
        try:
            return httpx.get(f"{url}/health").is_success
        except httpx.TransportError:
            return False

    with started(*command, env=env, log=tmp_path / "server.log"):
        eventually(is_up)
        ended = in_process("automations", PREFECT_API_URL=url)  # it checks as `serve` does
    assert ended.returncode == 0
    (warned,) = ended.stderr.splitlines()
    assert warned.startswith(f"Warning: the Prefect server at {url} asks for no authentication")
    assert "PREFECT_SERVER_API_AUTH_STRING" in warned


@pytest.mark.parametrize(
    ("command", "auth"),
    [
        ("run", "tests:wrong"),
        ("serve", "tests:wrong"),
        ("automations", "tests:wrong"),
        ("announce", ""),
    ],
)
def test_a_wrong_auth_string_is_one_line(server: Server, table, tmp_path, command, auth):
    asked = ["--target", "yield", "--store", tmp_path]
    arguments = {
        "run": [table, *asked],
        "serve": ["--data", table, *asked],
        "announce": [table],
    }.get(command, [])
    ended = in_process(command, *arguments, PREFECT_API_AUTH_STRING=auth)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.endswith(refusal(server))
    assert "Traceback" not in ended.stderr


def refusal(server: Server) -> str:
    return (
        f"Error: the Prefect server at {server.url} answers 401 Unauthorized: set "
        "PREFECT_API_AUTH_STRING to the server's PREFECT_SERVER_API_AUTH_STRING\n"
    )

"""PostgreSQL for the tests: a server of its own that asks for a password."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from tests.flows.cli.programs import eventually, free_port

PASSWORD = "open sesame/&@#%41"  # noqa: S105 - of a server that lives for these tests
OWNER = "owner"
_READY = "ready to accept connections"


@dataclass
class Postgres:
    """A running server with one user and an empty database, ``shop``."""

    port: int
    log: Path
    start: Callable[[], "subprocess.Popen[bytes]"]
    program: "subprocess.Popen[bytes]"

    @property
    def address(self) -> str:
        """The database, as a source begins."""
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/shop"

    def at(self, asked: str) -> str:
        """Return the address of a table or a query."""
        return f"{self.address}#{asked}"

    def url(self, driver: str, database: str) -> str:
        """Return how a program connects as its owner, password included."""
        url = sa.URL.create(driver, OWNER, PASSWORD, "127.0.0.1", self.port, database)
        return url.render_as_string(hide_password=False)

    def restart(self, *, in_order: bool) -> None:
        """Stop it, in order or at once as a crash would, and start it again."""
        self.program.send_signal(signal.SIGINT if in_order else signal.SIGQUIT)
        self.program.wait(30)
        self.program = self.start()

    @contextmanager
    def connected(self, database: str = "shop") -> Iterator[sa.Connection]:
        """Connect as its owner; every statement is committed by itself."""
        url = self.url("postgresql+psycopg", database)
        engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection


def programs() -> Path | None:
    """Return the folder of the server's programs; Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


@contextmanager
def postgres(bin_folder: Path) -> Iterator[Postgres]:
    """Start the server on a folder of its own, and remove both."""
    # it refuses to run as root, and its user may not enter the folders of pytest
    user = "nobody" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="chaffinch-postgres-") as folder:
        home, port = Path(folder), free_port()
        (home / "password").write_text(PASSWORD)
        if user:
            for path in (home, home / "password"):
                os.chown(path, pwd.getpwnam(user).pw_uid, -1)
        data, log = home / "data", home / "log"
        made = ("initdb", f"--username={OWNER}", f"--pwfile={home / 'password'}", "--no-sync")
        subprocess.run(
            (bin_folder / made[0], *made[1:], "--auth=scram-sha-256", "--encoding=UTF8", data),
            user=user,
            cwd=folder,
            check=True,
            capture_output=True,
        )
        served = ("-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F")

        def start() -> "subprocess.Popen[bytes]":
            before = log.read_text().count(_READY)
            with log.open("a") as out:
                program = subprocess.Popen(
                    (bin_folder / "postgres", *served, "-c", "log_statement=all"),
                    user=user,
                    cwd=folder,
                    stdout=out,
                    stderr=out,
                )
            eventually(lambda: log.read_text().count(_READY) > before)
            return program

        log.touch()
        server = Postgres(port, log, start, start())
        try:
            with server.connected("postgres") as connection:
                connection.exec_driver_sql("CREATE DATABASE shop")
            yield server
        finally:
            server.program.terminate()
            server.program.wait(30)

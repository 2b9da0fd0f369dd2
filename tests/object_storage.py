"""Object storage for the tests: servers of their own, of which that for S3 checks who asks."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
import httpx
from pyarrow import fs

from tests.flows.cli.programs import eventually, free_port, started

ALLOWED = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


@dataclass(frozen=True)
class ObjectStorage:
    """A running server with one user and one bucket, ``shop``."""

    endpoint: str
    key: str
    secret: str
    log: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to read from it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    @property
    def files(self) -> fs.S3FileSystem:
        """The storage as its owner sees it."""
        return fs.S3FileSystem(
            access_key=self.key,
            secret_key=self.secret,
            endpoint_override=self.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def put(self, path: Path, at: str) -> str:
        """Copy a file, or a folder, to a place in the bucket; return its address."""
        fs.copy_files(str(path), f"shop/{at}", fs.LocalFileSystem(), self.files)
        return f"s3://shop/{at}"

    def below(self, address: str) -> dict[str, bytes]:
        """Return the content of every object below an address, by its name there."""
        place = address.removeprefix("s3://")
        below = fs.FileSelector(place, recursive=True, allow_not_found=True)
        return {
            info.path[len(place) + 1 :]: self.files.open_input_file(info.path).read()
            for info in self.files.get_file_info(below)
            if info.is_file
        }

    def n_read(self, at: str) -> int:
        """Return how often an object of the bucket has been read, be it in part."""
        return self.log.read_text().count(f"GET /shop/{at} ")


@contextmanager
def object_storage(folder: Path) -> Iterator[ObjectStorage]:
    """Start the server, with its log in a folder."""
    port, log = free_port(), folder / "s3.log"
    endpoint = f"http://127.0.0.1:{port}"
    command = (sys.executable, "-m", "moto.server", "-p", str(port))
    env = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "3"}  # those that make the user
    with started(*command, env=env, log=log):
        eventually(lambda: _answers(f"{endpoint}/moto-api/"))
        iam = boto3.client(
            "iam",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="nobody",
            aws_secret_access_key="nothing",  # noqa: S106
        )
        iam.create_user(UserName="reader")
        made = iam.create_access_key(UserName="reader")["AccessKey"]
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(ALLOWED))
        iam.close()
        storage = ObjectStorage(endpoint, made["AccessKeyId"], made["SecretAccessKey"], log)
        storage.files.create_dir("shop")
        yield storage


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


@dataclass(frozen=True)
class GoogleStorage:
    """A running server with one bucket, ``shop``."""

    host: str

    @property
    def environment(self) -> dict[str, str]:
        return {"STORAGE_EMULATOR_HOST": f"http://{self.host}"}

    def put(self, path: Path, at: str) -> str:
        """Copy a file, or a folder, to a place in the bucket; return its address."""
        files = fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=self.host)
        fs.copy_files(str(path), f"shop/{at}", fs.LocalFileSystem(), files)
        return f"gs://shop/{at}"


_GOOGLE = """
import sys
from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket="shop").run()
"""


@contextmanager
def google_storage(folder: Path) -> Iterator[GoogleStorage]:
    """Start the server, with its log in a folder."""
    storage = GoogleStorage(f"127.0.0.1:{free_port()}")
    port = storage.host.partition(":")[2]
    with started(sys.executable, "-c", _GOOGLE, port, env=os.environ, log=folder / "gcs.log"):
        eventually(lambda: _answers(f"http://{storage.host}/storage/v1/b/shop"))
        yield storage

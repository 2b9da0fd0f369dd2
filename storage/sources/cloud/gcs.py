"""Tables in Google Cloud Storage."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta

from pyarrow import fs

from chaffinch.storage.sources.addresses import check_no_secret
from chaffinch.storage.sources.cloud.objects import NO_ANSWER, ObjectSource

_EMULATOR = "STORAGE_EMULATOR_HOST"  # as Google's own libraries name it
_ANSWER = timedelta(seconds=10)  # for each request, retries included
_NO_TOKEN = re.compile(r"access token .*?error message was: (.*?) error_info=", re.DOTALL)
_DENIED = ("PERMISSION_DENIED", "UNAUTHENTICATED")


@dataclass(frozen=True)
class GcsSource(ObjectSource):
    """An object, or a folder of Parquet objects, in Google Cloud Storage."""

    scheme = "gs"
    variables = ()  # pyarrow finds the credentials itself
    form = "Google Cloud Storage is gs://bucket/key"
    hint = "credentials are those of GOOGLE_APPLICATION_CREDENTIALS in the environment"

    @property
    def endpoint(self) -> str | None:
        endpoint = os.environ.get(_EMULATOR)
        if not endpoint:
            return None
        check_no_secret(endpoint, _EMULATOR)
        return endpoint.rstrip("/")

    def connect(self, secrets: tuple[str | None, ...]) -> fs.GcsFileSystem:
        if self.endpoint is None:
            return fs.GcsFileSystem(retry_time_limit=_ANSWER)
        scheme, _, host = self.endpoint.rpartition("://")
        return fs.GcsFileSystem(
            anonymous=True,
            scheme=scheme or "http",
            endpoint_override=host,
            retry_time_limit=_ANSWER,
        )

    def explain(self, error: str) -> str:
        if match := _NO_TOKEN.search(error):
            return (
                f"there are no credentials for {self} ({match[1]}); name a file of them in "
                "GOOGLE_APPLICATION_CREDENTIALS"
            )
        if any(code in error for code in _DENIED):
            return (
                f"reading {self} is not allowed; check GOOGLE_APPLICATION_CREDENTIALS in the "
                "environment, and what they may do with the bucket"
            )
        if "Could not connect" in error or "Couldn't connect" in error:
            who = self.endpoint or "Google Cloud Storage"
            return f"{who} {NO_ANSWER} {self}; check the network and {_EMULATOR}"
        return super().explain(error.partition(" error_info=")[0])

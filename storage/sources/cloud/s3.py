"""Tables in S3-compatible storage."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache

from pyarrow import fs

from chaffinch.errors import InputError
from chaffinch.storage.sources.addresses import check_no_secret
from chaffinch.storage.sources.cloud.objects import NO_ANSWER, ObjectSource

_DENIED = (
    "ACCESS_DENIED",
    "EXPIRED_TOKEN",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "MISSING_AUTHENTICATION_TOKEN",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNRECOGNIZED_CLIENT",
)
_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 30.0


@dataclass(frozen=True)
class S3Source(ObjectSource):
    """An object, or a folder of Parquet objects, in S3-compatible storage."""

    scheme = "s3"
    variables = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    form = "S3 is s3://bucket/key"
    hint = (
        "endpoint and region are those of AWS_ENDPOINT_URL and AWS_DEFAULT_REGION in the "
        "environment"
    )

    @property
    def endpoint(self) -> str | None:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if not endpoint:
            return None
        check_no_secret(endpoint, "AWS_ENDPOINT_URL")
        return endpoint.rstrip("/")

    @property
    def region(self) -> str:
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if region:
            return region
        return "us-east-1" if self.endpoint else _region_of(self.bucket)

    def checked(self, secrets: tuple[str | None, ...]) -> tuple[str | None, ...]:
        """Return credentials; InputError for half of them."""
        key, secret, _ = secrets
        if key and not secret:
            raise InputError(
                "AWS_ACCESS_KEY_ID is there but AWS_SECRET_ACCESS_KEY is not; set both, or neither"
            )
        return secrets

    def connect(self, secrets: tuple[str | None, ...]) -> fs.S3FileSystem:
        key, secret, token = self.checked(secrets)
        return fs.S3FileSystem(
            access_key=key,
            secret_key=secret,
            session_token=token,
            endpoint_override=self.endpoint,
            region=self.region,
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_ANSWER_SECONDS,
        )

    def explain(self, error: str) -> str:
        code = re.search(r"AWS Error (\w+)", error)
        if code and code[1] in _DENIED:
            return self.denied(f"reading {self}", code[1])
        if code and code[1] == "NETWORK_CONNECTION":
            return self.no_answer(str(self))
        return super().explain(error)

    def denied(self, what: str, code: str) -> str:
        return (
            f"{what} is not allowed ({code}); check AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY in the environment, and what they may do with the bucket"
        )

    def no_answer(self, what: str) -> str:
        who = self.endpoint or "Amazon S3"
        return f"{who} {NO_ANSWER} {what}; check AWS_ENDPOINT_URL and the network"


@cache
def _region_of(bucket: str) -> str:
    region: str = fs.resolve_s3_region(bucket)
    return region

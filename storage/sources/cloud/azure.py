"""Tables in Azure Data Lake Storage and Azure Blob Storage."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyarrow import fs

from chaffinch.storage.sources.cloud.objects import NO_ANSWER, ObjectSource

_DENIED = ("] 401 ", "] 403 ", "AuthenticationException", "Base64")


@dataclass(frozen=True)
class AzureSource(ObjectSource):
    """A file, or a folder of Parquet files, in a container of a storage account."""

    scheme = "abfss"
    variables = ("AZURE_STORAGE_KEY",)
    places = re.compile(r"([^@]+)@([^@.:]+)(\.dfs\.[^@:]+)")
    form = "Azure is abfss://container@account.dfs.core.windows.net/path"
    hint = "credentials are those of AZURE_STORAGE_KEY, or of AZURE_CLIENT_ID, in the environment"

    @property
    def root(self) -> str:
        return self.bucket.partition("@")[0]

    def connect(self, secrets: tuple[str | None, ...]) -> fs.AzureFileSystem:
        _, account, domain = self.places.fullmatch(self.bucket).groups()  # type: ignore[union-attr]
        (key,) = secrets
        return fs.AzureFileSystem(
            account,
            account_key=key,
            dfs_storage_authority=domain,
            blob_storage_authority=domain.replace(".dfs.", ".blob.", 1),
        )

    def explain(self, error: str) -> str:
        if any(code in error for code in _DENIED):
            return (
                f"reading {self} is not allowed; check AZURE_STORAGE_KEY, or AZURE_CLIENT_ID, "
                "AZURE_TENANT_ID and AZURE_CLIENT_SECRET, in the environment"
            )
        if "Fail to get a new connection" in error:
            return f"Azure {NO_ANSWER} {self}; check the account's name and the network"
        return super().explain(error)

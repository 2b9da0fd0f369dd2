"""Settings of who computes a descent."""

from pydantic import model_validator

from chaffinch.tasks.settings.base import (
    Cluster,
    Settings,
    WorkerCount,
    check_workers_needed,
    setting,
)


class SharingSettings(Settings):
    """Who reads and computes; nothing here changes a result."""

    cluster: Cluster = setting(
        "none",
        "none: this process alone; local: worker processes on this machine; or the address of a "
        "Dask scheduler such as tcp://host:8786, whose workers read the file themselves.",
    )
    workers: WorkerCount | None = setting(
        None, "Worker processes of a local cluster. By default one per core."
    )

    @model_validator(mode="after")
    def _workers_are_needed(self) -> "SharingSettings":
        check_workers_needed(self.cluster, self.workers)
        return self

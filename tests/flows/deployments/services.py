"""The programs that compose.yaml and the Kubernetes manifests start, in one form for both."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[3] / "deployments"
OURS = "chaffinch"  # the image of deployments/Dockerfile


@dataclass(frozen=True)
class Service:
    """One program: where it is described, what it is called, and how it is started.

    Attributes
    ----------
    environment : dict
        What is referred to, not said, is None.
    checks : list
        The commands that ask whether it is well.
    """

    where: str
    name: str
    image: str
    command: list[str]
    environment: dict[str, str | None]
    checks: list[list[str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.where}-{self.name}"

    @property
    def is_ours(self) -> bool:
        """Whether it runs in our image."""
        return self.image.partition(":")[0] == OURS

    @property
    def commands(self) -> list[list[str]]:
        """Whatever is started in its container."""
        return [*([self.command] if self.command else []), *self.checks]


def compose() -> dict[str, Any]:
    """Return what compose.yaml says."""
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


def compose_services() -> list[Service]:
    """Return the programs of compose.yaml."""
    found = []
    for name, service in compose()["services"].items():
        check = service.get("healthcheck", {}).get("test")
        values = service.get("environment", {})
        environment = {k: None if "${" in v else v for k, v in values.items()}
        checks = [check[1:]] if check else []
        started = service.get("command", [])
        found.append(Service("compose", name, service["image"], started, environment, checks))
    return found


def manifests() -> list[dict[str, Any]]:
    """Return the objects that the kustomization names."""
    folder = FOLDER / "kubernetes"
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [one for file in named for one in yaml.safe_load_all((folder / file).read_text())]


def kubernetes_services() -> list[Service]:
    """Return the programs of the manifests."""
    found = []
    for one in manifests():
        if one["kind"] != "Deployment":
            continue
        (pod,) = one["spec"]["template"]["spec"]["containers"]
        environment = {entry["name"]: entry.get("value") for entry in pod.get("env", [])}
        checks = [
            probe["exec"]["command"]
            for name, probe in pod.items()
            if name.endswith("Probe") and "exec" in probe
        ]
        found.append(
            Service(
                "kubernetes", pod["name"], pod["image"], pod.get("command", []), environment, checks
            )
        )
    return found


def asked_of(service: Service) -> set[tuple[str, int]]:
    """Return the other services that one names, with the port, as in ``tcp://name:8786``."""
    said = " ".join([*service.command, *filter(None, service.environment.values())])
    found = {(host, int(port)) for host, port in re.findall(r"://([a-z0-9-]+):(\d+)", said)}
    host = service.environment.get("PREFECT_SERVER_DATABASE_HOST")
    if host:
        found.add((host, int(service.environment["PREFECT_SERVER_DATABASE_PORT"] or 0)))
    return found

"""The Kubernetes manifests by themselves: names that must agree, rights, resources, probes."""

import re

import pytest
import yaml

from tests.flows.deployments.services import FOLDER, manifests

KUSTOMIZATION = yaml.safe_load((FOLDER / "kubernetes" / "kustomization.yaml").read_text())
ALL = manifests()
DEPLOYMENTS = [one for one in ALL if one["kind"] == "Deployment"]
of_every_deployment = pytest.mark.parametrize(
    "deployment", DEPLOYMENTS, ids=lambda one: one["metadata"]["name"]
)


def names(kind: str) -> set[str]:
    return {one["metadata"]["name"] for one in ALL if one["kind"] == kind}


def pod_of(deployment):
    return deployment["spec"]["template"]["spec"]


def test_the_kustomization_names_every_file():
    there = {path.name for path in (FOLDER / "kubernetes").iterdir()}
    assert {*KUSTOMIZATION["resources"], "kustomization.yaml"} == there
    assert names("Namespace") == {KUSTOMIZATION["namespace"]}


def test_the_image_has_the_version_of_the_package():
    project = (FOLDER.parent / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.*)"$', project, re.MULTILINE)[1]
    (image,) = KUSTOMIZATION["images"]
    assert (image["name"], image["newTag"]) == ("chaffinch", version)
    assert f"image: chaffinch:{version}\n" in (FOLDER / "compose.yaml").read_text()
    assert f"chaffinch:{version} " in (FOLDER / "Dockerfile").read_text()


def test_no_file_needs_more_of_yaml_than_every_reader_has():
    for path in (FOLDER / "kubernetes").iterdir():
        assert not re.search(r"(^|\s)(&\w+|\*\w+|<<:)(\s|$)", path.read_text())


@of_every_deployment
def test_it_selects_its_own_pods_and_no_other(deployment):
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert labels == {"app": deployment["metadata"]["name"]}


def test_every_service_leads_to_a_port_of_a_pod():
    pods = {one["metadata"]["name"]: pod_of(one)["containers"][0] for one in DEPLOYMENTS}
    for service in (one["spec"] for one in ALL if one["kind"] == "Service"):
        ports = {
            port["name"]: port["containerPort"]
            for port in pods[service["selector"]["app"]]["ports"]
        }
        for port in service["ports"]:
            assert ports[port["targetPort"]] == port["port"]


@of_every_deployment
def test_it_may_do_nothing_that_it_does_not_need(deployment):
    pod = pod_of(deployment)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == rights


@of_every_deployment
def test_no_variable_is_set_behind_its_back(deployment):
    """For a service `prefect` Kubernetes would set PREFECT_PORT and more."""
    assert pod_of(deployment)["enableServiceLinks"] is False


@of_every_deployment
def test_it_has_resources_and_is_asked_whether_it_is_well(deployment):
    (container,) = pod_of(deployment)["containers"]
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    ports = {port["name"] for port in container.get("ports", [])}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe].get("httpGet")
        assert asked is None or asked["port"] in ports


@of_every_deployment
def test_what_has_a_volume_is_never_there_twice(deployment):
    claims = [
        v["persistentVolumeClaim"]["claimName"] for v in pod_of(deployment).get("volumes", [])
    ]
    assert set(claims) <= names("PersistentVolumeClaim")
    (container,) = pod_of(deployment)["containers"]
    assert [mount["name"] for mount in container.get("volumeMounts", [])] == claims
    if claims:
        assert deployment["spec"]["replicas"] == 1
        assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_every_secret_and_setting_that_is_referred_to_is_one_that_is_given():
    offered = re.findall(r"^(\w+)=", (FOLDER / "env.example").read_text(), re.MULTILINE)
    entries = [e for one in DEPLOYMENTS for e in pod_of(one)["containers"][0].get("env", [])]
    secrets = [entry["valueFrom"]["secretKeyRef"] for entry in entries if "valueFrom" in entry]
    assert {secret["name"] for secret in secrets} == {"chaffinch"}
    assert {secret["key"] for secret in secrets if not secret.get("optional")} <= set(offered)
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    given = {literal.partition("=")[0] for literal in generated["literals"]}
    (serve,) = (
        pod_of(one)["containers"][0] for one in DEPLOYMENTS if one["metadata"]["name"] == "serve"
    )
    assert serve["envFrom"] == [{"configMapRef": {"name": generated["name"]}}]
    assert {word[2:-1] for word in serve["command"] if word.startswith("$(")} <= given


def test_the_text_says_where_every_secret_is_read_from():
    text = (FOLDER / "README.md").read_text().partition("\n## On Kubernetes\n")[2]
    text = text.partition("\n## ")[0]
    (file,) = re.findall(r"--from-env-file=(\S+)", text)
    assert file == "deployments/.env"
    offered = re.findall(r"^(\w+)=", (FOLDER / "env.example").read_text(), re.MULTILINE)
    entries = [e for one in DEPLOYMENTS for e in pod_of(one)["containers"][0].get("env", [])]
    keys = {e["valueFrom"]["secretKeyRef"]["key"] for e in entries if "valueFrom" in e}
    (more,) = keys - set(offered)  # which who fills in the example would not think of
    said = " ".join(text.split())
    assert re.search(rf"a line `{more}=\.\.\.`[^.]* goes into `\.env` here", said)
    assert "`credentials.env` is not read" in said


def test_only_pods_of_the_namespace_are_let_in():
    (policy,) = (one["spec"] for one in ALL if one["kind"] == "NetworkPolicy")
    assert policy == {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
    }

"""The Kubernetes manifests by themselves: names that must agree, rights, resources, probes."""

import re
from pathlib import Path

import pytest
import yaml

import chaffinch
from tests.flows.deployments.services import FOLDER, asked_of, kubernetes_services, manifests

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
    version = chaffinch.__version__
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
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}  # noqa: S108


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
    volumes = pod_of(deployment)["volumes"]
    (container,) = pod_of(deployment)["containers"]
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    assert mounted == [volume["name"] for volume in volumes]
    claims = {v["name"]: v["persistentVolumeClaim"] for v in volumes if "emptyDir" not in v}
    assert claims == {name: {"claimName": name} for name in claims}
    assert set(claims) <= names("PersistentVolumeClaim")
    if claims:
        assert deployment["spec"]["replicas"] == 1
        assert deployment["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("name", ["serve", "dask-worker"])
def test_what_reads_the_store_has_its_address_keys_and_a_cache_on_a_disk(name):
    (pod,) = (pod_of(one) for one in DEPLOYMENTS if one["metadata"]["name"] == name)
    (container,) = pod["containers"]
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert container["envFrom"] == [{"configMapRef": {"name": generated["name"]}}]
    given = {literal.partition("=")[0] for literal in generated["literals"]}
    assert given >= {"STORE", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"}
    environment = {entry["name"]: entry for entry in container["env"]}
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert environment[key]["valueFrom"]["secretKeyRef"]["key"] == key
    cache = Path(environment["CHAFFINCH_CACHE"]["value"])
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert {"name": mounted[str(cache.parent)], "emptyDir": {}} in pod["volumes"]


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
    assert {word[2:-1] for word in serve["command"] if word.startswith("$(")} <= given


POLICIES = [one["spec"] for one in ALL if one["kind"] == "NetworkPolicy"]
PODS = {one["metadata"]["name"] for one in DEPLOYMENTS}


def selected(selector, pod):
    return selector.get("matchLabels", {}).items() <= {"app": pod}.items()


def may(direction, pod, other, port):
    """Return whether policies let a pod take from another (Ingress), or send to it (Egress)."""
    rules = [
        rule
        for policy in POLICIES
        if direction in policy["policyTypes"] and selected(policy["podSelector"], pod)
        for rule in policy.get(direction.lower(), [])
    ]
    side = {"Ingress": "from", "Egress": "to"}[direction]
    return any(
        ("ports" not in rule or port in {one["port"] for one in rule["ports"]})
        and any(
            "namespaceSelector" not in peer and selected(peer["podSelector"], other)
            for peer in rule[side]
            if "podSelector" in peer
        )
        for rule in rules
    )


def test_pods_reach_only_what_they_ask():
    ports = {4200, 5432, 8786, 8787, 8788, 40_000}
    reached = {
        (one, other, port)
        for one in PODS
        for other in PODS
        for port in ports
        if may("Egress", one, other, port) and may("Ingress", other, one, port)
    }
    of_dask = {(one, "dask-worker") for one in ("dask-scheduler", "dask-worker")}
    assert reached == {
        ("prefect", "postgres", 5432),
        ("serve", "prefect", 4200),
        ("serve", "dask-scheduler", 8786),
        ("dask-worker", "dask-scheduler", 8786),
        *((*pair, port) for pair in of_dask for port in ports),  # of its own choice
    }
    for service in kubernetes_services():
        assert {(service.name, *asked) for asked in asked_of(service)} <= reached


def test_whatever_is_not_named_is_neither_let_in_nor_out_and_two_pods_reach_the_world():
    nothing = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert nothing in POLICIES
    world = {}
    for policy in POLICIES:
        rules = [*policy.get("ingress", []), *policy.get("egress", [])]
        peers = [peer for rule in rules for peer in rule.get("from", rule.get("to"))]
        assert all(peers)
        assert not [p for rule in policy.get("ingress", []) for p in rule["from"] if "ipBlock" in p]
        for rule in policy.get("egress", []):
            if any("ipBlock" in peer for peer in rule["to"]):
                ports = {port["port"] for port in rule["ports"]}
                world[policy["podSelector"]["matchLabels"]["app"]] = ports
    assert world == {"serve": {443, 5432}, "dask-worker": {443}}

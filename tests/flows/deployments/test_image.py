"""The Dockerfile, as far as it can be held to its word without Docker."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.flows.deployments.services import FOLDER

ROOT = FOLDER.parent
LINES = re.sub(r"\\\n", " ", (FOLDER / "Dockerfile").read_text()).splitlines()
COPIED = [word for line in LINES if line.startswith("COPY ") and "--from" not in line
          for word in line.split()[1:-1]]  # fmt: skip


def instruction(name: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{name} ")]


def test_what_is_copied_is_there_and_is_sent_to_the_builder():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    assert rules[0] == "*"  # so that no secret of a folder is ever sent
    let_in = {rule[1:] for rule in rules if rule.startswith("!")}
    assert let_in == set(COPIED)
    assert all((ROOT / path).exists() for path in COPIED)


@pytest.mark.e2e
def test_the_package_is_whole_when_built_of_what_is_copied(tmp_path):
    context = tmp_path / "context"
    context.mkdir()
    for path in COPIED:
        if (ROOT / path).is_dir():
            skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / path, context / path, symlinks=True, ignore=skip)
        else:
            shutil.copy(ROOT / path, context / path)
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run((*build, "--wheel-dir", str(tmp_path), str(context)), check=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for room in ("flows", "tasks", "storage"):
        files = (
            p.relative_to(ROOT) for p in (ROOT / room).rglob("*") if p.suffix in (".py", ".html")
        )
        assert {f"chaffinch/{path}" for path in files} <= inside
    assert "chaffinch/__init__.pyi" in inside


def test_every_package_that_it_needs_has_a_version_in_the_lock():
    locked = {
        canonicalize_name(line.partition("==")[0])
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if "==" in line
    }
    left, needed = {("chaffinch", ("postgres",))}, set()
    while left:
        name, extras = left.pop()
        needed.add(name)
        try:
            asked = requires(name) or []
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed")
        for requirement in map(Requirement, asked):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras)):
                found = canonicalize_name(requirement.name)
                if found not in needed:
                    left.add((found, tuple(requirement.extras)))
    assert needed - {"chaffinch"} <= locked


def test_what_it_is_built_of_is_pinned():
    (python,) = (line for line in instruction("ARG") if line.startswith("PYTHON="))
    assert re.fullmatch(r"PYTHON=python:3\.11\.\d+-slim-\w+@sha256:[0-9a-f]{64}", python)
    assert {line.split()[0] for line in instruction("FROM")} == {"${PYTHON}"}
    installs = re.findall(r"pip install ([^&]+)", " && ".join(instruction("RUN")))
    assert len(installs) == 3
    for options in installs:
        assert "--extra-index-url" not in options
        assert "--no-deps" in options
        assert ("--require-hashes" in options) != (options.endswith("--no-build-isolation . "))


def test_it_runs_as_nobody_in_particular_and_stops_as_by_ctrl_c():
    assert instruction("USER") == ["10001"]
    assert instruction("STOPSIGNAL") == ["SIGINT"]
    (made,) = (line for line in instruction("RUN") if "useradd" in line)
    assert "--uid 10001" in made
    for folder in ("/srv/chaffinch", "/srv/prefect"):  # a new volume there takes over its owner
        assert folder in made


def test_its_variables_are_settings_and_no_secrets():
    from prefect import settings

    said = dict(re.findall(r"(\w+)=(\S+)", " ".join(instruction("ENV"))))
    prefect = {name for name in said if name.startswith("PREFECT_")}
    assert [name for name in prefect if not hasattr(settings, name)] == []
    assert said["PREFECT_HOME"] == "/srv/prefect"
    assert not [name for name in said if re.search("PASSWORD|SECRET|KEY|TOKEN", name)]


def test_programs_of_the_image_have_the_heartbeat_that_automations_expect():
    from chaffinch.flows.prefect_runtime.server import _DEFAULTS

    said = dict(re.findall(r"(\w+)=(\S+)", " ".join(instruction("ENV"))))
    name = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
    assert said[name] == _DEFAULTS[name]
    assert f'{name}: "{_DEFAULTS[name]}"' in Path(FOLDER / "prefect.yaml").read_text()

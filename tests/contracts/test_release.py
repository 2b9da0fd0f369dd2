"""The wheel and the source distribution install into a fresh environment, and work there."""

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import chaffinch
from tests.distributions import ROOT, build

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("built"), "sdist", "wheel")


def names_and_links(path):
    """Return the files of a distribution below the package, and how many are no real files."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {*archive.namelist()}, 0
    with tarfile.open(path) as archive:
        files = [one for one in archive.getmembers() if not one.isdir()]
    names = {one.name.partition("/")[2].removeprefix("src/") for one in files}
    return names, sum(not one.isreg() for one in files)


@pytest.mark.parametrize("ending", ["whl", "tar.gz"])
def test_it_has_every_file_of_the_package_and_no_tests(built, ending):
    (path,) = built.glob(f"chaffinch-{chaffinch.__version__}*.{ending}")
    names, n_links = names_and_links(path)
    tracked = subprocess.check_output(
        ["git", "ls-files", "flows", "tasks", "storage", "src/chaffinch"], cwd=ROOT, text=True
    ).split()
    kinds = (".py", ".pyi", ".html", ".js", ".json", ".md", "py.typed")
    package = {f"chaffinch/{name.removeprefix('src/chaffinch/')}" for name in tracked}
    assert {name for name in package if name.endswith(kinds)} <= names
    assert n_links == 0
    assert not any("test" in Path(name).parts[0] for name in names)


def test_it_installs_and_does_what_its_readme_promises(built, tmp_path):
    (path,) = built.glob("*.tar.gz")  # of which a wheel is made before
    uv = Path(sys.executable).with_name("uv")
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, tmp_path / "venv"], check=True)
    # what it depends on comes from this environment, so that nothing is downloaded
    (site,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    offline = ("--offline", "--no-deps", "--no-build-isolation")
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *offline, path], check=True)

    (metadata,) = site.glob("chaffinch-*.dist-info/METADATA")
    described = email.message_from_string(metadata.read_text())
    assert described["Version"] == chaffinch.__version__
    readme = described.get_payload()
    assert re.findall(r"\]\((?!https?:)", readme) == []  # links of a repository are dead here
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    code += "print(chaffinch.__file__, len(result.features), result.model.predict(table).shape)"

    def run(*command):
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.check_output(command, cwd=tmp_path, env=env, text=True)

    assert run(python.with_name("chaffinch"), "--version").split()[-1] == chaffinch.__version__
    file, n_features, shape = run(python, "-c", code).split(maxsplit=2)
    assert Path(file).parent == site / "chaffinch"
    assert 0 < int(n_features) <= 30
    assert shape == "(569,)\n"

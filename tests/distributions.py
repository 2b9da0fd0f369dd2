"""The distributions of the package, built as a release builds them."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def build(folder, *kinds):
    """Build distributions, of the kinds sdist and wheel, from the tracked files into a folder."""
    copy = folder / "checkout"
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, tracked.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    for kind in kinds:
        build = f"from setuptools import build_meta; build_meta.build_{kind}({str(folder)!r})"
        subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    return folder

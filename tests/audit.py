"""Known vulnerabilities of the versions in requirements.lock, where the registry can be asked."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"


def main() -> None:
    """Print the vulnerabilities, or why nothing was asked; exit 1 if there are any."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "audit.json")
        asked = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
        asked += ["--requirement", LOCK, "--format", "json", "--output", report]
        done = subprocess.run(asked, capture_output=True, text=True)
        if not report.exists():
            *_, reason = done.stderr.strip().splitlines() or ["no reason given"]
            if not reason.startswith("requests.exceptions."):
                sys.exit(f"the audit failed: {reason}")
            print("audit skipped: the registry cannot be reached")
            return
        packages = json.loads(report.read_text())["dependencies"]
    audited = [package for package in packages if "vulns" in package]
    if not audited:
        print("audit skipped: the registry does not list vulnerabilities")
        return
    found = [(package, vulnerability) for package in audited for vulnerability in package["vulns"]]
    for package, vulnerability in found:
        fixed = ", ".join(vulnerability["fix_versions"]) or "no version"
        print(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
    print(f"{len(audited)} of {len(packages)} packages audited, {len(found)} vulnerabilities")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

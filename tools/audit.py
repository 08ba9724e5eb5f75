"""Compares what is installed with the lock, and writes a bill of materials. Run by `make audit`; needs no network.

1. Every installed package has the version of requirements.lock, and every file of it the hash that its own RECORD says.
2. The requirements of all packages fit each other (`pip check`).
3. Known vulnerabilities: by pip-audit, if it is installed and can reach its database; otherwise a message says that
   they were not checked.
4. build/sbom.cdx.json: all of them in CycloneDX's format, with licences and the hashes of the lock.
"""

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clearhead.files import write_whole
from tools.lock import NOT_LOCKED, ROOT, canonical, read_lock

BILL = ROOT / "build" / "sbom.cdx.json"


def main() -> None:
    """Print what is wrong; the exit code is 1 if something is."""
    packages = {canonical(one.metadata["Name"]): one for one in distributions()}
    locked = {name for name in packages if name not in NOT_LOCKED}
    problems = [*_versions(packages), *(problem for name in sorted(locked) for problem in _changed(packages[name]))]
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    problems += done.stdout.strip().splitlines() if done.returncode else []
    for problem in problems:
        print(problem)
    BILL.parent.mkdir(exist_ok=True)
    write_whole(BILL, json.dumps(bill(packages), indent=1, ensure_ascii=False).encode())
    print(f"{len(locked)} packages: versions, files and requirements {'differ' if problems else 'are as locked'}")
    print(_vulnerabilities())
    print(f"bill of materials: {BILL.relative_to(ROOT)}")
    sys.exit(1 if problems else 0)


def _versions(packages: dict[str, Distribution]) -> Iterator[str]:
    """Packages that are missing, too many, or of another version than the lock says."""
    locked = read_lock()
    for name in sorted(locked.keys() | packages.keys()):
        if name in NOT_LOCKED:
            continue
        if name not in packages:
            yield f"{name}: is locked, but not installed"
        elif name not in locked:
            yield f"{name}: is installed, but not locked"
        elif packages[name].version.partition("+")[0] != locked[name][0]:
            yield f"{name}: {packages[name].version} is installed, {locked[name][0]} is locked"


def _changed(package: Distribution) -> Iterator[str]:
    """Files that are not what their package's RECORD says."""
    for file in package.files or []:
        if file.hash is None or file.hash.mode != "sha256":
            continue
        try:
            with Path(str(file.locate())).open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").digest()
        except OSError:
            yield f"{package.metadata['Name']}: {file} is missing"
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"{package.metadata['Name']}: {file} was changed after it was installed"


def _vulnerabilities() -> str:
    if find_spec("pip_audit") is None:
        return "known vulnerabilities: not checked (pip-audit is not installed)"
    done = subprocess.run([sys.executable, "-m", "pip_audit", "--progress-spinner", "off"], check=False)
    return f"known vulnerabilities: pip-audit ended with {done.returncode} (0: none known)"


def bill(packages: dict[str, Distribution]) -> dict[str, Any]:
    """All packages in CycloneDX's JSON; reproducible, so that it can be compared."""
    locked = read_lock()
    components = []
    for name, package in sorted(packages.items()):
        if name in NOT_LOCKED:
            continue
        named = package.metadata.json
        licence = str(named.get("license_expression") or named.get("license") or "").strip()
        version = package.version
        components.append(
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "purl": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "licenses": [{"license": {"name": licence.splitlines()[0][:80]}}] if licence else [],
                "hashes": [{"alg": "SHA-256", "content": one} for one in sorted(locked.get(name, ("", ()))[1])],
            }
        )
    own = packages.get("clearhead")
    subject = {"type": "library", "name": "clearhead", "version": own.version if own else "unknown"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": subject},
        "components": components,
    }


if __name__ == "__main__":
    main()

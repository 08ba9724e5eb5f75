"""Writes requirements.lock: the exact versions of all installed packages, with hashes. Run by `make lock`.

Hashes are those that the package index gives for every file of a version, so that the lock holds on other systems and
Pythons too. Of a build that the index does not have, such as torch's for CPUs alone, the file that pip fetches here is
hashed.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from urllib.request import urlopen

from clearhead.files import sha256_of, write_whole

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
HEAD = """\
# Exact versions and hashes for `make setup`: clearhead, its extras and its tools. Made by `make lock`.
# It is complete, and installed with --require-hashes --no-deps. One exception: where the index has torch only in its
# build for GPUs, `make setup` lets pip add the GPU libraries that this build names, which are not listed here; torch's
# own file is hashed in either build.
"""
NOT_LOCKED = ("pip", "clearhead")


@cache
def index() -> str:
    """The package index that pip is configured to use, or pip's default."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not asked:
        from pip._internal.models.index import PyPI

        asked = str(PyPI.simple_url)
    return asked.rstrip("/")


def canonical(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Versions of all installed packages."""
    found = {canonical(one.metadata["Name"]): one.version for one in distributions()}
    return {name: version for name, version in sorted(found.items()) if name not in NOT_LOCKED}


def read_lock(path: Path = LOCK) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and hashes of every package."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    locked = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, version = line.split()[0].split("==")
            locked[canonical(name)] = (version, frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", line)))
    return locked


def main() -> None:
    """Write the lock."""
    lines = [HEAD]
    for name, version in installed().items():
        public, _, local = version.partition("+")
        hashes = {*_listed(name, public), *(_fetched(name, public) if local else ())}
        if not hashes:
            sys.exit(f"{name} {version}: the index has no file of this version")
        lines.append(
            " \\\n    ".join([f"{name}=={public}", *(f"--hash=sha256:{one}" for one in sorted(hashes))]) + "\n"
        )
    write_whole(LOCK, "".join(lines).encode())


def _listed(name: str, version: str) -> Iterator[str]:
    """The hashes of a version's files, from the index."""
    with urlopen(f"{index()}/{name}/", timeout=60) as answer:
        page = answer.read().decode()
    for file, digest in re.findall(r'/([^/"#]+)#sha256=([0-9a-f]{64})', page):
        if _version(file, name) == version:
            yield digest


def _version(file: str, name: str) -> str:
    """The version in the name of a wheel or of a source archive."""
    stem = re.sub(r"\.(whl|tar\.gz|zip|tar\.bz2)(\.metadata)?$", "", file)
    if file.endswith(".whl"):
        return stem.split("-")[1]
    return stem[len(name) + 1 :] if canonical(stem).startswith(f"{name}-") else ""


def _fetched(name: str, version: str) -> Iterator[str]:
    """The hash of the file that pip downloads on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*command, f"{name}=={version}"], check=True)
        for file in Path(folder).iterdir():
            yield sha256_of(file)


if __name__ == "__main__":
    main()

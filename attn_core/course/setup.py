"""Are the installed packages those that the notebooks were checked with?"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

LOCK = Path(__file__).parents[2] / "requirements.lock"  # in a clone; an installed wheel has none
NAMES_AT_MOST = 8


def versions_unlike_lock(lock: Path | str | None = None) -> list[str]:
    """Every installed package of another version than the lock names, as "numpy 2.3.0 (lock: 2.4.6)".

    lock: a requirements file; that of the project unless given. torch stands in no lock, since its builds differ by
    platform: its version is the one of the environment.yml beside the lock. Builds (+cpu, +cu128) are not compared,
    packages that are not installed not named. Empty where the project's lock is not there.
    """
    if lock is None and not LOCK.exists():
        return []
    lock = LOCK if lock is None else Path(lock)
    installed = _installed_versions()
    differences = []
    for name, wanted in [*_pins(lock), *_torch_pin(lock.with_name("environment.yml"))]:
        version = installed.get(canonicalize_name(name))
        if version is not None and _release(version) != _release(wanted):
            differences.append(f"{name} {version} (lock: {wanted})")
    return differences


def print_version_differences() -> None:
    """One line if installed packages differ from the lock, nothing if all are as they were checked."""
    differences = versions_unlike_lock()
    if differences:
        more = len(differences) - NAMES_AT_MOST
        names = ", ".join(differences[:NAMES_AT_MOST]) + (f" and {more} more" if more > 0 else "")
        print(f"Other versions than the course was checked with: {names}. Numbers may differ in the last digits.")


def _pins(lock: Path) -> Iterator[tuple[str, str]]:
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")  # hashes stand on lines of their own
    for line in text.splitlines():
        line = re.split(r"\s--hash=|(?:^|\s)#", line)[0].strip()
        if not line or line.startswith("-"):
            continue
        requirement = Requirement(line)
        pins = [clause.version for clause in requirement.specifier if clause.operator == "=="]
        if pins and (requirement.marker is None or requirement.marker.evaluate()):
            yield requirement.name, pins[0]


def _torch_pin(environment: Path) -> Iterator[tuple[str, str]]:
    text = environment.read_text(encoding="utf-8") if environment.exists() else ""
    pin = re.search(r"^\s*-\s*torch==([\w.]+)", text, re.MULTILINE)
    if pin:
        yield "torch", pin[1]


def _installed_versions() -> dict[str, str]:
    """By name, read from the names of the .dist-info folders: to open 130 METADATA files would take far longer."""
    found = {}
    for folder in dict.fromkeys(sys.path):
        for info in Path(folder).glob("*.dist-info"):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            found.setdefault(canonicalize_name(name), version)  # what comes first on the path is what gets imported
    return found


def _release(version: str) -> Version:
    return Version(Version(version).public)

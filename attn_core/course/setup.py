"""Are the installed packages those that the notebooks were checked with?"""

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

LOCK = Path(__file__).parents[2] / "requirements.lock"  # in a clone; an installed wheel has none
NAMES_AT_MOST = 8


def versions_unlike_lock(lock: Path | None = None) -> list[str]:
    """Every installed package of another version than the lock names, as "numpy 2.3.0 (lock: 2.4.6)".

    lock: that of the project unless given; empty where it is not there. torch stands in no lock, since its builds
    differ by platform: its version is that of the environment.yml beside the lock. Builds (+cpu, +cu128) are not
    compared, packages that are not installed not named.
    """
    lock = lock or LOCK
    files = [file for file in (lock, lock.with_name("environment.yml")) if file.exists()]
    pins = [pin for file in files for pin in re.findall(r"^[- ]*(\w\S*==.*)", file.read_text("utf-8"), re.MULTILINE)]
    differences = []
    for pin in map(Requirement, pins):
        wanted = Version(str(pin.specifier).removeprefix("=="))
        if pin.marker is None or pin.marker.evaluate():
            try:
                installed = metadata.version(pin.name)
            except metadata.PackageNotFoundError:
                continue
            if Version(Version(installed).public) != wanted:
                differences.append(f"{pin.name} {installed} (lock: {wanted})")
    return differences


def print_version_differences() -> None:
    """One line if installed packages differ from the lock, nothing if all are as they were checked."""
    differences = versions_unlike_lock()
    if differences:
        more = len(differences) - NAMES_AT_MOST
        names = ", ".join(differences[:NAMES_AT_MOST]) + (f" and {more} more" if more > 0 else "")
        print(f"Other versions than the course was checked with: {names}. Numbers may differ in the last digits.")

"""Finds the browser that the tests drive. As a program it says where that is, and fails where there is none."""

import os
import shutil
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge")
PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"%ProgramFiles%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Google\Chrome\Application\chrome.exe",
    r"%LocalAppData%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Microsoft\Edge\Application\msedge.exe",
)
NO_BROWSER = "There is no Chromium, Chrome or Edge here; install one, or name its program in the variable CHROMIUM."


def find_chromium() -> str | None:
    """The program of a browser that Playwright can drive: the one that CHROMIUM names, or the first that is found."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    found = [path for path in map(shutil.which, NAMES) if path]
    found += [path for path in map(os.path.expandvars, PLACES) if Path(path).is_file()]
    return found[0] if found else None


if __name__ == "__main__":
    found = find_chromium()
    print(found or NO_BROWSER)
    sys.exit(0 if found else 1)

"""Print the pages of `make site` with a browser, one PDF each: `python tools/pdf.py BROWSER [SITE [FOLDER]]`."""

import argparse
import os
import sys
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

ROOT = Path(__file__).parents[1]
MARGIN = {side: "18mm" for side in ("top", "bottom", "left", "right")}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python tools/pdf.py", description="Print the pages of `make site`.")
    parser.add_argument("browser", help="the program of a Chromium or Chrome")
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "build" / "site", help="where the pages are")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "pdf", help="where the PDFs go")
    asked = parser.parse_args(arguments)
    pages = sorted(path.resolve() for path in asked.site.glob("[0-9]*.html"))
    if not pages:
        print(f"There are no pages to print in {asked.site}; run make site first.", file=sys.stderr)
        return 1
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox refuses to work for root
    try:
        asked.folder.mkdir(parents=True, exist_ok=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=asked.browser, chromium_sandbox=not root)
            page = browser.new_context(offline=True).new_page()
            for path in pages:
                page.goto(path.as_uri())
                printed = asked.folder / f"{path.stem}.pdf"
                page.pdf(path=printed, format="A4", margin=MARGIN, print_background=True, tagged=True, outline=True)
                print(f"{printed}: {printed.stat().st_size / 1e6:.1f} MB")
            browser.close()
    except Error as error:
        print(f"{asked.browser} could not print: {error.message.splitlines()[0]}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{asked.folder} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

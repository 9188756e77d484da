"""Print the pages of `make site` with a browser, one PDF each: `python tools/pdf.py BROWSER [SITE [FOLDER]]`.

BROWSER: the program of a Chromium or Chrome. SITE: where the pages are; build/site unless given. FOLDER: build/pdf.
"""

import os
import sys
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

ROOT = Path(__file__).parents[1]
MARGIN = {side: "18mm" for side in ("top", "bottom", "left", "right")}


def main(arguments: list[str]) -> int:
    defaults = ["", str(ROOT / "build" / "site"), str(ROOT / "build" / "pdf")]
    program, site, folder = arguments + defaults[len(arguments) :]
    pages = sorted(path.resolve() for path in Path(site).glob("[0-9]*.html"))
    if not pages:
        print(f"There are no pages to print in {site}; run make site first.", file=sys.stderr)
        return 1
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox refuses to work for root
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=not root)
            page = browser.new_context(offline=True).new_page()
            for path in pages:
                page.goto(path.as_uri())
                printed = Path(folder) / f"{path.stem}.pdf"
                page.pdf(path=printed, format="A4", margin=MARGIN, print_background=True, tagged=True, outline=True)
                print(f"{printed}: {printed.stat().st_size / 1e6:.1f} MB")
            browser.close()
    except Error as error:
        print(f"{program} could not print: {error.message.splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

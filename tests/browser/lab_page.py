"""What one does on a page of JupyterLab: open a notebook, run it, restart its kernel, read what went wrong."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Page, TimeoutError, expect

SECONDS_TO_RUN = 300
NOTEBOOK = "jupyterapp.shell.currentWidget"
# Of each code cell; one that is folded shows no prompt.
EXECUTION_COUNTS = f"""{NOTEBOOK}.content.widgets.filter((cell) => cell.model.type === 'code')
    .map((cell) => cell.model.executionCount)"""
# What stands beside each code cell: a number once it has run, a star while it waits.
PROMPTS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map((prompt) => prompt.textContent)"


class Lab(NamedTuple):
    """A running JupyterLab. url: ends with a slash. folder: the notebooks that it shows, a copy."""

    url: str
    token: str
    folder: Path


def watched_page(browser: Browser, **options) -> Page:
    """A page in a context of its own that keeps two lists: `complaints`, what its console shows as errors, and
    `strayed`, the addresses beyond this machine that it asked for; those requests are refused."""
    context = browser.new_context(
        **{"viewport": {"width": 1400, "height": 1000}, "service_workers": "block", **options}
    )
    page = context.new_page()
    page.complaints, page.strayed = [], []

    def answer(route):
        if stays_here(route.request.url):
            return route.continue_()
        page.strayed.append(route.request.url)
        route.abort()

    context.route("**/*", answer)
    page.on("websocket", lambda socket: stays_here(socket.url) or page.strayed.append(socket.url))
    page.on("console", lambda message: message.type == "error" and page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    return page


def stays_here(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("data", "blob", "about", "file") or parts.hostname in ("127.0.0.1", "localhost", "::1")


def write_notebook(lab: Lab, name: str, sources: list[str]) -> None:
    """A notebook of these code cells in the lab's folder, for the kernel that it has."""
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook = new_notebook(cells=list(map(new_code_cell, sources)), metadata={"kernelspec": kernel})
    nbformat.write(notebook, lab.folder / name)


def open_notebook(page: Page, lab: Lab, name: str) -> None:
    """Open a notebook of the lab's folder alone on the page, and wait for its kernel."""
    page.goto(f"{lab.url}doc/tree/{name}?token={lab.token}&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    wait_until_idle(page)


def wait_until_idle(page: Page) -> None:
    page.wait_for_function(f"{NOTEBOOK}?.sessionContext?.session?.kernel?.status === 'idle'", timeout=60_000)


def run_all(page: Page) -> None:
    """Run every cell and wait until the last one is done.

    Right after the kernel says that it is idle the command can do nothing at all: it is given again until a prompt
    shows a number or a star.
    """
    page.evaluate("jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    for _ in range(10):
        page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        try:
            page.wait_for_function(f"{PROMPTS}.some((text) => /[0-9*]/.test(text))", timeout=2_000)
            break
        except TimeoutError:
            continue
    page.wait_for_function(f"!{PROMPTS}.some((text) => text.includes('*'))", timeout=1000 * SECONDS_TO_RUN)
    wait_until_idle(page)


def restart_kernel(page: Page) -> None:
    """A new kernel, as "Restart Kernel" gives one; the outputs stay."""
    page.evaluate(f"{NOTEBOOK}.sessionContext.session.kernel.restart()")
    wait_until_idle(page)


def shut_down(page: Page) -> None:
    page.evaluate(f"{NOTEBOOK}.sessionContext.shutdown()")


def save(page: Page) -> None:
    page.evaluate("jupyterapp.commands.execute('docmanager:save')")


def error_outputs(page: Page) -> list[str]:
    """What the cells show as errors: tracebacks and what went to stderr."""
    errors = "application/vnd.jupyter.error", "application/vnd.jupyter.stderr"
    return page.locator(
        ", ".join(f'.jp-OutputArea-output[data-mime-type="{kind}"]' for kind in errors)
    ).all_inner_texts()


def set_theme(page: Page, dark: bool) -> None:
    """JupyterLab's own light or dark theme; the system's is an option of the context."""
    theme = "JupyterLab Dark" if dark else "JupyterLab Light"
    page.evaluate("(theme) => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false" if dark else "true")

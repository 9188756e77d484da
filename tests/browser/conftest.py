"""A browser, and a JupyterLab of its own for it.

`browser` is enough for pages that need no kernel: `browser.new_context(color_scheme="dark", offline=True).new_page()`.
`lab` is a running JupyterLab with a copy of the notebooks; `lab_page` has what one does there. `new_page` opens a page
that is closed after the test and records what the browser complains of and every request that leaves this machine.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import sync_playwright

from .chromium import NO_BROWSER, find_chromium
from .explorer_page import CASES, CELLS, NOTEBOOK, output_of, wait_until_right
from .lab_page import Lab, open_notebook, run_all, watched_page, write_notebook

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Nothing that asks, and every cell in the page: JupyterLab otherwise leaves out those that are scrolled away.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
SECONDS_TO_START = 60


@pytest.fixture(scope="package")
def browser():
    """A Chromium for all tests of this folder. Without one they are skipped; on a Linux that sets CI they fail."""
    program = find_chromium()
    if program is None:
        (pytest.fail if os.environ.get("CI") and sys.platform == "linux" else pytest.skip)(NO_BROWSER)
    root = sys.platform == "linux" and os.geteuid() == 0  # Chromium's sandbox refuses to work for root
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS, chromium_sandbox=not root)
        yield launched
        launched.close()


@pytest.fixture
def new_page(browser):
    """A function that opens a watched page, see `watched_page`; all of them are closed after the test."""
    contexts = []

    def open_one(**options):
        page = watched_page(browser, **options)
        contexts.append(page.context)
        return page

    yield open_one
    for context in contexts:
        context.close()


@pytest.fixture(scope="package")
def lab(browser, tmp_path_factory):
    """A JupyterLab on loopback with a copy of the notebooks, settings of its own and this environment's kernel."""
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, home / "notebooks", ignore=shutil.ignore_patterns(".*"))
    for name, settings in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    environment = os.environ | {name: str(home / folder) for name, folder in folders.items()}
    environment |= {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--ServerApp.root_dir={home / 'notebooks'}"]
    command += [f"--config={ROOT / 'tools' / 'jupyter_server_config.py'}", "--LanguageServerManager.autodetect=False"]
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield started(server, home)
    finally:
        stop(server)


def started(server: subprocess.Popen, home: Path) -> Lab:
    """Where the server listens, once it says so: it chooses a free port and a token itself."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and server.poll() is None:
        for file in (home / "runtime").glob("jpserver-*.json"):
            try:
                said = json.loads(file.read_text())
            except ValueError:  # half written
                continue
            return Lab(said["url"], said["token"], home / "notebooks")
        time.sleep(0.1)
    pytest.fail("JupyterLab did not start:\n" + (home / "server.log").read_text()[-3000:])


def stop(server: subprocess.Popen) -> None:
    """End the server and, where it does not do so itself, its kernels."""
    family = [server]
    if server.poll() is None:
        family += psutil.Process(server.pid).children(recursive=True)
    server.terminate()
    try:
        server.wait(15)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    _, alive = psutil.wait_procs(family[1:], timeout=5)
    for process in alive:
        process.kill()


@pytest.fixture(scope="package")
def explorers(browser, lab):
    """A page with every explorer live, each in a cell of its own; the tests of the package move them in turn."""
    write_notebook(lab, NOTEBOOK, CELLS)
    page = watched_page(browser)
    open_notebook(page, lab, NOTEBOOK)
    run_all(page)
    for name in CASES:
        wait_until_right(output_of(page, name), name)
    yield page
    page.context.close()

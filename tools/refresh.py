"""Execute notebooks in place and clean them, as they are committed: `python tools/refresh.py [NB]`.

NB: the beginning of a name, such as 03; all notebooks unless given. A notebook in which a cell fails stays as it was.
Running it twice gives the same bytes.
"""

import os
import sys
import time
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellTimeoutError, DeadKernelError

from attn_core._files import replacing

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SECONDS_PER_CELL = 120
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def main(arguments: list[str], folder: Path = NOTEBOOKS) -> int:
    beginning = arguments[0] if arguments else ""
    there = sorted(folder.glob("*.ipynb"))
    paths = [path for path in there if path.name.startswith(beginning)]
    if len(arguments) > 1 or not paths:
        asked = " ".join(arguments) or "any"
        print(f"There is no notebook {asked}. There are: {', '.join(path.stem for path in there) or 'none'}.")
        return 1
    os.environ.setdefault("TQDM_DISABLE", "1")  # a progress bar never looks the same twice
    for path in paths:
        start = time.perf_counter()
        notebook = nbformat.read(path, as_version=4)
        problem = execute(notebook, path.parent)
        if problem:
            print(f"{path.name} was left as it was: {problem}")
            return 1
        clean(notebook)
        with replacing(path) as part:
            part.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
        print(f"{path.name} {time.perf_counter() - start:.1f} s")
    return 0


def execute(notebook, folder: Path) -> str:
    """Run every cell in a fresh kernel of this interpreter. Returns the first problem as a sentence, or nothing."""
    # With no folder to look for kernels in, the only one left is that of the interpreter that runs this.
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=SECONDS_PER_CELL,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=CRITICAL"],
        resources={"metadata": {"path": str(folder)}},
    )
    with client.setup_kernel(cleanup_kc=True):
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index)
            except CellTimeoutError:
                return f"cell {cell.id} took longer than {SECONDS_PER_CELL} s."
            except (CellControlSignal, DeadKernelError) as error:
                name, text = getattr(error, "ename", type(error).__name__), str(getattr(error, "evalue", error))
                return f"cell {cell.id} failed with {name}: {' '.join(text.split())}"
    return ""


def clean(notebook) -> None:
    """Take out what differs from run to run or from machine to machine and is not part of the notebook."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            # The state of a widget lived in the kernel that has just ended; the picture beside it stays.
            output.get("data", {}).pop(WIDGET_VIEW, None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

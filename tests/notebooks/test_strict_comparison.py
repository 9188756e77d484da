"""The comparison of outputs is strict: one digit that differs fails a notebook."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parent
NOTEBOOKS = sorted((FOLDER.parents[1] / "notebooks").glob("*.ipynb"), key=lambda path: path.stat().st_size)


def change_a_digit(notebook):
    """Change one digit of the first compared text output that has one, and leave out all cells after it."""
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or cell.execution_count is None or "NBVAL_IGNORE_OUTPUT" in cell.source:
            continue
        for output in cell.outputs:
            place, key = (output, "text") if output.output_type == "stream" else (output.get("data", {}), "text/plain")
            if re.search(r"\d", place.get(key, "")):
                place[key] = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), place[key], count=1)
                notebook.cells = notebook.cells[: index + 1]
                return
    raise AssertionError("no output with a digit")


def test_one_changed_digit_fails_one_cell(tmp_path):
    assert NOTEBOOKS
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    change_a_digit(notebook)
    nbformat.write(notebook, tmp_path / "spoiled.ipynb")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command += ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", str(FOLDER / "nbval.cfg"), "spoiled.ipynb"]
    run = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True, timeout=240
    )
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    assert run.returncode == 1, run.stdout + run.stderr
    assert re.search(rf"\b1 failed, {cells - 1} passed", run.stdout), run.stdout
    assert "mismatch" in run.stdout

"""The tool behind `make refresh`: executes, cleans, and never leaves half a notebook."""

import importlib.util
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

TOOL = Path(__file__).parents[2] / "tools" / "refresh.py"


@pytest.fixture(scope="module")
def refresh():
    spec = importlib.util.spec_from_file_location("refresh", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder, name, *sources, **metadata):
    cells = [new_markdown_cell("# Title", id="title")]
    cells += [new_code_cell(source, id=f"code-{i}") for i, source in enumerate(sources, 1)]
    path = folder / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
    return path


def test_a_notebook_is_executed_in_place_and_twice_gives_the_same_bytes(refresh, tmp_path, capsys):
    path = write(
        tmp_path,
        "01_one",
        "import sys, os\nprint(sys.executable)\nprint(os.getcwd())",
        "import ipywidgets\nipywidgets.IntSlider(3)",
        "",
        kernelspec={"name": "gone", "display_name": "My own"},
        widgets={"state": {}},
    )
    assert refresh.main([], tmp_path) == 0
    once = path.read_bytes()
    assert refresh.main(["01"], tmp_path) == 0
    assert path.read_bytes() == once
    assert capsys.readouterr().out.count("01_one.ipynb ") == 2
    notebook = nbformat.read(path, as_version=4)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    where, slider, nothing = notebook.cells[1:]
    assert [cell.execution_count for cell in (where, slider)] == [1, 2]
    assert [output.text.splitlines() for output in where.outputs] == [[sys.executable, str(tmp_path)]]
    assert [list(output.data) for output in slider.outputs] == [["text/plain"]]
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert [file.name for file in tmp_path.iterdir()] == ["01_one.ipynb"]


def test_a_failing_cell_is_named_and_leaves_the_notebook_as_it_was(refresh, tmp_path, capsys):
    path = write(tmp_path, "02_two", "print(1)", "1 / 0")
    before = path.read_bytes()
    assert refresh.main([], tmp_path) == 1
    assert path.read_bytes() == before
    said = capsys.readouterr().out
    assert said == "02_two.ipynb was left as it was: cell code-2 failed with ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize("arguments, asked", [(["7"], "7"), (["01", "02"], "01 02")])
def test_an_unknown_name_gets_a_list_of_what_there_is(refresh, tmp_path, capsys, arguments, asked):
    write(tmp_path, "01_one")
    assert refresh.main(arguments, tmp_path) == 1
    assert capsys.readouterr().out == f"There is no notebook {asked}. There are: 01_one.\n"


def test_no_progress_bar_gets_into_a_notebook(refresh, tmp_path, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    code = "from attn_core.lab.progress import progress\nfor _ in progress(range(3)):\n    pass"
    path = write(tmp_path, "01_one", code)
    assert refresh.main([], tmp_path) == 0
    assert nbformat.read(path, as_version=4).cells[1].outputs == []


def test_nothing_of_a_progress_bar_stays_in_a_notebook_that_showed_one(monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    code = "from attn_core.lab.progress import progress\nfor _ in progress(range(3)):\n    pass"
    notebook = new_notebook(cells=[new_code_cell(code)])
    NotebookClient(notebook).execute()
    (output,) = notebook.cells[0].outputs
    assert output.data == {"text/plain": ""}

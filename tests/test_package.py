"""The package as a whole: what importing it brings along, what it says about itself."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import attn_core

CORE = sorted(Path(attn_core.__file__).parent.glob("*.py"))


def test_import_brings_no_plotting_no_widgets_and_nothing_above_the_core():
    # A fresh process: in this one other tests may have imported them.
    code = "import sys, attn_core; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CORE[0].parents[1]
    )
    loaded = set(run.stdout.split())
    assert loaded.isdisjoint({"matplotlib", "seaborn", "pandas", "fvcore", "ipywidgets", "anywidget", "IPython"})
    ours = {name for name in loaded if name.startswith("attn_core.")}
    assert ours <= {f"attn_core.{path.stem}" for path in CORE}


@pytest.mark.parametrize("name", attn_core.__all__)
def test_public_name_has_a_docstring_of_its_own(name):
    thing = getattr(attn_core, name)
    assert thing.__module__.startswith("attn_core.")
    # Generated docstrings, such as that of a NamedTuple without one, begin with the name.
    assert thing.__doc__ and not thing.__doc__.startswith(name + "(")


@pytest.mark.parametrize("name", attn_core.__all__)
def test_public_methods_and_functions_say_what_they_take_and_give(name):
    thing = getattr(attn_core, name)
    functions = [thing] if inspect.isfunction(thing) else [x for x in vars(thing).values() if inspect.isfunction(x)]
    for function in functions:
        if function.__module__.startswith("attn_core.") and not function.__name__.startswith("_"):
            parameters = inspect.signature(function).parameters.values()
            assert all(p.annotation is not p.empty for p in parameters if p.name != "self"), function.__qualname__


def test_public_names_are_sorted_and_all_there():
    assert attn_core.__all__ == sorted(attn_core.__all__)
    assert all(hasattr(attn_core, name) for name in attn_core.__all__)


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.name)
def test_core_module_imports_torch_the_standard_library_and_the_core_only(path):
    allowed = {"torch", *sys.stdlib_module_names, *(f"attn_core.{other.stem}" for other in CORE)}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        if path.name == "_measure.py" and node not in tree.body:
            names = [name for name in names if name != "fvcore.nn"]  # optional: imported where it is asked for
        for name in names:
            assert name in allowed or name.split(".")[0] in allowed, f"{path.name} imports {name}"


@pytest.mark.parametrize(
    "folders, extras", [(["attn_core"], ["notebooks", "pretrained", "cluster"]), (["tools", "tests"], ["dev"])]
)
def test_every_package_that_is_imported_is_declared(folders, extras):
    root = Path(attn_core.__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    extras = [*optional] if "dev" in extras else extras
    declared = {canonicalize_name(Requirement(text).name) for extra in extras for text in optional[extra]} | {"torch"}
    files = [file for folder in folders for file in (root / folder).rglob("*.py")]
    ours = {"attn_core", *(file.stem for file in files), *(file.parent.name for file in files)}
    imported = {name.partition(".")[0] for file in files for name in imports(file)} - ours - sys.stdlib_module_names
    owners = packages_distributions()  # without the modules that tests write
    assert {
        name for name in imported & owners.keys() if not declared & set(map(canonicalize_name, owners[name]))
    } == set()


def imports(file):
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def test_every_file_that_contributing_names_is_there():
    root = Path(attn_core.__file__).parents[1]
    named = re.findall(
        r"`([\w./]+/[\w.]*|[\w/]+\.(?:py|toml|md))`", (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    rooms = ("attn_core/lab", "attn_core/show", "attn_core/course", "notebooks", "tests", "")
    named = [name for name in named if "NN" not in name]
    assert len(named) > 20
    assert [name for name in named if not any((root / room / name).exists() for room in rooms)] == []

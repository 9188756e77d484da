"""An explorer is one module and one export: everything else finds it by itself."""

import importlib
import inspect
import pkgutil

import pytest

from attn_core import show
from attn_core.show import explorers
from attn_core.show.explorers import exported

MODULES = [name for _, name, _ in pkgutil.iter_modules(explorers.__path__) if name != "base"]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_makes_one_explorer_and_it_is_exported(module):
    made = vars(importlib.import_module(f"attn_core.show.explorers.{module}"))
    (name,) = (name for name in made if name.endswith("_explorer"))
    assert exported()[name] is made[name]
    assert inspect.getdoc(made[name])


def test_a_new_export_is_found(monkeypatch):
    def new_explorer():
        pass

    monkeypatch.setattr(show, "new_explorer", new_explorer, raising=False)
    monkeypatch.setattr(show, "__all__", [*show.__all__, "new_explorer"])
    assert exported()["new_explorer"] is new_explorer

"""The tools of tools/ as modules, for tests."""

import importlib.util
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[1] / "tools"


def tool(name: str):
    """A tool of tools/ as a module, under a name that no module of Python has."""
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(f"make_{name}", TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))

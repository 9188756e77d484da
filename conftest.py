"""Notebook 06 and the tests of the trained model are skipped where it is not installed, never where CI is set."""

import os

import pytest

INSIDE = "06_inside_a_trained_model.ipynb"


def reason_to_skip() -> str:
    if os.environ.get("CI"):
        return ""
    from attn_core.lab.trained.pretrained import pretrained_problem  # only here: it brings torch, which takes seconds

    return pretrained_problem()


def pytest_collection_modifyitems(items):
    cells = [item for item in items if item.path.name == INSIDE]
    if cells and (reason := reason_to_skip()):
        for cell in cells:
            cell.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def pretrained():
    """The model of the course, loaded once. Do not change it."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    from attn_core.lab.trained.pretrained import load_pretrained

    return load_pretrained()

"""The drawing of the block: the boxes in their order, and shortcuts that end where something is added."""

import pytest

from attn_core.show import block_drawing
from attn_core.show.figures.block import BLOCKS, SHORTCUTS


def test_each_row_shows_its_steps_from_left_to_right_and_the_alt_text_names_them():
    figure = block_drawing()
    for axis, (name, steps) in zip(figure.axes, BLOCKS.items(), strict=True):
        texts = sorted((text.get_position()[0], text.get_text()) for text in axis.texts if text.get_text())
        assert tuple(text for _, text in texts) == steps
        assert axis.get_title(loc="left") == name
        assert f"{name}: {', '.join(steps)}." in figure.alt


@pytest.mark.parametrize("name", BLOCKS)
def test_each_part_and_nothing_else_has_a_shortcut_around_it(name):
    steps = BLOCKS[name]
    around = [[step for step in steps[first + 1 : last] if step != "norm"] for first, last in SHORTCUTS[name]]
    assert around == [["attention"], ["network"]]
    assert [steps[last] for _, last in SHORTCUTS[name]] == ["+", "+"]
    norms = ["norm" in steps[first + 1 : last] for first, last in SHORTCUTS[name]]
    assert norms == [name == "pre-norm"] * 2

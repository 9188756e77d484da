"""Fonts: what is opened is closed."""

import gc
import warnings

import pytest

from attn_core.show import heatmap, save
from attn_core.show.style import font_for


@pytest.mark.parametrize(
    "use", [lambda _: font_for("鱻"), lambda folder: save(heatmap([[1.0]], ["鱻"]), folder / "figure.pdf")]
)
def test_no_font_is_left_open(use, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(tmp_path)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []

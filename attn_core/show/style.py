"""How everything looks: every colour, palette, font and size, of the figures and of the live view.

The view's scripts get FOR_JAVASCRIPT and its style sheet FOR_CSS.
"""

import functools
import io
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
import regex
from anyascii import anyascii
from fontTools import subset
from matplotlib import colormaps, font_manager
from matplotlib.ft2font import FT2Font

# Palettes: they can be told apart by colour-blind readers. One-sided where nothing is below 0.
ONE_SIDED = "cividis"
SIGNED = "PuOr"

# Colours
ACCENT = "#0173b2"  # of bars and lines: the blue of CURVES
CURVES = "colorblind"  # a palette of seaborn
HIDDEN = "#d0d0d0"  # what a mask hides
DARK_TEXT, LIGHT_TEXT = "#000000", "#ffffff"  # on light and on dark cells
PAPER = "white"
DARK_PAPER = "#111111"  # of a saved picture where the page says no colour and its text is light
MIDDLE = "#808080"  # of thin lines; text that is darker on it belongs to a light page
FAINT_LINE = "#80808080"
FOCUS = "#1976d2"
GUIDE = "0.4"  # of lines to compare with: a grey
# What the reader of a live view chooses: the palettes that stand in for those of the panels, and
# the accent on a light and on a dark page. The first choice is that of the figures. Grey runs one
# way also for signed values, darker below 0: else −1 and 1 would look alike.
CHOICES: dict[str, dict[str, Any]] = {
    "cividis": {"palettes": {}, "light": ACCENT, "dark": "#56b4e9"},
    "viridis": {"palettes": {ONE_SIDED: "viridis", SIGNED: "BrBG"}, "light": "#1a7f6e", "dark": "#35b779"},
    "grey": {"palettes": {ONE_SIDED: "grey", SIGNED: "grey"}, "light": "#595959", "dark": "#b0b0b0"},
}
PALETTES = tuple(
    dict.fromkeys([ONE_SIDED, SIGNED, *(name for choice in CHOICES.values() for name in choice["palettes"].values())])
)

# What is shown, up to which size
NUMBERS_UP_TO = 8  # tokens; beyond it numbers would not fit the cells
LABELS_AT_MOST = 40  # per axis of a figure; beyond it only every second, third, ... token is named
LABEL_LETTERS = 16  # of a longer token the beginning and the end are shown, or no room would be left for the map
BAR_LETTERS = 40  # the same beside a bar and of a curve's name
TITLE_LETTERS = 120  # the same of a title and of an axis' name
HIDDEN_BELOW = -9e3  # so low a score was hidden by a mask that adds −10,000, or the lowest number of float16
FAINTEST = 0.005  # lines of less weight cannot be seen and are left out
MOST_TOKENS = 40  # of a sentence that a reader types

# Text of figures, in points
FONT = "DejaVu Sans"  # it comes with matplotlib
SUPTITLE_SIZE = 12
TITLE_SIZE = 11
LABEL_SIZE = 10
CELL_SIZE = 9
SMALL_SIZE = 8

# Text of the live view, in pixels, where the page has no larger one; else all of it grows with the page's
VIEW_SIZE = 12  # on canvases
VIEW_TITLE_SIZE = 13  # of titles, and around them
SETTLES_AFTER = 1000  # milliseconds without a change, after which a view gives back room that it does not need

FOR_CSS = {
    "title-size": f"{VIEW_TITLE_SIZE}px",
    "line": MIDDLE,
    "faint-line": FAINT_LINE,
    "focus": FOCUS,
    "option-paper": LIGHT_TEXT,
    "option-ink": DARK_TEXT,
}
FOR_JAVASCRIPT = {
    "CHOICES": CHOICES,
    "HIDDEN": HIDDEN,
    "DARK_TEXT": DARK_TEXT,
    "LIGHT_TEXT": LIGHT_TEXT,
    "LIGHT_PAPER": "#ffffff",
    "DARK_PAPER": DARK_PAPER,
    "MIDDLE": MIDDLE,
    "NUMBERS_UP_TO": NUMBERS_UP_TO,
    "LABEL_LETTERS": LABEL_LETTERS,
    "BAR_LETTERS": BAR_LETTERS,
    "FAINTEST": FAINTEST,
    "MOST_TOKENS": MOST_TOKENS,
    "VIEW_SIZE": VIEW_SIZE,
    "SETTLES_AFTER": SETTLES_AFTER,
    "VIEW_TITLE_SIZE": VIEW_TITLE_SIZE,
}


@functools.cache
def rc_params() -> dict:
    """rcParams of every figure, for `matplotlib.rc_context`; the first call registers the Chinese
    font.
    """
    font_manager.fontManager.addfont(_chinese_font())
    name = font_manager.FontProperties(fname=_chinese_font()).get_name()
    # DejaVu first: the Chinese font lacks some Greek letters and signs.
    return {"font.family": [FONT, name], "svg.hashsalt": "attn_core", "axes.titlesize": TITLE_SIZE}


def literal() -> dict:
    """rcParams of figures whose texts are a reader's: a dollar sign is a dollar sign."""
    return rc_params() | {"text.parse_math": False}


def drawable(text: object) -> str:
    """A text in letters that the fonts of figures have; others are written in Latin ones, 고 as Go.

    What nobody sees goes, as files cannot hold all of it, but for what keeps two letters apart.
    Where there is nothing else it is named: U+FEFF.
    """
    known = _letters()
    seen = regex.sub(r"(?!\u200c)\p{Default_Ignorable_Code_Point}", "", str(text))
    return "".join(
        letter if ord(letter) in known or letter == "\n" else anyascii(letter) or f"U+{ord(letter):04X}"
        for letter in seen
    ) or " ".join(f"U+{ord(letter):04X}" for letter in str(text))


@functools.cache
def _letters() -> frozenset[int]:
    fonts = [font_manager.findfont(FONT), _chinese_font()]
    return frozenset(code for font in fonts for code in FT2Font(font).get_charmap())


def is_dark(colour: Sequence[float]) -> bool:
    """Whether a colour, (red, green, blue, ...) from 0 to 1, is one to write on in light letters."""
    red, green, blue, *_ = colour
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5


def palette_colours(name: str) -> list[str]:
    """The 256 colours of a colour map as #rrggbb, so that the live view paints what the figures
    paint.
    """
    levels = (colormaps[name](np.arange(256))[:, :3] * 255).round().astype(int)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in levels]


def font_for(text: str) -> bytes:
    """A small font with the characters of a text that common Latin fonts lack, such as 猫; empty
    where there are none.

    The live view sends it to the browser, which may not have a Chinese font.
    """
    return _font_with("".join(sorted({character for character in text if ord(character) >= 0x2E80})))


@functools.lru_cache(maxsize=64)
def _font_with(characters: str) -> bytes:
    if not characters:
        return b""
    options = subset.Options(layout_features=[], name_IDs=[], hinting=False)
    with subset.load_font(_chinese_font(), options) as font:
        subsetter = subset.Subsetter(options)
        subsetter.populate(text=characters)
        subsetter.subset(font)
        data = io.BytesIO()
        font.save(data)
    return data.getvalue()


def _chinese_font() -> str:
    return str(resources.files("pylopdf_fonts_zh_cn") / "NotoSansSC-Regular.otf")

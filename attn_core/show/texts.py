"""Numbers and captions as readers see them. texts.js does the same in the browser, and the tests
compare both.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import regex

MINUS = "−"  # U+2212; the hyphen of a keyboard is shorter than a plus
CELL = ".2f"  # the form of a number in a cell
_FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
# Joiners and marks are invisible too, but change the letter before them.
_INVISIBLE = regex.compile(r"(?![\p{M}\u200c\u200d\U000e0020-\U000e007f])\p{Default_Ignorable_Code_Point}")
_NOTHING = regex.compile(r"\p{Default_Ignorable_Code_Point}*")


def letters(text: str) -> list[str]:
    """What a reader takes for one letter each: with its marks, an emoji with its skin tone, a flag.

    These are the grapheme clusters of Unicode.
    """
    return regex.findall(r"\X", text)


def visible(parts: Iterable[str]) -> list[str]:
    """Words or letters without what nobody sees, such as a byte-order mark; a part of nothing else
    is left out.
    """
    seen = (_INVISIBLE.sub("", part) for part in parts)
    return [part for part in seen if not _NOTHING.fullmatch(part)]


def number(value: float, form: str = CELL) -> str:
    """A number in a form of Python's `format`, with a true minus sign and without minus zero.

    form: ".2f", ",.2f" or ",", or "short" for at most four decimals and no zeros at the end.
    Rounding is Python's: what lies exactly between two goes to the even one.
    """
    if isinstance(value, float | np.floating) and math.isinf(value):
        return MINUS + "∞" if value < 0 else "∞"
    text = format(value, ".4f" if form == "short" else form)
    if form == "short":
        text = text.rstrip("0").rstrip(".")
    sign = MINUS if text.startswith("-") and re.search("[1-9]", text) else ""
    return sign + text.lstrip("-")


def cell(value: float) -> str:
    """A number as it stands in a cell.

    The live view has float32, so that is what figures write as well.
    """
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there
        return number(float(np.float32(value)))


class Caption(str):
    """A text for readers, filled into a template; both are kept for pages without a kernel and for
    translations.

    A field is {name}, {name:form} with a form of `number`, or {name:head|heads}, of which the first
    stands for 1 and the second for every other number. A value may be a caption itself.
    """

    template: str
    values: dict[str, Any]

    def __new__(cls, template: str, **values: Any) -> "Caption":
        caption = super().__new__(cls, _filled(template, values))
        caption.template, caption.values = template, values
        return caption


def _filled(template: str, values: dict[str, Any]) -> str:
    def text(field: re.Match) -> str:
        name, form = field.groups()
        value = values[name]
        if form is None:
            return str(value) if isinstance(value, str) else number(value, "")
        if "|" in form:
            return form.split("|")[value != 1]
        return number(value, form)

    return _FIELD.sub(text, template)

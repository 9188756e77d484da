"""Numbers and captions as readers see them. texts.js does the same in the browser, and the tests
compare both.
"""

import math
import re
from typing import Any

import numpy as np

MINUS = "−"  # U+2212; the hyphen of a keyboard is shorter than a plus
CELL = ".2f"  # the form of a number in a cell
_FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")


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


def shortened(text: str, letters: int) -> str:
    """A text of at most so many letters, on one line: what is too much goes from its middle."""
    end = (letters - 1) // 2
    text = text.replace("\n", "↵")
    return text if len(text) <= letters else f"{text[: letters - 1 - end]}…{text[-end:]}"


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

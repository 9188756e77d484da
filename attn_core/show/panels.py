"""What is drawn: a panel is one matrix with its tokens and its scale, as a map or as lines, or one
column of bars.

Figures and the live view share it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attn_core.show import style

Tokens = Sequence[str] | None  # numbers stand where there are none


class Panel(NamedTuple):
    """One matrix to look at, or one column of numbers as bars: see `line_panel` and `bar_panel`.

    values: (rows, columns). title: one line above it.
    row_labels, column_labels: one per row and column. row_name, column_name: what rows and columns
    are.
    unit: what one cell is, in a word: "weight", "share", "score", "value"; "bucket" for whole
    numbers that name one.
    texts: only of bars, one per row: what stands beside the bar.
    kind: how it is drawn: a "map" of coloured cells, "lines" from rows to columns that are the
    stronger the greater the value, or "bars" whose lengths are shares of the sum of all.
    """

    values: np.ndarray
    title: str
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    row_name: str = "query"
    column_name: str = "key"
    unit: str = "weight"
    texts: tuple[str, ...] = ()
    kind: str = "map"

    @property
    def limits(self) -> tuple[float, float]:
        """The scale: 0 to 1 for weights and shares (so maps compare), to the sum for bars, else
        from 0 or around it.
        """
        if self.kind == "bars":
            return 0.0, float(self.values.sum())
        if self.unit in ("weight", "share"):
            return 0.0, 1.0
        finite = np.abs(self.values[np.isfinite(self.values)])
        top = (float(finite.max()) if finite.size else 0.0) or 1.0
        return 0.0 if self.unit == "bucket" else -top, top

    @property
    def palette(self) -> str:
        """A colour map that colour-blind readers can tell apart: one-sided where nothing is below
        0.
        """
        return style.ONE_SIDED if self.unit in ("weight", "share", "bucket") else style.SIGNED

    @property
    def stretch(self) -> tuple[float, float]:
        """Width and height of a cell in units of its shorter side: no map is thinner than a quarter
        of its length.
        """
        rows, columns = self.values.shape
        return max(1.0, rows / (4 * columns)), max(1.0, columns / (4 * rows))


def as_array(values: ArrayLike | None, axes: Sequence[str], name: str, hints: Mapping[int, str] = {}) -> np.ndarray:
    """A float array with axes such as ("L", "S"), from a tensor, an array or nested lists.

    hints: by number of axes, what to do about it. Raises ValueError for other axes and no numbers,
    TypeError for what is no array of numbers.
    """
    if values is None:
        raise TypeError(f"{name} is None: a layer gives its weights where it is called with need_weights=True")
    if hasattr(values, "weights"):
        raise TypeError(f"{name} must be an array, got {type(values).__name__}: take its .weights")
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers in rows of one length, got {type(values).__name__}") from None
    if array.ndim != len(axes):
        hint = f": {hints[array.ndim]}" if array.ndim in hints else ""
        raise ValueError(f"{name} must have the shape ({', '.join(axes)}), got {array.shape}{hint}")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one number, got shape {array.shape}")
    return array


def as_weights(weights: ArrayLike | None, axes: Sequence[str], hints: Mapping[int, str] = {}) -> np.ndarray:
    """As `as_array`; raises ValueError also for a weight that is not between 0 and 1."""
    array = as_array(weights, axes, "weights", hints)
    if not (array.min() >= 0 and array.max() <= 1 + 1e-6):  # NaN fails this comparison too
        raise ValueError(f"weights must lie between 0 and 1, got {array.min():.4g} to {array.max():.4g}")
    return array


def matrix_panel(
    values: ArrayLike,
    title: str,
    row_labels: Iterable[object],
    column_labels: Iterable[object],
    row_name: str,
    column_name: str,
    unit: str,
) -> Panel:
    """A panel for any matrix. Raises ValueError where the labels do not fit.

    Scores far below all others, such as −10⁹, are taken as hidden by a mask, as −∞ is.
    """
    array = as_array(values, ("rows", "columns"), title)
    rows, columns = tuple(map(str, row_labels)), tuple(map(str, column_labels))
    if array.shape != (len(rows), len(columns)):
        raise ValueError(
            f"{title}: {len(rows)} {row_name} and {len(columns)} {column_name} labels for shape {array.shape}"
        )
    if unit in ("score", "bias"):
        ordinary = np.abs(array[array > style.HIDDEN_BELOW]).max(initial=0)
        array = np.where(array <= min(style.HIDDEN_BELOW, -10 * ordinary), -np.inf, array)
    return Panel(array, title, rows, columns, row_name, column_name, unit)


def bar_panel(values: ArrayLike, title: str, labels: Iterable[object], texts: Sequence[str], unit: str) -> Panel:
    """A panel of bars: labels stand before them, texts behind, which say each value with its unit.

    Raises ValueError where labels or texts do not fit the values, a value is negative or there is
    nothing to share.
    """
    column = as_array(values, ("bars",), title)[:, None]
    if not (column.min() >= 0 and 0 < column.sum() < np.inf):
        raise ValueError(f"{title}: bars need numbers of at least 0 with a sum above 0, got {column[:, 0].tolist()}")
    if len(texts) != len(column):
        raise ValueError(f"{title}: {len(column)} bars need as many texts, got {len(texts)}")
    panel = matrix_panel(column, title, labels, (unit,), "part", "share", unit)
    return panel._replace(texts=tuple(texts), kind="bars")


def line_panel(weights: ArrayLike, title: str, query_tokens: Tokens = None, key_tokens: Tokens = None) -> Panel:
    """A panel for one map of weights (L, S) as lines: queries on the left, keys on the right, a
    line for each weight.

    Tokens and errors as in `weight_panels`.
    """
    one = as_weights(weights, ("L", "S"), {3: "take one head, weights[0]"})
    (panel,) = weight_panels(one[None], query_tokens, key_tokens, [title])
    return panel._replace(kind="lines")


def weight_panels(
    weights: ArrayLike, query_tokens: Tokens = None, key_tokens: Tokens = None, titles: Sequence[str] | None = None
) -> list[Panel]:
    """One panel per head for weights (H, L, S).

    query_tokens: L tokens, or their numbers. key_tokens: S tokens; the query tokens where L = S.
    Raises ValueError where the shapes, the tokens or the titles do not fit, or a weight is not
    between 0 and 1.
    """
    heads = as_weights(weights, ("H", "L", "S"), {2: "use heatmap for one map", 4: "take one of the batch, weights[0]"})
    count, length, keys = heads.shape
    if query_tokens is None:
        query_tokens = [str(i) for i in range(length)]
    if key_tokens is None:
        key_tokens = query_tokens if keys == length else [str(i) for i in range(keys)]
    titles = [f"head {h}" for h in range(1, count + 1)] if titles is None else titles
    if len(titles) != count:
        raise ValueError(f"{count} heads need {count} titles, got {len(titles)}")
    return [
        matrix_panel(head, title, query_tokens, key_tokens, "query", "key", "weight")
        for head, title in zip(heads, titles, strict=True)
    ]

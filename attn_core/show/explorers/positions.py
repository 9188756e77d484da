"""The explorer of positions: five encodings as tables, by distance, and one frequency at a time."""

import math
from collections.abc import Sequence

import ipywidgets as widgets
import torch

from attn_core.positional import (
    AlibiBias,
    LearnedPositionalEncoding,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionalEncoding,
)
from attn_core.show.explorers.base import Choice, Explorer, Shown, Stored
from attn_core.show.panels import Panel, matrix_panel
from attn_core.show.texts import Caption

ENCODINGS = ("sinusoidal", "learned", "rotary", "ALiBi", "relative")
BASES = (10, 100, 1000, 10000, 100000)
WIDTHS = range(8, 129, 2)
LENGTHS = range(12, 65, 4)  # long enough for the distances that the captions name
HEADS = 8
WAVE_CAPTION = (
    "Pair {pair}: wavelength 2π · {base}^({power}/{d_model}) = {wavelength:,.2f} positions, "
    "{turns} turns from position 0 to {last}.\n"
    "{meaning} is {products}, wherever they stand."
)
LEARNED_CAPTION = (
    "Untrained rows: columns {first} and {second} are noise without a wavelength; base changes nothing here.\n"
    "The product of two rows is on average {products}. "
    "The place counts too: {least:.4f} to {most:.4f} at distance 1."
)
ALIBI_CAPTION = "Bias of head 1 {first}; of head {heads} {last}.\nd_model, base and pair change nothing here."
RELATIVE_CAPTION = (
    "Bucket of a key before the query: {before}; after it: {after}. {used} of {buckets} buckets are in use.\n"
    "Each has one bias per head, 0 before training: shown are the numbers of the buckets. "
    "d_model, base and pair change nothing here."
)
BY_DISTANCE = {
    ".4f": "{near:.4f} at distance 0, {next:.4f} at 1 and {far:.4f} at 8",
    "short": "{near:short} at distance 0, {next:short} at 1 and {far:short} at 8",
}


def position_steps(encoding: str, d_model: int, length: int, base: float, pair: int) -> Shown:
    """What an encoding does to `length` positions: its table or bias, the same by distance, and one
    pair of columns.

    d_model: the width, even; of one head for rotary. pair: i of the columns 2i and 2i + 1, from 0
    to d_model/2 - 1. Biases have no pairs and come without the last panel.
    Raises ValueError for what the explorer does not offer.
    """
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, got {encoding!r}")
    if d_model not in WIDTHS:
        raise ValueError(f"d_model must be even and lie between {WIDTHS[0]} and {WIDTHS[-1]}, got {d_model}")
    if not LENGTHS[0] <= length <= LENGTHS[-1]:
        raise ValueError(f"length must lie between {LENGTHS[0]} and {LENGTHS[-1]}, got {length}")
    if pair not in range(d_model // 2):
        raise ValueError(f"pair must lie between 0 and {d_model // 2 - 1} for d_model = {d_model}, got {pair}")
    if encoding == "ALiBi":
        return _alibi_steps(length)
    if encoding == "relative":
        return _relative_steps(length)
    if encoding == "learned":
        return _learned_steps(d_model, length, pair)
    return _wave_steps(encoding, d_model, length, base, pair)


def _wave_steps(encoding: str, d_model: int, length: int, base: float, pair: int) -> Shown:
    table = SinusoidalPositionalEncoding(d_model, length, base).table(length)
    if encoding == "sinusoidal":
        products = table @ table.T
        titles, names = ("code PE(p)", "PE(m) · PE(n)"), ("position m", "position n")
        meaning = "The product of two codes"
    else:
        q = torch.randn(WIDTHS[-1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))[:d_model]
        turned = RotaryEmbedding(d_model, base)(q.expand(length, d_model))
        products = turned @ turned.T
        titles, names = ("sin and cos of the angles", "T(m)q · T(n)k for one q = k"), ("query at m", "key at n")
        meaning = "The product of the turned q and k"
    wavelength = 2 * math.pi * base ** (2 * pair / d_model)
    turns = (length - 1) / wavelength
    turns_text = Caption("less than 0.01") if turns < 0.01 else Caption("{turns:.2f}", turns=turns)
    caption = Caption(
        WAVE_CAPTION,
        pair=pair,
        base=base,
        power=2 * pair,
        d_model=d_model,
        wavelength=wavelength,
        turns=turns_text,
        last=length - 1,
        meaning=meaning,
        products=_by_distance(_means(products), ".4f"),
    )
    numbers = range(length)
    return [
        matrix_panel(table, titles[0], numbers, range(d_model), "position", "column", "value"),
        matrix_panel(products, titles[1], numbers, numbers, *names, "product"),
        _pair_panel(table, pair, f"pair {pair}", ("sin", "cos")),
    ], caption


def _learned_steps(d_model: int, length: int, pair: int) -> Shown:
    with torch.random.fork_rng(devices=[]):  # starting a table must not use up the reader's random numbers
        weight = LearnedPositionalEncoding(d_model, length).weight.detach().float()
    # The same start as in the class, from a seed; in float64 so that products do not depend on the
    # order of summing.
    table = weight.normal_(std=0.02, generator=torch.Generator().manual_seed(0)).double()
    products = table @ table.T
    neighbours = products.diagonal(1)
    columns = (str(2 * pair), str(2 * pair + 1))
    caption = Caption(
        LEARNED_CAPTION,
        first=columns[0],
        second=columns[1],
        products=_by_distance(_means(products), ".4f"),
        least=neighbours.min().item(),
        most=neighbours.max().item(),
    )
    numbers = range(length)
    return [
        matrix_panel(table, "learned rows, untrained", numbers, range(d_model), "position", "column", "value"),
        matrix_panel(products, "row m · row n", numbers, numbers, "position m", "position n", "product"),
        _pair_panel(table, pair, f"columns {' and '.join(columns)}", columns),
    ], caption


def _alibi_steps(length: int) -> Shown:
    alibi, numbers = AlibiBias(HEADS), range(length)
    slopes = torch.as_tensor(alibi.slopes).tolist()
    bias = alibi(length, length).double()
    by_distance = bias[:, 0]  # from the first query, the keys stand at distances 0, 1, 2, ...
    first, last = (
        Caption("(slope {slope:short}): {biases}", slope=slopes[h], biases=_by_distance(by_distance[h]))
        for h in (0, -1)
    )
    caption = Caption(ALIBI_CAPTION, heads=HEADS, first=first, last=last)
    heads = range(1, HEADS + 1)
    return [
        matrix_panel(bias[0], f"ALiBi bias, head 1 of {HEADS}", numbers, numbers, "query", "key", "bias"),
        matrix_panel(by_distance, "bias by distance", heads, numbers, "head", "distance", "bias"),
    ], caption


def _relative_steps(length: int) -> Shown:
    relative = RelativePositionBias(HEADS)
    distance, numbers = torch.arange(length), range(length)
    sides = relative.buckets(torch.stack([-distance, distance]))
    buckets = relative.buckets(distance - distance[:, None])
    before, after = map(_by_distance, sides)
    caption = Caption(
        RELATIVE_CAPTION, before=before, after=after, used=buckets.unique().numel(), buckets=len(relative.weight)
    )
    return [
        matrix_panel(buckets, "T5 bucket of each pair", numbers, numbers, "query", "key", "bucket"),
        matrix_panel(sides, "bucket by distance", ("before", "after"), numbers, "key", "distance", "bucket"),
    ], caption


def _pair_panel(table: torch.Tensor, pair: int, title: str, rows: tuple[str, str]) -> Panel:
    values = table[:, 2 * pair : 2 * pair + 2].T
    return matrix_panel(values, title, rows, range(len(table)), "column", "position", "value")


def _means(products: torch.Tensor) -> list[float]:
    """The mean product at each distance; for codes that know no place, the product."""
    return [products.diagonal(distance).mean().item() for distance in range(len(products))]


def _by_distance(values: Sequence[float] | torch.Tensor, form: str = "short") -> Caption:
    near, next_to_it, far = (float(values[distance]) for distance in (0, 1, 8))
    return Caption(BY_DISTANCE[form], near=near, next=next_to_it, far=far)


def position_explorer() -> Explorer:
    """Sliders for the encoding, width, length, base and one pair of columns; its table, its
    distances and the pair.
    """
    width = widgets.IntSlider(value=24, min=WIDTHS[0], max=WIDTHS[-1], step=WIDTHS.step, description="d_model")
    controls = {
        "encoding": widgets.SelectionSlider(options=ENCODINGS, value="sinusoidal", description="encoding"),
        "d_model": width,
        "length": widgets.IntSlider(value=24, min=LENGTHS[0], max=LENGTHS[-1], step=LENGTHS.step, description="length"),
        "base": widgets.SelectionSlider(options=BASES, value=10000, description="base"),
        "pair": widgets.IntSlider(value=1, min=0, max=width.value // 2 - 1, description="frequency pair"),
    }

    def fit(d_model: int, pair: int, **_) -> dict[str, Choice]:
        pairs = range(d_model // 2)
        return {"pair": (pairs, min(pair, pairs[-1]))}

    def offline() -> Stored:
        # Thinned: all widths and lengths would take megabytes.
        return Stored({"d_model": (8, 16, 24, 32, 64, 128), "length": (12, 24, 48, 64), "pair": range(64)})

    return Explorer("positions", controls, position_steps, fit, offline)

"""The explorers of the course for pages without a kernel: what each of them offers there."""

import itertools
import re
from collections.abc import Callable

from attn_core.show import costs, explorers, positions
from attn_core.show.static import computed, stored
from attn_core.show.untrained import MOST_TOKENS
from attn_core.show.view import packed


def qkv_pieces() -> dict:
    """What qkvSteps of steps.js gets: the matrices, the panels without values, the caption without numbers."""
    panels, caption = explorers.qkv_steps(1.0, 1.0, 1.0, 0.0)
    number = itertools.count()
    return {
        "matrices": (explorers.W_Q, explorers.W_K, explorers.W_V),
        "layout": packed(panels)[0],
        "caption": re.sub(r"-?\d+\.\d{4}", lambda _: f"{{{next(number)}}}", caption),
    }


def head_pieces() -> dict:
    """What headSteps of steps.js gets: the panels of the most heads without values, words on how a text is split."""
    most = explorers.HEAD_COUNTS[-1]
    return {"panels": packed(explorers.head_steps(most, most, "a")[0])[0], "splits": explorers.SPLITS}


def _heads() -> str:
    explorer = explorers.head_explorer()
    width = explorer.controls["embed_dim"]
    rows = [
        [
            place,
            explorers.HEAD_COUNTS.index(heads),
            [explorers.head_caption(size, heads, tokens, "{split}") for tokens in range(1, MOST_TOKENS + 1)],
        ]
        for place, size in enumerate(range(width.min, width.max + 1, width.step))
        for heads in explorers.legal_heads(size)
    ]
    offered = {"num_heads": explorers.HEAD_COUNTS}
    return computed(explorer, "heads", head_pieces(), rows, ("embed_dim", "num_heads"), offered)


def _positions() -> str:
    # Thinned: all widths and lengths would take megabytes.
    offered = {"d_model": (8, 16, 24, 32, 64, 128), "length": (12, 24, 48, 64), "pair": range(64)}
    return stored(positions.position_explorer(), offered)


def _costs() -> str:
    heads = [(f"{count:,}", count) for count in costs.HEAD_COUNTS]
    # As many kv heads as heads stay so.
    return stored(costs.cost_explorer(), {"num_heads": heads, "num_kv_heads": heads}, stays_full=("num_kv_heads",))


# By the name of the function that a notebook calls.
BLOCKS: dict[str, Callable[[], str]] = {
    "scale_explorer": lambda: stored(explorers.scale_explorer()),
    "qkv_explorer": lambda: computed(explorers.qkv_explorer(), "qkv", qkv_pieces()),
    "head_explorer": _heads,
    "position_explorer": _positions,
    "cost_explorer": _costs,
}

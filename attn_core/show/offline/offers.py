"""The explorers of the course for pages without a kernel: what each of them offers there."""

import itertools
import re
from collections.abc import Callable

from attn_core.show.explorers import costs, heads, positions, qkv, scale
from attn_core.show.live.view import packed
from attn_core.show.offline.blocks import computed, stored
from attn_core.show.style import MOST_TOKENS


def qkv_pieces() -> dict:
    """What COMPUTED.qkv gets: the matrices, the panels without values, the caption without numbers."""
    panels, caption = qkv.qkv_steps(1.0, 1.0, 1.0, 0.0)
    number = itertools.count()
    return {
        "matrices": (qkv.W_Q, qkv.W_K, qkv.W_V),
        "layout": packed(panels)[0],
        "caption": re.sub(r"-?\d+\.\d{4}", lambda _: f"{{{next(number)}}}", caption),
    }


def head_pieces() -> dict:
    """What COMPUTED.heads gets: the panels of the most heads without values, words on how a text is split."""
    most = heads.HEAD_COUNTS[-1]
    return {"panels": packed(heads.head_steps(most, most, "a")[0])[0], "splits": heads.SPLITS}


def _heads() -> str:
    explorer = heads.head_explorer()
    width = explorer.controls["embed_dim"]
    rows = [
        [
            place,
            heads.HEAD_COUNTS.index(count),
            [heads.head_caption(size, count, tokens, "{split}") for tokens in range(1, MOST_TOKENS + 1)],
        ]
        for place, size in enumerate(range(width.min, width.max + 1, width.step))
        for count in heads.legal_heads(size)
    ]
    offered = {"num_heads": heads.HEAD_COUNTS}
    return computed(explorer, "heads", head_pieces(), rows, ("embed_dim", "num_heads"), offered)


def _positions() -> str:
    # Thinned: all widths and lengths would take megabytes.
    offered = {"d_model": (8, 16, 24, 32, 64, 128), "length": (12, 24, 48, 64), "pair": range(64)}
    return stored(positions.position_explorer(), offered)


def _costs() -> str:
    counts = [(f"{count:,}", count) for count in costs.HEAD_COUNTS]
    # As many kv heads as heads stay so.
    return stored(costs.cost_explorer(), {"num_heads": counts, "num_kv_heads": counts}, stays_full=("num_kv_heads",))


# By the name of the function that a notebook calls.
BLOCKS: dict[str, Callable[[], str]] = {
    "scale_explorer": lambda: stored(scale.scale_explorer()),
    "qkv_explorer": lambda: computed(qkv.qkv_explorer(), "qkv", qkv_pieces()),
    "head_explorer": _heads,
    "position_explorer": _positions,
    "cost_explorer": _costs,
}

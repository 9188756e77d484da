"""Explorers, one module each; `base` has what they share.

A pure function computes what each shows; the notebooks also call these functions by themselves.
"""

from collections.abc import Callable

from attn_core.show.explorers.base import Explorer
from attn_core.show.explorers.costs import cost_steps
from attn_core.show.explorers.heads import SENTENCE, head_steps
from attn_core.show.explorers.next_token import NextToken, next_token_steps
from attn_core.show.explorers.positions import position_steps
from attn_core.show.explorers.qkv import qkv_steps
from attn_core.show.explorers.scale import entropy, scale_steps
from attn_core.show.explorers.trained import trained_head_steps


def exported() -> dict[str, Callable[..., Explorer]]:
    """What makes each explorer that `attn_core.show` exports, by its name."""
    from attn_core import show  # only now: it imports this package first

    return {name: getattr(show, name) for name in show.__all__ if name.endswith("_explorer")}


__all__ = [
    "NextToken",
    "SENTENCE",
    "cost_steps",
    "entropy",
    "exported",
    "head_steps",
    "next_token_steps",
    "position_steps",
    "qkv_steps",
    "scale_steps",
    "trained_head_steps",
]

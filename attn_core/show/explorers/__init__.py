"""Explorers, one module each; `base` has what they share.

A pure function computes what each shows; these are the ones that the notebooks also call by themselves.
"""

from attn_core.show.explorers.costs import cost_steps
from attn_core.show.explorers.heads import SENTENCE, head_steps
from attn_core.show.explorers.positions import position_steps
from attn_core.show.explorers.qkv import qkv_steps
from attn_core.show.explorers.scale import entropy, scale_steps
from attn_core.show.explorers.trained import trained_head_steps

__all__ = [
    "SENTENCE",
    "cost_steps",
    "entropy",
    "head_steps",
    "position_steps",
    "qkv_steps",
    "scale_steps",
    "trained_head_steps",
]

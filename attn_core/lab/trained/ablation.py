"""Switching off single heads of a trained model: how far does what it says of a sentence move?"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_core.lab.trained.pretrained import Pretrained


@contextmanager
def without_head(pretrained: Pretrained, layer: int, head: int) -> Iterator[None]:
    """Inside it the head, layer and head from 1, brings nothing: its columns of `out_proj` are zero.

    Afterwards, whatever happened inside, the weights are what they were.
    Raises ValueError for a layer or head that the model does not have.
    """
    layers = pretrained.model.layers
    heads = layers[0].attention.num_heads
    if layer not in range(1, len(layers) + 1) or head not in range(1, heads + 1):
        raise ValueError(f"layers go from 1 to {len(layers)} and heads from 1 to {heads}, got {layer} and {head}")
    attention = layers[layer - 1].attention
    columns = slice((head - 1) * attention.head_dim, head * attention.head_dim)
    weight = attention.out_proj.weight.data[:, columns]
    before = weight.clone()
    try:
        weight.zero_()
        yield
    finally:
        weight.copy_(before)


def embedding_shifts(pretrained: Pretrained, sentences: str | Sequence[str]) -> Tensor:
    """(S, layers, H): how far each sentence's embedding moves, 1 - cosine, when this one head is switched off.

    The same as from `pretrained.embed` inside `without_head`, but the layers below the head are not computed again.
    """
    layers = pretrained.model.layers
    heads = layers[0].attention.num_heads
    reading = pretrained.read(sentences, need_weights=False)
    kept = reading.mask[..., None]
    before = (reading.hidden[-1] * kept).sum(1)  # the direction of the mean, and the cosine asks for no more
    shifts = torch.empty(len(before), len(layers), heads)
    for layer in range(len(layers)):
        for head in range(heads):
            with without_head(pretrained, layer + 1, head + 1):
                x = reading.hidden[layer]
                for later in layers[layer:]:
                    x, _ = later(x, reading.mask[:, None, None], False)
            shifts[:, layer, head] = 1 - F.cosine_similarity((x * kept).sum(1), before, dim=-1)
    return shifts

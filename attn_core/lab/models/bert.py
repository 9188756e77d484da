"""BERT's encoder built from this course's own attention layer. Source: Devlin et al. 2018, "BERT"."""

import inspect
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attn_core.multihead import MultiHeadAttention
from attn_core.positional import LearnedPositionalEncoding


class Read(NamedTuple):
    """What the encoder returns.

    hidden: layers + 1 tensors (B, L, D): the embeddings, then what each layer made of them.
    weights: (B, layers, H, L, L), rows = queries; None unless asked for.
    """

    hidden: list[Tensor]
    weights: Tensor | None


class Encoder(nn.Module):
    """The encoder of BERT, for one sentence at a time and for reading only: it has no dropout.

    The arguments are numbers of a config.json, under the names they have there.
    `layers[i].attention` is a MultiHeadAttention; head h fills columns h·D/H to (h+1)·D/H of what its `out_proj` takes.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        num_hidden_layers: int,
        num_attention_heads: int,
        intermediate_size: int,
        max_position_embeddings: int,
        type_vocab_size: int,
        layer_norm_eps: float,
    ):
        super().__init__()
        self.words = nn.Embedding(vocab_size, hidden_size)
        self.types = nn.Embedding(type_vocab_size, hidden_size)
        self.positions = LearnedPositionalEncoding(hidden_size, max_position_embeddings)
        self.norm = nn.LayerNorm(hidden_size, layer_norm_eps)
        sizes = (hidden_size, num_attention_heads, intermediate_size, layer_norm_eps)
        self.layers = nn.ModuleList(PostNormLayer(*sizes) for _ in range(num_hidden_layers))

    def forward(self, ids: Tensor, mask: Tensor | None = None, need_weights: bool = False) -> Read:
        """ids (B, L) of integers -> Read. mask: (B, L) of bool, True = a real token, False = padding.

        At the padding, `hidden` and the rows of `weights` say nothing.
        Raises ValueError for another shape, or for an L of more than the model's positions.
        """
        if ids.dim() != 2:
            raise ValueError(f"ids must have shape (batch, length), got {tuple(ids.shape)}")
        if mask is not None and (mask.shape != ids.shape or mask.dtype != torch.bool):
            raise ValueError(f"mask must be bool {tuple(ids.shape)}, as ids, got {mask.dtype} {tuple(mask.shape)}")
        mask = None if mask is None else mask[:, None, None, :]
        # Type 0 marks the first of two sentences, and here there is one.
        x = self.norm(self.positions(self.words(ids) + self.types.weight[0]))
        hidden, maps = [x], []
        for layer in self.layers:
            x, weights = layer(x, mask, need_weights)
            hidden.append(x)
            maps.append(weights)
        return Read(hidden, torch.stack(maps, dim=1) if need_weights else None)


class PostNormLayer(nn.Module):
    """LayerNorm(x + attention(x)), then LayerNorm(x + network(x)), as in Vaswani et al. 2017."""

    def __init__(self, width: int, num_heads: int, network_width: int, eps: float):
        super().__init__()
        self.attention = MultiHeadAttention(width, num_heads)
        self.attention_norm, self.network_norm = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.network = nn.Sequential(nn.Linear(width, network_width), nn.GELU(), nn.Linear(network_width, width))

    def forward(self, x: Tensor, mask: Tensor | None, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """(B, L, D) -> the same shape, and the weights (B, H, L, L) or None. mask: as in MultiHeadAttention."""
        values, weights = self.attention(x, mask=mask, need_weights=need_weights)
        x = self.attention_norm(x + values)
        return self.network_norm(x + self.network(x)), weights


def encoder_from_bert(config: Mapping, tensors: Mapping[str, Tensor]) -> Encoder:
    """An Encoder in float32 with the weights of a BERT, in evaluation mode and without gradients.

    config: what its config.json holds. tensors: its weights, under the names of `transformers.BertModel`, or of a model
    around one, such as BertForMaskedLM: of that the BERT alone is read.
    Raises ValueError for another kind of model, or where a tensor is missing, too many or of another shape.
    """
    numbers = _numbers(config)
    if any(name.startswith("bert.") for name in tensors):
        tensors = {name.removeprefix("bert."): tensors[name] for name in tensors if name.startswith("bert.")}
    # What it starts with is replaced, so the caller's random numbers stay as they are.
    with torch.random.fork_rng(devices=[]):
        model = Encoder(**numbers).float()
    ours = _rows_by_bert_name(model)
    wanted = {name: tuple(rows.shape) for name, rows in ours.items()}
    found = {
        name: tuple(tensor.shape) if tensor.is_floating_point() else tensor.dtype
        for name, tensor in tensors.items()
        if name not in _UNUSED
    }
    for name in wanted | found:
        if wanted.get(name) != found.get(name):
            raise ValueError(f"{name} must be {wanted.get(name, 'absent')}, but is {found.get(name, 'absent')}")
    for name, rows in ours.items():
        rows.copy_(tensors[name])
    return model.eval().requires_grad_(False)


def _numbers(config: Mapping) -> dict[str, int | float]:
    """The arguments of Encoder."""
    if not isinstance(config, Mapping):
        raise ValueError(f"a configuration must hold names and values, but is a {type(config).__name__}")
    for name, wanted in _KIND.items():
        if config.get(name, wanted) != wanted:
            raise ValueError(f"{name} must be {wanted!r}, but is {config[name]!r}")
    numbers = {name: config.get(name) for name in inspect.signature(Encoder).parameters}
    for name, number in numbers.items():
        kinds = (int, float) if name == "layer_norm_eps" else (int,)
        if type(number) not in kinds or not 0 < number < math.inf:
            raise ValueError(f"{name} must be a positive number, but is {number!r}")
    return numbers


def _rows_by_bert_name(model: Encoder) -> dict[str, Tensor]:
    """The model's parameters, not copied, under BERT's names: queries, keys and values are three parts of ours."""
    rows = {}
    for name, tensor in model.state_dict().items():
        part, _, kind = name.rpartition(".")
        prefix = ""
        if part.startswith("layers."):
            _, layer, part = part.split(".", 2)
            prefix = f"encoder.layer.{layer}."
        names = [f"{prefix}{theirs}.{kind}" for theirs in _BERT[part]]
        rows |= zip(names, tensor.chunk(len(names)), strict=True)
    return rows


_KIND = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_BERT = {
    "words": ["embeddings.word_embeddings"],
    "types": ["embeddings.token_type_embeddings"],
    "positions": ["embeddings.position_embeddings"],
    "norm": ["embeddings.LayerNorm"],
    "attention.qkv_proj": ["attention.self.query", "attention.self.key", "attention.self.value"],
    "attention.out_proj": ["attention.output.dense"],
    "attention_norm": ["attention.output.LayerNorm"],
    "network.0": ["intermediate.dense"],
    "network.2": ["output.dense"],
    "network_norm": ["output.LayerNorm"],
}
# The numbers of the positions, and a layer on top of [CLS] that was trained for another task.
_UNUSED = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")

"""Three translators with one interface: a GRU without attention, a GRU with attention, and a Transformer.

Each has `encode(source) -> Memory`, `decode(memory, target_in, need_weights=False) -> Decoded` and
`forward(source, target_in) -> logits`.
Sentences are rows of token ids, filled up with PAD behind their last token.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attn_core._checks import check_integers
from attn_core.attention import scaled_dot_product_attention
from attn_core.lab.models.encoder import EncoderLayer, rotary_attention
from attn_core.lab.tasks.number_words import BEGIN, END, PAD
from attn_core.masks import causal_mask
from attn_core.multihead import MultiHeadAttention
from attn_core.positional import RotaryEmbedding, SinusoidalPositionalEncoding


class Memory(NamedTuple):
    """What the encoder leaves for the decoder.

    states: (B, S, D), one per word. kept: (B, S), False at the padding.
    end: (B, D), the states of both directions after their last word; None for a Transformer.
    """

    states: Tensor
    kept: Tensor
    end: Tensor | None = None


class Decoded(NamedTuple):
    """logits (B, T, classes), and where asked for weights (B, T, S): who looks at which word. Else None."""

    logits: Tensor
    weights: Tensor | None


class GRUTranslator(nn.Module):
    """A recurrent encoder, in both directions as in Bahdanau et al. 2014, and a recurrent decoder, one layer each.

    The decoder starts from the state in which the encoder ends. Without attention that is all it gets: Sutskever et al.
    2014, "Sequence to Sequence Learning with Neural Networks", with the cell of Cho et al. 2014. With attention each of
    its states also looks up an average of all the encoder's: Luong et al. 2015, "Effective Approaches to
    Attention-based Neural Machine Translation", section 3.1, the score "general", here divided by √D.

    source_size, target_size: how many words and characters there are. width: D, of embeddings and states, half of it
    for each direction. Raises ValueError for an odd width.
    """

    def __init__(self, source_size: int, target_size: int, *, width: int, attention: bool):
        super().__init__()
        if width % 2:
            raise ValueError(f"width must be even, half of it for each direction, got {width}")
        self.source_embedding = nn.Embedding(source_size, width)
        self.target_embedding = nn.Embedding(target_size, width)
        self.encoder = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.query = nn.Linear(width, width, bias=False) if attention else None
        self.combine = nn.Linear(2 * width, width) if attention else None
        self.answer = nn.Linear(width, target_size)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """source (B, S), target_in (B, T) -> logits (B, T, classes)."""
        return self.decode(self.encode(source), target_in).logits

    def encode(self, source: Tensor) -> Memory:
        """source (B, S) -> a state per word. Raises ValueError for what is not ids or for a sentence of no words."""
        kept = _kept(source)
        # Packed, so that the reading from right to left begins at the last word and not in the padding.
        words = pack_padded_sequence(self.source_embedding(source), kept.sum(1), batch_first=True, enforce_sorted=False)
        states, end = self.encoder(words)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.size(1))
        return Memory(states, kept, end.transpose(0, 1).flatten(1))

    def decode(self, memory: Memory, target_in: Tensor, need_weights: bool = False) -> Decoded:
        """target_in (B, T) -> what comes after each of its tokens, given it and those before."""
        states, _ = self.decoder(self.target_embedding(target_in), memory.end[None])
        if self.query is None:
            return Decoded(self.answer(states), None)
        found, weights = scaled_dot_product_attention(
            self.query(states), memory.states, memory.states, memory.kept[:, None], need_weights=need_weights
        )
        return Decoded(self.answer(torch.tanh(self.combine(torch.cat([states, found], -1)))), weights)


class TransformerTranslator(nn.Module):
    """The model of Vaswani et al. 2017, but pre-norm, with num_layers layers in the encoder and in the decoder.

    Positions are told twice. Rotary codes serve self-attention, which asks for distances. Between the two languages a
    distance means nothing, so that sinusoidal codes in the embeddings give cross-attention places to look for.

    source_size, target_size: how many words and characters there are. d_model: D, the width. num_heads: divides D.
    """

    def __init__(self, source_size: int, target_size: int, *, d_model: int, num_heads: int, num_layers: int):
        super().__init__()
        self.source_embedding = nn.Embedding(source_size, d_model)
        self.target_embedding = nn.Embedding(target_size, d_model)
        self.code = SinusoidalPositionalEncoding(d_model)
        self.rotary = RotaryEmbedding(d_model // num_heads)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, num_heads) for _ in range(num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, num_heads) for _ in range(num_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.answer = nn.Linear(d_model, target_size)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """source (B, S), target_in (B, T) -> logits (B, T, classes)."""
        return self.decode(self.encode(source), target_in).logits

    def encode(self, source: Tensor) -> Memory:
        """source (B, S) -> a state per word. Raises ValueError for what is not ids or for a sentence of no words."""
        kept = _kept(source)
        x = self.code(self.source_embedding(source))
        for layer in self.encoder:
            x = layer(x, kept[:, None, None], self.rotary)
        return Memory(self.encoder_norm(x), kept)

    def decode(self, memory: Memory, target_in: Tensor, need_weights: bool = False) -> Decoded:
        """target_in (B, T) -> what comes after each of its tokens, given it and those before.

        weights: of the cross-attention in the last layer, the mean over its heads.
        """
        x = self.code(self.target_embedding(target_in))
        for layer in self.decoder:
            x, weights = layer(x, memory, self.rotary, need_weights)
        return Decoded(self.answer(self.decoder_norm(x)), weights.mean(1) if need_weights else None)


class DecoderLayer(EncoderLayer):
    """An encoder layer that looks back only, and then at the encoder's states: cross-attention, before the network."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__(d_model, num_heads)
        self.cross_attention, self.cross_norm = MultiHeadAttention(d_model, num_heads), nn.LayerNorm(d_model)

    def forward(
        self, x: Tensor, memory: Memory, rotary: RotaryEmbedding, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(B, T, D) -> (B, T, D) and, where asked for, the weights (B, H, T, S) of the cross-attention."""
        x = x + rotary_attention(self.attention, rotary, self.attention_norm(x), causal_mask(x.size(1)))
        found, weights = self.cross_attention(
            self.cross_norm(x), memory.states, mask=memory.kept[:, None, None], need_weights=need_weights
        )
        x = x + found
        return x + self.network(self.network_norm(x)), weights


@torch.no_grad()
def greedy(model: nn.Module, source: Tensor, max_len: int) -> Tensor:
    """What the model writes by itself: source (B, S) -> ids (B, T), T ≤ max_len, END and then PAD behind a sentence.

    Each time the likeliest token is taken and shown to the decoder with those before it. Decoding stops when every
    sentence has ended, or after max_len tokens, END included.
    Raises ValueError for a max_len below 1.
    """
    check_integers(max_len=max_len)
    memory = model.encode(source)
    shown = torch.full((len(source), 1), BEGIN)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while shown.size(1) <= max_len and not ended.all():
        # The decoder starts from BEGIN each time: a cache would be faster, but another one for each model.
        likeliest = model.decode(memory, shown).logits[:, -1].argmax(-1)
        shown = torch.cat([shown, likeliest.masked_fill(ended, PAD)[:, None]], 1)
        ended |= likeliest == END
    return shown[:, 1:]


@torch.no_grad()
def alignment(model: nn.Module, source: Tensor, ids: Tensor) -> Tensor:
    """weights (T, S) of one sentence: row t, at which of the words source (S) the model looks as it writes ids[t].

    ids: (T), a row of what `greedy` gives, or of targets without their filling.
    Raises ValueError for more than one sentence, or for a model without attention.
    """
    if source.dim() != 1 or ids.dim() != 1:
        raise ValueError(
            f"source and ids must be one row of ids each, got shapes {tuple(source.shape)} and {tuple(ids.shape)}"
        )
    shown = torch.cat([torch.tensor([BEGIN]), ids[:-1]])
    weights = model.decode(model.encode(source[None]), shown[None], need_weights=True).weights
    if weights is None:
        raise ValueError(f"model must have attention to be aligned, and this {type(model).__name__} has none")
    return weights[0]


def _kept(source: Tensor) -> Tensor:
    """Where source (B, S) holds a word. Raises ValueError for a source of another form or with an empty sentence."""
    if source.dim() != 2 or source.is_floating_point():
        raise ValueError(f"source must be integer ids of shape (B, S), got {source.dtype} of {tuple(source.shape)}")
    kept = source != PAD
    if (empty := ~kept.any(1)).any():
        raise ValueError(f"each sentence needs at least one word, got only padding in row {int(empty.int().argmax())}")
    return kept

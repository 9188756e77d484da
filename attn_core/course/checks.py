"""The document's claims that can be computed at once: one function for each, from its numbers to ours and a verdict.

A check takes the numbers of the document as the ledger has them, and returns a Finding. It may draw from torch's random
state: whoever calls it sets the seed. `all_some_none` is the rule behind every verdict that is no plain comparison.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_core.attention import attention_trace, scaled_dot_product_attention
from attn_core.flops import AttentionCost, attention_cost, count_macs_with_fvcore
from attn_core.multihead import MultiHeadAttention
from attn_core.positional import SinusoidalPositionalEncoding

HOLDS, CORRECTED, DIFFERENT_CAUSE, DEPENDS = "holds", "corrected", "different cause", "depends"
NOT_CHECKABLE = "not checkable here"
VERDICTS = (HOLDS, CORRECTED, DIFFERENT_CAUSE, DEPENDS, NOT_CHECKABLE)
# The document's example: two tokens and three matrices.
EXAMPLE = {"a": [[1, 1], [1, 0]], "W_q": [[1, 1], [0, 1]], "W_k": [[0, 1], [1, 1]], "W_v": [[1, 0], [0, 1]]}


class Finding(NamedTuple):
    """measured: ours, a short text with its unit. verdict: one of VERDICTS."""

    measured: str
    verdict: str


def all_some_none(statements: Iterable[bool]) -> str:
    """The verdict on a claim that is split into statements: it holds where all are true, is corrected where none is.

    Where some are true and some are not, it depends on what they differ in.
    """
    statements = list(statements)
    return HOLDS if all(statements) else DEPENDS if any(statements) else CORRECTED


# 2. One head by hand


def check_qkv(document: dict) -> Finding:
    """Holds where all twelve numbers are the document's."""
    ours = dict(zip("QKV", _projections(), strict=True))
    text = ", ".join(f"{name} {_rows(matrix, 0)}" for name, matrix in ours.items())
    return Finding(text, HOLDS if all(ours[name].tolist() == document[name] for name in "QKV") else CORRECTED)


def check_scores(document: dict) -> Finding:
    return _compared(attention_trace(*_projections()).scaled, document)


def check_weights(document: dict) -> Finding:
    return _compared(attention_trace(*_projections()).weights, document)


def check_output(document: dict) -> Finding:
    return _compared(attention_trace(*_projections()).values, document)


def check_learned_qkv(document: dict) -> Finding:
    """Three matrices are trained on a small task: each of six tokens reports the number that its partner carries.

    Holds where the loss falls under a hundredth of what it was and every token looks at its partner.
    """
    tokens, partner = torch.eye(6, dtype=torch.float64).expand(64, 6, 6), torch.tensor([1, 0, 3, 2, 5, 4])
    matrices = [torch.randn(7, width, dtype=torch.float64) / 10 for width in (6, 6, 1)]
    optimizer = torch.optim.Adam([matrix.requires_grad_() for matrix in matrices], lr=0.03)
    losses = []
    for _ in range(400):
        numbers = torch.randn(64, 6, 1, dtype=torch.float64)
        x = torch.cat([tokens, numbers], dim=-1)
        values, weights = scaled_dot_product_attention(*(x @ matrix for matrix in matrices))
        loss = F.mse_loss(values, numbers[:, partner])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    before, after = sum(losses[:10]) / 10, sum(losses[-10:]) / 10
    found = after < before / 100 and weights[:, range(6), partner].min() > 0.9
    text = f"on a small task: loss {before:.1f} in the first 10 steps, {after:.1f} in the last 10 of 400"
    return Finding(text + (", all weights on the partner above 0.9" if found else ""), HOLDS if found else CORRECTED)


# 3. Many heads


def check_head_dim(document: dict) -> Finding:
    head_dim = MultiHeadAttention(document["embed_dim"], document["heads"]).head_dim
    return Finding(f"{head_dim} numbers per head", HOLDS if head_dim == document["head_dim"] else CORRECTED)


class DocumentAttention(nn.Module):
    """The document's class as it is printed there, without its comments."""

    def __init__(self, embed_dim=512, num_heads=8):
        super().__init__()
        self.head_dim = embed_dim // num_heads
        self.qkv_proj = nn.Linear(embed_dim, embed_dim * 3)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        batch_size, seq_len, _ = x.shape
        qkv = self.qkv_proj(x).chunk(3, dim=-1)
        Q = qkv[0].view(batch_size, seq_len, self.num_heads, self.head_dim).transpose(1, 2)
        K = qkv[1].view(batch_size, seq_len, self.num_heads, self.head_dim).transpose(1, 2)
        V = qkv[2].view(batch_size, seq_len, self.num_heads, self.head_dim).transpose(1, 2)
        attn_scores = (Q @ K.transpose(-2, -1)) / math.sqrt(self.head_dim)
        attn_weights = torch.softmax(attn_scores, dim=-1)
        context = attn_weights @ V
        context = context.transpose(1, 2).reshape(batch_size, seq_len, -1)
        return self.out_proj(context)


def check_mha_code(document: dict) -> Finding:
    """Holds where the class runs as printed and agrees with torch's layer; corrected otherwise."""
    theirs = nn.MultiheadAttention(512, 8, batch_first=True).double()
    layer, x = DocumentAttention().double(), torch.randn(2, 5, 512, dtype=torch.float64)
    layer.qkv_proj.weight, layer.qkv_proj.bias = theirs.in_proj_weight, theirs.in_proj_bias
    layer.out_proj = theirs.out_proj
    expected = theirs(x, x, x, need_weights=False)[0]
    try:
        return Finding("it runs", HOLDS if torch.allclose(layer(x), expected) else CORRECTED)
    except AttributeError as error:
        missing = error.name
    layer.num_heads = 8
    agrees = "agrees" if torch.allclose(layer(x), expected) else "does not agree"
    return Finding(f"AttributeError: no {missing}; with that line it {agrees} with PyTorch", CORRECTED)


def check_params(document: dict) -> Finding:
    """Holds where one and eight heads of one structure have the document's numbers.

    Different cause where the numbers are those without and with an output projection, whatever the number of heads.
    """
    counts = {
        out_proj: [_short(_cost(heads, out_proj=out_proj).parameters) for heads in (1, 8)] for out_proj in (False, True)
    }
    told = [document["one_head"], document["eight_heads"]]
    text = "; ".join(
        f"{'with' if out_proj else 'without'} output projection: 1 head {one}, 8 heads {eight}"
        for out_proj, (one, eight) in counts.items()
    )
    if told in counts.values():
        return Finding(text, HOLDS)
    by_structure = counts == {False: [told[0]] * 2, True: [told[1]] * 2}
    return Finding(text, DIFFERENT_CAUSE if by_structure else CORRECTED)


def check_flops_unit(document: dict) -> Finding:
    """Holds where the document's two numbers are the MACs or the FLOPs of one sequence, without and with projection."""
    told = [document["one_head"], document["eight_heads"]]
    macs = {
        batch: [_cost(8, out_proj=out_proj, batch_size=batch).total_macs / 1e9 for out_proj in (False, True)]
        for batch in (1, document["batch_size"])
    }
    found = told in [[round(factor * count, 2) for count in macs[1]] for factor in (1, 2)]
    text = "; ".join(
        f"batch of {batch}: {without:.2f} and {including:.2f}" for batch, (without, including) in macs.items()
    )
    text = f"G MAC without and with output projection, {text}; FLOPs are twice as many"
    return Finding(text, HOLDS if found else CORRECTED)


def check_flops_gap(document: dict) -> Finding:
    """Holds where eight heads cost so much more than one in one structure; different cause where the output projection
    costs so much more than none, with one number of heads."""
    heads = _cost(8).total_macs / _cost(1).total_macs - 1
    projection = _cost(8).total_macs / _cost(8, out_proj=False).total_macs - 1
    text = f"8 heads instead of 1: {100 * heads:+.1f} %; output projection instead of none: {100 * projection:+.1f} %"
    if round(heads, 2) == document["more"]:
        return Finding(text, HOLDS)
    return Finding(text, DIFFERENT_CAUSE if round(projection, 2) == document["more"] else CORRECTED)


def check_shared_projection(document: dict) -> Finding:
    """One statement per way of sharing keys and values, with 1, 2 or 4 of them for 8 heads: it has the document's
    number of parameters, and the FLOPs of the document's one head, which has no output projection."""
    shared = {kv_heads: _cost(8, num_kv_heads=kv_heads) for kv_heads in (1, 2, 4)}
    one_head = _cost(1, out_proj=False).total_flops
    parameters = ", ".join(f"{cost.parameters:,}" for cost in shared.values())
    flops = ", ".join(f"{cost.total_flops / one_head:.3f}" for cost in shared.values())
    text = f"1, 2 or 4 key/value heads for 8: {parameters} parameters; FLOPs over those of 1 head {flops}"
    same = [_short(cost.parameters) == document["shared"] and cost.total_flops == one_head for cost in shared.values()]
    return Finding(text, all_some_none(same))


# 4. Positions


def check_order_blind(document: dict) -> Finding:
    """Holds where both sentences give each word the same output, and so the same mean."""
    layer, vectors = MultiHeadAttention(16, 4).double(), torch.randn(3, 16, dtype=torch.float64)
    words = dict(zip(document["sentences"][0], vectors, strict=True))
    first, second = (layer(torch.stack([words[word] for word in one])[None]).values[0] for one in document["sentences"])
    order = [document["sentences"][1].index(word) for word in document["sentences"][0]]
    same = torch.allclose(first, second[order], atol=1e-12)
    text = f"each word's output is {'the same, in another row' if same else 'another one'}"
    text += f"; largest difference of the means {(first.mean(0) - second.mean(0)).abs().max():.4f}"
    return Finding(text, HOLDS if same else CORRECTED)


def check_any_length(document: dict) -> Finding:
    """Holds where the table has a row for each of many positions, no two alike, and the last is that of the formula."""
    length, width = 20_000, 64
    table = SinusoidalPositionalEncoding(width, max_len=8).table(length)
    last = [f((length - 1) / 10000 ** (2 * i / width)) for i in range(width // 2) for f in (math.sin, math.cos)]
    different = len(table.round(decimals=6).unique(dim=0))
    right = different == length and torch.allclose(table[-1], torch.tensor(last, dtype=torch.float64))
    return Finding(f"{different:,} different rows for {length:,} positions", HOLDS if right else CORRECTED)


def check_relative_linear(document: dict) -> Finding:
    """Each pair (sine, cosine) as a complex number: a step of k must multiply it by one number, the same everywhere."""
    table = SinusoidalPositionalEncoding(64).table(5000)
    pairs = torch.complex(table[:, 1::2], table[:, 0::2])
    spread = 0.0
    for k in (1, 5, 100):
        factors = pairs[k:] / pairs[:-k]
        spread = max(spread, (factors - factors[0]).abs().max().item())
    text = f"one rotation per pair for 5,000 positions; largest difference {spread:.4f}"
    return Finding(text, HOLDS if spread < 1e-9 else CORRECTED)


def check_wavelengths(document: dict) -> Finding:
    """Holds where each wavelength, read off rows 0 and 1 of the table, is the one before times the same number."""
    width = document["embed_dim"]
    row = SinusoidalPositionalEncoding(width).table(2)[1]
    wavelengths = 2 * math.pi / torch.atan2(row[0::2], row[1::2])
    ratios = wavelengths[1:] / wavelengths[:-1]
    geometric = torch.allclose(ratios, torch.full_like(ratios, 10000 ** (2 / width)))
    text = f"{wavelengths[0]:.2f} to {wavelengths[-1]:,.0f} positions for {width} numbers, ratio {ratios.mean():.4f}"
    return Finding(text, HOLDS if geometric else CORRECTED)


# 5. The document's measurement


def check_fvcore_code(document: dict) -> Finding:
    """Holds where the code prints the document's two numbers. Run on the device "meta": fvcore counts shapes only."""
    told = [document["one_head"], document["eight_heads"]]
    x = torch.empty(document["batch_size"], document["length"], document["embed_dim"], device="meta")
    printed = {}
    for name, batch_first, more in (
        ("as printed", False, ()),
        ("batch_first=True", True, ()),
        ("also need_weights=False", True, (None, False)),  # key_padding_mask, need_weights
    ):
        layers = [nn.MultiheadAttention(x.size(-1), heads, batch_first=batch_first, device="meta") for heads in (1, 8)]
        printed[name] = [round(count_macs_with_fvcore(layer, x, x, x, *more)[0] / 1e9, 1) for layer in layers]
    text = "; ".join(f"{name}: {one} G and {eight} G" for name, (one, eight) in printed.items())
    return Finding(text, HOLDS if printed["as printed"] == told else CORRECTED)


def _projections() -> list[Tensor]:
    """Q, K and V of the document's example."""
    a, *matrices = (torch.tensor(matrix, dtype=torch.float64) for matrix in EXAMPLE.values())
    return [a @ matrix for matrix in matrices]


def _compared(ours: Tensor, document: dict) -> Finding:
    """Holds where ours, rounded to as many decimals as the document has, is the document's."""
    rounded = [[round(x, document["decimals"]) for x in row] for row in ours.tolist()]
    return Finding(_rows(ours, 4), HOLDS if rounded == document["values"] else CORRECTED)


def _rows(matrix: Tensor, decimals: int) -> str:
    return " / ".join(" ".join(f"{x:.{decimals}f}" for x in row) for row in matrix.tolist())


def _cost(heads: int, **options) -> AttentionCost:
    """In the sizes of the document's table; it counts no biases."""
    return attention_cost(1024, 512, heads, bias=False, **options)


def _short(count: int) -> str:
    """As the document writes large numbers: 786K, 1.05M."""
    return f"{count / 1e6:.2f}M" if count >= 1e6 else f"{count / 1e3:.0f}K"

"""What the core asks of its arguments: a wrong one raises, in a sentence that names its value.

`check_...` returns nothing, `checked_...` returns the arguments as the code after it needs them.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real

import torch
from torch import Tensor, nn
from torch.nn.attention.bias import CausalBias


def check_integers(least: int = 1, **numbers: int) -> None:
    """Python's integers, numpy's, and what a compiler or a tracer has in their place; no bool."""
    for name, number in numbers.items():
        if not _is_integer(number):
            raise TypeError(f"{name} must be an integer, got {number!r}")
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def check_reals(**numbers: float) -> None:
    for name, number in numbers.items():
        if not isinstance(number, Real) or isinstance(number, bool):
            raise TypeError(f"{name} must be a number, got {number!r}")


def check_bools(**flags: bool) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, got {flag!r}")


def check_choice(name: str, value: object, *choices: object) -> None:
    # 1 == True in Python, so the types are compared too.
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        words = [f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices]
        legal = f"{', '.join(words[:-1])} or {words[-1]}"
        raise ValueError(f"{name} must be {legal}, got {value!r}")


def check_greater(name: str, value: float, bound: float) -> None:
    check_reals(**{name: value})
    if not value > bound:
        raise ValueError(f"{name} must be greater than {bound}, got {value!r}")


def check_multiple(name: str, value: int, divisor: int) -> None:
    if value % divisor:
        raise ValueError(f"{name} must be a multiple of {divisor}, got {value}")


def check_even_head_dim(head_dim: int) -> None:
    check_integers(head_dim=head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even: entries are turned in pairs, got {head_dim}")


def check_dropout(name: str, share: float) -> None:
    check_reals(**{name: share})
    if not 0 <= share < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, got {share!r}")


def check_heads(embed_dim: int, num_heads: int, num_kv_heads: int) -> None:
    check_integers(embed_dim=embed_dim, num_heads=num_heads, num_kv_heads=num_kv_heads)
    if embed_dim % num_heads:
        got = f"{num_heads} heads and embed_dim {embed_dim}"
        raise ValueError(f"num_heads must divide embed_dim, got {got}")
    if num_heads % num_kv_heads:
        got = f"{num_kv_heads} and {num_heads} heads"
        raise ValueError(f"num_kv_heads must divide num_heads, got {got}")


def check_split(num_heads: int, width: int) -> None:
    check_integers(num_heads=num_heads)
    if width % num_heads:
        got = f"{num_heads} heads and width {width}"
        raise ValueError(f"num_heads must divide the width, got {got}")


# What torch's layer and function call their arguments, and what stands for them here.
_INSTEAD = {
    "attn_mask": "mask=, in which True = may attend",
    "key_padding_mask": "mask=, in which True = may attend, as `padding_mask` makes it",
    "is_causal": "causal=",
}


def check_names(others: dict[str, object]) -> None:
    """That nothing was passed by a name that is not taken."""
    for name in others:
        instead = f": pass {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise TypeError(f"there is no argument {name}{instead}")


def check_axes(x: Tensor, *axes: str) -> None:
    check_tensor("x", x)
    if x.dim() != len(axes):
        raise ValueError(f"x must have shape ({', '.join(axes)}), got {tuple(x.shape)}")


def check_tensor(name: str, x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")


def check_callable(module: object) -> None:
    if not callable(module) or isinstance(module, type):
        got = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
        raise TypeError(f"module must be a torch.nn.Module or a function, got {got}")


def check_module(module: object) -> None:
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")


def check_width(x: Tensor, width: int) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"expected a floating tensor, got {got}")
    if x.dim() < 2 or x.size(-1) != width:
        raise ValueError(f"expected shape (..., length, {width}), got {tuple(x.shape)}")


def check_positions(length: int, max_len: int) -> None:
    if length > max_len:
        rows = f"the learned table, max_len = {max_len}"
        raise ValueError(f"a sequence of length {length} is longer than {rows}")


def checked_scale(scale: float | None, width: int) -> float:
    """The scale, 1/√d_k where none is given."""
    if scale is None:
        return 1 / math.sqrt(width)
    check_reals(scale=scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite, got {scale}")
    return scale


def checked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, float]:
    """The arguments of attention, known to fit one another; the scale is never None."""
    query, key, value = checked_inputs(query, key, value)
    check_bools(causal=causal)
    check_dropout("dropout_p", dropout_p)
    mask = None if mask is None else checked_mask(mask, query, key)
    return query, key, value, mask, checked_scale(scale, query.size(-1))


def checked_inputs(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """The three with the same axes before the last two, broadcast where needed."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_tensor(name, x)
        if x.dim() < 2:
            raise ValueError(f"{name} must have shape (..., length, width), got {tuple(x.shape)}")
    if not (query.dtype == key.dtype == value.dtype and query.is_floating_point()):
        raise TypeError(
            "query, key and value must share one floating dtype such as torch.float32, "
            f"got {query.dtype}, {key.dtype}, {value.dtype}"
        )
    if not query.device == key.device == value.device:
        # Not every kernel checks this: with one input on "meta", which holds no numbers, it would
        # return memory that nobody has written.
        got = f"{query.device}, {key.device}, {value.device}"
        raise ValueError(f"query, key and value must be on one device, got {got}")
    if query.size(-1) != key.size(-1) or query.size(-1) == 0:
        got = f"{query.size(-1)} and {key.size(-1)}"
        raise ValueError(f"query and key must have the same width d_k of at least 1, got {got}")
    if key.size(-2) != value.size(-2):
        got = f"{key.size(-2)} and {value.size(-2)}"
        raise ValueError(f"key and value must have the same length S, got {got}")
    return _broadcast(query, key, value)


def _broadcast(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    if query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        return query, key, value
    try:
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except RuntimeError:
        raise ValueError(
            "the axes before the last two must be equal or broadcastable, got "
            f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        ) from None
    return tuple(x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))


def checked_mask(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask on the device of the query and, where it is added, in its dtype."""
    # A CausalBias is a tensor by its class, but holds no numbers that could be read here.
    if not isinstance(mask, Tensor) or isinstance(mask, CausalBias):
        raise TypeError(f"mask must be a torch.Tensor or None, got {type(mask).__name__}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        legal = "bool (True = may attend) or floating (added to the scores)"
        raise TypeError(f"mask must be {legal}, got {mask.dtype}")
    scores = (*query.shape[:-1], key.size(-2))
    pairs = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.dim() > len(scores) or any(size not in (1, whole) for size, whole in pairs):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not fit scores of shape {tuple(scores)}: "
            "each of its axes, counted from the last, must have length 1 or that of the scores; "
            "with heads, one mask (L, S) for each sample is mask[:, None]"
        )
    mask = mask.to(query.device) if mask.dtype == torch.bool else mask.to(query)
    # With fewer axes than the scores, torch leaves its fused kernel for most masks.
    return mask[(None,) * (len(scores) - mask.dim())]


def checked_padding(lengths: Tensor | Sequence[int], max_len: int | None) -> tuple[Tensor, int]:
    """The lengths as a tensor of int64, and max_len, their largest where none is given."""
    try:
        lengths = torch.as_tensor(lengths)
    except (RuntimeError, TypeError, ValueError):
        raise TypeError(f"lengths must be one row of integers, got {lengths!r}") from None
    if lengths.dim() != 1 or lengths.numel() == 0:
        got = f"shape {tuple(lengths.shape)}"
        raise ValueError(f"lengths must be one row of at least one integer, got {got}")
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be integers, got {lengths.dtype}")
    # For some dtypes, such as uint16, torch has neither a minimum nor comparisons with others.
    lengths = lengths.long()
    shortest, longest = int(lengths.min()), int(lengths.max())
    max_len = longest if max_len is None else max_len
    check_integers(0, max_len=max_len)
    if shortest < 0 or longest > max_len:
        all_of_them = lengths.tolist()
        raise ValueError(f"lengths must lie between 0 and max_len = {max_len}, got {all_of_them}")
    return lengths, max_len


def checked_layer_inputs(
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    embed_dim: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value: the key is the query unless given, the value is the key."""
    if key is None and value is not None:
        raise ValueError("a value needs a key: pass both, or neither for self-attention")
    key = query if key is None else key
    value = key if value is None else value
    _check_layer_input("query", query, query, embed_dim, dtype)
    if not (key is query and value is query):
        _check_layer_input("key", key, query, embed_dim, dtype)
        _check_layer_input("value", value, query, embed_dim, dtype)
    return query, key, value


def _check_layer_input(
    name: str,
    x: Tensor,
    query: Tensor,
    embed_dim: int,
    dtype: torch.dtype,
) -> None:
    check_tensor(name, x)
    if x.dim() != 3 or x.size(-1) != embed_dim:
        legal = f"(batch, length, {embed_dim})"
        raise ValueError(f"{name} must have shape {legal}, got {tuple(x.shape)}")
    if x.size(0) != query.size(0):
        got = f"{query.size(0)} and {x.size(0)}"
        raise ValueError(f"query and {name} must share one batch size, got {got}")
    if x.dtype != dtype and not _cast_by_autocast(x, dtype):
        raise TypeError(f"{name} must have the dtype of this layer, {dtype}, got {x.dtype}")


def _cast_by_autocast(x: Tensor, dtype: torch.dtype) -> bool:
    # Autocast casts inputs and weights to one dtype by itself, but never from or to float64.
    castable = x.is_floating_point() and torch.float64 not in (x.dtype, dtype) and not x.is_meta
    return castable and torch.is_autocast_enabled(x.device.type)


def check_torch_layer(module: nn.MultiheadAttention) -> None:
    """That `MultiHeadAttention` can do what this layer of torch does."""
    # A subclass with a forward of its own, such as a quantized layer, computes something else.
    theirs = isinstance(module, nn.MultiheadAttention)
    if not theirs or type(module).forward is not nn.MultiheadAttention.forward:
        raise TypeError(f"expected a torch.nn.MultiheadAttention, got {type(module).__qualname__}")
    if not module._qkv_same_embed_dim:
        raise ValueError(
            "keys and values of another width than the queries are not supported: "
            f"embed_dim {module.embed_dim}, kdim {module.kdim}, vdim {module.vdim}"
        )
    if module.bias_k is not None or module.bias_v is not None:
        why = "it appends a learned key and value to every sequence"
        raise ValueError(f"add_bias_kv=True is not supported: {why}")
    if module.add_zero_attn:
        why = "it appends a key and a value of zeros"
        raise ValueError(f"add_zero_attn=True is not supported: {why}")


def check_fits_torch_layer(layer: nn.Module) -> None:
    """That torch's layer can do what this `MultiHeadAttention` does."""
    if layer.num_kv_heads != layer.num_heads:
        raise ValueError(
            "torch.nn.MultiheadAttention has no shared key/value heads: "
            f"num_kv_heads is {layer.num_kv_heads}, num_heads {layer.num_heads}"
        )
    if isinstance(layer.out_proj, nn.Identity):
        theirs = "torch.nn.MultiheadAttention always has an output projection"
        raise ValueError(f"{theirs}, this layer has none")


def _is_integer(number: object) -> bool:
    # While a model is compiled for any length, the length is a torch.SymInt; while it is traced, a
    # tensor without axes.
    if isinstance(number, Tensor):
        return number.dim() == 0 and number.dtype == torch.int64
    return isinstance(number, (Integral, torch.SymInt)) and not isinstance(number, bool)

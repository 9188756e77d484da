"""Our multi-head layer from torch's, and back.

Parameters are read by attribute and not from a state dict, in which a pruned or parametrised layer
has them under other names.
"""

from operator import attrgetter
from typing import Any

from torch import nn

from attn_core._checks import check_fits_torch_layer, check_torch_layer

# Ours and torch's name of each parameter; both stack the rows of W_Q, W_K and W_V in this order.
TORCH_NAMES = {
    "qkv_proj.weight": "in_proj_weight",
    "qkv_proj.bias": "in_proj_bias",
    "out_proj.weight": "out_proj.weight",
    "out_proj.bias": "out_proj.bias",
}
OUR_NAMES = {theirs: ours for ours, theirs in TORCH_NAMES.items()}


def from_torch(cls: type, module: nn.MultiheadAttention) -> Any:
    check_torch_layer(module)
    bias = module.in_proj_bias is not None
    ours = cls(module.embed_dim, module.num_heads, bias=bias, dropout=module.dropout)
    return _filled(ours, module, TORCH_NAMES)


def to_torch(layer: Any) -> nn.MultiheadAttention:
    check_fits_torch_layer(layer)
    bias = layer.qkv_proj.bias is not None
    sizes = layer.embed_dim, layer.num_heads
    theirs = nn.MultiheadAttention(*sizes, layer.dropout, bias=bias, batch_first=True)
    return _filled(theirs, layer, OUR_NAMES)


def _filled(layer: nn.Module, source: Any, source_names: dict[str, str]) -> Any:
    """The layer with the parameters, dtype, device and mode of the source."""
    values = {name: attrgetter(source_names[name])(source) for name in layer.state_dict()}
    layer.to(source.out_proj.weight).train(source.training)
    layer.load_state_dict(values)
    return layer

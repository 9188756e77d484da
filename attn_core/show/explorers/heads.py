"""The explorer of heads and dimensions: maps of an untrained layer, and what its size costs."""

import ipywidgets as widgets

from attn_core.flops import attention_cost
from attn_core.show.explorers.base import Choice, Computed, Explorer, Shown, number_slider
from attn_core.show.live.view import packed
from attn_core.show.offline.hashed import head_maps, split_tokens, words_of
from attn_core.show.panels import weight_panels
from attn_core.show.style import MOST_TOKENS
from attn_core.show.texts import Caption

HEAD_COUNTS = (1, 2, 4, 8, 16)
SENTENCE = tuple("小猫吃了一条大鱼就睡着了")
SPLITS = {
    "word": "the whole word",
    "spaces": "split at the spaces",
    "characters": "one for each character, as there are no spaces",
}
CAPTION = (
    "embed_dim {embed_dim}, {num_heads} {num_heads:head|heads} of head_dim {head_dim}; "
    "{tokens} {tokens:token|tokens}, {split}.\n"
    "Parameters: {parameters:,}. FLOPs for {tokens} {tokens:token|tokens}: {flops:,}. "
    "Weights kept: {kept:,} numbers, {kept_bytes:,} bytes in float32."
)


def head_steps(embed_dim: int, num_heads: int, sentence: str = "".join(SENTENCE)) -> Shown:
    """The maps of an untrained layer on one sentence, and what its size costs.

    Raises ValueError as `split_tokens`.
    """
    tokens = split_tokens(sentence)
    split = SPLITS["word" if len(tokens) == 1 else "spaces" if len(words_of(sentence)) > 1 else "characters"]
    sizes = {"embed_dim": embed_dim, "num_heads": num_heads, "head_dim": embed_dim // num_heads, "tokens": len(tokens)}
    caption = Caption(CAPTION, **sizes, split=split, **layer_costs(embed_dim, num_heads, len(tokens)))
    return weight_panels(head_maps(tokens, embed_dim, num_heads), tokens), caption


def layer_costs(embed_dim: int, num_heads: int, tokens: int) -> dict[str, int]:
    """What the size of a layer costs for so many tokens."""
    cost = attention_cost(tokens, embed_dim, num_heads)
    kept = cost.softmax_elements
    return {"parameters": cost.parameters, "flops": cost.total_flops, "kept": kept, "kept_bytes": 4 * kept}


def legal_heads(embed_dim: int) -> list[int]:
    """The head counts on offer that divide embed_dim."""
    return [count for count in HEAD_COUNTS if embed_dim % count == 0]


def head_explorer() -> Explorer:
    """A field for a sentence, sliders for heads and dimension; a map per head and the costs."""
    sentence = widgets.Text(
        value="".join(SENTENCE),
        description="sentence",
        placeholder=f"1 to {MOST_TOKENS} tokens",
        continuous_update=False,
        layout={"width": "min(100%, 640px)"},
    )
    sentence.add_class("attention-sentence")  # view.css gives it the glyphs that the reader's system may lack
    controls = {
        "sentence": sentence,
        "embed_dim": widgets.IntSlider(value=64, min=16, max=512, step=8, description="embed_dim"),
        "num_heads": number_slider("heads", legal_heads(64), 8),
    }

    def fit(embed_dim: int, num_heads: int, **_) -> dict[str, Choice]:
        legal = legal_heads(embed_dim)
        return {"num_heads": (legal, min(legal, key=lambda count: abs(count - num_heads)))}

    def offline() -> Computed:
        width, most = controls["embed_dim"], HEAD_COUNTS[-1]
        rows = [
            [
                place,
                HEAD_COUNTS.index(count),
                [layer_costs(size, count, tokens) for tokens in range(1, MOST_TOKENS + 1)],
            ]
            for place, size in enumerate(range(width.min, width.max + 1, width.step))
            for count in legal_heads(size)
        ]
        # The panels of the most heads, without values.
        pieces = {"panels": packed(head_steps(most, most, "a")[0])[0], "splits": SPLITS, "caption": CAPTION}
        return Computed("heads", pieces, rows, ("embed_dim", "num_heads"), {"num_heads": HEAD_COUNTS})

    return Explorer("heads and dimensions", controls, head_steps, fit, offline)

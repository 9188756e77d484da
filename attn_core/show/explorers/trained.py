"""The explorer of a trained model: what one head at a time looks at, and what the probes say of it."""

import functools
from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets
import numpy as np

from attn_core.show.explorers.base import Explorer, Shown, Stored
from attn_core.show.panels import line_panel, weight_panels
from attn_core.show.style import MOST_TOKENS
from attn_core.show.texts import Caption

PICTURES = ("map", "lines")
# On a page without a kernel, where the model cannot read any other, behind the sentence that the
# call names.
OFFERED = (
    "The cat did not cross the street because it was tired.",
    "The cat did not cross the street because it was wide.",
    "The cat did not cross the street because it was afraid.",
    "The cat did not cross the street because it was long.",
    "The cat did not cross the street because it was closed.",
    "The keys to the old cabinet are lost.",
    "The dog that chased the other dog was tired.",
    "A red hat, an old coat and no shoes.",
)

UNKNOWN = "[UNK]"  # stands in the tokens for what is not in the model's vocabulary
CAPTION = "Layer {layer}, head {head}. {scores}"
CAPTION_UNKNOWN = (
    "Layer {layer}, head {head}. The model does not know {unknown} of these {tokens} tokens. Each of them became "
    "{name}, one and the same input whatever you wrote: what it gives and gets says nothing about your word. {scores}"
)

Reader = Callable[[str], tuple[Sequence[str], np.ndarray]]  # a sentence -> its tokens and weights (layers, H, L, L)


def trained_head_steps(
    layer: int, head: int, picture: str, sentence: str, *, read: Reader, scores: Mapping[tuple[int, int], str]
) -> Shown:
    """The weights of one head for a sentence, as a map or as lines. layer, head: counted from 1.

    read: gives the tokens and the weights of a sentence. scores: for each (layer, head) what the
    probes say of it.
    Raises ValueError for a picture that is not offered, a head that is not there, and more than
    MOST_TOKENS tokens.
    """
    if picture not in PICTURES:
        raise ValueError(f"picture must be one of {', '.join(PICTURES)}, got {picture!r}")
    tokens, weights = read(sentence)
    layers, heads = weights.shape[:2]
    if not (1 <= layer <= layers and 1 <= head <= heads):
        raise ValueError(f"there are layers 1 to {layers} with heads 1 to {heads}, got layer {layer}, head {head}")
    if len(tokens) > MOST_TOKENS:
        raise ValueError(
            f"the model cuts this sentence into {len(tokens)} tokens, and at most {MOST_TOKENS} can be shown"
        )
    one, title = weights[layer - 1, head - 1], Caption("layer {layer}, head {head}", layer=layer, head=head)
    if picture == "lines":
        panels = [line_panel(one, title, tokens, tokens)]
    else:
        panels = weight_panels(one[None], tokens, titles=[title])
    unknown = list(tokens).count(UNKNOWN)
    of_tokens = {"unknown": unknown, "tokens": len(tokens), "name": UNKNOWN} if unknown else {}
    template = CAPTION_UNKNOWN if unknown else CAPTION
    return panels, Caption(template, layer=layer, head=head, scores=scores[layer, head], **of_tokens)


def trained_explorer(
    read: Reader, scores: Mapping[tuple[int, int], str], sentence: str, layer: int = 1, head: int = 1
) -> Explorer:
    """Sliders for layer and head of a trained model and a field for a sentence; its map or its
    lines, and its score.

    read, scores: as in `trained_head_steps`. sentence, layer, head: what is shown first.
    """
    read = functools.lru_cache(maxsize=8)(read)  # a slider moves on the same sentence
    layers, heads = read(sentence)[1].shape[:2]
    controls = {
        "layer": widgets.IntSlider(value=layer, min=1, max=layers, description="layer"),
        "head": widgets.IntSlider(value=head, min=1, max=heads, description="head"),
        "picture": widgets.SelectionSlider(options=PICTURES, value="map", description="picture"),
        "sentence": widgets.Text(
            value=sentence, description="sentence", continuous_update=False, layout={"width": "min(100%, 640px)"}
        ),
    }
    compute = functools.partial(trained_head_steps, read=read, scores=scores)
    offered = {"sentence": list(dict.fromkeys([sentence, *OFFERED]))}
    return Explorer("a trained model", controls, compute, offline=lambda: Stored(offered))

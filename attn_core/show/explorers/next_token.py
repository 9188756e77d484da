"""The explorer of the next token: how likely a language model takes each letter to come, and where it
looked.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
from numpy.typing import ArrayLike

from attn_core.show.explorers.base import Explorer, Shown, Stored
from attn_core.show.explorers.costs import share_text
from attn_core.show.panels import bar_panel, weight_panels
from attn_core.show.style import MOST_TOKENS
from attn_core.show.texts import Caption

BARS = 10
TOP_K = (1, 2, 3, 5, 10, 20)  # and all
# On a page without a kernel, where the model cannot read any other, behind what the call names.
LANGUAGES = ("cy", "de", "en", "fi", "it", "tr", "vi")
BEGINNINGS = ("", "A", "Re", "S")
TEMPERATURES = (0.2, 0.5, 0.7, 1.0, 1.5, 2.0)
FEW_TOP_K = (1, 3, 10)
CAPTION = (
    "After {tokens} {tokens:token|tokens}, at temperature {temperature:.2f}, {kept} of {all} {all:token|tokens} can be "
    "drawn. The likeliest is {likeliest}, with {share}."
)


class NextToken(NamedTuple):
    """What a model says comes next.

    probabilities: (V,), of each token; labels: V names of them. tokens: the L that it read; weights:
    (L, L), of one of its heads.
    """

    probabilities: ArrayLike
    labels: Sequence[str]
    tokens: Sequence[str]
    weights: ArrayLike


# The language, the letters so far, the temperature and the top k -> what comes next.
Reader = Callable[[str, str, float, int], NextToken]


def next_token_steps(language: str, text: str, temperature: float, top_k: int, *, read: Reader) -> Shown:
    """The likeliest next tokens as bars, at most BARS and one for all others, and the map of one head.

    Raises ValueError for more than MOST_TOKENS tokens.
    """
    probabilities, labels, tokens, weights = read(language, text, temperature, top_k)
    if len(tokens) > MOST_TOKENS:
        raise ValueError(f"these are {len(tokens)} tokens, and at most {MOST_TOKENS} can be shown")
    shares = np.asarray(probabilities, dtype=float)
    order = np.argsort(-shares, kind="stable")
    shown = [place for place in order[:BARS] if shares[place] > 0]
    others = max(0.0, 1 - shares[shown].sum()) if len(shown) < np.count_nonzero(shares) else 0.0
    bars = [*shares[shown], others]
    names = [*(labels[place] for place in shown), "all others"]
    texts = [share_text(share) for share in bars]
    caption = Caption(
        CAPTION,
        tokens=len(tokens),
        temperature=temperature,
        kept=np.count_nonzero(shares),
        all=len(shares),
        likeliest=names[0],
        share=texts[0],
    )
    (map_panel,) = weight_panels(np.asarray(weights)[None], tokens, titles=["attention of one head"])
    return [bar_panel(bars, "what comes next", names, texts, "probability"), map_panel], caption


def next_token_explorer(
    read: Reader, languages: Sequence[str], vocabulary_size: int, language: str, text: str
) -> Explorer:
    """Sliders for the language, the temperature and the top k, and a field for the first letters.

    read: as in `next_token_steps`. languages: those on offer. vocabulary_size: V, the greatest top k.
    language, text: what is shown first.
    """
    every = [*((str(k), k) for k in TOP_K), ("all", vocabulary_size)]
    controls = {
        "language": widgets.SelectionSlider(options=list(languages), value=language, description="language"),
        "text": widgets.Text(value=text, description="first letters", continuous_update=False),
        "temperature": widgets.FloatSlider(value=1.0, min=0.1, max=2.0, step=0.1, description="temperature"),
        "top_k": widgets.SelectionSlider(options=every, value=vocabulary_size, description="top k"),
    }
    offered: dict[str, Sequence] = {
        "language": list(dict.fromkeys([language, *(name for name in LANGUAGES if name in languages)])),
        "text": [(beginning or "(none)", beginning) for beginning in dict.fromkeys([text, *BEGINNINGS])],
        "temperature": TEMPERATURES,
        "top_k": [choice for choice in every if choice[1] in (*FEW_TOP_K, vocabulary_size)],
    }
    compute = functools.partial(next_token_steps, read=read)
    return Explorer("the next token", controls, compute, offline=lambda: Stored(offered))

"""Every explorer that is exported, and what its controls can say."""

import ipywidgets
import numpy as np

from attn_core.show.explorers import NextToken, exported
from attn_core.show.explorers.base import values_of
from attn_core.show.style import MOST_TOKENS

SENTENCES = ("猫吃鱼", "the keys to the cabinet", "x", "猫 " * MOST_TOKENS)
BEGINNINGS = ("", "Rep", "猫吃鱼", "<img>")  # of a name, one token a letter
LETTERS = [*"abcdefghijklmnopqrstuvwxyz"]
LAYERS, HEADS = 3, 4
SCORES = {(layer, head): f"Scores of {layer}-{head}." for layer in range(1, LAYERS + 1) for head in range(1, HEADS + 1)}


def read(sentence):
    """Tokens and weights as from a trained model of LAYERS and HEADS."""
    tokens = sentence.split()
    if not tokens:
        raise ValueError("a sentence must have at least one word")
    raw = np.random.default_rng(len(tokens)).random((LAYERS, HEADS, len(tokens), len(tokens)))
    return tokens, raw / raw.sum(-1, keepdims=True)


def read_next(language, text, temperature, top_k):
    """As from a language model of LETTERS, whose likeliest next letter depends on the language and on the last one."""
    tokens = [language, *text]
    logits = np.cos(np.arange(len(LETTERS)) + ord(tokens[-1][-1]) + len(language))
    logits[np.argsort(-logits)[top_k:]] = -np.inf
    shares = np.exp(logits / temperature)
    weights = np.tril(np.ones((len(tokens), len(tokens))))
    return NextToken(shares / shares.sum(), LETTERS, tokens, weights / weights.sum(-1, keepdims=True))


# What explorers that cannot be called without arguments are called with.
ARGUMENTS = {
    "trained_explorer": (read, SCORES, "the cat eats"),
    "next_token_explorer": (read_next, ("en", "fin"), len(LETTERS), "en", "cat"),
}
EXPLORERS = list(exported())


def make(name):
    return exported()[name](*ARGUMENTS.get(name, ()))


def settings_of(control):
    """Every value that a control can be moved to; of a field for sentences, some."""
    if isinstance(control, ipywidgets.Text):
        return SENTENCES if control.description == "sentence" else BEGINNINGS
    return values_of(control)


def pixels(explorer):
    return explorer.view.values, explorer.view.panel_layout

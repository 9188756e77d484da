import itertools

import numpy as np
import pytest

from attn_core.show import trained_explorer
from attn_core.show.explorers.trained import OFFERED, trained_head_steps

LAYERS, HEADS = 3, 4
SCORES = {(layer, head): f"Scores of {layer}-{head}." for layer in range(1, LAYERS + 1) for head in range(1, HEADS + 1)}


def random_weights(tokens):
    raw = np.random.default_rng(len(tokens)).random((LAYERS, HEADS, len(tokens), len(tokens)))
    return raw / raw.sum(-1, keepdims=True)


def read(sentence):
    if not sentence.strip():
        raise ValueError("a sentence must have at least one word")
    tokens = ["[CLS]", *sentence.split(), "[SEP]"]
    return tokens, random_weights(tokens)


def steps(layer=1, head=1, picture="map", sentence="the cat eats", **changed):
    return trained_head_steps(layer, head, picture, sentence, **{"read": read, "scores": SCORES, **changed})


@pytest.mark.parametrize("picture", ["map", "lines"])
def test_a_step_shows_the_weights_of_the_chosen_head_and_what_the_probes_say_of_it(picture):
    tokens, weights = read("the cat eats")
    (panel,), caption = steps(2, 3, picture)
    assert np.array_equal(panel.values, weights[1, 2])
    assert panel.row_labels == panel.column_labels == tuple(tokens)
    assert panel.kind == picture
    assert caption == "Layer 2, head 3. Scores of 2-3."


def test_the_caption_says_how_many_tokens_the_model_does_not_know_and_what_that_means():
    _, caption = steps(2, 3, sentence="[UNK] eats [UNK]")
    assert "does not know 2 of these 5 tokens" in caption and "[UNK], one and the same input" in caption
    assert caption.endswith("Scores of 2-3.")


@pytest.mark.parametrize(
    "wrong, named",
    [
        ({"layer": 0}, "layer 0"),
        ({"layer": LAYERS + 1}, f"layers 1 to {LAYERS}"),
        ({"head": HEADS + 1}, f"heads 1 to {HEADS}"),
        ({"picture": "pie"}, "map, lines"),
        ({"sentence": "word " * 39}, "41 tokens.*at most 40"),
        ({"sentence": " "}, "at least one word"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_its_value(wrong, named):
    with pytest.raises(ValueError, match=named):
        steps(**wrong)


def test_the_explorer_shows_every_layer_head_and_picture():
    explorer = trained_explorer(read, SCORES, "the cat eats", layer=2, head=2)
    for layer, head, picture in itertools.product(range(1, LAYERS + 1), range(1, HEADS + 1), ("map", "lines")):
        explorer.controls["layer"].value = layer
        explorer.controls["head"].value = head
        explorer.controls["picture"].value = picture
        (wanted,), caption = steps(layer, head, picture)
        assert explorer.view.problem == ""
        assert np.array_equal(explorer.view.panels[0].values, wanted.values)
        assert (explorer.view.panels[0].kind, explorer.view.caption) == (picture, caption)


def test_a_sentence_that_cannot_be_read_is_told_and_forgotten_with_the_next_one():
    explorer = trained_explorer(read, SCORES, "the cat eats")
    explorer.controls["sentence"].value = ""
    assert "at least one word" in explorer.view.problem
    assert "cat" in explorer.view.panels[0].row_labels
    explorer.controls["sentence"].value = "<img onerror=x>"
    assert explorer.view.problem == ""
    assert explorer.view.panels[0].row_labels == ("[CLS]", "<img", "onerror=x>", "[SEP]")


def test_a_sentence_is_read_once_while_the_sliders_move():
    sentences = []

    def counting(sentence):
        sentences.append(sentence)
        return read(sentence)

    explorer = trained_explorer(counting, SCORES, "the cat eats")
    for layer in range(1, LAYERS + 1):
        explorer.controls["layer"].value = layer
    assert sentences == ["the cat eats"]


def test_without_a_kernel_the_sentence_of_the_call_comes_first_and_then_others_once_each():
    for sentence in ("the cat eats", OFFERED[2]):
        (offered,) = trained_explorer(read, SCORES, sentence).offline().offered.values()
        assert offered[0] == sentence
        assert sorted(offered) == sorted({sentence, *OFFERED})

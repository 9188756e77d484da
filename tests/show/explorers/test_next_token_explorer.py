"""The explorer of the next token: bars that sum to one, the map of what was read, and what cannot be shown."""

import numpy as np
import pytest
from explorer_cases import LETTERS, read_next

from attn_core.show import next_token_explorer
from attn_core.show.explorers.next_token import BARS, BEGINNINGS, next_token_steps


def steps(language="en", text="cat", temperature=1.0, top_k=26, read=read_next):
    return next_token_steps(language, text, temperature, top_k, read=read)


@pytest.mark.parametrize("top_k", [1, 2, 9, 10, 11, 26])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 2.0])
def test_the_bars_are_the_likeliest_letters_in_order_and_sum_to_one_with_all_others(temperature, top_k):
    (bars, _), _ = steps(temperature=temperature, top_k=top_k)
    probabilities = read_next("en", "cat", temperature, top_k).probabilities
    values, letters = bars.values[:, 0], [LETTERS.index(name) for name in bars.row_labels[:-1]]
    assert values.sum() == pytest.approx(1)
    assert np.allclose(values[:-1], np.sort(probabilities)[::-1][: min(BARS, top_k)])
    assert letters == np.argsort(-probabilities)[: len(letters)].tolist()
    assert bars.row_labels[-1] == "all others"
    assert (values[-1] > 0) == (top_k > BARS)


def test_each_bar_says_its_share_and_the_caption_that_of_the_likeliest():
    (bars, _), caption = steps(temperature=0.5, top_k=3)
    assert bars.texts[0] == f"{100 * bars.values[0, 0]:.2f}%"
    assert bars.texts[-1] == "0.00%"
    assert caption == (
        "After 4 tokens, at temperature 0.50, 3 of 26 tokens can be drawn. "
        f"The likeliest is {bars.row_labels[0]}, with {bars.texts[0]}."
    )


def test_the_map_is_that_of_what_was_read():
    (_, shown), _ = steps(text="猫吃鱼")
    assert shown.row_labels == shown.column_labels == ("en", "猫", "吃", "鱼")
    assert np.array_equal(shown.values, read_next("en", "猫吃鱼", 1.0, 5).weights)


def test_more_tokens_than_a_map_can_show_are_refused_with_their_number():
    steps(text="a" * 39)
    with pytest.raises(ValueError, match="41 tokens, and at most 40"):
        steps(text="a" * 40)


def test_what_the_model_cannot_read_is_told_and_forgotten_with_the_next_text():
    def read(language, text, temperature, top_k):
        if "猫" in text:
            raise ValueError("猫 is no letter of these names")
        return read_next(language, text, temperature, top_k)

    explorer = next_token_explorer(read, ("en",), len(LETTERS), "en", "cat")
    field = explorer.controls["text"]
    field.value = "猫"
    assert explorer.view.problem == "This setting cannot be shown: 猫 is no letter of these names"
    assert explorer.view.panels[1].row_labels == ("en", "c", "a", "t")
    field.value = "do"
    assert explorer.view.problem == ""
    assert explorer.view.panels[1].row_labels == ("en", "d", "o")


def test_without_a_kernel_there_are_the_language_of_the_call_and_some_others():
    explorer = next_token_explorer(read_next, ("fi", "sw", "en", "it"), len(LETTERS), "sw", "")
    assert explorer.offline().offered["language"] == ["sw", "en", "fi", "it"]


def test_without_a_kernel_the_text_of_the_call_comes_first_and_then_others_once_each_also_none():
    for text in ("cat", BEGINNINGS[2]):
        offered = next_token_explorer(read_next, ("en",), len(LETTERS), "en", text).offline().offered["text"]
        labels, values = zip(*offered, strict=True)
        assert values[0] == text
        assert sorted(values) == sorted({text, *BEGINNINGS})
        assert labels[values.index("")] == "(none)"

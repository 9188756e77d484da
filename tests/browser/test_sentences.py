"""A sentence of one's own in the explorer of heads: text and never markup, and what is too long is said kindly."""

import pytest
from playwright.sync_api import expect

from attn_core.show.offline.hashed import split_tokens
from attn_core.show.style import MOST_TOKENS

from .explorer_page import CASES, SHOWN, control_on_page, fresh, wait_until_right

NAME = "head_explorer"
MARKUP = (
    "<img src=x onerror=window.ran=1>",
    "<img/src=x/onerror=window.ran=1> <script>window.ran=1</script> cat",
    "<svg/onload=window.ran=1> &lt;b&gt;",
)


@pytest.fixture
def box(explorers):
    return fresh(explorers, NAME)


def type_sentence(box, sentence):
    field = control_on_page(box, CASES[NAME].make(), "sentence").locator("input")
    field.fill(sentence)
    field.press("Enter")


@pytest.mark.parametrize(
    "sentence",
    ["the cat saw the dog", "鱼吃猫", "猫 eats 鱼", "Übermut tut selten gut", "👩🏽‍💻🇨🇳é", "w " * MOST_TOKENS, "one"],
)
def test_the_maps_are_those_of_the_typed_tokens(explorers, box, sentence):
    type_sentence(box, sentence)
    shown, _ = wait_until_right(box, NAME, lambda settings: settings["sentence"] == sentence)
    assert all(tuple(panel["rowLabels"]) == split_tokens(sentence) for panel in shown["drawn"])


@pytest.mark.parametrize("sentence", ["w " * (MOST_TOKENS + 1), "猫" * (MOST_TOKENS + 1), "   "])
def test_what_cannot_be_shown_is_said_and_the_picture_stays(explorers, box, sentence):
    before = box.evaluate(SHOWN)
    type_sentence(box, sentence)
    problem = box.locator(".problem:not(:empty)")
    problem.wait_for()
    with pytest.raises(ValueError) as expected:
        split_tokens(sentence)
    assert problem.inner_text() == f"This setting cannot be shown: {expected.value}"
    assert box.evaluate(SHOWN)["drawn"] == before["drawn"]
    type_sentence(box, "a b")
    wait_until_right(box, NAME, lambda settings: settings["sentence"] == "a b")
    assert problem.count() == 0


@pytest.mark.parametrize("sentence", MARKUP)
def test_markup_is_shown_as_text(explorers, box, sentence):
    elements = "img, script, svg, b"
    before = box.locator(elements).count()
    type_sentence(box, sentence)
    shown, _ = wait_until_right(box, NAME, lambda settings: settings["sentence"] == sentence)
    tokens = split_tokens(sentence)
    assert tuple(shown["drawn"][0]["rowLabels"]) == tokens
    box.locator("canvas").first.focus()
    explorers.keyboard.press("ArrowRight")
    assert tokens[0] in box.locator(".readout").inner_text()
    box.locator("details.numbers summary").click()
    headings = box.locator("details.numbers thead th")
    expect(headings).to_have_count(1 + len(tokens))  # the table is filled only once it is open
    assert headings.all_inner_texts()[1:] == list(tokens)
    assert box.locator(elements).count() == before
    assert explorers.evaluate("window.ran") is None

"""Sentences of one's own: how they are split, the numbers of the untrained layer, and the same steps in JavaScript."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_core.show.offline.hashed import head_maps, split_tokens, token_vectors, words_of
from attn_core.show.style import MOST_TOKENS

SPACES = [chr(code) for code in range(0x110000) if chr(code).isspace()]
FAMILY = "👩\u200d👩\u200d👧"
SENTENCES = [
    "小猫吃了一条大鱼就睡着了",
    "the keys to the old cabinet are lost",
    "猫　吃　鱼",  # ideographic spaces
    "  padded\tand\nbroken  ",
    "attention",
    "一",
    "\U00020000\U0002a6d6的",  # beyond the 16 bits of a JavaScript letter
    "e\u0301a\u0300n\u0303o",
    f"{FAMILY}吃👍🏽🇩🇪🇫🇷🇨❤️1️⃣🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\u1100\u1161\u11a8한글",
    "नमस्ते",
    "<img src=x onerror=alert(1)>",
    "a b c d e f g h i j " * 4,
    "猫" * MOST_TOKENS,
]


# How a sentence is split


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("the cat eats", ("the", "cat", "eats")),
        ("猫吃鱼", ("猫", "吃", "鱼")),
        ("猫 吃鱼", ("猫", "吃鱼")),
        ("猫　吃　鱼", ("猫", "吃", "鱼")),
        (" 猫吃鱼\n", ("猫", "吃", "鱼")),
        ("cat", ("cat",)),
        ("고양이", ("고양이",)),
        ("Кошка", ("Кошка",)),
        ("c a t", ("c", "a", "t")),
        ("我用GPT", ("我", "用", "G", "P", "T")),
        ("123", ("1", "2", "3")),
        ("a", ("a",)),
        ("\ufeffthe\u200b cat", ("the", "cat")),
        ("猫\u200b吃\u00ad鱼\ufeff", ("猫", "吃", "鱼")),
        ("<b>a</b> &amp;", ("<b>a</b>", "&amp;")),
    ],
)
def test_white_space_separates_tokens_and_a_single_word_is_one_where_its_script_has_spaces(text, tokens):
    assert split_tokens(text) == tokens


@pytest.mark.parametrize("space", SPACES)
def test_any_white_space_separates(space):
    assert split_tokens(f"猫{space}{space}吃鱼{space}") == ("猫", "吃鱼")


@pytest.mark.parametrize(
    "characters",
    [
        ["猫", "e\u0301", "a\u0323\u0302"],
        ["❤\ufe0f", "1\ufe0f\u20e3"],
        ["👍🏽", FAMILY, "👍"],
        ["🇩🇪", "🇫🇷", "🇨"],
        ["🏴\U000e0067\U000e0062\U000e007f", "猫"],
        ["\u1100\u1161\u11a8", "한", "猫"],
        ["葛\U000e0100", "城"],
        ["\u0301", "猫"],  # a mark with nothing to stand on
    ],
)
def test_what_a_reader_takes_for_one_character_is_one_token(characters):
    assert split_tokens("".join(characters)) == tuple(characters)


@given(st.text(max_size=60))
def test_nothing_is_lost_but_what_nobody_sees(text):
    try:
        tokens = split_tokens(text)
    except ValueError as error:
        assert not words_of(text) or str(MOST_TOKENS) in str(error)
    else:
        assert "".join(tokens) == "".join(words_of(text))
        assert 1 <= len(tokens) <= MOST_TOKENS and all(tokens)


@pytest.mark.parametrize("text", ["a " * 41, "猫" * 41, "7" * 1000])
def test_too_many_tokens_are_refused_with_their_count_and_the_limit(text):
    count = len(text.replace(" ", ""))
    with pytest.raises(ValueError, match=f"has {count} tokens, and at most 40"):
        split_tokens(text)
    assert len(split_tokens(text[: 40 * (len(text) // count)])) == 40


INVISIBLE = ["\ufeff", "\u200b", "\u2060", "\u00ad", "\u200e", "\u061c", "\u3164", "\u200d", "\ufe0f"]
CARRIERS = {"{}猫吃{}鱼{}": 3, "{}the {} cat{}": 2, "{} {}cat": 1, "{}": 0, "{} 猫": 1}


@pytest.mark.parametrize("sign", INVISIBLE, ids=ascii)
@pytest.mark.parametrize("carrier, count", CARRIERS.items())
def test_what_nobody_sees_is_no_token_of_its_own(sign, carrier, count):
    text = carrier.replace("{}", sign)
    if count == 0:
        with pytest.raises(ValueError, match="the sentence is empty"):
            split_tokens(text)
        return
    tokens = split_tokens(text)
    assert len(tokens) == count
    assert not any(token.startswith(sign) for token in tokens)
    if sign not in "\u200d\ufe0f":  # these two change the letter before them
        assert sign not in "".join(tokens)


@pytest.mark.parametrize("text", ["", " ", "\n　\t"])
def test_no_token_is_refused(text):
    with pytest.raises(ValueError, match="empty; type 1 to 40"):
        split_tokens(text)


# The numbers


def test_the_numbers_are_those_of_the_docstring():
    def mix(x):
        x = (x ^ x >> 16) * 0x7FEB352D % 2**32
        x = (x ^ x >> 15) * 0x846CA68B % 2**32
        return x ^ x >> 16

    def number(seed, i):
        return mix((seed + i * 0x9E3779B9) % 2**32) / 2**31 - 1

    def seed(token):
        h = 0x811C9DC5
        for c in token:
            h = (h ^ ord(c)) * 0x01000193 % 2**32
        return h

    tokens, dim, heads = ["猫", "cat", "👍🏽"], 6, 2
    x = torch.tensor([[math.sqrt(3) * number(seed(t), j) for j in range(dim)] for t in tokens], dtype=torch.float64)
    assert torch.allclose(token_vectors(tokens, dim), x, rtol=0, atol=1e-15)
    scale = math.sqrt(3) * 1.4 / math.sqrt(dim)
    w = scale * torch.tensor([number(dim, place) for place in range(2 * dim * dim)], dtype=torch.float64)
    q, k = (x @ matrix.T for matrix in w.view(2, dim, dim))
    q, k = (part.view(3, heads, 3).transpose(0, 1) for part in (q, k))
    expected = torch.softmax(q @ k.mT / math.sqrt(3), -1)
    assert torch.allclose(head_maps(tokens, dim, heads), expected, rtol=0, atol=1e-12)


def test_numbers_are_spread_evenly_and_independent_of_one_another():
    vectors = token_vectors([f"token {i}" for i in range(200)], 512) / math.sqrt(3)
    assert -1 <= vectors.min() < -0.999 and 0.999 < vectors.max() < 1
    counts = torch.histc(vectors, 16, -1, 1)
    assert (counts / vectors.numel() * 16 - 1).abs().max() < 0.05
    assert (vectors.T.corrcoef() - torch.eye(512)).abs().max() < 0.4  # of 200 samples each
    assert (vectors.corrcoef() - torch.eye(200)).abs().max() < 0.25


def test_a_token_has_the_same_vector_at_each_place_and_in_each_sentence():
    one, two = token_vectors(["猫", "吃", "猫"], 64), token_vectors(["鱼", "猫"], 64)
    assert torch.equal(one[0], one[2])
    assert torch.equal(one[0], two[1])
    assert not torch.equal(one[0], one[1])


def test_maps_do_not_know_the_order_of_the_tokens():
    tokens = ["猫", "吃", "鱼", "了"]
    order = [2, 0, 3, 1]
    moved = head_maps([tokens[i] for i in order], 64, 4)
    assert torch.allclose(moved, head_maps(tokens, 64, 4)[:, order][:, :, order], rtol=0, atol=1e-12)


def test_maps_stay_as_they_are_while_the_default_type_changes():
    before = torch.get_default_dtype()
    maps = head_maps(["猫", "吃"], 64, 4)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(head_maps(["猫", "吃"], 64, 4), maps)
    finally:
        torch.set_default_dtype(before)
    assert maps.dtype == torch.float64


# The same in JavaScript


def test_javascript_splits_as_python_does(javascript):
    texts = [
        *SENTENCES,
        *(f"猫{space}吃鱼" for space in SPACES),
        *(carrier.replace("{}", sign) for sign in INVISIBLE for carrier in CARRIERS),
        "cat",
        "고양이",
        "我用GPT",
        "猫\u00ad吃\u2060鱼",
        "",
        " \u3000",
        "猫" * 41,
        "a " * 99,
    ]
    for text, answer in zip(texts, javascript("splitTokens", [[text] for text in texts]), strict=True):
        try:
            expected = list(split_tokens(text))
        except ValueError as error:
            expected = {"error": str(error)}
        assert answer == expected
    assert javascript("wordsOf", [[text] for text in texts]) == [words_of(text) for text in texts]


def test_javascript_computes_the_maps_of_python(javascript):
    settings = [
        (list(split_tokens(text)), dim, heads)
        for text in SENTENCES
        for dim, heads in ((16, 1), (16, 16), (24, 8), (64, 8), (200, 4), (512, 1), (512, 16))
    ]
    for (tokens, dim, heads), answer in zip(settings, javascript("headMaps", settings), strict=True):
        expected = head_maps(tokens, dim, heads).numpy()
        assert (answer["numHeads"], answer["length"], answer["headDim"]) == (heads, len(tokens), dim // heads)
        assert np.abs(np.reshape(answer["weights"], expected.shape) - expected).max() < 1e-9

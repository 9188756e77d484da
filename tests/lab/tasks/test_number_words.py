"""Numbers in words against num2words and cn2an, the translation task, its held-out sentences, and the two scores."""

import itertools
import math
import random

import cn2an
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from num2words import num2words
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from attn_core.lab.tasks import NOTHING
from attn_core.lab.tasks.number_words import (
    BEGIN,
    END,
    LIMIT,
    OPERATORS,
    PAD,
    SOURCE_WORDS,
    TARGET_CHARACTERS,
    NumberTranslation,
    bleu,
    chinese_numeral,
    chinese_sentence,
    decode_characters,
    encode_characters,
    encode_words,
    english_sentence,
    english_words,
    evaluation_set,
    exact_match,
    is_held_out,
    random_expression,
)

BUCKETS = [(2, 10), (11, 20), (21, 30), (31, 45)]
# Every pattern of zeros within a group of four digits, and groups of three digits with each kind of words.
FOURS = (0, 1, 10, 11, 20, 105, 110, 200, 999, 1000, 1001, 1010, 1100, 2020, 5000, 9999)
THREES = (0, 1, 10, 13, 20, 42, 100, 101, 119, 999)
GRID = [
    *range(12_000),
    *(a * 10**8 + b * 10**4 + c for a, b, c in itertools.product(FOURS, repeat=3)),
    *(1000 * (1000 * (1000 * a + b) + c) + d for a, b, c, d in itertools.product(THREES, repeat=4)),
]
numbers = st.one_of(
    st.integers(0, LIMIT - 1),
    # Mostly zeros, which an even draw from all numbers would hardly give.
    st.lists(st.sampled_from("000012359"), min_size=1, max_size=12).map(lambda digits: int("".join(digits))),
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def words_of_num2words(number):
    """num2words writes "one million, two hundred and thirty-four thousand"."""
    return [word for word in num2words(number).replace(",", "").replace("-", " ").split() if word != "and"]


def numeral_of_cn2an(number):
    """cn2an's numeral, with the 零 it leaves out where a whole group of 万 is missing before thousands.

    It writes 100,005,000 as 一亿五千, which is what people say for 150,000,000; the standard form, 一亿零五千, cannot
    be misread. It agrees everywhere else, also in 十 for 一十 at the beginning alone.
    """
    numeral = cn2an.an2cn(number, "low")
    if number >= 10**8 and number // 10**4 % 10**4 == 0 and number % 10**4 >= 1000:
        return numeral.replace("亿", "亿零")
    return numeral


def words_of(row):
    """The English words of a row of a source."""
    return [SOURCE_WORDS[i] for i in row if i != PAD]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (20, "twenty"),
        (23, "twenty three"),
        (100, "one hundred"),
        (110, "one hundred ten"),
        (1001, "one thousand one"),
        (1_000_000, "one million"),
        (1_002_030_405, "one billion two million thirty thousand four hundred five"),
        (999_000_000_012, "nine hundred ninety nine billion twelve"),
    ],
)
def test_english_is_american_without_and_hyphens_or_commas(number, words):
    assert english_words(number) == words.split()


@pytest.mark.parametrize(
    ("number", "numeral"),
    [
        (0, "零"),
        (10, "十"),
        (11, "十一"),
        (20, "二十"),
        (101, "一百零一"),
        (110, "一百一十"),
        (1_010, "一千零一十"),
        (2_222, "二千二百二十二"),
        (10_010, "一万零一十"),
        (12_000, "一万二千"),
        (100_000, "十万"),
        (100_010, "十万零一十"),
        (205_000, "二十万五千"),
        (1_000_001, "一百万零一"),
        (10_000_000, "一千万"),
        (100_000_000, "一亿"),
        (100_000_010, "一亿零一十"),
        (100_005_000, "一亿零五千"),
        (100_100_000, "一亿零一十万"),
        (150_000_000, "一亿五千万"),
        (1_002_030_405, "十亿零二百零三万零四百零五"),
        (999_999_999_999, "九千九百九十九亿九千九百九十九万九千九百九十九"),
    ],
)
def test_chinese_reads_zeros_by_the_rules_of_mandarin(number, numeral):
    assert chinese_numeral(number) == numeral


def test_grid_of_numbers_is_written_as_num2words_writes_it():
    assert [n for n in GRID if english_words(n) != words_of_num2words(n)] == []


def test_grid_of_numbers_is_written_as_cn2an_writes_it():
    assert [n for n in GRID if chinese_numeral(n) != numeral_of_cn2an(n)] == []


def test_cn2an_differs_only_where_ten_thousands_are_missing_before_thousands():
    differ = {n for n in GRID if chinese_numeral(n) != cn2an.an2cn(n, "low")}
    assert differ == {n for n in GRID if n >= 10**8 and n // 10**4 % 10**4 == 0 and n % 10**4 >= 1000}
    assert cn2an.an2cn(100_005_000, "low") == "一亿五千"


@given(numbers)
@example(LIMIT - 1)
def test_any_number_is_written_as_the_two_packages_write_it(number):
    assert english_words(number) == words_of_num2words(number)
    assert chinese_numeral(number) == numeral_of_cn2an(number)


@given(numbers)
def test_cn2an_reads_our_numerals_back(number):
    assert cn2an.cn2an(chinese_numeral(number), "smart") == number


@pytest.mark.parametrize("write", [english_words, chinese_numeral])
def test_what_is_no_number_below_the_limit_is_refused(write):
    for number, legal in ((-1, "at least 0"), (LIMIT, "less than 1,000,000,000,000")):
        with pytest.raises(ValueError, match=f"number must be {legal}, got {number}$"):
            write(number)
    for number in (2.0, "two", True, None):
        with pytest.raises(TypeError, match=f"must be an integer, got {number!r}$"):
            write(number)


def test_expression_is_written_word_by_word_and_character_by_character():
    expression = [23, "plus", 100_010, "divided by", 10, "minus", 0, "times", 7]
    english = "twenty three plus one hundred thousand ten divided by ten minus zero times seven"
    assert english_sentence(expression) == english.split()
    assert chinese_sentence(expression) == [*"二十三加十万零一十除以十减零乘七"]


@pytest.mark.parametrize("write", [english_sentence, chinese_sentence])
@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ([], ValueError, r"begin and end with a number, got \[\]"),
        ([1, "plus"], ValueError, r"begin and end with a number, got \[1, 'plus'\]"),
        ([1, "over", 2], ValueError, "one of plus, minus, times, divided by, got 'over'"),
        ([1, 2, 3], ValueError, "one of plus, minus, times, divided by, got 2"),
        (["plus"], TypeError, "must be an integer, got 'plus'"),
        ([LIMIT], ValueError, "less than 1,000,000,000,000"),
    ],
)
def test_expression_of_another_form_is_refused(write, expression, error, message):
    with pytest.raises(error, match=message):
        write(expression)


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_random_expression_has_exactly_the_words_asked_for(num_words, seed):
    assert len(english_sentence(random_expression(num_words, random.Random(seed)))) == num_words


def test_random_expressions_use_every_operator_every_word_and_every_character():
    rng = random.Random(0)
    expressions = [random_expression(rng.randint(1, 45), rng) for _ in range(2000)]
    assert {part for expression in expressions for part in expression[1::2]} == set(OPERATORS)
    assert {word for e in expressions for word in english_sentence(e)} == set(SOURCE_WORDS[1:])
    assert {character for e in expressions for character in chinese_sentence(e)} == set(TARGET_CHARACTERS[3:])


@pytest.mark.parametrize("num_words", [0, -3])
def test_expression_of_no_words_is_refused(num_words):
    with pytest.raises(ValueError, match=f"num_words must be at least 1, got {num_words}"):
        random_expression(num_words, random.Random(0))


def test_batch_holds_sentences_filled_up_and_targets_one_step_ahead():
    (source, target_in), targets = NumberTranslation().sample(200, generator(), words=(2, 12))
    assert source.dtype == target_in.dtype == targets.dtype == torch.int64
    assert source.shape == (200, 12) and target_in.shape == targets.shape
    for row, shown, asked in zip(source.tolist(), target_in.tolist(), targets.tolist(), strict=True):
        length = asked.index(END)
        assert shown[0] == BEGIN and shown[1 : length + 1] == asked[:length]
        assert set(shown[length + 1 :]) <= {PAD} and set(asked[length + 1 :]) <= {NOTHING}
        assert min(asked[:length]) > END
        assert PAD not in row[: len(words_of(row))] and set(row[len(words_of(row)) :]) <= {PAD}


def parsed(words):
    """English words -> expression, with a reader of its own."""
    text = " ".join(words)
    for i, name in enumerate(OPERATORS):
        text = text.replace(name, f"|{i}|")
    parts = [part.strip() for part in text.split("|")]
    return [[*OPERATORS][int(part)] if i % 2 else number_of(part.split()) for i, part in enumerate(parts)]


def number_of(words):
    small = {num2words(n): n for n in [*range(20), *range(20, 100, 10)]}
    scales = {"thousand": 1000, "million": 10**6, "billion": 10**9}
    total = group = 0
    for word in words:
        if word in scales:
            total, group = total + group * scales[word], 0
        elif word == "hundred":
            group *= 100
        else:
            group += small[word]
    return total + group


@pytest.mark.parametrize("held_out", [False, True])
def test_every_target_is_the_translation_of_its_source(held_out):
    batch = NumberTranslation(held_out).sample(100, generator(), words=(1, 45))
    for source, target_in, targets in zip(*batch.inputs, batch.targets, strict=True):
        expression = parsed(words_of(source))
        assert decode_characters(target_in) == decode_characters(targets) == "".join(chinese_sentence(expression))


@pytest.mark.parametrize("words", [*BUCKETS, (2, 45), (1, 1), (7, 7)])
def test_each_length_within_the_bounds_is_as_likely_as_any_other(words):
    (source, _), _ = NumberTranslation().sample(4000, generator(1), words)
    counts = torch.bincount((source != PAD).sum(1), minlength=words[1] + 1)
    possible = words[1] - words[0] + 1
    assert counts[: words[0]].sum() == 0 and len(counts) == words[1] + 1
    # Five standard deviations of a count.
    spread = 5 * math.sqrt(4000 / possible * (1 - 1 / possible))
    assert ((counts[words[0] :] - 4000 / possible).abs() <= spread).all()


def test_a_seed_gives_the_same_batch_and_another_seed_another():
    task = NumberTranslation()
    first, again, other = (task.sample(16, generator(seed)) for seed in (3, 3, 4))
    assert torch.equal(first.inputs[0], again.inputs[0]) and torch.equal(first.targets, again.targets)
    assert [decode_characters(row) for row in first.targets] != [decode_characters(row) for row in other.targets]


def test_one_generator_gives_fresh_batches():
    going_on = generator()
    first, second = (NumberTranslation().sample(16, going_on, (20, 20)).inputs[0] for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("words", [(1, 1), *BUCKETS])
def test_training_and_held_out_sentences_never_meet(words):
    def sentences(held_out):
        (source, _), _ = NumberTranslation(held_out).sample(500, generator(), words)
        return {tuple(words_of(row)) for row in source}

    training, testing = sentences(False), sentences(True)
    assert training.isdisjoint(testing)
    assert not any(map(is_held_out, training)) and all(map(is_held_out, testing))


def test_a_tenth_of_the_sentences_is_held_out_at_every_length():
    rng = random.Random(0)
    for num_words in (3, 10, 20, 45):
        drawn = [is_held_out(english_sentence(random_expression(num_words, rng))) for _ in range(4000)]
        assert 0.08 < sum(drawn) / 4000 < 0.12


def test_the_same_sentences_are_held_out_on_every_machine():
    # zlib.crc32 is the same everywhere, unlike Python's own hash of a text.
    alone = [number for number in range(100) if is_held_out(english_words(number))]
    assert alone == [0, 7, 19, 24, 52, 54, 68]


@pytest.mark.parametrize("words", BUCKETS)
def test_evaluation_set_is_fixed_held_out_and_within_its_bucket(words):
    first, again = evaluation_set(words, 40), evaluation_set(words, 40)
    assert torch.equal(first.inputs[0], again.inputs[0]) and torch.equal(first.targets, again.targets)
    sentences = [words_of(row) for row in first.inputs[0]]
    assert all(map(is_held_out, sentences))
    assert all(words[0] <= len(sentence) <= words[1] for sentence in sentences)
    assert len(set(map(tuple, sentences))) > 30
    assert not torch.equal(evaluation_set(words, 40, seed=1).inputs[0], first.inputs[0])


def test_evaluation_set_begins_with_the_sentences_it_always_had():
    batch = evaluation_set((2, 10), 3)
    assert [" ".join(words_of(row)) for row in batch.inputs[0]] == [
        "one hundred plus eighteen million",
        "one hundred seventy two thousand times fourteen thousand",
        "four billion seven hundred two million minus seventeen plus sixty",
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"batch_size": 1.5}, TypeError, "batch_size must be an integer, got 1.5"),
        ({"words": (0, 5)}, ValueError, r"1 ≤ lowest ≤ highest, got \(0, 5\)"),
        ({"words": (9, 5)}, ValueError, r"1 ≤ lowest ≤ highest, got \(9, 5\)"),
        ({"words": (2, 5.5)}, TypeError, r"words must be two integers, got \(2, 5.5\)"),
        ({"words": (2, 5, 9)}, TypeError, r"words must be two integers, got \(2, 5, 9\)"),
        ({"words": 5}, TypeError, "words must be two integers, got 5"),
    ],
)
def test_batch_of_no_sentences_or_impossible_lengths_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        NumberTranslation().sample(**{"batch_size": 4, "generator": generator()} | arguments)


def test_held_out_is_true_or_false():
    with pytest.raises(TypeError, match="held_out must be True or False, got 'test'"):
        NumberTranslation(held_out="test")


def test_vocabularies_begin_with_the_special_tokens_and_name_nothing_twice():
    assert SOURCE_WORDS[PAD] == TARGET_CHARACTERS[PAD] == "<pad>"
    assert (TARGET_CHARACTERS[BEGIN], TARGET_CHARACTERS[END]) == ("<begin>", "<end>")
    for vocabulary, size in ((SOURCE_WORDS, 38), (TARGET_CHARACTERS, 23)):
        assert len(vocabulary) == len(set(vocabulary)) == size


def test_decoding_undoes_encoding():
    words, characters = [*SOURCE_WORDS[1:]], "".join(TARGET_CHARACTERS[3:])
    assert words_of(encode_words(words)) == words
    assert decode_characters(encode_characters(characters)) == characters


def test_decoding_stops_at_the_end_and_leaves_a_stray_begin_visible():
    one, two = encode_characters("一二")
    assert decode_characters([one, END, two, two]) == "一"
    assert decode_characters(torch.tensor([BEGIN, one, two, PAD, PAD])) == "一二"
    assert decode_characters(torch.tensor([one, two, END, NOTHING])) == "一二"
    assert decode_characters([END]) == decode_characters([]) == ""
    assert decode_characters([one, BEGIN, two]) == "一<begin>二"


def test_what_is_not_in_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="every token must be one of SOURCE_WORDS, got 'twenty-three'"):
        encode_words(["twenty-three"])
    with pytest.raises(ValueError, match="every token must be one of TARGET_CHARACTERS, got '两'"):
        encode_characters("两百")
    for wrong in (23, -1):
        with pytest.raises(ValueError, match=f"ids must lie between 0 and 22, got {wrong}"):
            decode_characters([3, wrong])


def test_perfect_translations_get_full_scores():
    texts = ["二十三加五", "一亿零五千除以十"]
    assert exact_match(texts, texts) == 1.0
    assert bleu(texts, texts) == pytest.approx(100)


@pytest.mark.parametrize("text", ["七", "十七", "二十七"])
def test_perfect_translations_too_short_for_a_4_gram_get_full_scores(text):
    assert bleu([text], [text]) == pytest.approx(100)


def test_empty_or_unrelated_translations_get_nothing():
    for predictions in (["", ""], ["加加加加", "减"]):
        assert exact_match(predictions, ["二十三乘五", "一百"]) == 0.0
        assert bleu(predictions, ["二十三乘五", "一百"]) == 0.0


def test_one_wrong_character_costs_the_n_grams_it_stands_in():
    reference, prediction = "一二三四五六七八九十", "一二三四五六七八九零"
    # 9 of 10 characters, 8 of 9 pairs, 7 of 8, 6 of 7: the geometric mean of the four.
    assert bleu([prediction], [reference]) == pytest.approx(100 * (9 / 10 * 8 / 9 * 7 / 8 * 6 / 7) ** 0.25)
    assert exact_match([prediction, reference], [reference, reference]) == 0.5


def test_translation_cut_short_pays_the_brevity_penalty():
    assert bleu(["一二三四五"], ["一二三四五六七八九十"]) == pytest.approx(100 * math.exp(1 - 10 / 5))


def test_bleu_counts_over_the_whole_corpus_and_not_sentence_by_sentence():
    references, predictions = ["一二三四五六七八九十", "一百"], ["一二三四五六七八九零", "一百"]
    # 11 of 12 characters, 9 of 10 pairs, 7 of 8 and 6 of 7: the short text has no longer n-grams.
    expected = 100 * (11 / 12 * 9 / 10 * 7 / 8 * 6 / 7) ** 0.25
    assert bleu(predictions, references) == pytest.approx(expected)


def test_tokeniser_of_bleu_makes_the_tokens_of_the_model():
    text = "".join(TARGET_CHARACTERS[3:])
    assert TokenizerChar()(text) == TokenizerZh()(text) == " ".join(text)
    # They differ on what is not Chinese, where "char" counts each character.
    assert TokenizerChar()("一ab") == "一 a b" != TokenizerZh()("一ab")


@pytest.mark.parametrize("score", [exact_match, bleu])
def test_scores_need_one_prediction_per_reference(score):
    with pytest.raises(ValueError, match="got 1 predictions for 2 references"):
        score(["一"], ["一", "二"])
    with pytest.raises(ValueError, match="got 0 predictions for 0 references"):
        score([], [])
    with pytest.raises(TypeError, match="must be lists of texts, got '一' and '二'"):
        score("一", "二")

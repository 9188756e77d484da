"""Translation with exact answers: expressions of numbers in English words into Chinese numerals, and two scores.

An expression is a list such as [23, "plus", 5]: whole numbers below LIMIT with operators between them. Nothing is ever
worked out, so that "five divided by zero" is an expression like any other.
"""

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral

import numpy as np
import torch
from sacrebleu.metrics import BLEU
from torch import Tensor

from attn_core._checks import check_integers
from attn_core.lab.tasks import NOTHING, Batch

LIMIT = 10**12  # numbers stay below: nine hundred ninety nine billion and so on, which takes 19 words
OPERATORS = {"plus": "加", "minus": "减", "times": "乘", "divided by": "除以"}

_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
_UP_TO_NINETEEN, _TENS = _NAMES.split()[:20], _NAMES.split()[20:]
_SCALES = {10**9: "billion", 10**6: "million", 10**3: "thousand"}

PAD, BEGIN, END = 0, 1, 2  # the source has PAD alone, which is 0 there too
SOURCE_WORDS = ("<pad>", *_UP_TO_NINETEEN, *_TENS, "hundred", *_SCALES.values(), *" ".join(OPERATORS).split())
TARGET_CHARACTERS = ("<pad>", "<begin>", "<end>", *"零一二三四五六七八九十百千万亿加减乘除以")
_WORD_IDS = {word: i for i, word in enumerate(SOURCE_WORDS)}
_CHARACTER_IDS = {character: i for i, character in enumerate(TARGET_CHARACTERS)}


def english_words(number: int) -> list[str]:
    """123 -> one hundred twenty three: American, without "and", and with neither hyphens nor commas.

    Raises ValueError for a number outside 0 to LIMIT - 1, TypeError for what is no integer.
    """
    _check_number(number)
    words = []
    for size, scale in _SCALES.items():
        if group := number // size % 1000:
            words += [*_BELOW_THOUSAND[group], scale]
    return words + _BELOW_THOUSAND[number % 1000] or ["zero"]


def chinese_numeral(number: int) -> str:
    """10010 -> 一万零一十: Mandarin, in groups of four digits (万 ten thousands, 亿 hundred millions).

    Zeros between two digits are read as one 零; those at the end of a group that holds another digit are silent. 2 is
    always 二, never 两; 一十 is 十 at the beginning alone. Raises as english_words does.
    """
    _check_number(number)
    text, gap = "", False
    for size, scale in ((10**8, "亿"), (10**4, "万"), (1, "")):
        group = number // size % 10**4
        if group:
            text += "零" * (text != "" and (gap or group < 1000)) + _numeral_below_ten_thousand(group) + scale
        gap = group == 0
    return text.removeprefix("一") if text.startswith("一十") else text or "零"


def english_sentence(expression: Sequence[int | str]) -> list[str]:
    """[23, "plus", 5] -> twenty three plus five, one word each.

    Raises ValueError unless numbers and operators take turns, beginning and ending with a number.
    """
    _check_expression(expression)
    return [word for i, part in enumerate(expression) for word in (part.split() if i % 2 else english_words(part))]


def chinese_sentence(expression: Sequence[int | str]) -> list[str]:
    """[23, "plus", 5] -> 二十三加五, one character each. Raises as english_sentence does."""
    _check_expression(expression)
    return [*"".join(OPERATORS[part] if i % 2 else chinese_numeral(part) for i, part in enumerate(expression))]


def random_expression(num_words: int, rng: random.Random) -> list[int | str]:
    """An expression of exactly num_words English words: 1 to 19 for a number, 1 or 2 for an operator.

    Raises ValueError for a num_words below 1.
    """
    check_integers(num_words=num_words)
    expression, left = [], num_words
    while True:
        # Anything but 1 can be left over: that would be an operator with no number behind it.
        while left - (size := rng.randint(1, min(left, max(_SHAPES)))) == 1:
            pass
        expression.append(_random_number(size, rng))
        left -= size
        if left == 0:
            return expression
        operator = rng.choice([*OPERATORS] if left > 2 else ["plus", "minus", "times"])
        expression.append(operator)
        left -= len(operator.split())


def is_held_out(words: Sequence[str]) -> bool:
    """Whether the sentence is one of the tenth kept for testing: crc32 of its text is divisible by 10.

    The text alone decides, so that no seed and no order of drawing can carry a sentence over to the other side.
    """
    return zlib.crc32(" ".join(words).encode()) % 10 == 0


@dataclass(frozen=True)
class NumberTranslation:
    """English words in, Chinese characters out.

    held_out: draw only the sentences that is_held_out keeps for testing; else only the others.
    Raises TypeError where it is neither True nor False.
    """

    held_out: bool = False

    def __post_init__(self):
        if not isinstance(self.held_out, bool):
            raise TypeError(f"held_out must be True or False, got {self.held_out!r}")

    def sample(self, batch_size: int, generator: torch.Generator, words: tuple[int, int] = (2, 45)) -> Batch:
        """Sentences of words[0] to words[1] English words, both included, each length as likely as any other.

        inputs: source (B, S), filled up with PAD; target_in (B, T), BEGIN and the characters, filled up with PAD.
        targets: (B, T), the characters and END, filled up with NOTHING.
        Raises ValueError for a batch_size below 1 and for bounds that are not 1 ≤ words[0] ≤ words[1], TypeError for
        bounds that are not two integers.
        """
        check_integers(batch_size=batch_size)
        if (
            not isinstance(words, (tuple, list))
            or len(words) != 2
            or not all(isinstance(bound, Integral) for bound in words)
        ):
            raise TypeError(f"words must be two integers, got {words!r}")
        if not 1 <= words[0] <= words[1]:
            raise ValueError(f"words must be two bounds, 1 ≤ lowest ≤ highest, got {words!r}")
        rng = random.Random(int(torch.randint(2**62, (), generator=generator)))
        pairs = [self._sentence_pair(rng.randint(*words), rng) for _ in range(batch_size)]
        sources = [encode_words(english) for english, _ in pairs]
        targets = [encode_characters(chinese) for _, chinese in pairs]
        source, target_in = _filled_up(sources, PAD), _filled_up([[BEGIN, *ids] for ids in targets], PAD)
        return Batch((source, target_in), _filled_up([[*ids, END] for ids in targets], NOTHING))

    def _sentence_pair(self, num_words: int, rng: random.Random) -> tuple[list[str], list[str]]:
        # Drawn again at the same length, or the lengths would not stay uniform. Held-out sentences exist at every
        # length: three of the 28 numbers of one word are among them, zero, seven and nineteen.
        while True:
            expression = random_expression(num_words, rng)
            english = english_sentence(expression)
            if is_held_out(english) == self.held_out:
                return english, chinese_sentence(expression)


def evaluation_set(words: tuple[int, int], size: int, seed: int = 0) -> Batch:
    """The same held-out sentences for the same arguments; one of few words may come more than once."""
    return NumberTranslation(held_out=True).sample(size, torch.Generator().manual_seed(seed), words)


def encode_words(words: Sequence[str]) -> list[int]:
    """English words -> their places in SOURCE_WORDS. Raises ValueError for a word that is not there."""
    return _encoded(words, _WORD_IDS, "SOURCE_WORDS")


def encode_characters(characters: Sequence[str]) -> list[int]:
    """Chinese characters -> their places in TARGET_CHARACTERS. Raises ValueError for one that is not there."""
    return _encoded(characters, _CHARACTER_IDS, "TARGET_CHARACTERS")


def decode_characters(ids: Sequence[int] | Tensor) -> str:
    """A row of target_in, of targets or of a model's answers -> the text before the first END or padding.

    BEGIN is left out where it comes first; anywhere else it stays, as "<begin>", and makes the answer wrong.
    """
    characters = []
    for i in ids.tolist() if isinstance(ids, Tensor) else ids:
        if i in (PAD, END, NOTHING):
            break
        if not 0 <= i < len(TARGET_CHARACTERS):
            raise ValueError(f"ids must lie between 0 and {len(TARGET_CHARACTERS) - 1}, got {i}")
        characters.append(TARGET_CHARACTERS[i])
    return "".join(characters).removeprefix(TARGET_CHARACTERS[BEGIN])


def exact_match(predictions: Sequence[str], references: Sequence[str]) -> float:
    """The share of predictions that are right to the last character, 0 to 1.

    Raises ValueError unless there are as many predictions as references and at least one.
    """
    _check_texts(predictions, references)
    return sum(p == r for p, r in zip(predictions, references, strict=True)) / len(references)


def bleu(predictions: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of the whole corpus over characters, 0 to 100, by sacrebleu. Raises as exact_match does.

    Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation".
    """
    _check_texts(predictions, references)
    # "char" makes one token of each character, as the model does; "zh" does so for Chinese characters alone. A corpus
    # with no text of four characters has no 4-grams: the effective order leaves them out, or even a perfect one got 0.
    return BLEU(tokenize="char", effective_order=True, force=True).corpus_score(predictions, [references]).score


def _words_below_thousand(number: int) -> list[str]:
    """No words for 0."""
    hundreds, rest = divmod(number, 100)
    words = [_UP_TO_NINETEEN[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10 - 2])
        rest %= 10
    return words + [_UP_TO_NINETEEN[rest]] * (rest > 0)


def _numeral_below_ten_thousand(number: int) -> str:
    """Without the 零 of missing thousands, and empty for 0."""
    text = ""
    for size, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        if digit := number // size % 10:
            text += "零一二三四五六七八九"[digit] + unit
        elif text and text[-1] != "零":
            text += "零"
    return text.rstrip("零")


_BELOW_THOUSAND = [_words_below_thousand(number) for number in range(1000)]
# _GROUPS[k]: the numbers below 1000 of k words. _SHAPES[n]: how n words can be shared out over billions, millions,
# thousands and the rest, where each of the first three that is there takes a word more, its name.
_GROUPS = [[n for n, words in enumerate(_BELOW_THOUSAND) if len(words) == k] for k in range(5)]
_SHAPES: dict[int, list[tuple[int, ...]]] = {}
for _shape in product(range(5), repeat=4):
    _SHAPES.setdefault(sum(_shape) + sum(k > 0 for k in _shape[:3]), []).append(_shape)


def _random_number(num_words: int, rng: random.Random) -> int:
    if num_words == 1:
        return rng.choice([0, *_GROUPS[1]])  # the shape of "zero" has no words
    number = 0
    for k in rng.choice(_SHAPES[num_words]):
        number = 1000 * number + rng.choice(_GROUPS[k])
    return number


def _filled_up(rows: list[list[int]], filler: int) -> Tensor:
    """Rows of any lengths -> (rows, longest) long."""
    longest = max(map(len, rows))
    filled = [row + [filler] * (longest - len(row)) for row in rows]
    return torch.from_numpy(np.array(filled, dtype=np.int64))  # torch.tensor takes eight times as long


def _encoded(tokens: Sequence[str], ids: dict[str, int], name: str) -> list[int]:
    try:
        return [ids[token] for token in tokens]
    except KeyError as error:
        raise ValueError(f"every token must be one of {name}, got {error.args[0]!r}") from None


def _check_number(number: int) -> None:
    check_integers(0, number=number)
    if number >= LIMIT:
        raise ValueError(f"number must be less than {LIMIT:,}, got {number}")


def _check_expression(expression: Sequence[int | str]) -> None:
    if len(expression) % 2 == 0:
        raise ValueError(f"an expression must begin and end with a number, got {expression!r}")
    for operator in expression[1::2]:
        if operator not in OPERATORS:
            raise ValueError(f"an operator must be one of {', '.join(OPERATORS)}, got {operator!r}")


def _check_texts(predictions: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(predictions, str) or isinstance(references, str):
        raise TypeError(f"predictions and references must be lists of texts, got {predictions!r} and {references!r}")
    if len(predictions) != len(references) or not references:
        raise ValueError(
            f"there must be one prediction per reference, and at least one: got {len(predictions)} predictions "
            f"for {len(references)} references"
        )

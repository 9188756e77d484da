"""Which heads of a trained model look from one word of a sentence at another that belongs to it?

The sentences stand in probe_sentences.toml. Attention is taken between words, as in Clark et al. 2019, "What Does BERT
Look At?", section 4: to a word it is the sum over its pieces, from a word the mean; [CLS] and [SEP] are left out, and
the rest is not scaled up to 1. As there, a word looks at another one: itself is no answer, since no word is its own
partner. A punctuation mark is a word like any other.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attn_core.lab.intervals import holm, paired_p, share_interval
from attn_core.lab.trained.pretrained import Pretrained, Reading

SENTENCES = Path(__file__).with_name("probe_sentences.toml")
# What looks, and at what: the word whose form or meaning hangs on the other one looks at it.
RELATIONS = {
    "subject_verb": ("verb", "subject"),
    "adjective_noun": ("adjective", "noun"),
    "pronoun_antecedent": ("pronoun", "antecedent"),
    "negation": ("negation", "negated word"),
    "verb_object": ("verb", "object"),
    "determiner_noun": ("determiner", "noun"),
}
LEVEL = 0.05
_WORD = re.compile(r"\w+|[^\w\s]")
_MARK = re.compile(r"[][{}<>]")


class Probe(NamedTuple):
    """A sentence with two of its words marked, by their number from 0.

    words: as in a Reading, where a punctuation mark is a word. looker: the word that should look at the word `target`.
    attractor: a noun of the other number between subject and verb; None in the other relations.
    """

    text: str
    words: tuple[str, ...]
    looker: int
    target: int
    attractor: int | None = None

    @property
    def offset(self) -> int:
        """How many words the target stands to the right of the word that looks; negative to the left."""
        return self.target - self.looker

    def turned(self) -> "Probe":
        """The same with the two words in each other's place."""
        return self._replace(looker=self.target, target=self.looker)


class Looks(NamedTuple):
    """Where each head looks in S sentences of one relation. All (S, layers, H).

    hits: the strongest attention from the word that looks falls on the target. weight: how much falls on it.
    popular: it is the target that the other words of the sentence look at most: there a hit says little about the two.
    attractor: the strongest attention falls on the attractor; False where there is none.
    """

    hits: Tensor
    weight: Tensor
    popular: Tensor
    attractor: Tensor


def parse_probe(marked: str) -> Probe:
    """`"The [keys] to the <cabinet> {are} lost."`: {the word that looks}, [its target] and perhaps <an attractor>.

    Raises ValueError unless the first two marks are there once each, and around one word.
    """

    def number(opening: str, closing: str) -> int | None:
        found = re.findall(rf"\{opening}(.*?)\{closing}", marked)
        if not found and opening == "<":
            return None
        if len(found) != 1 or not _WORD.fullmatch(found[0]):
            raise ValueError(f"{opening}{closing} must stand once in a sentence, around one word, got {marked!r}")
        return len(_WORD.findall(_MARK.sub("", marked[: marked.index(opening)])))

    text = _MARK.sub("", marked)
    return Probe(text, tuple(_WORD.findall(text)), number("{", "}"), number("[", "]"), number("<", ">"))


def probe_sentences() -> dict[str, list[Probe]]:
    """The sentences of each relation, in the order of RELATIONS."""
    found = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
    return {relation: [parse_probe(marked) for marked in found[relation]] for relation in RELATIONS}


# From weights to measures


def word_weights(reading: Reading) -> list[Tensor]:
    """For each sentence the attention between its W words: (layers, H, W, W), rows = the words that look.

    A row sums to what special tokens leave.
    """
    return [merge_pieces(weights, words) for weights, words in zip(reading.weights, reading.words, strict=True)]


def merge_pieces(weights: Tensor, words: Sequence[int | None]) -> Tensor:
    """(..., L, L) between tokens -> (..., W, W) between words.

    words: for each token the number of its word, None for a special one; tokens beyond them are padding.
    """
    belongs = torch.tensor([[word == number for number in range(_count(words))] for word in words]).to(weights)
    weights = weights[..., : len(words), : len(words)] @ belongs
    return (belongs / belongs.sum(0)).T @ weights


def probe_weights(pretrained: Pretrained, probes: Sequence[Probe]) -> list[Tensor]:
    """The `word_weights` of these sentences. Raises ValueError where the model's tokenizer finds other words in one."""
    reading = pretrained.read([probe.text for probe in probes])
    for probe, words in zip(probes, reading.words, strict=True):
        if _count(words) != len(probe.words):
            raise ValueError(f"the model finds {_count(words)} words, not {len(probe.words)}, in {probe.text!r}")
    return word_weights(reading)


def looks(weights: Sequence[Tensor], probes: Sequence[Probe]) -> Looks:
    """weights: for each probe (layers, H, W, W) between its words, as from `probe_weights`."""
    found = []
    for between, (_, _, looker, target, attractor) in zip(weights, probes, strict=True):
        row = between[..., looker, :].clone()
        row[..., looker] = -1
        strongest = row.argmax(-1)
        others = between.clone()
        others.diagonal(dim1=-2, dim2=-1).zero_()
        others[..., looker, :] = 0
        others = others.sum(-2)
        others[..., looker] = -1
        # No word has the number -1.
        on_attractor = strongest == (-1 if attractor is None else attractor)
        found.append((strongest == target, row[..., target], others.argmax(-1) == target, on_attractor))
    return Looks(*(torch.stack(column) for column in zip(*found, strict=True)))


def best_offset(probes: Sequence[Probe]) -> int:
    """The offset that most of these sentences have, the nearest where several do: what position alone can answer."""
    counts = Counter(probe.offset for probe in probes)
    return min(counts, key=lambda offset: (-counts[offset], abs(offset), offset))


def offset_hits(probes: Sequence[Probe], offset: int) -> Tensor:
    """(S,) of bool: whether the word at this offset is the target."""
    return torch.tensor([probe.offset == offset for probe in probes])


def uniform_share(probes: Sequence[Probe]) -> float:
    """The share of hits to expect of a head that looks at any other word of the sentence alike."""
    return float(np.mean([1 / (len(probe.words) - 1) for probe in probes]))


def against_offset(hits: Tensor, by_offset: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """hits (S, layers, H) and by_offset (S,) of bool -> p and above, both (layers, H).

    p: of McNemar's exact test of each head against the offset, after Holm's correction for looking at all heads. above:
    the head has more hits, and p is below LEVEL.
    """
    p = holm([paired_p(head, by_offset) for head in hits.flatten(1).T]).reshape(hits.shape[1:])
    return p, (p < LEVEL) & (hits.sum(0) > by_offset.sum()).numpy()


# Tables


def head_scores(pretrained: Pretrained, *, turned: bool = False) -> pd.DataFrame:
    """A row for each relation and head, over all sentences of the relation. turned: from the target to the looker.

    relation, layer and head from 1, sentences. As shares of the sentences: hits with its 95 % interval low to high,
    weight, popular, attractor (NaN where there is none), see Looks; uniform, the hits to expect of a uniform head;
    offset_hits, those of the best offset. p and above: of the head against that offset, see `against_offset`.

    The best of many heads is flattered here: choose on some sentences and report on others, as `head_probes` does.
    """
    tables = []
    for relation, probes in probe_sentences().items():
        probes = [probe.turned() for probe in probes] if turned else probes
        found = looks(probe_weights(pretrained, probes), probes)
        table = _heads(*found.hits.shape[1:]).assign(sentences=len(probes), **_shares(found._asdict()))
        if probes[0].attractor is None:
            table["attractor"] = np.nan
        table[["low", "high"]] = [share_interval(int(hits), len(probes)) for hits in found.hits.sum(0).flatten()]
        by_offset = offset_hits(probes, offset := best_offset(probes))
        p, above = against_offset(found.hits, by_offset)
        table = table.assign(relation=relation, uniform=uniform_share(probes), offset=offset, p=p.flatten())
        tables.append(table.assign(offset_hits=by_offset.double().mean().item(), above=above.flatten()))
    order = ["relation", "layer", "head", "sentences", "hits", "low", "high", "weight", "popular", "attractor"]
    return pd.concat(tables, ignore_index=True)[[*order, "uniform", "offset", "offset_hits", "p", "above"]]


def position_scores(pretrained: Pretrained, offsets: Sequence[int] = (-1, 0, 1)) -> pd.DataFrame:
    """Which heads only follow position: a row for each offset and head, with layer and head from 1, share and weight.

    Over all words of all sentences that have a word at this offset: the share of those whose strongest attention falls
    on it (0: on themselves), and the mean weight there.
    """
    weights = [one for probes in probe_sentences().values() for one in probe_weights(pretrained, probes)]
    tables = []
    for offset in offsets:
        on_it = torch.cat([between.diagonal(offset, -2, -1) for between in weights], -1)
        # Of each looker that has a word there, the strongest attention.
        most = torch.cat([between.amax(-1)[..., _lookers(between, offset)] for between in weights], -1)
        measures = {"share": (on_it == most).movedim(-1, 0), "weight": on_it.movedim(-1, 0)}
        tables.append(_heads(*on_it.shape[:2]).assign(offset=offset, **_shares(measures)))
    return pd.concat(tables, ignore_index=True)


def _lookers(between: Tensor, offset: int) -> slice:
    return slice(max(0, -offset), max(0, between.size(-1) - max(0, offset)))


def _shares(measures: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """(N, layers, H) each -> their means over N, flattened as the rows of `_heads`."""
    return {name: measure.double().mean(0).flatten().numpy() for name, measure in measures.items()}


def _count(words: Sequence[int | None]) -> int:
    return len({word for word in words if word is not None})


def _heads(layers: int, heads: int) -> pd.DataFrame:
    """layer and head from 1, in the order in which (layers, H) is flattened."""
    numbers = np.indices((layers, heads)).reshape(2, -1) + 1
    return pd.DataFrame({"layer": numbers[0], "head": numbers[1]})

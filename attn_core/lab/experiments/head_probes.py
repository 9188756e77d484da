"""Does a trained model have heads that look from a verb at its subject, or from a pronoun at what it stands for?

For each of six relations the head with the most hits on one half of the sentences is chosen, and reported on the other
half beside three that know less: the best fixed offset, chosen on the first half too; the word that the other words of
the sentence look at most with the same head; a head that looks at all words alike. Each seed is another pair of halves.

Clark et al. 2019, table 1, choose the best head and the best offset of a relation on the sentences that they report,
without tests: they have a whole treebank for it. Ours are few, so that the best of 72 heads would flatter itself. In
theirs the distances are those of real text, where an offset is often right; ours vary, so that none is.
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats
from torch import Tensor

from attn_core.lab.intervals import paired_p, share_interval
from attn_core.lab.trained.ablation import embedding_shifts
from attn_core.lab.trained.pretrained import load_pretrained
from attn_core.lab.trained.probes import (
    LEVEL,
    RELATIONS,
    Looks,
    Probe,
    against_offset,
    best_offset,
    looks,
    offset_hits,
    probe_sentences,
    probe_weights,
    uniform_share,
)

SETTINGS = {"level": LEVEL}
SEEDS = 20


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each relation, with so many splits into halves. quick: every fourth sentence."""
    return [{"relation": relation, "every": 4 if quick else 1, "splits": seeds} for relation in RELATIONS]


def run(relation: str, every: int, splits: int) -> list[dict]:
    """One relation: a row for each split, of the head that was chosen and how it does on the reporting half.

    seed: of the split; the other columns are those of `reported` and of `shift_of`.
    """
    pretrained = load_pretrained()
    probes = probe_sentences()[relation][::every]
    found = looks(probe_weights(pretrained, probes), probes)
    shifts = embedding_shifts(pretrained, [probe.text for probe in probes]).mean(0)
    rows = []
    for seed in range(splits):
        first, second = halves(probes, seed)
        head = chosen_head(taken(found, first))
        offset = best_offset([probes[number] for number in first])
        row = {"seed": seed, "layer": head[0] + 1, "head": head[1] + 1}
        row |= reported(taken(found, second), [probes[number] for number in second], head, offset)
        rows.append(row | shift_of(head, shifts, found.hits.double().mean(0)))
    return rows


def halves(probes: Sequence[Probe], seed: int) -> tuple[list[int], list[int]]:
    """The numbers of the probes to choose on and of those to report on, drawn by chance.

    Each offset falls to both halves alike, or the best one of the first would be worth little on the second.
    """
    random = np.random.default_rng(seed)
    drawn = random.permutation(len(probes)).tolist()
    offsets = random.permutation(sorted({probe.offset for probe in probes})).tolist()
    drawn.sort(key=lambda number: offsets.index(probes[number].offset))
    return drawn[::2], drawn[1::2]


def taken(found: Looks, numbers: list[int]) -> Looks:
    """The same of some of the sentences only."""
    return Looks(*(column[numbers] for column in found))


def chosen_head(found: Looks) -> tuple[int, int]:
    """Layer and head, from 0, with the most hits; where several have as many, the one with more weight there."""
    counts = found.hits.double().sum(0) + found.weight.double().mean(0) / 2
    layer, head = np.unravel_index(int(counts.argmax()), counts.shape)
    return int(layer), int(head)


def reported(found: Looks, probes: Sequence[Probe], head: tuple[int, int], offset: int) -> dict:
    """How a head does on these sentences that it was not chosen on.

    reported: how many these are. On how many of them the strongest attention falls on the target: hits, with the 95 %
    interval low to high of their share; offset_hits, of the best offset; popular_hits, see Looks; uniform_hits, to be
    expected of a uniform head. attractor_hits: on how many it falls on the attractor. weight: the mean on the target.
    p_offset and p_popular: McNemar's exact test of the head against each of the two. heads_above: how many heads are
    above the offset here, after Holm's correction for looking at all.
    """
    by_offset = offset_hits(probes, offset)
    hits, weight, popular, attractor = (column[:, head[0], head[1]] for column in found)
    low, high = share_interval(int(hits.sum()), len(probes))
    _, above = against_offset(found.hits, by_offset)
    return {
        "reported": len(probes),
        "hits": int(hits.sum()),
        "low": round(low, 4),
        "high": round(high, 4),
        "weight": round(weight.mean().item(), 4),
        "offset": offset,
        "offset_hits": int(by_offset.sum()),
        "popular_hits": int(popular.sum()),
        "uniform_hits": round(uniform_share(probes) * len(probes), 2),
        "attractor_hits": None if probes[0].attractor is None else int(attractor.sum()),
        "p_offset": float(f"{paired_p(hits, by_offset):.3g}"),
        "p_popular": float(f"{paired_p(hits, popular):.3g}"),
        "heads_above": int(above.sum()),
    }


def shift_of(head: tuple[int, int], shifts: Tensor, share: Tensor) -> dict:
    """What switching the head off does, beside every other head: shifts and shares of hits are (layers, H).

    shift: how far the sentences' embeddings move, mean 1 - cosine. shift_median: that of all heads. rank, layer_rank:
    its place among all heads and among those of its layer, 1 the largest. rank_correlation: over all heads, of the
    ranks that the share of hits and the shift have in their layer, since all heads of the last layer move more.
    """
    shift = shifts[head]
    ranks = [stats.rankdata(of_heads, axis=1).ravel() for of_heads in (share, shifts)]
    return {
        "shift": round(shift.item(), 5),
        "shift_median": round(shifts.median().item(), 5),
        "rank": int((shifts > shift).sum()) + 1,
        "layer_rank": int((shifts[head[0]] > shift).sum()) + 1,
        "rank_correlation": round(float(np.corrcoef(ranks)[0, 1]), 3),
    }

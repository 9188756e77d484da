"""The document's claims that take an experiment: one function for each, from its numbers and our tables to a verdict.

A check takes the numbers of the document and a table for each result file that the ledger names. It splits its claim
into statements, and `all_some_none` gives the verdict. "Clearly" means that the whole 95 % interval over the seeds lies
on that side. Where the length of the training was varied, a statement is made for each length from half of the longest
on, so that no verdict is only a matter of when one stopped.
"""

import math
from collections.abc import Iterator

import pandas as pd

from attn_core.course.checks import Finding, all_some_none
from attn_core.lab.experiments.role_binding import steps_until
from attn_core.lab.intervals import SHARE, Estimate, estimate, paired_difference


def check_rnn_sequential(document: dict, gradients: pd.DataFrame) -> Finding:
    """Statements for no training and for each length of training from half of the longest on: the gradient in the far
    half clearly falls below half of that at distance 1 in the GRU, and in attention it clearly stays above. (That a GRU
    takes its steps one by one is how it is built.)"""
    far = gradients[gradients["distance"] > gradients["distance"].max() / 2]
    statements, texts = [], []
    for steps, rows in far.groupby("steps"):
        if 0 < 2 * steps < gradients["steps"].max():
            continue
        left = {model: estimate(runs.groupby("seed")["gradient"].mean()) for model, runs in rows.groupby("model")}
        statements += [left["gru"].high < 0.5, left["attention"].low > 0.5]
        when = f"after {steps:,} steps" if steps else "untrained"
        texts.append(f"{when}: GRU {_interval(left['gru'])}, attention {_interval(left['attention'])}")
    steps = f"more than {gradients['distance'].max() // 2} steps back, over that of 1 step"
    return Finding(f"gradient {steps}: {'; '.join(texts)}", all_some_none(statements))


def check_long_sentences(document: dict, translation: pd.DataFrame) -> Finding:
    """By how many percent BLEU falls from all shorter buckets (their mean) to the one of more than 30 words.

    Statements after equally many steps and again at the end, where each model has reached its plateau or the most steps
    allowed: the document's fall of the RNN lies in the interval of the GRU without attention, its fall of the
    Transformer in the interval of ours; each of the two GRUs clearly falls by more than the Transformer.
    """
    names = {"gru": "GRU", "gru_attention": "GRU with attention", "transformer": "Transformer"}
    statements, texts = [], []
    for at in ("equal steps", "plateau"):
        rows = translation[translation["at"] == at]
        above = rows["bucket"].str.split("-").str[0].astype(int) > document["words"]
        short, long = (part.groupby(["model", "seed"])["bleu"].mean() for part in (rows[~above], rows[above]))
        falls = (100 * (1 - long / short)).rename("fall").reset_index()
        fall = {model: estimate(of_model["fall"]) for model, of_model in falls.groupby("model")}
        statements += [_lies_in(document["rnn"], fall["gru"]), _lies_in(document["transformer"], fall["transformer"])]
        for model in ("gru", "gru_attention"):
            statements.append(paired_difference(falls, "model", model, "transformer", "fall").low > 0)
        when = f"after {rows['steps'].max():,} steps" if at == "equal steps" else "at the end"
        texts.append(f"{when} {', '.join(f'{name} {_interval(fall[model], 1)} %' for model, name in names.items())}")
    return Finding(f"BLEU falls by: {'; '.join(texts)}", all_some_none(statements))


def check_head_roles(document: dict, role_binding: pd.DataFrame, head_probes: pd.DataFrame) -> Finding:
    """On our task the focus: what weight a role's strongest head puts on that role, 1/8 where one head serves all eight
    alike. In a trained model: on how many sentences the head chosen on others finds the right word.

    A statement for each number of heads above one and each length of training from half of the longest on: the focus is
    clearly above 0.5, so that most roles have a head. One for each of the document's relations: in every split the
    chosen head is above the best offset, with p below 0.05. And one more: no head is chosen for two of these relations.
    """
    statements, text = [], ""
    for steps, rows in _late(role_binding, "steps", factor=1):
        focus = {int(heads): estimate(runs["focus"], bounds=SHARE) for heads, runs in rows.groupby("heads")}
        statements += [one.low > 0.5 for heads, one in focus.items() if heads > 1]
        text = f"after {steps:,} steps: " + ", ".join(f"{heads} {_interval(one)}" for heads, one in focus.items())
    texts, chosen = [], []
    for name, relation in document["relations"].items():
        splits = head_probes[head_probes["relation"] == relation]
        statements.append(bool(((splits["hits"] > splits["offset_hits"]) & (splits["p_offset"] < 0.05)).all()))
        chosen.append(sorted({f"{layer}-{head}" for layer, head in zip(splits["layer"], splits["head"], strict=True)}))
        shares = [splits[hits].sum() / splits["reported"].sum() for hits in ("hits", "offset_hits")]
        texts.append(f"{name} {shares[0]:.2f} and {shares[1]:.2f} (head {' or '.join(chosen[-1])})")
    statements.append(len(set().union(*chosen)) == sum(map(len, chosen)))
    text = f"weight of a role's own head, by number of heads, {text}; words found by a head of a trained model, and by "
    return Finding(f"{text}the best distance alone, as shares: {', '.join(texts)}", all_some_none(statements))


def check_text_classification(document: dict, languages: pd.DataFrame, role_binding: pd.DataFrame) -> Finding:
    return _gain_of_heads(document["points"], 1, languages, role_binding)


def check_accuracy(document: dict, languages: pd.DataFrame, role_binding: pd.DataFrame) -> Finding:
    return _gain_of_heads(document["eight_heads"] - document["one_head"], 1, languages, role_binding)


def check_long_accuracy(document: dict, languages: pd.DataFrame, role_binding: pd.DataFrame) -> Finding:
    longest = languages["length_factor"].max()
    return _gain_of_heads(document["eight_heads"] - document["one_head"], longest, languages, role_binding)


def _gain_of_heads(points: float, factor: int, languages: pd.DataFrame, role_binding: pd.DataFrame) -> Finding:
    """Accuracy of 8 heads minus that of 1, in points, on inputs of `factor` times the training length.

    Statements for each of our two tasks and each length of training from half of the longest on, on the names for
    validation, and for the names for testing: the gain is clearly above 0; the document's lies in its interval.
    """
    statements, texts = [], []
    for name, rows, shown in _measurements(languages, role_binding, factor):
        one, eight = (100 * rows[rows["heads"] == heads]["accuracy"].mean() for heads in (1, 8))
        gain = _times_100(paired_difference(rows, "heads", 8, 1, "accuracy", bounds=SHARE))
        statements += [gain.low > 0, _lies_in(points, gain)]
        if shown:
            texts.append(f"{name} {one:.1f} to {eight:.1f} %, gain {_interval(gain, 1)} points")
    length = "" if factor == 1 else f"inputs {factor} times as long: "
    return Finding(length + "; ".join(texts), all_some_none(statements))


def check_four_to_eight(document: dict, languages: pd.DataFrame, role_binding: pd.DataFrame) -> Finding:
    """Statements for each of our two tasks, each length of training from half of the longest on, the names for testing
    and the published table: 4 heads are among the best; so are 8.

    Among the best: not clearly below the number of heads with the highest mean. The published table has no seeds: there
    it must be the highest itself.
    """
    statements, texts = [], []
    for name, rows, shown in _measurements(languages, role_binding, factor=1):
        rows = rows[rows["heads"].notna()]
        means = rows.groupby("heads")["accuracy"].mean()
        best = means.idxmax()
        among = [
            int(heads)
            for heads in means.index
            if heads == best or paired_difference(rows, "heads", best, heads, "accuracy", bounds=SHARE).low <= 0
        ]
        statements += [heads in among for heads in document["heads"]]
        if shown:
            texts.append(f"{name} {', '.join(map(str, among))}")
    published = {int(heads): bleu for heads, bleu in document["published_bleu"].items()}
    among = [heads for heads, bleu in published.items() if bleu == max(published.values())]
    statements += [heads in among for heads in document["heads"]]
    texts.append(f"Vaswani et al. 2017 {', '.join(map(str, among))}")
    return Finding(f"heads among the best: {'; '.join(texts)}", all_some_none(statements))


def check_extrapolation(document: dict, extrapolation: pd.DataFrame) -> Finding:
    """At the longest test, several times the training length, learned rows against each code without trained numbers.

    Statements for each length of training and each such code: it collapses, so that clearly less than half is left of
    its accuracy at the training length; the learned table, of those that have enough rows, is clearly above it.
    """
    shortest, longest = extrapolation["length"].min(), extrapolation["length"].max()
    # A table of 32 rows cannot answer at all at the longest.
    table = extrapolation[extrapolation["max_len"].isna() | (extrapolation["max_len"] >= longest)]
    statements, texts = [], []
    for steps, rows in table.groupby("steps"):
        by_seed = rows.pivot_table(index="seed", columns=["encoding", "length"], values="accuracy")
        left_texts, learned_texts = [], []
        for code in ("sinusoidal", "rotary", "alibi"):
            left = estimate(by_seed[code, longest] / by_seed[code, shortest])
            at_longest = rows[rows["length"] == longest]
            learned = paired_difference(at_longest, "encoding", "learned", code, "accuracy", bounds=SHARE)
            statements += [left.high < 0.5, learned.low > 0]
            left_texts.append(f"{code} {_interval(left)}")
            learned_texts.append(f"{code} {_interval(learned, 3)}")
        texts.append(f"after {steps:,} steps {', '.join(left_texts)}; learned table minus {', '.join(learned_texts)}")
    text = f"left at {longest} tokens of the accuracy at {shortest}: {'; '.join(texts)}"
    return Finding(text, all_some_none(statements))


def check_speed(document: dict, head_speed: pd.DataFrame) -> Finding:
    """The time of 8 heads over that of 1, forward and backward.

    Statements for the explicit path and the fused one: 8 heads clearly take longer; the document's ratio lies in the
    interval.
    """
    rows = head_speed[head_speed["part"] == "forward and backward"]
    ratios = {path: estimate(rows[rows["path"] == path]["ratio"]) for path in ("explicit", "fused")}
    statements = [s for ratio in ratios.values() for s in (ratio.low > 1, _lies_in(document["ratio"], ratio))]
    text = ", ".join(f"{path} {_interval(ratio)}" for path, ratio in ratios.items())
    return Finding(f"time of 8 heads over 1: {text}", all_some_none(statements))


def check_srl(document: dict, role_binding: pd.DataFrame) -> Finding:
    """Statements for each length of training from half of the longest on: with 8 heads clearly more than 99 % of the
    roles get their word; with 1 head clearly fewer than 99 % do."""
    statements, texts = [], []
    for steps, rows in _late(role_binding, "steps", factor=1):
        one, eight = (_times_100(estimate(rows[rows["heads"] == heads]["accuracy"], bounds=SHARE)) for heads in (1, 8))
        statements += [eight.low > 99, one.high < 99]
        texts.append(f"after {steps:,} steps 1 head {_interval(one, 2)} %, 8 heads {_interval(eight, 2)} %")
    needed = steps_until(role_binding)
    texts.append(f"steps until 99 %: 1 head {_steps(needed[1])}, 8 heads {_steps(needed[8])}")
    return Finding(f"words given to the right one of 8 roles: {'; '.join(texts)}", all_some_none(statements))


def _late(table: pd.DataFrame, training: str, factor: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """The lengths of training from half of the longest on, each with its rows at one length of the inputs: what is said
    about them must not depend on when one stops."""
    for length in sorted(table[training].unique()):
        if 2 * length >= table[training].max():
            yield int(length), table[(table[training] == length) & (table["length_factor"] == factor)]


def _measurements(
    languages: pd.DataFrame, role_binding: pd.DataFrame, factor: int
) -> Iterator[tuple[str, pd.DataFrame, bool]]:
    """What both tasks say on inputs of `factor` times the training length: a name, the rows, and whether to show it."""
    validation, test = (languages[languages["split"] == split] for split in ("validation", "test"))
    for steps, rows in _late(validation, "checkpoint", factor):
        yield f"names for validation after {steps:,} steps", rows, False
    yield "names", test[test["length_factor"] == factor], True
    for steps, rows in _late(role_binding, "steps", factor):
        yield f"roles after {steps:,} steps", rows, True


def _lies_in(number: float, interval: Estimate) -> bool:
    return interval.low <= number <= interval.high


def _times_100(one: Estimate) -> Estimate:
    """From shares to percent."""
    return Estimate(100 * one.mean, 100 * one.low, 100 * one.high, one.runs)


def _interval(one: Estimate, decimals: int = 2) -> str:
    # "z" writes a negative number that rounds to zero without its sign.
    return f"{one.mean:z.{decimals}f} [{one.low:z.{decimals}f}, {one.high:z.{decimals}f}]"


def _steps(one: Estimate) -> str:
    """Lengths of training; infinite ones are more than any that was tried."""
    mean, low, high = (f"{length:,.0f}" if math.isfinite(length) else "more" for length in one[:3])
    return f"{mean} [{low}, {high}]"

"""The ledger of claims: complete, true to what is computed, and able to come out otherwise."""

import json
import re
import shutil
from functools import partial

import pandas as pd
import pytest
import torch

from attn_core.course import checks, checks_of_results, claim_table
from attn_core.course.__main__ import main
from attn_core.course.checks import CORRECTED, DEPENDS, DIFFERENT_CAUSE, HOLDS, VERDICTS, all_some_none
from attn_core.course.claims import CHECKS, RESULTS, claim_rows, claims, format_rows, measure
from attn_core.lab.__main__ import EXPERIMENTS

LEDGER = {claim["id"]: claim for claim in claims()}
COMPUTED = [name for name, claim in LEDGER.items() if "results" not in claim]


def outcome(name, *tables, **document):
    """The verdict on a claim of a document with other numbers."""
    claim = LEDGER[name]
    return CHECKS[claim["check"]](claim.get("document", {}) | document, *tables).verdict


# The ledger


def test_every_claim_has_a_check_and_every_check_a_claim():
    assert sorted(claim["check"] for claim in claims()) == sorted(CHECKS)


def test_a_claim_has_an_id_of_its_own_and_all_that_the_table_shows():
    assert len(LEDGER) == len(claims()) == 26
    for claim in claims():
        assert set(claim) <= {"id", "section", "says", "check", "results", "verdict", "why", "document"}
        assert all(claim[name] for name in ("section", "says", "why"))
        assert claim["why"].endswith(".") and "!" not in claim["why"] + claim["says"]
        assert claim["verdict"] in VERDICTS
        assert set(claim.get("results", [])) <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", LEDGER)
def test_the_verdict_in_the_ledger_is_the_one_that_comes_out(name):
    assert measure(LEDGER[name]).verdict == LEDGER[name]["verdict"]


def test_checks_leave_the_random_state_and_do_not_mind_another_default_dtype():
    before, table = torch.get_rng_state(), claim_table(COMPUTED)
    assert torch.equal(torch.get_rng_state(), before)
    torch.set_default_dtype(torch.float64)
    try:
        assert claim_table(COMPUTED) == table
    finally:
        torch.set_default_dtype(torch.float32)


# Computed claims that could come out otherwise


@pytest.mark.parametrize(
    "name, document, verdict",
    [
        ("qkv", {"K": [[1, 2], [0, 2]]}, CORRECTED),
        ("scores", {"values": [[3.5, 1.4], [2.1, 0.7]]}, HOLDS),
        ("weights", {"values": [[0.89, 0.11], [0.8, 0.2]]}, HOLDS),
        ("weights", {"values": [[0.89, 0.11], [0.8, 0.19]]}, CORRECTED),
        ("output", {"values": [[1.0, 0.89], [1.0, 0.8]]}, HOLDS),
        ("head-dim", {"head_dim": 32}, CORRECTED),
        ("params", {"one_head": "1.05M"}, HOLDS),
        ("params", {"one_head": "524K"}, CORRECTED),
        ("flops-unit", {"one_head": 1.88, "eight_heads": 2.15}, HOLDS),
        ("flops-unit", {"one_head": 3.76, "eight_heads": 4.29}, HOLDS),
        ("flops-unit", {"one_head": 1.88, "eight_heads": 4.29}, CORRECTED),
        ("flops-gap", {"more": 0.0}, HOLDS),
        ("flops-gap", {"more": 0.5}, CORRECTED),
        ("shared-projection", {"shared": "590K"}, CORRECTED),
        ("fvcore-code", {"one_head": 35.4, "eight_heads": 35.4}, HOLDS),
    ],
)
def test_with_other_numbers_in_the_document_the_verdict_is_another(name, document, verdict):
    assert outcome(name, **document) == verdict


def test_the_class_would_hold_with_its_missing_line(monkeypatch):
    monkeypatch.setattr(checks.DocumentAttention, "num_heads", 8, raising=False)
    assert outcome("mha-code") == HOLDS


def test_attention_that_knew_the_order_would_not_be_blind_to_it(monkeypatch):
    class Causal(checks.MultiHeadAttention):
        def forward(self, x):
            return super().forward(x, mask=torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril())

    monkeypatch.setattr(checks, "MultiHeadAttention", Causal)
    assert outcome("order-blind") == CORRECTED


def test_matrices_that_do_not_learn_are_found_out(monkeypatch):
    monkeypatch.setattr(torch.optim, "Adam", partial(torch.optim.SGD, momentum=0))
    assert outcome("learned-qkv") == CORRECTED


@pytest.mark.parametrize(
    "name, table",
    [
        ("any-length", lambda self, length: torch.zeros(length, self.d_model, dtype=torch.float64)),
        ("any-length", lambda self, length: self._make(length).roll(1, 0)),
        ("relative-linear", lambda self, length: self._make(length).square()),
        ("wavelengths", lambda self, length: self._make(length) ** 3),
    ],
)
def test_another_table_of_positions_is_found_out(monkeypatch, name, table):
    monkeypatch.setattr(checks.SinusoidalPositionalEncoding, "table", table)
    assert outcome(name) == CORRECTED


# Claims on results: each rule, from made-up tables


def runs(**settings_and_means):
    """Ten seeds around each mean; other keywords are settings of these rows."""
    (value, mean), *settings = reversed(settings_and_means.items())
    return [dict(settings) | {"seed": seed, value: mean * (1 + 0.005 * (seed - 4.5))} for seed in range(10)]


def by_heads(accuracy, focus=None, half=None, factors=(1, 8)):
    """A table of role binding, from the accuracy for each number of heads.

    half: the accuracy after half of the training, the same unless given. After less no number of heads knows a thing.
    """
    rows = []
    for steps, means in ((1000, dict.fromkeys(accuracy, 0.2)), (4000, half or accuracy), (8000, accuracy)):
        for heads, mean in {None: 0.1, **means}.items():
            for factor in factors:
                rows += runs(heads=heads, steps=steps, length_factor=factor, accuracy=mean)
    table = pd.DataFrame(rows).assign(accuracy=lambda t: t["accuracy"].clip(upper=1))
    table["focus"] = table["heads"].map(focus or {}) * (0.955 + table["seed"] / 100)
    return table


def names_by_heads(accuracy, half=None, test=None):
    """A table of languages: as `by_heads`; the names for testing are as the last validation unless given."""
    validation = by_heads(accuracy, half=half).rename(columns={"steps": "checkpoint"}).assign(split="validation")
    tested = by_heads(test or accuracy).query("steps == 8000").rename(columns={"steps": "checkpoint"})
    return pd.concat([validation, tested.assign(split="test")])


def test_all_some_or_none_of_the_statements_give_three_verdicts():
    assert [all_some_none(x) for x in ([True, True], [True, False], [False, False])] == [HOLDS, DEPENDS, CORRECTED]


@pytest.mark.parametrize(
    "gru, attention, verdict",
    [((0.01, 0.2), (1, 1), HOLDS), ((0.01, 0.9), (1, 1), DEPENDS), ((0.9, 0.9), (0.1, 0.1), CORRECTED)],
)
def test_gradients_fade_before_and_after_training_or_at_one_of_them(gru, attention, verdict):
    rows = []
    for model, far in (("gru", gru), ("attention", attention)):
        for steps, mean_far in ((0, far[0]), (400, 0.5), (1600, far[1])):  # 400 is less than half of the training
            for distance in range(1, 9):
                mean = 1.0 if distance <= 4 else mean_far  # the near half does not count
                rows += runs(model=model, steps=steps, distance=distance, gradient=mean)
    assert outcome("rnn-sequential", pd.DataFrame(rows)) == verdict


@pytest.mark.parametrize(
    "long, verdict",
    [
        ({"gru": 37.8, "gru_attention": 50, "transformer": 57}, HOLDS),  # of 60: falls of 37, 17 and 5 %
        ({"gru": 10, "gru_attention": 50, "transformer": 57}, DEPENDS),
        ({"gru": 10, "gru_attention": 50, "transformer": 40}, DEPENDS),
        ({"gru": 50, "gru_attention": 50, "transformer": 10}, CORRECTED),
    ],
)
def test_long_sentences_hold_where_numbers_and_order_are_the_documents(long, verdict):
    table = by_bucket(long)
    both = pd.concat([table.assign(at="equal steps", steps=2000), table.assign(at="plateau", steps=4000)])
    assert outcome("long-sentences", both) == verdict


def test_a_fall_that_more_training_takes_away_depends():
    early, late = (
        by_bucket({"gru": 37.8, "gru_attention": 50, "transformer": 57}),
        by_bucket({"gru": 60, "gru_attention": 60, "transformer": 60}),
    )
    both = pd.concat([early.assign(at="equal steps", steps=2000), late.assign(at="plateau", steps=4000)])
    assert outcome("long-sentences", both) == DEPENDS


def by_bucket(long):
    """A table of translations, from the mean BLEU of each model above 30 words; that of the others is 60."""
    rows = []
    for model, bleu in long.items():
        for bucket, mean in (("2-10", 70), ("21-30", 50), ("31-45", bleu)):
            rows += runs(model=model, bucket=bucket, bleu=mean)
            if bucket != "31-45":  # the spread is in the long ones
                for row in rows[-10:]:
                    row["bleu"] = mean
    return pd.DataFrame(rows)


def by_relation(hits, heads=("1-1", "2-2", "3-3", "4-4")):
    """A table of head probes: ten splits, from the hits (of 32) and the head of each relation. The offset has 8."""
    rows = []
    for relation, found, head in zip(LEDGER["head-roles"]["document"]["relations"].values(), hits, heads, strict=True):
        layer, number = head.split("-")
        p = 0.01 if found > 15 else 0.9
        rows += runs(relation=relation, layer=layer, head=number, reported=32, offset_hits=8, p_offset=p, hits=found)
    return pd.DataFrame(rows)


FOUND, NOT_FOUND = by_relation([30] * 4), by_relation([9] * 4, ["4-2"] * 4)
FOCUSED, UNFOCUSED = {1: 0.12, 2: 0.9, 8: 0.9}, {1: 0.9, 2: 0.2, 8: 0.3}


@pytest.mark.parametrize(
    "focus, probes, verdict",
    [
        (FOCUSED, FOUND, HOLDS),
        ({1: 0.12, 2: 0.2, 8: 0.9}, FOUND, DEPENDS),
        (UNFOCUSED, NOT_FOUND, CORRECTED),
        (FOCUSED, by_relation([9, 30, 30, 30]), DEPENDS),
        (
            FOCUSED,
            FOUND.assign(p_offset=lambda table: 0.01 + 0.05 * (table["seed"] == 3)),
            DEPENDS,
        ),  # but for one split
        (UNFOCUSED, NOT_FOUND.assign(p_offset=0.01, offset_hits=20), CORRECTED),  # clearly below
        (FOCUSED, by_relation([30] * 4, ["1-1", "2-2", "2-2", "4-4"]), DEPENDS),  # one head for two
        (UNFOCUSED, by_relation([9] * 4), DEPENDS),  # each has its own, although none finds much
    ],
)
def test_heads_have_roles_on_the_task_and_in_a_trained_model_or_at_some_of_them(focus, probes, verdict):
    assert outcome("head-roles", by_heads(dict.fromkeys(focus, 0.9), focus), probes) == verdict


def test_heads_that_share_out_the_roles_for_a_while_only_depend():
    table = by_heads(dict.fromkeys(FOCUSED, 0.9), FOCUSED)
    table.loc[table["steps"] == 4000, "focus"] /= 3
    assert outcome("head-roles", table, FOUND) == DEPENDS


def test_relations_that_the_document_does_not_name_do_not_count():
    more = pd.concat([FOUND, NOT_FOUND.assign(relation="verb_object")])
    assert outcome("head-roles", by_heads(dict.fromkeys(FOCUSED, 0.9), FOCUSED), more) == HOLDS


@pytest.mark.parametrize("name, points", [("text-classification", 4.2), ("accuracy", 4.4), ("long-accuracy", 11.7)])
def test_a_gain_holds_where_both_tasks_have_the_documents(name, points):
    same, gains, loses = ({1: 0.8, 8: 0.8 + gain / 100} for gain in (0, points, -20))
    assert outcome(name, names_by_heads(gains), by_heads(gains)) == HOLDS
    assert outcome(name, names_by_heads(gains), by_heads(same)) == DEPENDS
    assert outcome(name, names_by_heads(same), by_heads(loses)) == CORRECTED
    far_more = {1: 0.4, 8: 0.8}
    assert outcome(name, names_by_heads(far_more), by_heads(far_more)) == DEPENDS  # a gain, and not the document's


@pytest.mark.parametrize("name, points", [("text-classification", 4.2), ("accuracy", 4.4), ("long-accuracy", 11.7)])
def test_a_gain_that_more_training_takes_away_depends(name, points):
    same, gains = {1: 0.8, 8: 0.8}, {1: 0.8, 8: 0.8 + points / 100}
    for languages, roles in (
        (names_by_heads(gains), by_heads(same, half=gains)),
        (names_by_heads(gains, half=same), by_heads(gains)),
        (names_by_heads(gains, test=same), by_heads(gains)),
    ):
        assert outcome(name, languages, roles) == DEPENDS


def test_accuracy_on_long_inputs_is_that_of_the_longest():
    roles, languages = (
        table.assign(accuracy=lambda t: t["accuracy"].where(t["length_factor"] == 1, 0.5))
        for table in (by_heads({1: 0.8, 8: 0.8}), names_by_heads({1: 0.8, 8: 0.8}))
    )
    measured, _ = checks_of_results.check_long_accuracy(LEDGER["long-accuracy"]["document"], languages, roles)
    assert measured.count("50.0 to 50.0 %") == 3  # names, and roles after half of the training and all of it


@pytest.mark.parametrize(
    "languages, roles, published, verdict",
    [
        ({1: 0.5, 4: 0.8, 8: 0.8, 16: 0.6}, {1: 0.5, 4: 0.8, 8: 0.8, 16: 0.8}, {"4": 25.8, "8": 25.8}, HOLDS),
        ({1: 0.5, 4: 0.7, 8: 0.8, 16: 0.6}, {1: 0.5, 4: 0.8, 8: 0.8, 16: 0.8}, {"4": 25.8, "8": 25.8}, DEPENDS),
        ({1: 0.5, 4: 0.7, 8: 0.8, 16: 0.9}, {1: 0.9, 4: 0.8, 8: 0.8, 16: 0.7}, {"4": 25, "8": 25, "16": 26}, CORRECTED),
    ],
)
def test_four_and_eight_heads_are_among_the_best_everywhere_somewhere_or_nowhere(languages, roles, published, verdict):
    found = outcome("four-to-eight", names_by_heads(languages), by_heads(roles), published_bleu=published)
    assert found == verdict


def test_four_and_eight_heads_that_are_best_for_a_while_only_depend():
    best, published = {1: 0.5, 4: 0.8, 8: 0.8, 16: 0.6}, {"4": 25.8, "8": 25.8}
    overtaken = by_heads(best | {16: 0.95}, half=best)
    assert outcome("four-to-eight", names_by_heads(best), overtaken, published_bleu=published) == DEPENDS


@pytest.mark.parametrize(
    "far, verdict",
    [
        ({"sinusoidal": 0.2, "rotary": 0.2, "alibi": 0.2, "learned": 0.8}, HOLDS),
        ({"sinusoidal": 0.2, "rotary": 0.2, "alibi": 0.9, "learned": 0.1}, DEPENDS),
        ({"sinusoidal": 0.9, "rotary": 0.9, "alibi": 0.9, "learned": 0.1}, CORRECTED),
    ],
)
def test_codes_collapse_and_the_learned_table_is_above_them_or_not(far, verdict):
    rows = runs(encoding="learned", max_len=32, length=32, accuracy=0.99)
    rows += [row | {"length": 256, "accuracy": None} for row in rows]
    for code, mean in far.items():
        max_len = 256 if code == "learned" else None
        rows += runs(encoding=code, max_len=max_len, length=32, accuracy=0.99)
        rows += runs(encoding=code, max_len=max_len, length=256, accuracy=mean)
    table = pd.DataFrame(rows)
    assert outcome("extrapolation", pd.concat([table.assign(steps=steps) for steps in (3000, 12000)])) == verdict
    recovered = table.assign(accuracy=table["accuracy"].where(table["length"] == 32, 0.9))
    both = pd.concat([table.assign(steps=3000), recovered.assign(steps=12000)])
    assert outcome("extrapolation", both) == (CORRECTED if verdict == CORRECTED else DEPENDS)


@pytest.mark.parametrize(
    "explicit, fused, verdict",
    [(1.2, 1.2, HOLDS), (1.8, 1.2, DEPENDS), (1.8, 1.8, DEPENDS), (1.0, 0.9, CORRECTED)],
)
def test_the_speed_is_that_of_training_on_both_paths(explicit, fused, verdict):
    rows = []
    for path, ratio in (("explicit", explicit), ("fused", fused)):
        rows += runs(path=path, part="forward", ratio=1.2)
        rows += runs(path=path, part="forward and backward", ratio=ratio)
    assert outcome("speed", pd.DataFrame(rows)) == verdict


@pytest.mark.parametrize(
    "one, eight, verdict", [(0.7, 1.02, HOLDS), (1.02, 1.02, DEPENDS), (0.5, 0.7, DEPENDS), (1.02, 0.7, CORRECTED)]
)
def test_roles_are_told_apart_by_eight_heads_and_not_by_one(one, eight, verdict):
    assert outcome("srl", by_heads({1: one, 8: eight})) == verdict


def test_one_head_that_tells_the_roles_apart_after_more_training_makes_it_depend():
    assert outcome("srl", by_heads({1: 1.02, 8: 1.02}, half={1: 0.7, 8: 1.02})) == DEPENDS


# The table and the command


def test_a_table_has_the_claims_asked_for_in_the_order_of_the_ledger():
    assert [row["id"] for row in claim_rows(["output", "scores"])] == ["scores", "output"]
    assert re.findall(r"^\S+", claim_table(["output", "scores"]), re.MULTILINE) == ["id", "------", "scores", "output"]


def test_the_text_keeps_its_columns_and_its_numbers_short():
    text = claim_table()
    assert max(map(len, text.splitlines())) <= 98  # as many fit on a page of the site
    assert not re.search(r"\d\.\d{5,}", text)
    assert not any(line.endswith(" ") for line in text.splitlines())
    header, _, *lines = claim_table(["params"]).splitlines()
    words = {row["id"]: row["measured"].split() for row in claim_rows(["params"])}["params"]
    column = slice(header.index("measured"), None)
    assert " ".join(line[column] for line in lines).split() == words


def test_markdown_has_a_row_for_each_claim_and_its_reason(capsys):
    assert main(["claims", "qkv", "scores", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and {line.count(" | ") for line in lines} == {5}
    assert LEDGER["scores"]["why"] in lines[3]
    assert format_rows([{**claim_rows(["qkv"])[0], "why": "a | b"}], markdown=True).endswith(r"| a \| b |")


def test_a_missing_result_is_named_with_the_command_that_makes_it(tmp_path, capsys):
    folder = tmp_path / "notebooks" / "results"
    sentence = "notebooks/results/head_speed.json is missing; `python -m attn_core.lab head_speed` makes it"
    with pytest.raises(FileNotFoundError, match=re.escape(sentence)):
        measure(LEDGER["speed"], folder)
    (row,) = claim_rows(["speed"], folder)
    assert (row["measured"], row["verdict"]) == (sentence, "open")
    assert main(["claims", "speed", "qkv"], folder) == 1
    assert "open" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", '{"rows": [{', '{"rows": []}', "null"])
def test_a_damaged_result_is_named_and_the_other_claims_are_still_computed(tmp_path, text):
    folder = tmp_path / "notebooks" / "results"
    folder.mkdir(parents=True)
    (folder / "head_speed.json").write_text(text)
    speed, qkv = claim_rows(["qkv", "speed"], folder)[::-1]
    assert speed["measured"].startswith(
        "notebooks/results/head_speed.json is damaged, or not made by this version of its experiment; `python -m"
    )
    assert (speed["verdict"], qkv["verdict"]) == ("open", HOLDS)


def of_another(result):
    return json.loads((RESULTS / "gradients.json").read_text())


def half(result):
    return result | {"rows": result["rows"][::2][: len(result["rows"]) // 4]}


def without_a_setting(result):
    return result | {"rows": [{name: row[name] for name in row if name != "path"} for row in result["rows"]]}


def of_other_settings(result):
    return result | {"settings": result["settings"] | {"length": 4}}


@pytest.mark.parametrize("change", [of_another, half, without_a_setting, of_other_settings])
def test_a_result_that_can_be_read_and_does_not_fit_gives_no_verdict(tmp_path, change):
    folder = shutil.copytree(RESULTS, tmp_path / "notebooks" / "results")
    path = folder / "head_speed.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    speed, srl = (claim_rows([name], folder)[0] for name in ("speed", "srl"))
    assert speed["measured"].startswith("notebooks/results/head_speed.json is damaged, or not made by this version")
    assert (speed["verdict"], srl["verdict"]) == ("open", LEDGER["srl"]["verdict"])


def test_a_verdict_that_is_not_the_ledgers_is_shown_with_it(monkeypatch, capsys):
    monkeypatch.setitem(CHECKS, "check_qkv", lambda document: checks.Finding("another", DIFFERENT_CAUSE))
    assert claim_rows(["qkv"])[0]["verdict"] == "different cause (ledger: holds)"
    assert main(["claims", "qkv"]) == 1
    assert "another" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ("claims nonsense qkv", "there is no claim nonsense; there are rnn-sequential, long-sentences"),
        ("claims --html", "unrecognized arguments: --html"),
        ("claim", "invalid choice: 'claim'"),
        ("", "the following arguments are required: COMMAND"),
    ],
)
def test_misuse_of_the_command_gets_a_sentence(capsys, arguments, sentence):
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err.splitlines()[-1]


def test_ids_that_do_not_exist_or_are_no_list_get_a_sentence():
    with pytest.raises(ValueError, match="there is no claim sores; there are "):
        claim_table(["sores"])
    with pytest.raises(TypeError, match=r"ids must be a list such as \['scores'\], got 'scores'"):
        claim_table("scores")

"""Probes of a trained model's heads: the sentences, the measures on made-up attention, ablation, and the experiment."""

import re
from collections import Counter

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from attn_core.lab.experiments import head_probes
from attn_core.lab.models.bert import Encoder
from attn_core.lab.trained import ablation, pretrained, probes
from attn_core.lab.trained.probes import Looks, Probe, best_offset, looks, merge_pieces, offset_hits, parse_probe

SENTENCES = probes.probe_sentences()
ALL = [(relation, probe) for relation, of_relation in SENTENCES.items() for probe in of_relation]
FUNCTION_WORDS = """
    a an the this that these those my your his her its our their no not never every each some any both all another
    i you he she it we they me him them us who whom which what how why where when do did does is are was were be been
    has have had can could will would must should may to in on of at for from by with without under behind near into
    before after as and but or so if while until because than"""


@pytest.fixture(scope="module")
def trained():
    return pretrained.load_pretrained()


def random_encoder(layers=3, heads=4, seed=0):
    """A tiny model with a real tokenizer, all numbers random."""
    tokens = "[PAD] [UNK] [CLS] [SEP] the keys to old cabinet are rust ##y not ."
    ids = {token: number for number, token in enumerate(tokens.split())}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = {"vocab_size": len(ids), "hidden_size": 16, "num_hidden_layers": layers, "num_attention_heads": heads}
        sizes |= {"intermediate_size": 24, "max_position_embeddings": 12, "type_vocab_size": 2, "layer_norm_eps": 1e-5}
        model = Encoder(**sizes).eval().requires_grad_(False)
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return pretrained.Pretrained(model, tokenizer)


TINY_SENTENCES = ["The keys to the old cabinet are rusty.", "Not rusty.", "Keys are not old."]

# The sentences


def content(words):
    return [word for word in words if word[0].isalnum()]


def test_each_relation_has_sentences_enough_and_no_sentence_stands_twice():
    assert list(SENTENCES) == list(probes.RELATIONS)
    assert all(len(of_relation) == 64 for of_relation in SENTENCES.values())
    texts = [probe.text.lower() for _, probe in ALL]
    assert len(set(texts)) == len(texts)


def test_sentences_are_plain_and_between_6_and_20_words_long():
    for _, probe in ALL:
        assert 6 <= len(content(probe.words)) <= 20, probe.text
        assert re.fullmatch(r"[A-Z][A-Za-z ,']+[.?]", probe.text)


@pytest.mark.parametrize("relation", SENTENCES)
def test_no_offset_answers_more_than_a_third_of_a_relation(relation):
    for turned in (False, True):
        of_relation = [probe.turned() if turned else probe for probe in SENTENCES[relation]]
        assert offset_hits(of_relation, best_offset(of_relation)).double().mean() < 1 / 3


@pytest.mark.parametrize("relation", [name for name in SENTENCES if name != "determiner_noun"])
def test_the_target_stands_on_both_sides_where_english_allows_it(relation):
    right = sum(probe.offset > 0 for probe in SENTENCES[relation])
    assert min(right, 64 - right) >= 8


@pytest.mark.parametrize("relation", SENTENCES)
def test_no_pair_of_words_stands_twice(relation):
    pairs = Counter(
        (probe.words[probe.looker].lower(), probe.words[probe.target].lower()) for probe in SENTENCES[relation]
    )
    assert pairs.most_common(1)[0][1] == 1


@pytest.mark.parametrize("relation", SENTENCES)
def test_no_template_is_filled_in_more_than_three_times(relation):
    def template(probe):
        words = [word.lower() for word in probe.words]
        marked = {probe.looker: "LOOKER", probe.target: "TARGET"}
        kept = [marked.get(i, word if word in FUNCTION_WORDS.split() else "_") for i, word in enumerate(words)]
        return re.sub(r"_( _)+", "_", " ".join(kept))  # how many words of content stand together does not matter

    assert Counter(map(template, SENTENCES[relation])).most_common(1)[0][1] <= 3


@pytest.mark.parametrize(
    "relation, lookers",
    [
        ("pronoun_antecedent", "he she it they him her them his its their himself herself itself themselves"),
        ("negation", "not never no"),
        ("determiner_noun", "the a an this that these those every each some any both another"),
    ],
)
def test_the_word_that_looks_is_of_its_kind_and_each_kind_is_there(relation, lookers):
    assert {probe.words[probe.looker].lower() for probe in SENTENCES[relation]} == set(lookers.split())


def is_plural(noun):
    return noun in {"men", "women", "people", "children"} or noun.endswith("s") and noun != "bus"


def test_subject_and_verb_agree_and_a_noun_of_the_other_number_stands_between():
    plural = []
    for probe in SENTENCES["subject_verb"]:
        verb, subject, attractor = (probe.words[i].lower() for i in (probe.looker, probe.target, probe.attractor))
        plural.append(verb in {"are", "were", "have", "do"} or not verb.endswith("s"))
        plural[-1] &= verb not in {"is", "was", "has", "does"}
        assert is_plural(subject) == plural[-1] != is_plural(attractor), probe.text
        assert min(probe.looker, probe.target) < probe.attractor < max(probe.looker, probe.target)
    assert sum(plural) == 32
    assert all(probe.attractor is None for relation, probe in ALL if relation != "subject_verb")


def test_the_model_finds_the_same_words_and_the_marked_ones_in_at_most_three_pieces(trained):
    for _, probe in ALL:
        encoding = trained.tokenizer.encode(probe.text)
        pieces = Counter(word for word in encoding.word_ids if word is not None)
        assert len(pieces) == len(probe.words), probe.text
        assert pieces[probe.looker] <= 3 and pieces[probe.target] <= 3
        assert "[UNK]" not in encoding.tokens


def test_marks_are_read_and_taken_out():
    probe = parse_probe("Two, no: the <king>'s [keys] {are} lost.")
    words = ("Two", ",", "no", ":", "the", "king", "'", "s", "keys", "are", "lost", ".")
    assert probe == Probe("Two, no: the king's keys are lost.", words, looker=9, target=8, attractor=5)
    assert (probe.offset, probe.turned().offset, probe.turned().turned()) == (-1, 1, probe)


@pytest.mark.parametrize(
    "marked", ["The [keys] are lost.", "The [keys] {are} {lost}.", "The [old keys] {are} lost.", "The [] {are} lost."]
)
def test_a_mark_that_is_missing_twice_there_or_not_around_one_word_gets_a_sentence(marked):
    with pytest.raises(ValueError, match=r"must stand once in a sentence, around one word, got 'The \["):
        parse_probe(marked)


# From tokens to words


def test_merging_pieces_is_what_a_loop_over_words_gives():
    words = [None, 0, 0, 0, 1, 2, 2, None]
    weights = torch.rand(2, 3, 11, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)  # 3 of padding
    merged = merge_pieces(weights, words)
    assert merged.shape == (2, 3, 3, 3)
    for looker in range(3):
        for target in range(3):
            total = 0
            from_pieces = [i for i, word in enumerate(words) if word == looker]
            for i in from_pieces:
                for j, word in enumerate(words):
                    if word == target:
                        total = total + weights[:, :, i, j]
            torch.testing.assert_close(merged[:, :, looker, target], total / len(from_pieces))


def test_special_tokens_and_padding_take_no_part():
    weights = torch.full((1, 1, 5, 5), 0.05)
    weights[..., 0] = weights[..., 3] = 0.4  # [CLS] and [SEP] draw most of it; the last is padding
    merged = merge_pieces(weights, [None, 0, 1, None])
    torch.testing.assert_close(merged, torch.full((1, 1, 2, 2), 0.05))


def test_words_and_their_weights_come_from_a_reading():
    reading = random_encoder().read(TINY_SENTENCES)
    found = probes.word_weights(reading)
    assert [tuple(one.shape) for one in found] == [(3, 4, count, count) for count in (9, 3, 5)]
    ids = reading.words[0]
    special = reading.weights[0][..., [i for i, word in enumerate(ids) if word is None]].sum(-1)
    once = [i for i, word in enumerate(ids) if word is not None and ids.count(word) == 1]
    rows = found[0].sum(-1)[..., [ids[i] for i in once]]
    torch.testing.assert_close(rows, 1 - special[..., once])  # what special tokens leave


def test_a_tokenizer_that_finds_other_words_gets_a_sentence():
    with pytest.raises(ValueError, match=r"the model finds 4 words, not 3, in 'Keys-old\.'"):
        probes.probe_weights(random_encoder(), [Probe("Keys-old.", ("Keys-", "old", "."), 0, 1)])


# Measures on attention made by hand


def made(rule, of_relation):
    """For each probe (1, 1, W, W): every word puts 0.7 on the word that the rule names, the rest is shared about alike.

    Where there is no such word it looks at one that no probe asks for.
    """
    generator, found = torch.Generator().manual_seed(0), []
    for probe in of_relation:
        count = len(probe.words)
        weights = 0.3 / count + 1e-6 * torch.rand(count, count, generator=generator)
        for looker in range(count):
            target = rule(probe, looker)
            weights[looker, target if target in range(count) else another(probe)] += 0.7
        found.append(weights[None, None])
    return found


def another(probe):
    """The first word that has no part in the probe."""
    return next(i for i in range(len(probe.words)) if i not in probe[2:])


@pytest.mark.parametrize("relation", SENTENCES)
def test_a_head_that_always_looks_at_one_offset_is_the_baseline(relation):
    of_relation = SENTENCES[relation]
    for offset in {probe.offset for probe in of_relation} | {-1, 1}:
        found = looks(made(lambda probe, looker, offset=offset: looker + offset, of_relation), of_relation)
        assert torch.equal(found.hits[:, 0, 0], offset_hits(of_relation, offset))


@pytest.mark.parametrize("relation", SENTENCES)
def test_a_head_that_knows_the_relation_hits_always_and_from_that_word_alone(relation):
    def partner(probe, looker):
        return probe.target if looker == probe.looker else another(probe)

    of_relation = SENTENCES[relation]
    weights, turned = made(partner, of_relation), [probe.turned() for probe in of_relation]
    found = looks(weights, of_relation)
    assert found.hits.all() and not found.attractor.any() and not found.popular.any()
    expected = torch.tensor([0.7 + 0.3 / len(probe.words) for probe in of_relation])
    torch.testing.assert_close(found.weight[:, 0, 0], expected, atol=1e-5, rtol=0)
    # The other direction, or columns taken for rows, would be another result.
    across = [one.transpose(-1, -2) for one in weights]
    assert not looks(weights, turned).hits.any()
    assert looks(across, of_relation).hits.double().mean() < 0.3
    assert looks(across, turned).hits.double().mean() > 0.9


def test_a_head_that_looks_at_the_attractor_is_caught():
    of_relation = SENTENCES["subject_verb"]
    found = looks(made(lambda probe, looker: probe.attractor, of_relation), of_relation)
    assert found.attractor.all() and not found.hits.any()


def test_a_uniform_head_hits_one_in_as_many_words_as_there_are_others():
    generator = torch.Generator().manual_seed(0)
    probe = parse_probe("The [keys] to the cabinet {are} lost.")
    weights = [1 + 1e-3 * torch.rand(40, 50, 8, 8, generator=generator)]  # 2000 heads that look anywhere
    assert probes.uniform_share([probe]) == 1 / 7
    assert looks(weights, [probe]).hits.double().mean().item() == pytest.approx(1 / 7, abs=0.03)
    two = [probe, parse_probe("[Keys] {are} lost.")]
    assert probes.uniform_share(two) == pytest.approx((1 / 7 + 1 / 3) / 2)


def test_a_word_that_every_word_looks_at_is_popular():
    of_relation = SENTENCES["pronoun_antecedent"]
    found = looks(made(lambda probe, looker: probe.target, of_relation), of_relation)
    assert found.hits.all() and found.popular.all()
    # Also where they look even more at the word that looks: it is no answer.
    weights = torch.tensor([[[[0, 0.1, 0.8, 0.1], [0.2, 0, 0.8, 0], [0, 1, 0, 0], [0.1, 0.05, 0.8, 0.05]]]])
    assert looks([weights], [parse_probe("[Keys] that {are} old")]).popular.item()


def test_looking_at_itself_is_no_answer_and_makes_no_word_popular():
    probe = parse_probe("[Keys] that {are} old.")
    weights = torch.tensor([[[[0.9, 0.1, 0, 0], [0.1, 0.7, 0, 0.2], [0.3, 0, 0.6, 0.1], [0.1, 0.1, 0.1, 0.7]]]])
    found = looks([weights], [probe])
    assert found.hits.item() and found.weight.item() == pytest.approx(0.3)
    # Without the diagonal, and without the looker's own row, the words get 0.2, 0.2, - and 0.2 from the others.
    weights[0, 0, 1] = torch.tensor([0.1, 0.5, 0, 0.4])
    assert not looks([weights], [probe]).popular.item()


def test_the_best_offset_is_the_most_frequent_and_the_nearest_of_several():
    def at(*offsets):
        return [Probe("", (), 0, offset) for offset in offsets]

    assert best_offset(at(5, 5, 1, -2)) == 5
    assert best_offset(at(5, 5, -3, -3, 1)) == -3
    assert best_offset(at(2, 2, -3, -3)) == 2
    assert best_offset(at(3, -3)) == -3
    assert offset_hits(at(5, 5, 1), 5).tolist() == [True, True, False]


def test_heads_are_compared_with_the_offset_in_both_directions_and_all_at_once():
    by_offset = torch.arange(40) < 10
    hits = torch.zeros(40, 2, 3, dtype=torch.bool)
    hits[:, 0, 0] = by_offset
    hits[:, 0, 1] = True
    hits[:18, 1, 2] = True  # 8 more: p is 2 / 2^8, and twice that as the last but one of six tests
    p, above = probes.against_offset(hits, by_offset)
    assert above.tolist() == [[False, True, False], [False, False, True]]
    assert p[0, 0] == 1 and p[1, 2] == pytest.approx(4 * 2**-8)
    assert p[1, 1] < 0.05 and not above[1, 1]  # clearly below


def test_tables_of_the_trained_model_are_those_of_its_own_weights(trained):
    table = probes.head_scores(trained)
    assert len(table) == 6 * 72 and not table.drop(columns="attractor").isna().any(axis=None)
    assert table.groupby("relation")[["layer", "head"]].max().to_numpy().tolist() == [[6, 12]] * 6
    assert table["attractor"].notna().sum() == 72
    assert ((table["low"] < table["hits"] + 1e-12) & (table["hits"] < table["high"] + 1e-12)).all()
    # A row by hand: layer 4, head 2, on negation.
    reading_of = [trained.read(probe.text) for probe in SENTENCES["negation"]]
    hits = 0
    for reading, probe in zip(reading_of, SENTENCES["negation"], strict=True):
        words, row = reading.words[0], {}
        for i, one in enumerate(words):
            for j, other in enumerate(words):
                if one == probe.looker and other not in (None, one):
                    row[other] = row.get(other, 0) + reading.weights[0, 3, 1, i, j].item()
        hits += max(row, key=row.get) == probe.target
    row = table.query("relation == 'negation' and layer == 4 and head == 2").iloc[0]
    assert row["hits"] == hits / 64
    turned = probes.head_scores(trained, turned=True)
    assert (turned["offset"] == -table["offset"]).all() and not (turned["hits"] == table["hits"]).all()


def test_the_head_that_follows_position_is_found(trained, monkeypatch):
    monkeypatch.setattr(probes, "probe_sentences", lambda: {"negation": SENTENCES["negation"][:8]})
    table = probes.position_scores(trained).set_index(["layer", "head", "offset"])
    assert len(table) == 72 * 3
    assert table.loc[1, 3, -1]["share"] > 0.95 and table.loc[1, 3, -1]["weight"] > 0.95
    assert table.loc[1, 3, 1]["share"] == 0 and table.loc[1, 3, 0]["share"] < 0.2  # the first word has none before it
    weights = probes.probe_weights(trained, SENTENCES["negation"][:8])
    on_next = [
        (one[4, 4, i].argmax() == i + 1, one[4, 4, i, i + 1]) for one in weights for i in range(one.size(-1) - 1)
    ]
    assert table.loc[5, 5, 1].tolist() == pytest.approx(np.mean(on_next, axis=0))


# Switching heads off


def embedding_with_output_zeroed(tiny, layer, head, sentences):
    """The same by another way: what this head hands to out_proj is zero."""
    attention = tiny.model.layers[layer - 1].attention

    def zeroed(module, inputs):
        x = inputs[0].clone()
        x[..., (head - 1) * attention.head_dim : head * attention.head_dim] = 0
        return (x,)

    hook = attention.out_proj.register_forward_pre_hook(zeroed)
    try:
        return tiny.embed(sentences)
    finally:
        hook.remove()


@pytest.mark.parametrize("layer, head", [(1, 1), (2, 3), (3, 4)])
def test_without_a_head_is_as_if_its_output_were_zero(layer, head):
    tiny = random_encoder()
    expected = embedding_with_output_zeroed(tiny, layer, head, TINY_SENTENCES)
    with ablation.without_head(tiny, layer, head):
        found = tiny.embed(TINY_SENTENCES)
    torch.testing.assert_close(found, expected)
    assert (found - tiny.embed(TINY_SENTENCES)).abs().max() > 1e-3


def test_the_weights_come_back_bit_by_bit_even_after_an_error():
    tiny = random_encoder()
    before = {name: tensor.clone() for name, tensor in tiny.model.state_dict().items()}
    with pytest.raises(KeyError), ablation.without_head(tiny, 2, 1):
        weight = tiny.model.layers[1].attention.out_proj.weight
        assert not weight[:, :4].any() and torch.equal(
            weight[:, 4:], before["layers.1.attention.out_proj.weight"][:, 4:]
        )
        raise KeyError
    ablation.embedding_shifts(tiny, TINY_SENTENCES)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny.model.state_dict().items())


@pytest.mark.parametrize("layer, head", [(0, 1), (4, 1), (1, 0), (1, 5), (-1, -1)])
def test_a_head_that_is_not_there_gets_a_sentence(layer, head):
    sentence = f"layers go from 1 to 3 and heads from 1 to 4, got {layer} and {head}"
    with pytest.raises(ValueError, match=sentence), ablation.without_head(random_encoder(), layer, head):
        pass


def test_shifts_are_those_of_the_embeddings_without_each_head():
    tiny = random_encoder()
    shifts = ablation.embedding_shifts(tiny, TINY_SENTENCES)
    assert shifts.shape == (3, 3, 4)
    for layer in range(1, 4):
        for head in range(1, 5):
            without = embedding_with_output_zeroed(tiny, layer, head, TINY_SENTENCES)
            expected = 1 - (without * tiny.embed(TINY_SENTENCES)).sum(-1)
            torch.testing.assert_close(shifts[:, layer - 1, head - 1], expected, atol=1e-6, rtol=0)


def test_a_head_that_brings_nothing_moves_nothing():
    tiny = random_encoder()
    tiny.model.layers[1].attention.out_proj.weight[:, 8:12] = 0
    shifts = ablation.embedding_shifts(tiny, TINY_SENTENCES)
    assert shifts[:, 1, 2].abs().max() < 1e-6 and (shifts.sum(0) < 1e-6).sum() == 1


# The experiment


@pytest.mark.parametrize("relation", SENTENCES)
def test_halves_share_nothing_leave_nothing_out_and_have_the_same_offsets(relation):
    of_relation = SENTENCES[relation]
    first, second = head_probes.halves(of_relation, seed=3)
    assert len(first) == len(second) == 32 and sorted(first + second) == list(range(64))
    counts = [Counter(of_relation[number].offset for number in half) for half in (first, second)]
    assert all(abs(counts[0][offset] - counts[1][offset]) <= 1 for offset in counts[0] | counts[1])
    assert head_probes.halves(of_relation, seed=3) == (first, second)


def test_another_seed_gives_other_halves_and_each_sentence_stands_in_both_over_time():
    splits = [set(head_probes.halves(SENTENCES["negation"], seed)[0]) for seed in range(40)]
    assert len(set(map(frozenset, splits))) == 40
    times = Counter(number for split in splits for number in split)
    assert all(5 < times[number] < 35 for number in range(64))


def of_heads(hits, weight=None):
    """Looks of two layers with two heads, from hits (S, 2, 2)."""
    hits = torch.tensor(hits, dtype=torch.bool)
    nothing = torch.zeros_like(hits)
    weight = torch.zeros(hits.shape) if weight is None else torch.tensor(weight)
    return Looks(hits, weight, nothing, nothing)


def test_the_head_with_most_hits_is_chosen_and_of_several_the_one_with_more_weight():
    hits = [[[1, 0], [1, 1]], [[0, 0], [1, 1]]]
    assert head_probes.chosen_head(of_heads(hits)) == (1, 0)
    weight = [[[0.9, 0.9], [0.1, 0.2]], [[1.0, 1.0], [0.1, 0.2]]]
    assert head_probes.chosen_head(of_heads(hits, weight)) == (1, 1)


def test_a_head_is_reported_on_sentences_that_it_was_not_chosen_on(monkeypatch):
    """One head knows the choosing half by heart and is wrong on the other, the other head the other way round."""
    of_relation = SENTENCES["negation"]
    first, second = head_probes.halves(of_relation, seed=0)
    hits = torch.zeros(64, 1, 2, dtype=torch.bool)
    hits[first, 0, 0] = hits[second, 0, 1] = True
    found = Looks(hits, hits.float(), ~hits, torch.zeros_like(hits))
    monkeypatch.setattr(head_probes, "load_pretrained", lambda: None)
    monkeypatch.setattr(head_probes, "probe_weights", lambda model, of_relation: None)
    monkeypatch.setattr(head_probes, "looks", lambda weights, of_relation: found)
    monkeypatch.setattr(head_probes, "embedding_shifts", lambda model, texts: torch.rand(len(texts), 1, 2))
    monkeypatch.setattr(head_probes, "shift_of", lambda *arguments: {})
    (row,) = head_probes.run("negation", 1, 1)
    assert (row["layer"], row["head"], row["hits"], row["weight"], row["reported"]) == (1, 1, 0, 0, 32)
    assert row["popular_hits"] == 32 and row["p_popular"] == pytest.approx(2 * 2**-32, rel=1e-2)
    assert row["offset"] == best_offset([of_relation[number] for number in first])
    assert row["offset_hits"] == sum(of_relation[number].offset == row["offset"] for number in second)
    assert row["heads_above"] == 1  # the one that was not chosen


def test_the_rank_of_a_shift_is_among_all_heads_and_among_those_of_the_layer():
    shifts = torch.tensor([[0.5, 0.1, 0.2], [0.3, 0.9, 0.4]])
    row = head_probes.shift_of((1, 2), shifts, share=shifts)
    assert (row["rank"], row["layer_rank"], row["shift"], row["rank_correlation"]) == (3, 2, 0.4, 1)
    assert head_probes.shift_of((0, 0), shifts, share=-shifts)["rank_correlation"] == -1
    # That a layer as a whole has more of both does not count.
    more = torch.tensor([[0.0], [10.0]])
    assert head_probes.shift_of((0, 0), more + shifts, share=more - shifts)["rank_correlation"] == -1


def test_a_quick_run_of_the_experiment_has_a_row_for_each_split():
    (full,), (quick,) = (head_probes.configurations(2, quick)[3:4] for quick in (False, True))
    assert quick == full | {"every": 4} and full["relation"] == "negation"
    rows = head_probes.run(**quick)
    assert [row["seed"] for row in rows] == [0, 1]
    for row in rows:
        assert row["reported"] == 8 and 1 <= row["rank"] <= 72 and 1 <= row["layer_rank"] <= 12
        assert row["low"] <= row["hits"] / 8 <= row["high"]
        assert row["attractor_hits"] is None


def test_without_a_model_the_experiment_says_what_to_do(monkeypatch):
    monkeypatch.setattr(pretrained, "_of_package", lambda name: None)
    monkeypatch.setattr(pretrained, "_of_hub", lambda repository, download: None)
    with pytest.raises(FileNotFoundError, match="here is no trained model here: install .* with `pip install"):
        head_probes.run("negation", 4, 2)

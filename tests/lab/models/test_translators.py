"""The three translators: padding, no look-ahead, the bottleneck, greedy decoding, alignments, and learning."""

from types import SimpleNamespace

import pytest
import torch

from attn_core.lab.experiments.translation import SETTINGS, new_translator
from attn_core.lab.models.translators import Decoded, GRUTranslator, TransformerTranslator, alignment, greedy
from attn_core.lab.tasks.number_words import BEGIN, END, PAD, TARGET_CHARACTERS, NumberTranslation, decode_characters
from attn_core.lab.training import train

MODELS = [*SETTINGS["models"]]
WITH_ATTENTION = ["gru_attention", "transformer"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def translator(model, seed=0):
    torch.manual_seed(seed)
    return new_translator(model)


def sentences(count=6, words=(2, 12)):
    return NumberTranslation().sample(count, generator(), words)


@pytest.mark.parametrize("model", MODELS)
def test_logits_have_a_row_per_character_and_a_column_per_class(model):
    (source, target_in), _ = sentences()
    logits = translator(model)(source, target_in)
    assert logits.shape == (*target_in.shape, len(TARGET_CHARACTERS))
    assert logits.isfinite().all()


@pytest.mark.parametrize("model", MODELS)
def test_sentence_gets_the_same_logits_alone_and_filled_up_beside_longer_ones(model):
    ours = translator(model)
    (source, target_in), _ = sentences(8)
    together = ours(source, target_in)
    assert len(set((source != PAD).sum(1).tolist())) > 3
    for row, characters, expected in zip(source, target_in, together, strict=True):
        alone = ours(row[row != PAD][None], characters[None])[0]
        assert torch.allclose(alone, expected, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_character_changes_no_logits_before_its_own_place(model):
    ours = translator(model)
    (source, target_in), _ = sentences()
    before = ours(source, target_in)
    changed = target_in.clone()
    changed[:, 3] = (changed[:, 3] + 1) % len(TARGET_CHARACTERS)
    after = ours(source, changed)
    assert torch.allclose(after[:, :3], before[:, :3], atol=1e-6)
    assert ((after[:, 3] - before[:, 3]).abs().amax(-1) > 1e-4).all()


@pytest.mark.parametrize("model", MODELS)
def test_only_the_gru_without_attention_gets_nothing_but_the_end(model):
    ours = translator(model)
    (source, target_in), _ = sentences()
    memory = ours.encode(source)
    forgetful = memory._replace(states=torch.zeros_like(memory.states))
    full, poor = (ours.decode(which, target_in).logits for which in (memory, forgetful))
    assert torch.allclose(full, poor, atol=1e-6) == (model == "gru")


@pytest.mark.parametrize("place", [0, 7])
def test_end_of_the_gru_depends_on_the_first_word_and_on_the_last(place):
    ours = translator("gru")
    (source, _), _ = sentences(words=(8, 8))
    changed = source.clone()
    changed[:, place] = changed[:, place] % 30 + 1
    assert ((ours.encode(changed).end - ours.encode(source).end).abs().amax(1) > 1e-4).all()


def test_odd_width_is_refused():
    with pytest.raises(ValueError, match="width must be even, half of it for each direction, got 15"):
        GRUTranslator(11, 7, width=15, attention=True)


@pytest.mark.parametrize("model", MODELS)
def test_greedy_answers_are_the_likeliest_after_one_another(model):
    ours = translator(model)
    (source, _), _ = sentences()
    ids = greedy(ours, source, 9)
    shown = torch.cat([torch.full((len(source), 1), BEGIN), ids[:, :-1]], 1)
    likeliest = ours(source, shown).argmax(-1)
    open_still = (ids == END).cumsum(1) - (ids == END).int() == 0
    assert torch.equal(ids[open_still], likeliest[open_still])
    assert (ids[~open_still] == PAD).all()


def scripted(*texts):
    """A model that writes these ids, one row each, whatever it reads."""
    script = torch.nn.functional.one_hot(torch.tensor(texts), 9).float()
    return SimpleNamespace(encode=lambda source: None, decode=lambda _, ids: Decoded(script[:, : ids.size(1)], None))


def test_greedy_decoding_stops_when_every_sentence_has_ended_and_fills_up_behind_the_end():
    model = scripted([5, END, 7, 7, 7], [5, 6, 7, END, 7])
    assert greedy(model, torch.ones(2, 3), 5).tolist() == [[5, END, PAD, PAD], [5, 6, 7, END]]


def test_greedy_decoding_gives_up_after_max_len_characters():
    assert greedy(scripted([5, 6, 7, 8], [5, 6, END, 8]), torch.ones(2, 3), 3).tolist() == [[5, 6, 7], [5, 6, END]]


@pytest.mark.parametrize("max_len", [0, -1])
def test_translation_of_no_characters_is_refused(max_len):
    with pytest.raises(ValueError, match=f"max_len must be at least 1, got {max_len}"):
        greedy(translator("gru"), torch.ones(1, 3, dtype=torch.int64), max_len)


@pytest.mark.parametrize("model", WITH_ATTENTION)
def test_alignment_shares_out_one_look_per_character_among_the_words(model):
    (source, _), targets = sentences(1, words=(7, 7))
    weights = alignment(translator(model), source[0], targets[0])
    assert weights.shape == (targets.size(1), 7)
    assert torch.allclose(weights.sum(1), torch.ones(len(weights)), atol=1e-5)
    assert (weights >= 0).all() and not weights.requires_grad


@pytest.mark.parametrize("model", WITH_ATTENTION)
def test_nobody_looks_at_the_padding(model):
    (source, target_in), _ = sentences()
    ours = translator(model)
    weights = ours.decode(ours.encode(source), target_in, need_weights=True).weights
    padding = (source == PAD)[:, None].expand_as(weights)
    assert padding.any() and (weights[padding] == 0).all()


def test_model_without_attention_has_no_alignment():
    (source, _), targets = sentences(1)
    with pytest.raises(ValueError, match="must have attention to be aligned, and this GRUTranslator has none"):
        alignment(translator("gru"), source[0], targets[0])


def test_alignment_is_of_one_sentence():
    (source, _), targets = sentences(2)
    with pytest.raises(ValueError, match=r"one row of ids each, got shapes \(2, \d+\) and \(2, \d+\)"):
        alignment(translator("transformer"), source, targets)


@pytest.mark.parametrize("model", MODELS)
def test_sentence_without_a_word_is_refused(model):
    source = torch.tensor([[4, 5, PAD], [PAD, PAD, PAD]])
    with pytest.raises(ValueError, match="each sentence needs at least one word, got only padding in row 1"):
        translator(model)(source, torch.full((2, 1), BEGIN))


@pytest.mark.parametrize("wrong", [torch.ones(3, dtype=torch.int64), torch.ones(2, 3)])
def test_source_that_is_no_batch_of_ids_is_refused(wrong):
    for model in MODELS:
        with pytest.raises(ValueError, match="source must be integer ids of shape"):
            translator(model).encode(wrong)


@pytest.mark.parametrize(
    "ours",
    [
        GRUTranslator(11, 7, width=16, attention=True),
        TransformerTranslator(11, 7, d_model=16, num_heads=2, num_layers=1),
    ],
    ids=["gru", "transformer"],
)
def test_translators_serve_other_vocabularies(ours):
    assert ours(torch.full((2, 5), 10), torch.full((2, 4), 6)).shape == (2, 4, 7)


@pytest.mark.parametrize("model", MODELS)
def test_a_few_sentences_are_learned_by_heart(model):
    batch = sentences(8, words=(2, 6))
    ours = translator(model)
    train(ours, lambda _: batch, steps=80, learning_rate=3e-3, warmup=20)
    answers = greedy(ours, batch.inputs[0], batch.targets.size(1))
    assert [*map(decode_characters, answers)] == [*map(decode_characters, batch.targets)]

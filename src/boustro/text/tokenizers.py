"""Tokenizers: any of Hugging Face's, by name or folder, or a byte-level BPE trained here.

Ours splits text as GPT-2 does (a word includes the space before it), but keeps combining marks with their letter and
splits numbers into groups of at most three digits. Every byte is a piece, so nothing is unknown; `<|endoftext|>`
separates documents and starts every training segment.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from boustro.errors import reason
from boustro.names import JOINED, joined_lms, locate_model, source
from boustro.store import MANIFEST, read_json, refuse_pointers

PLAIN = ("TokenizersBackend", "PreTrainedTokenizerFast", "BertTokenizer", "BertTokenizerFast")
"""What transformers calls the classes that do no more than tokenizer.json says: that of ours, since and before its
version 5, and BERT's."""
# the bytes and one special piece; ids of four bytes and tables that fit a machine
LEAST_PIECES, MOST_PIECES = 257, 4_000_000
END_OF_TEXT = "<|endoftext|>"
WORD_PATTERN = r" ?[\p{L}\p{M}]+| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
TO_WORDS = pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="isolated")
LONGEST_WORD = 1000
"""Characters of a word that a training reads as one; its time grows with their square."""
PERHAPS_LONG = re.compile(rf"\S{{{LONGEST_WORD},}}|\s{{{LONGEST_WORD},}}")
CUT_TO_TRAIN = f"words of more than {LONGEST_WORD:,} characters, cut to train the tokenizer"


def train_tokenizer(documents: Iterable[str], vocab_size: int, counts: Counter[str] | None = None) -> Tokenizer:
    """Train a byte-level BPE of `vocab_size` pieces (at least 257: the bytes and the end-of-text piece).

    Very long words are cut (`cut_long_words`), and counted in `counts`.
    """
    if not LEAST_PIECES <= vocab_size <= MOST_PIECES:
        raise ValueError(f"a byte-level vocabulary has {LEAST_PIECES} to {MOST_PIECES:,} pieces, not {vocab_size:,}")
    tokenizer = Tokenizer(models.BPE())
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([TO_WORDS, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[END_OF_TEXT], **options)
    tokenizer.train_from_iterator(cut_long_words(documents, Counter() if counts is None else counts), trainer)
    return tokenizer


def cut_long_words(documents: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """Documents in which words of more than `LONGEST_WORD` characters (DNA, rows of signs) are cut, and counted.

    A document with such words is given in parts.
    """
    for document in documents:
        start = 0
        for _, (first, stop) in TO_WORDS.pre_tokenize_str(document) if PERHAPS_LONG.search(document) else ():
            if stop - first > LONGEST_WORD:
                counts[CUT_TO_TRAIN] += 1
            for cut in range(first + LONGEST_WORD, stop, LONGEST_WORD):
                yield document[start:cut]
                start = cut
        yield document[start:]


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write a tokenizer of `train_tokenizer` in the format of transformers."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END_OF_TEXT, bos_token=END_OF_TEXT, clean_up_tokenization_spaces=False
    ).save_pretrained(folder)


def load_tokenizer(name_or_path: str | Path, revision: str | None = None):
    """A transformers tokenizer that neither truncates nor pads; `starter` is that of the pair in the package.

    Raises `FileNotFoundError` if there is none at this path or of this name, `ValueError` for a pointer of Git LFS.
    """
    name = str(name_or_path)
    place = locate_model(joined_lms(name)[0] if name in JOINED else name)
    folder, file = source(place)
    try:
        tokenizer = _tokenizer_class(folder).from_pretrained(folder, revision=revision, **file)
        tokenizer("a")  # some damage is found only in use
    except ImportError:
        raise
    except Exception as error:  # a damaged file makes the libraries raise anything
        refuse_pointers(place)
        raise FileNotFoundError(
            f"{name_or_path}: no tokenizer could be loaded from this path or name; a folder needs tokenizer.json, "
            f"which save_pretrained of the tokenizer writes ({reason(error)})"
        ) from error
    if len(tokenizer) <= len(tokenizer.get_added_vocab()):  # transformers makes an empty one if there is none
        raise FileNotFoundError(f"{name_or_path}: the folder has no tokenizer; save the model's tokenizer in it")
    if tokenizer.is_fast:
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def _tokenizer_class(folder: str) -> Any:
    """Return the class that loads a tokenizer; for a plain one of ours not the one that would choose it by the model,
    and imports every config first."""
    saved, complete = Path(folder) / "tokenizer_config.json", (Path(folder) / "tokenizer.json").is_file()
    ours = (Path(folder) / MANIFEST).is_file() and saved.is_file() and complete
    if ours and read_json(saved).get("tokenizer_class") in PLAIN:
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast
    from transformers import AutoTokenizer

    return AutoTokenizer


def num_ids(tokenizer: Any) -> int:
    """The largest id + 1, how many rows its models need; more than `len(tokenizer)` where ids are left out."""
    return max(tokenizer.get_vocab().values()) + 1


def refuse_ids_beyond(num_rows: int, tokenizer: Any, model: str) -> None:
    """`ValueError` for a tokenizer with ids that a model of so many rows does not have."""
    if num_ids(tokenizer) > num_rows:
        raise ValueError(
            f"{model}: the tokenizer's ids go up to {num_ids(tokenizer) - 1:,}, and the model has only {num_rows:,} "
            "rows; the folder needs the tokenizer that the model was trained with"
        )


def end_of_text_id(tokenizer) -> int:
    """The piece that separates documents: the end-of-sequence piece, else the separator or start piece."""
    for identifier in (tokenizer.eos_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id):
        if identifier is not None:
            return identifier
    raise ValueError("the tokenizer has no end-of-sequence piece to separate documents; set its eos_token")


def with_special_pieces(path: str | Path, names: Sequence[str]) -> Any:
    """The tokenizer at `path` with these special pieces ("mask", "cls", "sep", "pad"); new ones come after all others.

    If "cls" or "sep" is new, the tokenizer frames texts with them as BERT's does. Raises `ValueError` where its ids are
    left out here and there: new pieces would be given the ids of others.
    """
    tokenizer = load_tokenizer(path)
    missing = [name for name in names if getattr(tokenizer, f"{name}_token_id") is None]
    if missing and len(tokenizer) < num_ids(tokenizer):
        raise ValueError(
            f"{path}: the tokenizer has no {' and no '.join(missing)} piece, and none can be added: it has "
            f"{len(tokenizer):,} pieces with ids up to {num_ids(tokenizer) - 1:,}, and a new piece would be given the "
            "id of another; use a tokenizer that has it, or one without holes in its ids"
        )
    if missing:
        tokenizer.add_special_tokens({f"{name}_token": f"<|{name}|>" for name in missing})
    if {"cls", "sep"} & set(missing):
        cls, sep = tokenizer.cls_token, tokenizer.sep_token
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{cls} $A {sep}",
            pair=f"{cls} $A {sep} $B:1 {sep}:1",
            special_tokens=[(cls, tokenizer.cls_token_id), (sep, tokenizer.sep_token_id)],
        )
    return tokenizer

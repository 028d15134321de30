"""Tokenizers: any of Hugging Face's, by name or folder, or a byte-level BPE trained here.

Ours splits text as GPT-2 does (a word includes the space before it), but keeps combining marks with their letter and
splits numbers into groups of at most three digits. Every byte is a piece, so nothing is unknown; `<|endoftext|>`
separates documents and starts every training segment.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from boustro.errors import reason
from boustro.names import PACKAGED, locate_model, source
from boustro.store import Artefact, ModelPlace, refuse_pointers

PLAIN = ("TokenizersBackend", "PreTrainedTokenizerFast", "BertTokenizer", "BertTokenizerFast")
"""What transformers calls the classes that do no more than tokenizer.json says: that of ours, since and before its
version 5, and BERT's."""
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")  # as there
KNOWN_SETTINGS = {
    *ROLES,
    *("backend", "clean_up_tokenization_spaces", "is_local", "local_files_only", "model_max_length", "name_or_path"),
    *(
        "tokenizer_class",
        "do_lower_case",
        "strip_accents",
        "tokenize_chinese_chars",
        "do_basic_tokenize",
        "never_split",
    ),
}
"""Settings of a plain tokenizer that change nothing of what tokenizer.json says."""
UNLIMITED = int(1e30)
# the bytes and one special piece; ids of four bytes and tables that fit a machine
LEAST_PIECES, MOST_PIECES = 257, 4_000_000
END_OF_TEXT = "<|endoftext|>"
WORD_PATTERN = r" ?[\p{L}\p{M}]+| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TO_WORDS = pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="isolated")
LONGEST_WORD = 1000
"""Characters of a word that a training reads as one; its time grows with their square."""
PERHAPS_LONG = re.compile(rf"\S{{{LONGEST_WORD},}}|\s{{{LONGEST_WORD},}}")
UNLIKE_CUT = "texts that a vocabulary cut by boustro pack --texts has in small pieces or not at all, and reads badly"
TIMES_AS_MANY, TOO_FEW_PIECES = 1.3, 8  # pieces for its letters, beside the text of the cut; of few nothing is said
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


class FolderTokenizer:
    """A tokenizer.json with what is asked of a tokenizer of transformers, which is imported for all else: that takes
    longer than the first answer of a command."""

    is_fast = True

    def __init__(self, folder: Artefact, backend: Tokenizer, settings: Mapping[str, Any]) -> None:
        """`settings` are those of tokenizer_config.json."""
        self.name_or_path, self.backend_tokenizer = str(folder), backend
        self.model_max_length = settings.get("model_max_length", UNLIMITED)
        roles = {role: settings.get(role) for role in ROLES}
        ids = {f"{role}_id": None if piece is None else backend.token_to_id(piece) for role, piece in roles.items()}
        vars(self).update(roles | ids)
        self.all_special_tokens = list(dict.fromkeys(piece for piece in roles.values() if piece is not None))
        self.all_special_ids = [*map(backend.token_to_id, self.all_special_tokens)]

    def __call__(
        self,
        texts: str | list[str],
        *,
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        truncation: bool = False,
        max_length: int = 0,
        verbose: bool = True,
    ) -> dict[str, Any]:
        """Return the piece ids of a text, or of each."""
        backend, given = self.backend_tokenizer, [texts] if isinstance(texts, str) else texts
        backend.encode_special_tokens = split_special_tokens
        if truncation:
            backend.enable_truncation(max_length)
        read = [one.ids for one in backend.encode_batch_fast(given, add_special_tokens=add_special_tokens)]
        backend.no_truncation()
        return {"input_ids": read[0] if isinstance(texts, str) else read}

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size()

    def get_vocab(self) -> dict[str, int]:
        """Piece → id."""
        return self.backend_tokenizer.get_vocab()

    def get_added_vocab(self) -> dict[str, int]:
        """Piece → id, of those that were added to what was learned."""
        return {piece.content: number for number, piece in self.backend_tokenizer.get_added_tokens_decoder().items()}

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """Return the piece of an id, or those of ids."""
        piece = self.backend_tokenizer.id_to_token
        return piece(ids) if isinstance(ids, int) else [*map(piece, ids)]

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        return self.convert_ids_to_tokens(self(text, add_special_tokens=False)["input_ids"])

    @cached_property
    def whole(self) -> Any:
        """That of transformers, over the same pieces."""
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast.from_pretrained(self.name_or_path)
        tokenizer._tokenizer = self.backend_tokenizer
        return tokenizer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.whole, name)


def load_tokenizer(name_or_path: ModelPlace, revision: str | None = None, to_read: bool = False) -> Any:
    """Return a transformers tokenizer that neither truncates nor pads; `starter` is that of the pair in the package.

    One of ours is a `FolderTokenizer` where no more is wanted than `to_read` by it. Raises `FileNotFoundError` if there
    is none at this path or of this name, `ValueError` for a pointer of Git LFS.
    """
    place = name_or_path
    if not isinstance(place, Artefact):
        name = str(place)
        place = locate_model(PACKAGED[name].spec.partition("+")[0] or name if name in PACKAGED else name)
    folder, file = source(place)
    try:
        tokenizer = _load_plain(place, to_read) or _load_any(folder, revision=revision, **file)
        tokenizer("a")  # some damage is found only in use
    except ImportError:
        raise
    except Exception as error:  # a damaged file makes the libraries raise anything
        refuse_pointers(place.path)
        raise FileNotFoundError(
            f"{name_or_path}: no tokenizer could be loaded from this path or name; a folder needs tokenizer.json, "
            f"which save_pretrained of the tokenizer writes ({reason(error)})"
        ) from error
    if len(tokenizer) <= len(tokenizer.get_added_vocab()):  # transformers makes an empty one if there is none
        raise FileNotFoundError(f"{name_or_path}: the folder has no tokenizer; save the model's tokenizer in it")
    if tokenizer.is_fast:
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.artefact = Artefact(folder) if file else place  # `encoders.loading` asks what decides its pieces
    return tokenizer


def _load_plain(place: Artefact, to_read: bool) -> Any:
    """Return a plain tokenizer of ours, without the class that would choose one by the model, and imports every config
    first; `None` for any other."""
    saved, pieces = "tokenizer_config.json", place / "tokenizer.json"
    if not place.is_written or not (place / saved).is_file() or not pieces.is_file():
        return None
    settings = place.json(saved)
    if settings.get("tokenizer_class") not in PLAIN:
        return None
    if to_read and settings.keys() <= KNOWN_SETTINGS:
        backend = Tokenizer.from_file(str(pieces))
        added = [piece.content for piece in backend.get_added_tokens_decoder().values() if piece.special]
        if all(settings.get(role) in (None, *added) for role in ROLES):
            return FolderTokenizer(place, backend, settings)
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(str(place))


def _load_any(folder: str, **how: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, **how)


def cut_tokenizer(tokenizer: Any, used: Iterable[int]) -> tuple[Any, list[int]]:
    """Return the tokenizer without the pieces that a text does not need; and the ids of those that it keeps, in its
    order.

    Kept are the pieces that are `used`, special ones, and the single characters of all these and of English, so that
    other words have pieces, too. Of the same text the pieces are the same: of the best ones of a unigram model, and of
    the longest ones of WordPiece, none is left out, and none is added. `ValueError` for any other kind.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    model, pieces = spec["model"], {number: piece for piece, number in tokenizer.get_vocab().items()}
    if model["type"] not in ("Unigram", "WordPiece"):
        raise ValueError(f"its tokenizer is of the kind {model['type']}; Unigram and WordPiece can be cut")
    kept = {*used, *tokenizer.get_added_vocab().values(), *tokenizer.all_special_ids}
    kept |= {number for number in pieces if number <= (tokenizer.pad_token_id or 0)}  # from which positions are counted
    letters = {*string.printable, *(letter for number in kept for letter in pieces[number])}
    mark = model.get("continuing_subword_prefix") or "▁"
    kept |= {
        number
        for number, piece in pieces.items()
        if {*piece.removeprefix(mark)} <= letters and len(piece.removeprefix(mark)) < 2
    }
    if model["type"] == "Unigram":  # the least score decides what an unknown character costs
        kept.add(min(range(len(model["vocab"])), key=lambda number: model["vocab"][number][1]))
    order = sorted(kept)
    numbers = {old: new for new, old in enumerate(order)}
    if model["type"] == "Unigram":
        model["unk_id"] = numbers[model["unk_id"]]
        model["vocab"] = [model["vocab"][number] for number in order if number < len(model["vocab"])]
    else:
        model["vocab"] = {piece: numbers[number] for piece, number in model["vocab"].items() if number in numbers}
    spec["added_tokens"] = [{**piece, "id": numbers[piece["id"]]} for piece in spec["added_tokens"]]
    spec["post_processor"] = _renumbered(spec["post_processor"], numbers)
    from transformers import PreTrainedTokenizerFast

    how = {role: str(piece) for role in ROLES if (piece := getattr(tokenizer, role)) is not None}
    how |= {"model_max_length": tokenizer.model_max_length, "clean_up_tokenization_spaces": False}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(spec)), **how), order


def unlike_cut(config: Any, tokenizer: Any, prompt: str) -> Callable[[str, Sequence[int]], bool]:
    """Return whether a text, given with its ids behind a prompt, is one of `UNLIKE_CUT`; never with a whole
    vocabulary."""
    letters = (getattr(config, "packed", None) or {}).get("letters", 0) / TIMES_AS_MANY
    framed, unknown = len(tokenizer(prompt)["input_ids"]), tokenizer.unk_token_id

    def is_unlike(text: str, ids: Sequence[int]) -> bool:
        own = len(ids) - framed
        return letters > 0 and (unknown in ids or (own >= TOO_FEW_PIECES and len(text) < letters * own))

    return is_unlike


def lower(tokenizer: Any) -> None:
    """Let a tokenizer read in lower case, before all that it does."""
    from tokenizers.normalizers import Lowercase
    from tokenizers.normalizers import Sequence as Steps

    if not tokenizer.is_fast:
        raise ValueError(f"{tokenizer.name_or_path}: do_lower_case needs a tokenizer.json, which its folder lacks")
    own = tokenizer.backend_tokenizer.normalizer
    tokenizer.backend_tokenizer.normalizer = Steps([Lowercase(), *([own] if own else [])])


def _renumbered(part: Any, numbers: Mapping[int, int]) -> Any:
    """Return a post-processor of tokenizer.json with other ids."""
    match part:
        case [str(piece), int(number)]:
            return [piece, numbers[number]]
        case {"ids": ids}:
            return {**part, "ids": [numbers[number] for number in ids]}
        case dict():
            return {name: _renumbered(inner, numbers) for name, inner in part.items()}
        case list():
            return [_renumbered(inner, numbers) for inner in part]
    return part


def num_ids(tokenizer: Any) -> int:
    """Return the largest id + 1, how many rows its models need; more than `len(tokenizer)` where ids are left out."""
    return max(tokenizer.get_vocab().values()) + 1


def refuse_ids_beyond(num_rows: int, tokenizer: Any, model: str) -> None:
    """`ValueError` for a tokenizer with ids that a model of so many rows does not have."""
    if num_ids(tokenizer) > num_rows:
        raise ValueError(
            f"{model}: the tokenizer's ids go up to {num_ids(tokenizer) - 1:,}, and the model has only {num_rows:,} "
            "rows; the folder needs the tokenizer that the model was trained with"
        )


def end_of_text_id(tokenizer) -> int:
    """Return the piece that separates documents: the end-of-sequence piece, else the separator or start piece."""
    for identifier in (tokenizer.eos_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id):
        if identifier is not None:
            return identifier
    raise ValueError("the tokenizer has no end-of-sequence piece to separate documents; set its eos_token")


def with_special_pieces(path: str | Path, names: Sequence[str]) -> Any:
    """Return the tokenizer at `path` with these special pieces ("mask", "cls", "sep", "pad"); new ones come after all
    others.

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

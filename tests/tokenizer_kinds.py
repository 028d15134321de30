"""Tokenizers of every kind that an LM may bring: tiny ones learned on the spot, real ones from their published files.

`TINY` and `REAL` map a kind's name to a function that builds it as transformers would load it. The real ones are read
from a folder with GPT-2's encoder.json and vocab.bpe, Llama-2's tokenizer.model and BERT's vocab.txt, without the
`sentencepiece` package: a SentencePiece model is a short protocol-buffer message, and three of its fields are enough.
"""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, GPT2Tokenizer, LlamaTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import generate_merges

from boustro.text.tokenizers import END_OF_TEXT, train_tokenizer

ALPHABET = pre_tokenizers.ByteLevel.alphabet()
BYTE_PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
NORMAL, UNKNOWN, BYTE = 1, 2, 6  # SentencePiece's types of pieces


def ours(sentences: list[str]) -> PreTrainedTokenizerFast:
    """Boustro's own: byte-level BPE, a space belonging to the word after it."""
    return _wrap(train_tokenizer(sentences, 400), eos_token=END_OF_TEXT)


def prefixed(sentences: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE that puts a space before every text by itself, as GPT-2's does when asked to."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        sentences, trainers.BpeTrainer(vocab_size=400, initial_alphabet=ALPHABET, show_progress=False)
    )
    return _wrap(tokenizer, eos_token=END_OF_TEXT)


def sentence_piece(sentences: list[str]) -> PreTrainedTokenizerFast:
    """As Llama's, new style: ▁ is put by the pre-tokenizer, unknown characters are read as bytes."""
    tokenizer = Tokenizer(models.BPE(*_learn_merges(sentences), byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = _llama_decoder()
    return _wrap(tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def sentence_piece_legacy(sentences: list[str]) -> PreTrainedTokenizerFast:
    """As Llama's tokenizer.json: ▁ is put by the normalizer."""
    return _legacy(models.BPE(*_learn_merges(sentences), byte_fallback=True, fuse_unk=True, unk_token="<unk>"))


def unigram(sentences: list[str]) -> PreTrainedTokenizerFast:
    """As T5's: SentencePiece's other model, after a split at white space."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        sentences,
        trainers.UnigramTrainer(
            vocab_size=150, unk_token="<unk>", special_tokens=["<unk>", "</s>"], show_progress=False
        ),
    )
    return _wrap(tokenizer, unk_token="<unk>", eos_token="</s>")


def word_piece(sentences: list[str]) -> BertTokenizer:
    """As BERT's, cased."""
    return _word_piece(sentences, lower=False)


def word_piece_uncased(sentences: list[str]) -> BertTokenizer:
    """As BERT's, uncased: accents go too."""
    return _word_piece(sentences, lower=True)


def gpt2(folder: Path) -> GPT2Tokenizer:
    """GPT-2's own, from encoder.json and vocab.bpe."""
    merges = [tuple(line.split()) for line in (folder / "gpt2/vocab.bpe").read_text("utf-8").splitlines()[1:] if line]
    return GPT2Tokenizer(json.loads((folder / "gpt2/encoder.json").read_text("utf-8")), merges)


def llama2(folder: Path) -> LlamaTokenizer:
    """Llama-2's own, as transformers 5 builds it."""
    return LlamaTokenizer(*_read_sentence_piece(folder / "llama2/tokenizer.model"))


def llama2_legacy(folder: Path) -> PreTrainedTokenizerFast:
    """Llama-2's own, as the hub's tokenizer.json has it."""
    vocab, merges = _read_sentence_piece(folder / "llama2/tokenizer.model")
    return _legacy(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))


def bert(folder: Path) -> BertTokenizer:
    """BERT's own, cased, from vocab.txt."""
    pieces = (folder / "bert-base-cased/vocab.txt").read_text("utf-8").splitlines()
    return BertTokenizer({piece: i for i, piece in enumerate(pieces)}, do_lower_case=False)


TINY: dict[str, Callable[[list[str]], PreTrainedTokenizerFast]] = {
    f.__name__: f
    for f in (ours, prefixed, sentence_piece, sentence_piece_legacy, unigram, word_piece, word_piece_uncased)
}
REAL: dict[str, Callable[[Path], PreTrainedTokenizerFast]] = {
    f.__name__: f for f in (gpt2, llama2, llama2_legacy, bert)
}
SPELLING = ("ours", "prefixed", "sentence_piece", "sentence_piece_legacy", "gpt2", "llama2", "llama2_legacy")
"""Kinds that lose nothing: their pieces spell the text."""


def _wrap(tokenizer: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **special)


def _llama_decoder() -> decoders.Decoder:
    return decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1)]
    )


def _legacy(model: models.BPE) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = _llama_decoder()
    return _wrap(tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def _learn_merges(sentences: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A BPE with ▁ learned word by word, and byte pieces before it."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    learner.train_from_iterator(sentences, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    pieces = [*BYTE_PIECES, *(p for p in learned["vocab"] if p not in BYTE_PIECES)]
    return {piece: i for i, piece in enumerate(pieces)}, [tuple(pair) for pair in learned["merges"]]


def _word_piece(sentences: list[str], lower: bool) -> BertTokenizer:
    learner = BertTokenizer(do_lower_case=lower).backend_tokenizer
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    learner.train_from_iterator(
        sentences, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    return BertTokenizer(learner.get_vocab(with_added_tokens=True), do_lower_case=lower)


def _read_sentence_piece(path: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of a SentencePiece BPE; its message holds (piece, score, type) triples in field 1."""
    scores: dict[str, float] = {}
    special = set()
    for number, value in _fields(path.read_bytes()):
        if number != 1:
            continue
        piece = dict(_fields(value))
        text = piece[1].decode()
        scores[text] = struct.unpack("<f", piece[2])[0]
        if piece.get(3, NORMAL) != NORMAL:
            special.add(text)
    vocab = {text: i for i, text in enumerate(scores)}
    return vocab, generate_merges(vocab, scores, special)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, value) of a protocol-buffer message's fields; a varint's value is an int."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while position < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[position : position + size]
        position += size

"""Words to pieces: exact for any Unicode text, with byte-level, SentencePiece-like and WordPiece tokenizers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from boustro.text.alignment import Aligner, guess_spaces

words = st.lists(
    st.text(min_size=1, max_size=8).filter(lambda w: not any(c.isspace() for c in w)), min_size=1, max_size=8
)


@pytest.fixture(scope="module")
def byte_level(tiny_tokenizer):
    return AutoTokenizer.from_pretrained(tiny_tokenizer)


@pytest.fixture(scope="module")
def word_piece():
    vocab = {p: i for i, p in enumerate(["[UNK]", "[CLS]", "[SEP]", "a", "b", "ab", "##a", "##b", ".", "z", "##z"])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", sep_token="[SEP]")


@pytest.fixture(scope="module")
def metaspace():
    """As Llama's: a mark before every word, byte pieces for what is unknown."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "b", "▁a", "▁b"]
    merges = [("▁", "a"), ("▁", "b")]
    model = models.BPE(
        {p: i for i, p in enumerate(pieces)}, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")


@pytest.mark.parametrize("kind", ["byte_level", "word_piece", "metaspace"])
@settings(max_examples=60)
@given(words)
def test_every_word_owns_a_run_of_pieces(kind, request, words):
    tokenizer = request.getfixturevalue(kind)
    (pieces,) = Aligner(tokenizer).align([(words, None)])
    assert len(pieces.bounds) == len(words) + 1
    assert pieces.bounds[0] == 0 and pieces.bounds[-1] == len(pieces.ids)
    assert (pieces.bounds[1:] > pieces.bounds[:-1]).all()
    assert ((pieces.ids >= 0) & (pieces.ids < len(tokenizer))).all()


@given(words)
def test_byte_level_pieces_spell_the_running_text(byte_level, words):
    spaces = guess_spaces(words)
    (pieces,) = Aligner(byte_level).align([(words, spaces)])
    text = "".join(" " * space + word for word, space in zip(words, spaces, strict=True))
    assert byte_level.decode(pieces.ids) == text
    for i, word in enumerate(words):
        own = byte_level.decode(pieces.ids[pieces.bounds[i] : pieces.bounds[i + 1]])
        assert own.removeprefix(" ") == word


def test_a_mark_of_its_own_is_not_doubled(metaspace):
    (pieces,) = Aligner(metaspace).align([(["a", "b"], None)])
    assert metaspace.convert_ids_to_tokens(pieces.ids) == ["▁a", "▁b"]


def test_a_word_without_pieces_is_read_as_unknown_and_counted(word_piece):
    aligner = Aligner(word_piece)
    (pieces,) = aligner.align([(["a", "\u200b\x00", "b"], None)])
    assert word_piece.convert_ids_to_tokens(pieces.ids) == ["a", "[UNK]", "b"]
    assert sum(aligner.counts.values()) == 1


def test_special_pieces_in_a_text_are_plain_text(byte_level):
    from boustro.text.tokenizers import load_tokenizer

    tokenizer = load_tokenizer(byte_level.name_or_path)
    (pieces,) = Aligner(tokenizer).align([(["<|endoftext|>"], None)])
    assert tokenizer.eos_token_id not in pieces.ids


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("It rose 3 % , he said .", " It rose 3% , he said .".replace(" ,", ",").replace(" .", ".")),
        ("( Reuters ) - no", " (Reuters) - no"),
        ('" Go " , said " Al "', ' "Go", said "Al"'),
        ("Ruiz 's did n't", " Ruiz's didn't"),
    ],
)
def test_spaces_are_guessed_as_english_has_them(words, text):
    words = words.split()
    assert "".join(" " * s + w for w, s in zip(words, guess_spaces(words), strict=True)) == text


def test_always_puts_a_space_before_every_word(byte_level):
    (pieces,) = Aligner(byte_level, "always").align([(["a", "."], [False, False])])
    assert byte_level.decode(pieces.ids) == " a ."
    with pytest.raises(ValueError, match="unknown spacing"):
        Aligner(byte_level, "never")

"""boustro.text.byte_bpe: the pieces of the tokenizer itself for any text, and None where that cannot be promised."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from boustro.text.byte_bpe import ALIKE, GPT2_PATTERN, LONG_TEXT, UNLIKE, ByteBPE
from boustro.text.tokenizers import train_tokenizer
from tokenizer_kinds import REAL, TINY

TEXTS = [
    "The lock-keeper's daughter didn't row 1234567 metres; she'd walked.",
    "Žofie — naïve, “quoted”… 東京の港 🚣‍♀️ e\u0301 x",
    "tabs\tand\n\n  lines   at the end  ",
    "<|endoftext|> is spelt out",
]
SPLIT_BY_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)


def split_by(pattern: str) -> pre_tokenizers.Sequence:
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )


def trained(pre_tokenizer=SPLIT_BY_GPT2, normalizer=None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    return tokenizer


def own(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


def made(tokenizer: Tokenizer) -> ByteBPE:
    tokenizer.encode_special_tokens = True
    fast = ByteBPE.make(tokenizer)
    assert fast is not None
    return fast


KINDS = {
    "ours": lambda: train_tokenizer(TEXTS, 400),
    "gpt2": trained,
    "normalised": lambda: trained(normalizer=normalizers.NFC()),
    "numbers": lambda: trained(split_by(r"\p{N}{1,2}|\p{L}+|[^\p{L}\p{N}]+")),
}
PAIRS = {name: (tokenizer := make(), made(tokenizer)) for name, make in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
@given(st.one_of(st.text(), st.lists(st.sampled_from(TEXTS)).map("".join)))
def test_the_pieces_are_the_tokenizers_for_any_text(kind, text):
    tokenizer, fast = PAIRS[kind]
    assert fast.encode_batch([text])[0].tolist() == own(tokenizer, text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_character_is_split_as_the_tokenizer_splits_it(kind):
    tokenizer, fast = PAIRS[kind]
    numbers = [*range(0x80, 0x3000, 5), *range(0x3000, 0xD800, 307), *range(0xE000, 0x110000, 307)]
    characters = [chr(c) for c in numbers]
    text = "".join(f"a{c} {c}" for c in characters)
    assert fast.encode_batch([text])[0].tolist() == own(tokenizer, text)


def test_the_fast_way_is_taken(monkeypatch):
    """Otherwise the tests above would say nothing."""
    _, fast = PAIRS["ours"]
    fast.encode_batch(TEXTS)  # tries the characters
    normalizer = fast._tokenizer.normalizer
    slow = SimpleNamespace(normalizer=normalizer, encode=lambda text, **_: pytest.fail(f"slow: {text}"))
    monkeypatch.setattr(fast, "_tokenizer", slow)
    assert all(len(ids) for ids in fast.encode_batch(TEXTS))


def test_a_character_that_the_engines_split_differently_goes_to_the_tokenizer():
    """[[:punct:]] knows “ in one engine and ASCII only in the other."""
    tokenizer = trained(split_by(r"[[:punct:]]+|[^[:punct:]]+"))
    fast = made(tokenizer)
    for text in ("a “b” c", "plain, and so on."):
        assert fast.encode_batch([text])[0].tolist() == own(tokenizer, text)
    assert fast._characters[ord("“")] == UNLIKE and fast._characters[ord(",")] == ALIKE


def test_what_a_pattern_does_not_cover_is_not_lost():
    tokenizer = trained(split_by(r"\p{L}+"))
    assert made(tokenizer).encode_batch(["to 12 o'clock"])[0].tolist() == own(tokenizer, "to 12 o'clock")


def test_a_million_spaces_do_no_harm():
    tokenizer, fast = PAIRS["ours"]
    text = "x" + " " * (LONG_TEXT + 1_000_000) + "y"
    assert fast.encode_batch([text])[0].tolist() == own(tokenizer, text)


def test_the_pattern_is_that_of_the_library():
    by_pattern, by_name = trained(split_by(GPT2_PATTERN)), trained()
    for text in TEXTS:
        assert own(by_pattern, text) == own(by_name, text)


@pytest.mark.parametrize("kind", [kind for kind in TINY if kind != "ours"])
def test_other_kinds_of_tokenizers_are_left_to_themselves(kind):
    assert ByteBPE.make(TINY[kind](TEXTS).backend_tokenizer) is None


def test_a_piece_that_its_own_merges_do_not_give_is_a_reason_to_leave_it():
    """`b c` comes before `a b`, so that abc becomes a + bc, and never abc, which tiktoken would make of it."""
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("b", "c"), ("a", "b"), ("ab", "c")]
    vocabulary = alphabet | {a + b: 256 + i for i, (a, b) in enumerate(merges)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = SPLIT_BY_GPT2
    assert len(own(tokenizer, "abc")) == 2 and ByteBPE.make(tokenizer) is None
    tokenizer.model = models.BPE({k: v for k, v in vocabulary.items() if k != "abc"}, merges[:2])
    assert made(tokenizer).encode_batch(["abc ab"])[0].tolist() == own(tokenizer, "abc ab")


def test_added_pieces_that_are_no_special_ones_are_a_reason_to_leave_it():
    tokenizer = train_tokenizer(TEXTS, 400)
    tokenizer.add_tokens([AddedToken("lock-keeper")])
    assert ByteBPE.make(tokenizer) is None


@pytest.mark.shared_data
def test_gpt2s_own_vocabulary(shared_data):
    tokenizer = REAL["gpt2"](shared_data / "tokenizers").backend_tokenizer
    fast = made(tokenizer)
    for text in [*TEXTS, "".join(TEXTS) * 50]:
        assert np.array_equal(fast.encode_batch([text])[0], own(tokenizer, text))

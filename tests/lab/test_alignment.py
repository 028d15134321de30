"""Pieces and words: byte-level BPE for any text, and words to pieces, exact for any Unicode text and tokenizer."""

import difflib
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from boustro.lab.pretrain.shards import LONG_TEXT, SPLIT_ALIKE, SPLIT_UNLIKE, ByteBPE
from boustro.text import alignment
from boustro.text.alignment import ENDS, LONG_WORDS, MARKED, UNKNOWN_WORDS, Aligner, guess_spaces, without_mark
from boustro.text.tokenizers import train_tokenizer
from boustro.text.words import split_text
from conftest import SENTENCES, SHARED_DATA
from tokenizer_kinds import REAL, SPELLING, TINY

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
    assert fast._characters[ord("“")] == SPLIT_UNLIKE and fast._characters[ord(",")] == SPLIT_ALIKE


def test_what_a_pattern_does_not_cover_is_not_lost():
    tokenizer = trained(split_by(r"\p{L}+"))
    assert made(tokenizer).encode_batch(["to 12 o'clock"])[0].tolist() == own(tokenizer, "to 12 o'clock")


def test_a_million_spaces_do_no_harm():
    tokenizer, fast = PAIRS["ours"]
    text = "x" + " " * (LONG_TEXT + 1_000_000) + "y"
    assert fast.encode_batch([text])[0].tolist() == own(tokenizer, text)


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


TROUBLE = (
    "👨‍👩‍👧 🇿🇦 1️⃣ 👍🏽 e\u0301 \u0301 ﬁ İ ẞ ſ ŉ Ǆ "
    "क्षि สวัสดี العربية שָׁלוֹם 東京 ｱｶﾞ 한글 ᄒ \u1160 \u200b \u200d \u200f \u202e \ufeff \ufffd \x00 \x7f "
    "\x1b \U000e0041 \U0010ffff 𝒳 ١٢٣ ½ ² "
    "1,250 3.5 ' '' \" “ ” ’s n't `` ... … -- @ # ## ##a _ < > <s> </s> <unk> <0x0A> "
    "<|endoftext|> [UNK] [SEP] [CLS] [MASK] Vellmar Okonkwo umbrellas ferry Zürich a A I".split(" ")
)
SPACES = "\u00a0 \u2003 \u3000 \u2028 \t \n \x1c \x85".split(" ")  # white space that may stand inside a word
letters = st.characters(exclude_categories=["Cs"])
word = st.lists(st.sampled_from(TROUBLE) | letters, min_size=1, max_size=4).map("".join)
words = st.lists(word.filter(lambda w: not any(c.isspace() for c in w)), min_size=1, max_size=8)
any_words = st.lists(
    st.lists(st.sampled_from(TROUBLE + SPACES) | letters, max_size=4).map("".join), min_size=1, max_size=8
)
spaced_words = st.lists(st.tuples(word.filter(lambda w: " " not in w and "▁" not in w), st.booleans()), min_size=1)

TOKENIZERS = [*TINY, *(pytest.param(name, marks=pytest.mark.shared_data) for name in REAL)]


@cache
def build(kind: str):
    """The tokenizer of this kind, built once."""
    return TINY[kind](SENTENCES) if kind in TINY else REAL[kind](SHARED_DATA / "tokenizers")


@pytest.fixture
def tokenizer(kind):
    return build(kind)


def own_pieces(pieces, i: int) -> list[int]:
    return pieces.ids[pieces.bounds[i] : pieces.bounds[i + 1]].tolist()


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(any_words)
def test_every_word_owns_a_run_of_pieces_and_the_runs_are_all_there_is(kind, words):
    tokenizer = build(kind)
    (pieces,) = Aligner(tokenizer).align([(words, None)])
    assert len(pieces.bounds) == len(words) + 1
    assert pieces.bounds[0] == 0 and pieces.bounds[-1] == len(pieces.ids)
    assert (pieces.bounds[1:] > pieces.bounds[:-1]).all()
    assert ((pieces.ids >= 0) & (pieces.ids < len(tokenizer))).all()


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(words)
def test_pieces_are_those_of_the_running_text(kind, words):
    """Where every word follows a space, the whole text tokenized at once gives the same pieces."""
    words = [word.replace("▁", "_") for word in words]  # SentencePiece takes a ▁ in a text for a space
    words = [word.replace("</s>", "s") for word in words] if kind == "unigram" else words  # it finds specials in texts
    tokenizer, options = build(kind), {"add_special_tokens": False, "split_special_tokens": True}
    aligner = Aligner(tokenizer, "always")
    (pieces,) = aligner.align([(words, None)])
    lost = {i for i, word in enumerate(words) if not tokenizer([word], **options)["input_ids"][0]}
    assert aligner.counts[UNKNOWN_WORDS] == len(lost)
    start = " " if kind in ("ours", "gpt2") else ""
    whole = tokenizer(start + " ".join(words), **options)["input_ids"]
    assert [i for w in range(len(words)) if w not in lost for i in own_pieces(pieces, w)] == whole


@pytest.mark.parametrize("kind", [p for p in TOKENIZERS if (p if isinstance(p, str) else p.values[0]) in SPELLING])
@given(spaced_words)
def test_pieces_spell_the_text_and_each_word(kind, spaced):
    tokenizer, (words, spaces) = build(kind), zip(*spaced, strict=True)
    (pieces,) = Aligner(tokenizer).align([(words, spaces)])
    text = "".join(" " * space + word for word, space in spaced)
    marked = not kind.startswith(("ours", "prefixed", "gpt2"))  # the decoder takes the first mark away
    assert tokenizer.decode(pieces.ids) == (text.removeprefix(" ") if marked else text)
    for i, (word, space) in enumerate(spaced):
        assert tokenizer.decode(own_pieces(pieces, i)) == (" " if space and not marked else "") + word


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=15)
@given(st.lists(spaced_words, min_size=1, max_size=3))
def test_a_words_pieces_hang_on_no_other_word(kind, sentences):
    aligner = Aligner(build(kind))
    together = aligner.align([tuple(zip(*spaced, strict=True)) for spaced in sentences])
    for spaced, pieces in zip(reversed(sentences), reversed(together), strict=True):
        for i, (word, space) in enumerate(spaced):
            (alone,) = Aligner(build(kind)).align([([word], [space])])
            assert alone.ids.tolist() == own_pieces(pieces, i)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_long_word_is_read_by_its_ends(kind, tokenizer):
    ends = "".join(map(chr, range(97, 123))) * 3
    long, cut = ends + "x" * 50_000 + ends, ends[:ENDS] + ends[-ENDS:]
    aligner = Aligner(tokenizer)
    (pieces,) = aligner.align([([long, "a", cut], [True, True, True])])
    assert own_pieces(pieces, 0) == own_pieces(pieces, 2) and len(pieces.bounds) == 4
    assert aligner.counts[LONG_WORDS] == 1 and len(cut) == 2 * ENDS


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_special_pieces_in_a_text_are_plain_text(kind, tokenizer):
    for special in tokenizer.all_special_tokens:
        for space in (True, False):
            (pieces,) = Aligner(tokenizer).align([([special], [space])])
            assert not set(pieces.ids.tolist()) & set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
            if kind in SPELLING:
                assert tokenizer.decode(pieces.ids).strip() == special and len(pieces.ids) > 1


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_words_remembered_are_words_met_anew(kind, tokenizer, monkeypatch):
    sentences = [(s.split(), None) for s in SENTENCES]
    wanted = [p.ids.tolist() for p in Aligner(tokenizer).align(sentences)]
    monkeypatch.setattr(alignment, "MEMORY_WORDS", 5)
    aligner = Aligner(tokenizer)
    for _ in range(2):
        assert [aligner.align([s])[0].ids.tolist() for s in sentences] == wanted


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_glued_words_too_are_read_as_in_running_text_but_for_joined_ones(kind, tokenizer):
    """What differs touches a neighbour with which the tokenizer joins it: "),", or "did|n't" as "didn|'t"."""
    agreeing = total = 0
    for sentence in (p.sentence for text in SENTENCES for p in split_text(text)):
        spaces = sentence.spaces or guess_spaces(sentence.words)
        text = "".join(" " * space + w for w, space in zip(sentence.words, spaces, strict=True))
        (pieces,) = Aligner(tokenizer).align([(sentence.words, spaces)])
        whole = tokenizer(text if without_mark(tokenizer) is None else text[1:], add_special_tokens=False)["input_ids"]
        matcher = difflib.SequenceMatcher(None, pieces.ids.tolist(), whole, autojunk=False)
        found = {i for block in matcher.get_matching_blocks() for i in range(block.a, block.a + block.size)}
        owned = [range(pieces.bounds[i], pieces.bounds[i + 1]) for i in range(len(sentence))]
        agreeing += sum(found.issuperset(own) for own in owned)
        total += len(owned)
    assert agreeing / total > (0.97 if kind not in ("sentence_piece", "sentence_piece_legacy") else 0.84)


@pytest.mark.parametrize("kind", ["sentence_piece", "sentence_piece_legacy"])
def test_a_mark_stands_where_a_space_does(kind, tokenizer):
    (pieces,) = Aligner(tokenizer).align([(["a", "a", "a"], [True, False, True])])
    assert tokenizer.convert_ids_to_tokens(pieces.ids) == ["▁a", "a", "▁a"]


@pytest.mark.shared_data
@pytest.mark.parametrize("kind", ["llama2", "llama2_legacy"])
def test_llama_reads_a_news_sentence_as_it_does_in_running_text(kind, tokenizer):
    assert tokenizer("Hello this is a test")["input_ids"][-5:] == [15043, 445, 338, 263, 1243]  # published
    (pieces,) = Aligner(tokenizer).align([("( Reuters ) - Ana Ruiz 's 3 % more , he said .".split(), None)])
    assert tokenizer.convert_ids_to_tokens(pieces.ids) == tokenizer.tokenize("(Reuters) - Ana Ruiz's 3% more, he said.")


def test_a_tokenizer_whose_mark_cannot_be_left_out_is_counted():
    class Slow:
        """A tokenizer without a backend of the tokenizers library."""

        is_fast = False

        def __getattr__(self, name):
            return getattr(build("sentence_piece"), name)

        def __call__(self, texts, **options):
            return build("sentence_piece")(texts, **options)

    aligner = Aligner(Slow())
    aligner.align([(["He", "said", "."], None), (["."], [True])])
    assert dict(aligner.counts) == {MARKED: 1}


def test_a_word_without_pieces_is_read_as_unknown_and_counted():
    tokenizer = build("word_piece_uncased")
    aligner = Aligner(tokenizer)
    (pieces,) = aligner.align([(["a", "\u200b\x00", "b"], None)])
    assert own_pieces(pieces, 1) == [tokenizer.unk_token_id]
    assert dict(aligner.counts) == {UNKNOWN_WORDS: 1}


@pytest.mark.parametrize(("kind", "space"), [("ours", True), ("sentence_piece", False)])
def test_half_a_character_is_refused_by_name(kind, tokenizer, space):
    with pytest.raises(ValueError, match=r"the word 'a\\ud83d' holds half a character"):
        Aligner(tokenizer).align([(["fine", "a\ud83d"], [space, space])])


def test_a_fingerprint_tells_tokenizers_of_one_vocabulary_apart():
    """Features are cached under it: where the pieces of a text differ, so must the name."""
    one, other = TINY["sentence_piece"](SENTENCES), TINY["sentence_piece"](SENTENCES)
    assert Aligner(one).fingerprint() == Aligner(other).fingerprint()
    other.backend_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    assert Aligner(one).fingerprint() != Aligner(other).fingerprint()


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

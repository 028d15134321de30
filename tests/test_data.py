"""Labelled data in: CoNLL columns, tag schemes, and errors that name file and line; raw text to words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.metrics.spans import extract_spans
from boustro.tasks.conll import format_conll, read_conll
from boustro.tasks.schemes import detect_scheme, entities_to_bio, to_bio
from boustro.tasks.words import split_text
from boustro.types import Sentence

TEXTS = [
    "Dr. Ana Ruiz's U.S. tour (1996-97) didn't end.",
    "“J. K. Ode” lost $3.50…",
    "👨\u200d👩\u200d👧 🇿🇦👍🏽",
    "E\u0301lodie",
    "क्षि",
    "\u00a0\u3000",
    "\x00\x1c\x85",
]


def write(path, text):
    path.write_text(text, "utf-8")
    return path


def words_of(text):
    return [" ".join(p.sentence.words) for p in split_text(text)]


def test_columns_are_read_with_document_starts_left_out(tmp_path):
    file = write(
        tmp_path / "a", "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\nPeter NNP B-NP B-PER"
    )
    sentences = read_conll(file)
    assert [s.words for s in sentences] == [("EU", "rejects"), ("Peter",)]
    assert [s.tags for s in sentences] == [("B-ORG", "O"), ("B-PER",)]
    assert sentences[0].where == f"{file}:3" and sentences[1].where == f"{file}:7"


def test_sentences_know_their_document_where_the_file_parts_documents(tmp_path):
    text = "-DOCSTART- O\n\na O\n\nb O\n\n-DOCSTART- O\n\nc O\n"
    a, b, c = (s.document for s in read_conll(write(tmp_path / "a", text)))
    assert a == b != c and a
    assert [s.document for s in read_conll(write(tmp_path / "b", "a O\n\nb O\n"))] == ["", ""]


def test_tabs_part_columns_where_the_file_has_them(tmp_path):
    assert read_conll(write(tmp_path / "a", "New York\tB-LOC\r\n.\tO\r\n"))[0].words == ("New York", ".")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EU B-ORG\nrejects\n", r"a:2: expected a word and a tag, got 'rejects'"),
        ("EU\tB-ORG\nrejects\t\n", r"a:2: expected a word and a tag"),
        ("EU B-ORG\nrejects XX\n", r"a:2: 'XX' is no tag of IOB1, BIO or BIOES"),
        ("EU B-\n", r"a:1: 'B-' is no tag"),
        ("\n\n", r"a: the file holds no sentence"),
        ("-DOCSTART- O\n", r"a: the file holds no sentence"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write(tmp_path / "a", text))


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path):
    (tmp_path / "a").write_bytes("EU B-ORG\nMünchen B-LOC\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a:2: byte 0xfc is not UTF-8"):
        read_conll(tmp_path / "a")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_conll(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("tags", "scheme", "bio"),
    [
        ("I-PER I-PER O I-PER B-PER", "iob1", "B-PER I-PER O B-PER B-PER"),
        ("B-PER I-PER O B-LOC", "bio", "B-PER I-PER O B-LOC"),
        ("B-PER E-PER S-LOC O", "bioes", "B-PER I-PER B-LOC O"),
        ("O O", "bio", "O O"),
    ],
)
def test_schemes_are_found_out_and_converted(tags, scheme, bio):
    sentence = Sentence(tuple(tags.split()), tuple(tags.split()))
    assert detect_scheme([sentence]) == scheme
    assert to_bio(tags.split(), scheme) == tuple(bio.split())


def test_labels_without_prefix_are_runs_when_asked_for(tmp_path):
    file = write(tmp_path / "a", "Ann art-film\nLee art-film\nsaw O\nRio place\n")
    with pytest.raises(ValueError, match="--scheme io"):
        read_conll(file)
    assert read_conll(file, "io")[0].tags == ("B-art-film", "I-art-film", "O", "B-place")


tag_lists = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), min_size=1, max_size=15)


@given(tag_lists)
def test_bio_keeps_every_entity(tags):
    spans = extract_spans(tags)
    assert extract_spans(entities_to_bio(spans, len(tags))) == spans


@given(st.lists(tag_lists, min_size=1, max_size=4))
def test_what_is_written_is_read_back(tmp_path_factory, tags):
    data = [([f"w{i}" for i in range(len(t))], to_bio(t, "bio")) for t in tags]
    file = write(tmp_path_factory.mktemp("c") / "a", format_conll(data))
    assert [(list(s.words), s.tags) for s in read_conll(file, "bio")] == data


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Jane lives here.", ["Jane lives here ."]),
        ("Dr. Ana Ruiz's U.S. tour (1996-97) didn't end.", ["Dr. Ana Ruiz 's U.S. tour ( 1996-97 ) did n't end ."]),
        ("It rose 3.5%. Then it fell.", ["It rose 3.5 % .", "Then it fell ."]),
        ("He left.\nShe stayed", ["He left .", "She stayed"]),
        ('"Go!" she said.', ['" Go ! " she said .']),
        ("J. K. Ode won. O'Neill lost...", ["J. K. Ode won .", "O'Neill lost ..."]),
        ("", []),
        ("  \n \t", []),
        ("Zu\u0308rich-Ost, E\u0301lodie’s, U\u0308.S. शहर", ["Zu\u0308rich-Ost , E\u0301lodie ’s , U\u0308.S. शहर"]),
        ("می\u200cخواهم שָׁלוֹם", ["می\u200cخواهم שָׁלוֹם"]),
        (
            "👨\u200d👩\u200d👧! 👍🏽🇿🇦🇩🇪 1\ufe0f\u20e3❤\ufe0f",
            ["👨\u200d👩\u200d👧 ! 👍🏽 🇿🇦 🇩🇪 1\ufe0f\u20e3 ❤\ufe0f"],
        ),
    ],
)
def test_raw_text_is_split_as_news_corpora_are(text, expected):
    assert words_of(text) == expected


@given(st.lists(st.sampled_from([*TEXTS, ". ", " ", "\n", "\u0301", "\u200d"]) | st.text(max_size=3)).map("".join))
def test_words_cover_any_text_exactly(text):
    placed = list(split_text(text))
    position = 0
    for sentence in placed:
        assert len(sentence.sentence) > 0
        assert sentence.sentence.spaces is not None
        assert not any(c in "\r\n\u2028" for c in text[sentence.places[0][0] : sentence.places[-1][1]])
        facts = zip(sentence.sentence.words, sentence.sentence.spaces, sentence.places, strict=True)
        for i, (word, space, (start, end)) in enumerate(facts):
            assert text[start:end] == word and start >= position
            assert not text[position:start].strip()
            assert space == (i == 0 or start > position)
            assert space or not unicodedata.category(word[0]).startswith("M")  # a mark stays with its letter
            position = end
    assert not text[position:].strip()

"""CoNLL columns and CoNLL-U in and out, tag schemes, and errors that name file and line; raw text to words."""

import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.tasks.data import load_data, read_data, read_raw
from boustro.tasks.data.conll import format_conll
from boustro.tasks.data.reading import OVERLAPPING, REPAIRED, DataOptions, RawData, data_fingerprint, label_words
from boustro.tasks.data.schemes import (
    LETTERS,
    check_scheme,
    encode_tags,
    flatten_entities,
    gold_entities,
    invalid_tags,
    tags_to_entities,
    to_bio,
)
from boustro.text.words import split_text, word_rule
from boustro.types import Entity, Sentence
from labelled import UD, spans

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


def test_what_was_trained_by_an_earlier_rule_of_words_splits_by_it():
    with word_rule(1):
        before = split_text("Tom,he saw https://x.org/a")
    assert [p.sentence.words for p in before] == [("Tom,he", "saw", "https", ":", "/", "/", "x.org/a")]
    with (
        pytest.raises(ValueError, match="the rule of words is 99, and this version knows 1 to 2; update"),
        word_rule(99),
    ):
        pass


def test_a_long_text_without_spaces_takes_linear_time():
    assert sum(len(p.places) for p in split_text("Peter,Maria/Tom:x.He." * 5_000)) == 50_000


def test_sentences_know_their_document_where_the_file_parts_documents(tmp_path):
    text = "-DOCSTART- O\n\na O\n\nb O\n\n-DOCSTART- O\n\nc O\n"
    sentences = read_data(write(tmp_path / "a", text))
    a, b, c = (s.document for s in sentences)
    assert a == b != c and a
    assert [s.where for s in sentences] == [f"{tmp_path / 'a'}:{line}" for line in (3, 5, 9)]
    assert [s.document for s in read_data(write(tmp_path / "b", "a O\n\nb O\n"))] == ["", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EU B-ORG\nrejects\n", r"a:2: expected a word and a tag, got 'rejects'"),
        ("EU B-ORG\nrejects XX\n", r"a:2: 'XX' is not a valid IOB1, BIO or BIOES tag"),
        ("EU B-\n", r"a:1: 'B-' is not a valid"),
        ("\n\n", r"a: the file has no sentences"),
        ("-DOCSTART- O\n", r"a: the file has no sentences"),
        ("EU NNP B-ORG\nNew York B-LOC O\n", r"a:2: 4 columns, but line 1 has 3 .*separated by spaces"),
        ("EU\tNNP\tB-ORG\n\nYork\tB-LOC\n", r"a:3: 2 columns, but line 1 has 3 .*separated by tabs"),
        ("EU\tB-ORG\n\tO\n", r"a:2: expected a word and a tag"),
        ("a B-X\nb XX\nc YY\n", r"a:2: 'XX' \(and 1 more like it\) is not a valid"),
        ("a L-X\nb E-X\n", r"mix the letters of several schemes: \S+a:2: 'E-X', \S+a:1: 'L-X'"),
        ("Ann art-film\n", "--scheme io"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_data(write(tmp_path / "a", text))


def test_columns_in_windows_1252_are_noted_and_other_bytes_are_named_with_their_line(tmp_path):
    (tmp_path / "a").write_bytes("EU B-ORG\nMünchen B-LOC\n".encode("latin-1"))
    with pytest.warns(UserWarning, match=r"1 line that is not UTF-8, .*a:2: 'München B-LOC'"):
        assert read_data(tmp_path / "a")[0].words == ("EU", "München")
    for name, line in (("a", "Köln B-LOC\n".encode()), ("a.conllu", b"")):
        (tmp_path / name).write_bytes(line + "München B-LOC\n".encode("latin-1"))
        with pytest.raises(ValueError, match=rf"{name}:{1 + bool(line)}: byte 0xfc is not UTF-8"):
            read_data(tmp_path / name)


@pytest.mark.parametrize(
    ("tags", "scheme", "bio"),
    [
        ("I-PER I-PER O I-PER B-PER", "iob1", "B-PER I-PER O B-PER B-PER"),
        ("B-PER I-PER O B-LOC", "bio", "B-PER I-PER O B-LOC"),
        ("B-PER E-PER S-LOC O", "bioes", "B-PER I-PER B-LOC O"),
        ("O O", "bio", "O O"),
        ("B-PER L-PER U-LOC O", "bilou", "B-PER I-PER B-LOC O"),
        ("B-PER M-PER E-PER S-PER", "bmes", "B-PER I-PER I-PER B-PER"),
    ],
)
def test_schemes_are_found_out_and_converted(tags, scheme, bio):
    sentence = Sentence(tuple(tags.split()), tuple(tags.split()))
    assert check_scheme([sentence], "auto", lambda i, j: "") == scheme
    assert to_bio(tags.split(), scheme) == tuple(bio.split())


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("EU NNP B-NP B-ORG\n", {"tag_column": 2}, ("EU", "B-NP")),
        ("EU NNP B-NP B-ORG\n", {"tag_column": -2}, ("EU", "B-NP")),
        ("EU NNP B-NP B-ORG\n", {"tag_column": "2"}, ("EU", "B-NP")),
        ("B-ORG\tEU\n", {"word_column": 1, "tag_column": 0}, ("EU", "B-ORG")),
        ("EU|x|B-ORG\n", {"delimiter": "|"}, ("EU", "B-ORG")),
        ("EU,B-ORG\n", {"delimiter": "comma"}, ("EU", "B-ORG")),
        ("New York\tB-LOC O\n", {"delimiter": "space", "tag_column": 1}, None),
        ("New York\tx B-LOC\n", {"delimiter": "tab"}, None),
        ("EU   NNP  B-ORG\n", {}, ("EU", "B-ORG")),
        ("EU NNP B-ORG\n", {"tag_column": 1, "scheme": "labels"}, ("EU", "NNP")),
    ],
)
def test_columns_and_delimiters_can_be_named(tmp_path, text, options, expected):
    file = write(tmp_path / "a", text)
    if expected is None:
        with pytest.raises(ValueError, match=r"a:1: .* is not a valid"):
            read_data(file, **options)
    else:
        (sentence,) = read_data(file, **options)
        assert (sentence.words[0], (sentence.tags or ())[0]) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tag_column": 4}, "no column 4: the lines have 4 columns, 0 to 3"),
        ({"word_column": -5}, "no column -5"),
        ({"tag_column": "upos"}, "--tag-column 'upos': CoNLL columns are numbered, 0 to 3"),
        ({"word_column": 3}, "words and tags cannot both be in column 3"),
        ({"delimiter": ""}, "--delimiter is empty"),
        ({"scheme": "bioes", "tag_column": 1}, "a:1: 'NNP' is not a valid BIOES tag"),
        ({"scheme": "io"}, "a:1: 'B-ORG' has a prefix; --scheme io is for labels without prefixes"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        read_data(write(tmp_path / "a", "EU NNP B-NP B-ORG\n"), **options)


def test_a_hash_is_a_word_where_it_has_the_columns_of_one_and_else_a_comment(tmp_path):
    text = "# id 1 of it all\n#\tO\n# 1\tB-X\nb\tO\n\n# newdoc\n# two\nc\tO\n\n#begin document (x)\nd\tO\n"
    labelled = load_data(write(tmp_path / "a", text))
    assert [s.words for s in labelled.sentences] == [("#", "# 1", "b"), ("c",), ("d",)]
    assert [s.document for s in labelled.sentences] == ["", "document 1", "document 2"]
    assert labelled.counts() == {"comment lines": 4} and str(labelled.notes[1]).endswith("a:6: comment: # newdoc")
    with pytest.raises(ValueError, match="b:2: expected a word and a tag"):  # no comment amid a sentence
        read_data(write(tmp_path / "b", "a\tO\n# two\nc\tO\n"))
    assert read_data(write(tmp_path / "c", "#tag O\n# O\n"))[0].words == ("#tag", "#")


@pytest.mark.parametrize(
    ("text", "words", "tags"),
    [  # of numbered lines from 1 or 0 in each sentence, through the file, and as a line number
        ("1\tNina\tB-PER\n2\tleft\tO\n\n1\tIn\tO\n", [("Nina", "left"), ("In",)], [("B-PER", "O"), ("O",)]),
        ("0 Nina B-PER\n1 left O\n\n2 In O\n", [("Nina", "left"), ("In",)], [("B-PER", "O"), ("O",)]),
        ("-DOCSTART- -X- O\n\nEU NNP B-ORG\n\n\nIn IN O", [("EU",), ("In",)], [("B-ORG",), ("O",)]),
        ("New York\tB-LOC\r\n.\tO\r\n", [("New York", ".")], [("B-LOC", "O")]),
        ("10\u00a0000 O\nkm O\n", [("10\u00a0000", "km")], [("O", "O")]),
        ("10\u00a0000\tO\n", [("10\u00a0000",)], [("O",)]),
        ("1 Nina B-PER\n2 left O\n\n4 In O\n", [("Nina", "left"), ("In",)], [("B-PER", "O"), ("O",)]),
        ("#\tx [1]\n1\tNina\tB-PER\tO\n2\tRio\tI-PER\tB-PER\n", [("Nina", "Rio")], [("B-PER", "I-PER")]),  # outer
        ("1\tNina\tB-PER\tO\n2\tleft\tO\tO\n", [("Nina", "left")], [("B-PER", "O")]),
        ("x 0 0 In IN O\nx 0 1 Rio NN B-LOC\n", [("In", "Rio")], [("O", "B-LOC")]),  # CoNLL-2012
        ("1 O\n2 O\n3 B-X\n", [("1", "2", "3")], [("O", "O", "B-X")]),  # numbers are words
        ("word\ttag\nNina\tB-PER\n\nword\ttag\nIn\tO\n", [("Nina",), ("In",)], [("B-PER",), ("O",)]),
        ("TOKEN\tNER_TAG\nNina\tB-PER\n", [("Nina",)], [("B-PER",)]),
        ("\tword\ttag\n0\tNina\tB-PER\n1\tleft\tO\n", [("Nina", "left")], [("B-PER", "O")]),
        ("label token\nB-PER Nina\n", [("Nina",)], [("B-PER",)]),
        ("B-PER\tNina\nO\tleft\n", [("Nina", "left")], [("B-PER", "O")]),
        ("word O\nB-52 B-X\n", [("word", "B-52")], [("O", "B-X")]),
        ("#\tO\n# text = Nina\tO\n", [("#", "# text = Nina")], [("O", "O")]),
        ("# id = 1\nNina NN O B-PER\n\n# id = 2\n# NN O O\n", [("Nina",), ("#",)], [("B-PER",), ("O",)]),
    ],
)  # fmt: skip
def test_columns_are_what_their_first_lines_say(file, text, words, tags):
    path = file("a.conll", text)
    sentences = read_data(path)
    assert [s.words for s in sentences] == words and [s.tags for s in sentences] == tags


def test_a_head_of_columns_is_no_word_under_io_unless_its_tag_is_one(file):
    bare = DataOptions(scheme="io")
    headed = load_data(file("a.conll", "Word Tag\nNina PER\nleft O\n"), bare)
    assert headed.sentences[0].words == ("Nina", "left")
    assert headed.counts() == {"lines that name the columns, left out": 1}
    assert load_data(file("b.conll", "word label\nNina label\n"), bare).sentences[0].words == ("word", "Nina")
    named = DataOptions(scheme="labels", tag_column="pos")
    assert load_data(file("c.conll", "token pos ner\nNina NE B-PER\n"), named).sentences[0].tags == ("NE",)


def test_numbers_before_words_without_tags_are_refused(file):
    with pytest.raises(ValueError, match="column 0 counts the words, and no column of tags is left"):
        load_data(file("a.conll", "1 Nina\n2 left\n"), DataOptions(scheme="io"))
    assert read_data(file("b.conll", "1 CD\n2 CD\n"), "labels", word_column=0)[0].words == ("1", "2")
    with pytest.raises(ValueError, match=r"c\.conll: column 0 has tags; put the words first"):
        read_data(file("c.conll", "B-PER Nina NN\nO left VB\n"), "labels")


@st.composite
def flat_entities(draw, labels=("A", "B-x", "I", "O"), neighbours=True):
    """Entities over 12 words that do not overlap; without `neighbours`, those of one type do not touch."""
    cuts = sorted(draw(st.sets(st.integers(0, 12), max_size=8)))
    found = []
    for start, end in itertools.pairwise(cuts):
        label = draw(st.sampled_from(["", *labels]))
        if label and (neighbours or not found or (found[-1].end, found[-1].label) != (start, label)):
            found.append(Entity(label, start, end))
    return found


# Any character but those that part words, lines and columns; a line break of another alphabet is no line break.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\ufeff"), min_size=1, max_size=6)
words = words.filter(lambda w: w.strip() == w and not w.startswith("-DOCSTART-"))
sentences_with_entities = st.lists(
    st.tuples(st.lists(words, min_size=12, max_size=12), flat_entities()), min_size=1, max_size=3
)


@pytest.mark.parametrize("scheme", LETTERS)
@given(data=sentences_with_entities, by_name=st.booleans())
def test_what_is_written_in_any_scheme_is_read_back(tmp_path_factory, scheme, by_name, data):
    written = [(w, encode_tags(e, len(w), scheme)) for w, e in data]
    file = write(tmp_path_factory.mktemp("c") / "a", format_conll(written))
    labelled = load_data(file, DataOptions(scheme=scheme if by_name else "auto"))
    assert [(list(s.words), list(gold_entities(s))) for s in labelled.sentences] == data
    assert not labelled.notes


@given(flat_entities(labels=("A", "I", "art-film"), neighbours=False))
def test_runs_without_prefixes_are_read_back(tmp_path_factory, entities):
    file = write(tmp_path_factory.mktemp("c") / "a", format_conll([(["w"] * 12, encode_tags(entities, 12, "io"))]))
    assert list(gold_entities(read_data(file, "io")[0])) == entities


@pytest.mark.parametrize("words", [["a\tb"], ["a\nb"], [""], [" "], ["-DOCSTART-"]])
def test_a_word_that_columns_cannot_hold_is_not_written(words):
    with pytest.raises(ValueError, match="cannot be written in CoNLL columns"):
        format_conll([(words, ["O"])])


@pytest.mark.parametrize(
    ("tags", "scheme", "expected"),
    [
        ("O I-A I-A B-A", "bio", [(1, "I-A begins an entity; read as B-A")]),
        ("B-A I-B", "bio", [(1, "I-B begins an entity; read as B-B")]),
        ("I-A B-A O B-A", "iob1", [(3, "B-A does not follow an entity of its type; read as I-A")]),
        ("B-A O", "bioes", [(0, "B-A is a one-word entity; read as S-A")]),
        ("O E-A S-A", "bioes", [(1, "E-A is a one-word entity; read as S-A")]),
        ("B-A I-A O", "bilou", [(1, "I-A ends an entity; read as L-A")]),
        ("B-A L-A L-A", "bilou", [(2, "L-A is a one-word entity; read as U-A")]),
        ("B-A M-A S-A", "bmes", [(1, "M-A ends an entity; read as E-A")]),
        ("B-A E-A S-B", "bioes", []),
    ],
)
def test_tags_that_do_not_fit_are_named_with_what_was_made_of_them(tags, scheme, expected):
    assert invalid_tags(tags.split(), scheme) == expected


@pytest.mark.parametrize("scheme", LETTERS)
@given(data=st.data())
def test_what_a_repair_gives_is_valid(scheme, data):
    letters = sorted({*LETTERS[scheme], "B"})
    tags = data.draw(st.lists(st.sampled_from(["O", *(f"{p}-{t}" for p in letters for t in "AB")])))
    entities = tags_to_entities(tags, scheme)
    repaired = encode_tags(entities, len(tags), scheme)
    assert not invalid_tags(repaired, scheme) and tags_to_entities(repaired, scheme) == entities
    assert bool(invalid_tags(tags, scheme)) == (repaired != tuple(tags))


def test_repaired_tags_are_noted_and_warned_of(tmp_path):
    file = write(tmp_path / "a", "x B-B\n\na O\nb I-A\n")
    assert {n.what: str(n) for n in load_data(file).notes} == {REPAIRED: f"{file}:4: I-A begins an entity; read as B-A"}
    with pytest.warns(UserWarning, match=r"a: 1 tag that does not fit .* a:4|a:4: I-A begins"):
        assert read_data(file)[1].tags == ("O", "B-A")


entity_lists = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 4), st.sampled_from("AB")).map(
        lambda t: Entity(t[2], t[0], t[0] + t[1])
    )
)


@given(entity_lists)
def test_flattening_keeps_what_is_outermost_and_nothing_that_overlaps(entities):
    flat = flatten_entities(entities)
    covered = [i for e in flat for i in range(e.start, e.end)]
    assert len(covered) == len(set(covered)) and set(flat) <= set(entities)
    for entity in set(entities) - set(flat):  # it had to give way to one that is no shorter
        assert any(
            o.start < entity.end and entity.start < o.end and o.end - o.start >= entity.end - entity.start for o in flat
        )


def test_overlapping_entities_are_kept_beside_the_outermost_tags():
    nested = (Entity("ORG", 0, 4), Entity("LOC", 3, 4), Entity("PER", 5, 6))
    sentence = Sentence(tuple("abcdef"), entities=nested)
    labelled = load_data([sentence])
    (read,) = labelled.sentences
    assert read.tags == ("B-ORG", "I-ORG", "I-ORG", "I-ORG", "O", "B-PER")
    assert read.entities == gold_entities(read) == nested
    assert labelled.counts() == {OVERLAPPING: 1} and "LOC 'd'" in str(labelled.notes[0])
    again = load_data([read])
    assert again.sentences == [read] and not again.notes
    plain = read_data([Sentence(tuple("ab"), entities=(Entity("X", 0, 2),))])[0]
    assert plain.entities is None and gold_entities(plain) == (Entity("X", 0, 2),)
    assert data_fingerprint([read]) != data_fingerprint([Sentence(read.words, read.tags)])
    with pytest.raises(ValueError, match=r"sentence 1 of the given data: the entity X \[1, 3\) is outside the 2 words"):
        read_data([Sentence(tuple("ab"), entities=(Entity("X", 1, 3),))])


def test_the_name_of_a_data_set_hangs_on_what_it_holds_and_not_on_where_it_lies():
    assert data_fingerprint([Sentence(("a",), ("O",))]) == data_fingerprint([Sentence(("a",), ("O",), where="x:1")])
    assert data_fingerprint([Sentence(("a",), ("O",))]) == "3a458bb286fd55791cd5"  # as stored in tagger folders
    spaced = [Sentence(("a", "b"), ("O", "O"), spaces) for spaces in (None, (False, True), (False, False))]
    assert len({data_fingerprint([sentence]) for sentence in spaced}) == 3  # `spacing=natural` reads them


def test_a_reader_gives_the_tags_as_they_stand(tmp_path):
    reading = read_raw(write(tmp_path / "a", "\na I-A\n\nb XX\nc O\n"))
    assert [s.tags for s in reading.sentences] == [("I-A",), ("XX", "O")]
    assert (reading.place(0), reading.place(1, 1)) == (f"{tmp_path / 'a'}:2", f"{tmp_path / 'a'}:5")
    assert label_words(reading, "labels").sentences == reading.sentences
    assert RawData(name="x", form="").place(1, 2) == "sentence 2 of the given data, word 3"


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
        ("👨\u200d👩\u200d👧! 👍🏽🇿🇦🇩🇪 ❤\ufe0f", ["👨\u200d👩\u200d👧 ! 👍🏽 🇿🇦 🇩🇪 ❤\ufe0f"]),
        ("1\ufe0f\u20e3❤\ufe0f", ["1\ufe0f\u20e3 ❤\ufe0f"]),
        # marks between letters end a word, and join digits and addresses; wherever sentences end
        ("Call Tom,he knows", "Call Tom , he knows"),
        ("Cc:Peter Novak", "Cc : Peter Novak"),
        ("Tom/Maria/Lee and/or 3,Tom,4", "Tom / Maria / Lee and / or 3 , Tom , 4"),
        ("Tom.He left.I know", "Tom . He left . I know"),
        ("1.Tom 2.Maria 30.AUG.96", "1 . Tom 2 . Maria 30.AUG.96"),
        ("Jose\u0301,he Jose\u0301.He", "Jose\u0301 , he Jose\u0301 . He"),
        ("1,000 10:30 1/2 3.5 10:30am", "1,000 10:30 1/2 3.5 10:30am"),
        ("AT&T O'Neill U.S. Ph.D J.Smith e.g.,he node.js", "AT&T O'Neill U.S. Ph.D J.Smith e.g. , he node.js"),
        ("F/A-18,he S/4HANA/OS/2 N/A T/Ada A/We Mr/Mrs", "F/A-18 , he S/4HANA / OS/2 N/A T / Ada A / We Mr / Mrs"),
        ("Mr.Tom's,he St.Petersburg", "Mr. Tom 's , he St. Petersburg"),
        ("to:Ada.Brandt@example.org,Tom@x.org.He", "to : Ada.Brandt@example.org , Tom@x.org . He"),
        ("(https://example.org/a,b?c=d#e).", "( https://example.org/a,b?c=d#e ) ."),
        ("www.Example.org/Tom example.org/a,b x.org:80", "www.Example.org/Tom example.org/a,b x.org:80"),
    ],
)
def test_raw_text_is_split_as_news_corpora_are(text, expected):
    found = words_of(text)
    assert (found if isinstance(expected, list) else " ".join(found)) == expected


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


def test_conllu_gives_syntactic_words_parts_of_speech_spaces_and_documents(file):
    labelled = load_data(file("a.conllu", UD))
    first, second, third = labelled.sentences
    assert first.words == ("We", "do", "n't", "know", "it", "(", "yet", ")", ".")
    assert first.tags == ("PRON", "AUX", "PART", "VERB", "PRON", "PUNCT", "ADV", "PUNCT", "PUNCT")
    running = "".join(" " * space + word for word, space in zip(first.words, first.spaces or (), strict=True))
    assert running == " We don't know it (yet)."
    assert second.words == ("vai", "de", "le", "!") and second.spaces == (True, True, True, False)
    assert [s.document for s in (first, second, third)] == ["letters", "letters", "document 2"]
    assert first.where.endswith("a.conllu:4") and third.where.endswith("a.conllu:24")
    (note,) = labelled.notes
    assert labelled.scheme == "labels" and str(note).endswith("a.conllu:9: empty node 4.1 left out")


@pytest.mark.parametrize(
    ("column", "tags"),
    [
        ("xpos", ("PRP", "VBP", "RB")),
        ("deprel", ("nsubj", "aux", "advmod")),
        ("LEMMA", ("we", "do", "not")),
        (3, ("PRON", "AUX", "PART")),
        ("-3", ("nsubj", "aux", "advmod")),
        ("feats:Number", ("Plur", "_", "_")),
        ("feats", ("Case=Nom|Number=Plur", "_", "_")),
    ],
)
def test_any_column_of_conllu_can_be_the_tags(file, column, tags):
    sentences = load_data(file("a.conllu", UD), DataOptions(scheme="labels", tag_column=column)).sentences
    assert (sentences[0].tags or ())[:3] == tags


def test_entities_in_misc_are_found_out_and_words_without_them_are_outside(file):
    labelled = load_data(file("a.conllu", UD), DataOptions(tag_column="misc:NER"))
    assert labelled.scheme == "bio" and [spans(s) for s in labelled.sentences] == [[("TIME", "yet")], [], []]


def test_columns_of_conllu_plus_are_named_in_the_file(file):
    text = "# global.columns = ID FORM PARSEME:MWE\n1\tgive\tB-1\n2\tup\tI-1\n\n"
    sentences = read_data(file("a.conllup", text), tag_column="parseme:mwe")
    assert [spans(s) for s in sentences] == [[("1", "give up")]]


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("1\tA\n", {}, r"a\.conllu:2: expected 10 columns separated by tabs, first a word's number"),
        ("2\tA\ta\tX" + "\t_" * 6 + "\n", {}, r"a\.conllu:2: word 2 does not follow word 0"),
        ("1-2\tA" + "\t_" * 8 + "\n1\ta\ta\tX" + "\t_" * 6 + "\n\n", {}, r"a\.conllu:4: .*before the token 1-2 'A'"),
        ("1\t \ta\tX" + "\t_" * 6 + "\n", {}, r"a\.conllu:2: expected a word and its upos"),
        ("1\tA\ta\t" + "\t_" * 6 + "\n", {}, r"a\.conllu:2: expected a word and its upos"),
        ("1\tA" + "\t_" * 8 + "\n", {}, r"a\.conllu: no word has upos; name another column"),
        ("1\tA\ta\tX" + "\t_" * 6 + "\n", {"tag_column": "misc:NER"}, r"no word has misc:NER"),
        (
            "1\tA\ta\tX" + "\t_" * 6 + "\n",
            {"tag_column": "upso"},
            r"no column 'upso' \(known: id,.*\); did you mean 'upos'\?",
        ),
        ("1\tA\ta\tX" + "\t_" * 6 + "\n", {"tag_column": "upos:x"}, r"no column 'upos:x'"),
        ("1\tA\ta\tX" + "\t_" * 6 + "\n", {"word_column": "misc:x"}, r"words must be a whole column"),
        ("1-1\tA" + "\t_" * 7 + "\tN=B-X\n", {"tag_column": "misc:N"}, r"a\.conllu:2: N is on the token 'A'"),
        ("", {}, r"a\.conllu has no sentences"),
    ],
)
def test_a_line_that_is_not_conllu_is_named(file, line, options, message):
    with pytest.raises(ValueError, match=message):
        read_data(file("a.conllu", "# text\n" + line), **options)

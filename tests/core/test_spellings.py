"""Tags in other spellings than B-PER are read where all tags of a file agree on one, else refused with right advice."""

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.tasks.data import load_data, read_data
from boustro.tasks.data.reading import RESPELLED, DataOptions
from boustro.tasks.data.schemes import LETTERS, encode_tags, gold_entities
from boustro.types import Entity
from labelled import UD, spans

GOLD = [Entity("PER", 0, 3), Entity("LOC", 3, 4), Entity("PER", 5, 6), Entity("PER", 6, 8)]
WORDS = [f"w{number}" for number in range(9)]


def spelled(form, scheme="bio", outside="O"):
    """The tags of `GOLD`; a spelling is a format of a letter and a type."""
    tags = encode_tags(GOLD, len(WORDS), scheme)
    return [outside if tag == "O" else form(tag[0], tag[2:]) for tag in tags]


TYPED = {
    "B_PER": "{0}_{1}",
    "B:PER": "{0}:{1}",
    "B.PER": "{0}.{1}",
    "B/PER": "{0}/{1}",
    "B|PER": "{0}|{1}",
    "B - PER": "{0} - {1}",
    "B–PER": "{0}–{1}",
    "PER-B": "{1}-{0}",
    "PER_B": "{1}_{0}",
    "PER:B": "{1}:{0}",
    "PER|B": "{1}|{0}",
}


@pytest.mark.parametrize(
    ("form", "scheme", "lower"),
    [(form, [*LETTERS][n % len(LETTERS)], n % 2 == m) for n, form in enumerate(TYPED) for m in range(2)],
)
def test_letters_and_types_in_any_spelling_are_read(form, scheme, lower, file):
    """In all schemes (BIO, IOB1, BIOES, BILOU, BMES), in columns and in records, with the letter in any case."""
    tags = spelled(lambda letter, label: TYPED[form].format(letter.lower() if lower else letter, label), scheme)
    written = file("a.conll", "".join(f"{word}\t{tag}\n" for word, tag in zip(WORDS, tags, strict=True)))
    for data in (written, [(WORDS, tags)], [{"words": WORDS, "tags": tags}]):
        labelled = load_data(data)
        assert labelled.scheme == scheme and list(gold_entities(labelled.sentences[0])) == GOLD
        assert labelled.counts() == {RESPELLED: len({*tags} - {"O"})}
    assert list(gold_entities(read_data(written, scheme)[0])) == GOLD
    with pytest.raises(ValueError, match="has a prefix; --scheme io is for labels without prefixes"):
        read_data(written, "io")


@pytest.mark.parametrize(("scheme", "form"), zip(LETTERS, cycle([str.upper, str.lower, lambda x: f"{x}-"])))
def test_bare_letters_are_entities_of_one_type(form, scheme):
    """`B I O` was refused with the advice --scheme io, which made entities of the types B and I of it."""
    one = [Entity("ENTITY", e.start, e.end) for e in GOLD]
    tags = [tag if tag == "O" else form(tag[0]) for tag in encode_tags(one, len(WORDS), scheme)]
    labelled = load_data([(WORDS, tags)])
    assert labelled.scheme == scheme and list(gold_entities(labelled.sentences[0])) == one
    with pytest.raises(ValueError, match="has a prefix; --scheme io"):
        read_data([(WORDS, tags)], "io")


@pytest.mark.parametrize("outside", ["o", "0", "_", "-", "-X-", "OUT", "Other", "None"])
def test_what_is_outside_of_entities_may_have_another_name(outside):
    tags = spelled("{}-{}".format, outside=outside)
    labelled = load_data([(WORDS, tags)])
    assert list(gold_entities(labelled.sentences[0])) == GOLD
    assert [str(note) for note in labelled.notes] == [f"sentence 1 of the given data, word 5: {outside} is read as O"]


def test_letters_of_lingpipe_and_placeholders_of_conll_are_read():
    assert spans(read_data([(list("abcd"), "B_X E_X W_Y O".split())])[0]) == [("X", "a b"), ("Y", "c")]
    assert spans(read_data([(list("abcd"), "B-X I-X -X- O".split())])[0]) == [("X", "a b")]


def test_a_key_of_conllu_may_have_another_spelling(file):
    for first, label in (("B_TIME", "TIME"), ("TIME-B", "TIME"), ("B", "ENTITY")):
        text = UD.replace("NER=B-TIME", f"NER={first}").replace("NER=O", "NER=o")
        labelled = load_data(file("a.conllu", text), DataOptions(tag_column="misc:NER"))
        assert labelled.scheme == "bio" and spans(labelled.sentences[0]) == [(label, "yet")]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("B-PER I-PER LOC", r"word 3: 'LOC' is not a valid .*, unlike 'B-PER'; correct the tags"),
        ("B_PER I_PER O LOC", r"word 4: 'LOC' is not a valid .*, unlike 'B_PER'; correct the tags"),
        ("B I O X", r"word 4: 'X' is not a valid .*, unlike 'B'; correct the tags"),
        ("B-PER I O", r"word 2: 'I' is not a valid .*, unlike 'B-PER'; correct the tags"),
        ("PER-B PER-I O LOC", r"word 4: 'LOC' is not a valid .*, unlike 'PER-B'; correct the tags"),
        ("(PER* *) * (LOC)", r"'\(PER\*'.* is not a valid .*: tags in brackets are not read; convert them to BIO"),
        ("NNP ( ) NN", r"for labels without prefixes use --scheme io"),
        ("PER LOC O", r"for labels without prefixes use --scheme io"),
        ("class-A class-B O", r"for labels without prefixes use --scheme io"),
        ("I NN O", r"for labels without prefixes use --scheme io"),
        ("S O", r"for labels without prefixes use --scheme io"),
        ("B_X L_X E_X O", r"mix|so that all have one spelling"),
        ("B-PER 0 _", r"correct the tags"),
    ],
)
def test_the_advice_for_other_tags_is_right(tags, message):
    """It never names --scheme io for tags with letters, which would make types such as `B-PER` of them."""
    with pytest.raises(ValueError, match=message) as caught:
        read_data([(tags.split(), tags.split())])
    assert ("--scheme io" in str(caught.value)) == ("without prefixes" in message)


def test_labels_that_look_like_letters_stay_labels(file):
    """Where --scheme asks for it, for parts of speech, and for types of one letter."""
    assert read_data([(list("abc"), ["B", "I", "O"])], "labels")[0].tags == ("B", "I", "O")
    assert [e.label for e in gold_entities(read_data([(list("abc"), ["I", "I", "O"])], "io")[0])] == ["I"]
    assert load_data([{"words": list("abc"), "upos": ["B", "I", "O"]}]).scheme == "labels"
    xpos = UD.replace("\tPRP\t", "\tB_P\t")
    assert load_data(file("a.conllu", xpos), DataOptions(tag_column="xpos")).scheme == "labels"


tags_of_a_scheme = st.sampled_from(["O", *(f"{letter}-{label}" for letter in "BI" for label in ("A", "B-x", "I", "O"))])


@given(st.lists(tags_of_a_scheme, min_size=1))
def test_tags_in_the_usual_spelling_stay_as_they_are(tags):
    assert RESPELLED not in load_data([(["w"] * len(tags), tags)]).counts()

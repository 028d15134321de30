"""CoNLL-U: syntactic words, their running text, any column as tags, and errors that name the line."""

import pytest

from boustro.tasks.data import load_data, read_data
from boustro.tasks.data.reading import DataOptions
from labelled import UD, spans


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
        ("x\tA" + "\t_" * 8 + "\n", {}, r"a\.conllu:2: expected 10 columns"),
        ("2\tA\ta\tX" + "\t_" * 6 + "\n", {}, r"a\.conllu:2: word 2 does not follow word 0"),
        ("1-0\tA\ta\tX" + "\t_" * 6 + "\n", {}, r"a\.conllu:2: word 1-0 does not follow word 0"),
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
        ("1\tA\ta\tX" + "\t_" * 6 + "\n", {"tag_column": 10}, r"no column 10"),
        ("1\tA\ta\tX" + "\t_" * 6 + "\n", {"word_column": "misc:x"}, r"words must be a whole column"),
        ("1-1\tA" + "\t_" * 7 + "\tN=B-X\n", {"tag_column": "misc:N"}, r"a\.conllu:2: N is on the token 'A'"),
        ("", {}, r"a\.conllu has no sentences"),
    ],
)
def test_a_line_that_is_not_conllu_is_named(file, line, options, message):
    with pytest.raises(ValueError, match=message):
        read_data(file("a.conllu", "# text\n" + line), **options)

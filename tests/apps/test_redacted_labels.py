"""Labels of parts of a text that is redacted: they stand where they stood, and quote no name that was masked."""

import csv
import io
import json
import re
from itertools import combinations

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated import FORMS, marked
from boustro.apps.cli.main import main
from boustro.apps.live.masks import Masks, Region
from boustro.apps.live.redactor import moved, rewrite
from boustro.apps.live.structured import Checker
from boustro.tasks.data.units import CODECS
from labelled import rows
from toy_tagger import ToyTagger

TEXTS = ["Ada Brandt réside à Port Lisse.", "🚒🚒 Ada Brandt left Port Lisse, été 1990.", "🚒 It rained."]
MASKS = {"Ada Brandt": "[PER_1]", "Port Lisse": "[LOC_1]", "Okonkwo": "[PER_2]"}
MASKED = [("[PER_1]", "PER"), ("[LOC_1]", "LOC")]


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """The command with a tagger that knows its names by heart."""
    monkeypatch.setattr("boustro.apps.live.structured.open_tagger", lambda *_: ToyTagger())


def masked(text: str) -> str:
    return re.sub("|".join(MASKS), lambda match: MASKS[match[0]], text)


def redacted(path, capsys, *options: str) -> str:
    assert main(["redact", str(path), *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "unit", "own"), [(f, unit, (n + m) % 2) for n, f in enumerate(FORMS) for m, unit in enumerate(CODECS)]
)
def test_labels_of_every_notation_and_unit_are_those_of_the_masked_text(form, unit, own, file, capsys):
    def records(texts, *names):
        return [FORMS[form](t, [(*one[:3], one[3] if own else None) for one in marked(t, unit, *names)]) for t in texts]

    found = [json.loads(line) for line in redacted(file("a.jsonl", rows(*records(TEXTS))), capsys).splitlines()]
    expected = records(map(masked, TEXTS), MASKED)
    for one, other in zip(found, expected, strict=True):
        if "tokens" in other:  # the words of a name are its mask each
            other["tokens"] = one["tokens"]
            assert not {"Ada", "Brandt", "Port", "Lisse"} & {*one["tokens"]}
        assert one == other


@given(st.text("ab ", max_size=12), st.sets(st.integers(0, 12)))
def test_a_part_of_a_text_is_moved_with_the_whole_of_each_mask_in_it(text, places):
    edges = sorted(place for place in places if place <= len(text))
    regions = [Region(a, b, "PER", None) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    released = rewrite(text, regions, Masks(["PER"]), "label")
    for start, end in combinations(range(len(text) + 1), 2):
        ((first, last),) = moved(released.redactions, [(start, end)])
        inside = [region for region in regions if region.start < end and start < region.end]
        start, end = min([start, *(r.start for r in inside)]), max([end, *(r.end for r in inside)])
        parts = [(0, start, 0, first), (start, end, first, last), (end, len(text), last, len(released.text))]
        for a, b, new_a, new_b in parts:
            own = [Region(r.start - a, r.end - a, "PER", None) for r in regions if a <= r.start and r.end <= b]
            assert released.text[new_a:new_b] == rewrite(text[a:b], own, Masks(["PER"]), "label").text


SQUAD = {"context": "Then Ada Brandt left in May.", "question": "When?"}
ANSWERS = [{"text": "in May", "start": 21}, {"text": "Brandt", "answer_start": 9}]
NESTED = {"title": "Okonkwo", "paragraphs": [{"context": SQUAD["context"], "qas": []}]}
TOKENS = [{"text": "Okonkwo", "start": 0, "end": 7, "id": 0}, {"text": "left", "start": 8, "end": 12}]
SENTENCE = ["Ada", "Brandt", "e\u0301te\u0301", "🦬", "May", "said", "in", "May", "(Okonkwo's)", ",", "Port", "Lisse"]
OF_SENTENCE = ["[PER_1]"] * 2 + SENTENCE[2:4] + ["[PER_2]", "said", "in", "May", "([PER_3]'s)", ",", *["[LOC_1]"] * 2]
LEFT = {"text": "Ada Brandt left.", "entities": [[11, 15, "A"]]}
NOT_OF_IT = {"segments": [{"start": 3, "end": 9, "text": "it rained"}], "pages": {"start": 1, "end": 9}, "n": [11, 15]}
BEFORE_AND_AFTER = {
    "a label that overlaps a mask has all of it": (
        {"text": "Mrs Ada Brandt left.", "entities": [[0, 7, "A"], [8, 19, "B"], [4, 14, "C"], [5, 6, "D"]]},
        {"text": "Mrs [PER_1] left.", "entities": [[0, 11, "A"], [4, 16, "B"], [4, 11, "C"], [4, 11, "D"]]},
    ),
    "and quotes it": (
        {"text": "Mrs Ada Brandt left.", "spans": [{"start": 0, "end": 7, "label": "A", "text": "Mrs Ada"}]},
        {"text": "Mrs [PER_1] left.", "spans": [{"start": 0, "end": 11, "label": "A", "text": "Mrs [PER_1]"}]},
    ),
    "by the name alone": (
        {"text": "Then Ada Brandt left.", "entities": [["Brandt", "A"]]},
        {"text": "Then [PER_1] left.", "entities": [["[PER_1]", "A"]]},
    ),
    "a pair": (
        ["Then Ada Brandt left.", [["Brandt", "A"], ["left", "B"]]],
        ["Then [PER_1] left.", [["[PER_1]", "A"], ["left", "B"]]],
    ),
    "columns": (
        {"text": "Ada Brandt left.", "entities": {"start": [0, 11], "end": [10, 15], "label": ["A", "B"]}},
        {"text": "[PER_1] left.", "entities": {"start": [0, 8], "end": [7, 12], "label": ["A", "B"]}},
    ),
    "a relation": (
        {"text": "Ada Brandt left Port Lisse.", "head": [0, 10], "tail": {"start": 16, "end": 26}, "label": "from"},
        {"text": "[PER_1] left [LOC_1].", "head": [0, 7], "tail": {"start": 13, "end": 20}, "label": "from"},
    ),
    "a word in two texts": (
        {"sentence1": "Ada Brandt left.", "sentence2": "It left.", "start1": 11, "end1": 15, "start2": 3, "end2": 7},
        {"sentence1": "[PER_1] left.", "sentence2": "It left.", "start1": 8, "end1": 12, "start2": 3, "end2": 7},
    ),
    "answers": (
        SQUAD | {"answers": ANSWERS},
        {"context": "Then [PER_1] left in May.", "question": "When?"}
        | {"answers": [{"text": "in May", "start": 18}, {"text": "[PER_1]", "answer_start": 5}]},
    ),
    "SQuAD": (
        {"version": "1", "data": [NESTED, SQUAD | {"answers": {"text": ["in May"], "answer_start": [21]}}]},
        {
            "version": "1",
            "data": [
                {"title": "[PER_1]", "paragraphs": [{"context": "Then [PER_2] left in May.", "qas": []}]},
                {
                    "context": "Then [PER_2] left in May.",
                    "question": "When?",
                    "answers": {"text": ["in May"], "answer_start": [18]},
                },
            ],
        },
    ),
    "words": (
        {"words": ["Ada", "left"], "tags": ["B-Ada", "O"], "ner": [[0, 1, "Okonkwo"]]},
        {"words": ["[PER_1]", "left"], "tags": ["B-[PER_1]", "O"], "ner": [[0, 1, "Okonkwo"]]},
    ),
    "words of a sentence without its text": (
        {"tokens": SENTENCE, "ner_tags": [1, 2, *[0] * 8, 5, 6], "chunks": SENTENCE[:2]},
        {"tokens": OF_SENTENCE, "ner_tags": [1, 2, *[0] * 8, 5, 6], "chunks": ["[PER_4]", "Brandt"]},
    ),
    "several sentences": (
        {"words": [["Ada", "Brandt"], [], ["", "Ada", "\n", "left", "\u00a0"]], "tokens": []},
        {"words": [["[PER_1]", "[PER_1]"], [], ["", "[PER_2]", "\n", "left", "\u00a0"]], "tokens": []},
    ),
    "no words of a sentence": (
        {"words": ["Ada", "Brandt", "Port Lisse"], "tokens": ["Ada", "Brandt", 3]},
        {"words": ["[PER_1]", "Brandt", "[LOC_1]"], "tokens": ["[PER_1]", "Brandt", 3]},
    ),
    "words that are not those of the text": (
        {"text": "It rained.", "tokens": ["Ada", "Brandt", "left"], "tags": ["B-PER", "I-PER", "O"]},
        {"text": "It rained.", "tokens": ["[PER_1]", "[PER_1]", "left"], "tags": ["B-PER", "I-PER", "O"]},
    ),
    "tokens": (
        {"text": "Okonkwo left.", "tokens": TOKENS},
        {"text": "[PER_1] left.", "tokens": [TOKENS[0] | {"text": "[PER_1]"}, TOKENS[1]]},
    ),
    "another key": (
        {"id": "a", "body": "Ada Brandt left.", "mine": [[11, 15, "A"]]},
        {"id": "a", "body": "[PER_1] left.", "mine": [[8, 12, "A"]]},
    ),
    "a label that is the name is read": (
        {"text": "Ada Brandt left.", "entities": [[0, 10, "Ada"], [0, 10, "Okonkwo"]]},
        {"text": "[PER_1] left.", "entities": [[0, 7, "[PER_2]"], [0, 7, "Okonkwo"]]},
    ),
    "a note beside a label is read": (
        LEFT | {"entities": [{"start": 11, "end": 15, "label": "A", "label_note": "by Okonkwo", "entity": "Okonkwo"}]},
        {
            "text": "[PER_1] left.",
            "entities": [{"start": 8, "end": 12, "label": "A", "label_note": "by [PER_2]", "entity": "[PER_2]"}],
        },
    ),
    "columns by the name": (
        {"text": "Ada Brandt left.", "entities": {"text": ["Ada", "left"], "label": ["left", "A"]}},
        {"text": "[PER_1] left.", "entities": {"text": ["[PER_2]", "left"], "label": ["left", "A"]}},
    ),
    "JSON in JSON": (
        {"log": json.dumps(LEFT)},
        {"log": json.dumps({"text": "[PER_1] left.", "entities": [[8, 12, "A"]]})},
    ),
    "no labels of the text": (
        LEFT | NOT_OF_IT | {"entities": []},
        {"text": "[PER_1] left.", "entities": []} | NOT_OF_IT,
    ),
    "no place in it": (LEFT | {"entities": [[90, 95, "A"]]}, {"text": "[PER_1] left.", "entities": [[90, 95, "A"]]}),
}


@pytest.mark.parametrize(("before", "after"), BEFORE_AND_AFTER.values(), ids=[*BEFORE_AND_AFTER])
def test_each_form_of_labels_follows_its_text(before, after, file, capsys):
    """And the same in Python."""
    assert json.loads(redacted(file("a.jsonl", rows(before)), capsys)) == after
    assert json.loads(Checker(ToyTagger()).json(json.dumps(before), Masks(ToyTagger.types))) == after


RECORD = {"text": "Then Ada Brandt left.", "entities": [{"start": 16, "end": 20, "label": "A"}, [5, 8, "B"]]}
AFTER = {"text": "Then [PER_1] left.", "entities": [{"start": 13, "end": 17, "label": "A"}, [5, 12, "B"]]}

WORDS = {"n": "a", "tokens": SENTENCE, "entities": [0, 2]}
OF_WORDS = WORDS | {"tokens": OF_SENTENCE}


def as_csv(records) -> str:
    made = io.StringIO()
    table = csv.DictWriter(made, records[0])
    table.writeheader()
    lists = [{key: json.dumps(cell) for key, cell in one.items() if isinstance(cell, list)} for one in records]
    table.writerows(one | cells for one, cells in zip(records, lists, strict=True))
    return made.getvalue()


DOORS = {
    "a.jsonl": lambda records: rows(*records),
    "a.json": json.dumps,
    "frame.json": lambda records: json.dumps(
        {name: {str(n): r[name] for n, r in enumerate(records)} for name in records[0]}
    ),
    "a.csv": as_csv,
}


@pytest.mark.parametrize(
    ("before", "after", "options"),
    [
        (RECORD, AFTER, []),
        (RECORD, AFTER, ["--text-column", "text"]),
        (RECORD, AFTER, ["--same-everywhere"]),
        (WORDS, OF_WORDS, ["--text-column", "tokens"]),
        (WORDS, OF_WORDS, ["--text-column", "tokens,n", "--same-everywhere"]),
    ],
)
@pytest.mark.parametrize("name", DOORS)
def test_labels_and_words_follow_their_text_through_every_door(
    name, before, after, options, file, tmp_path, capsys, monkeypatch
):
    (tmp_path / "in").mkdir()
    path, expected = file(f"in/{name}", DOORS[name]([before] * 3)), DOORS[name]([after] * 3)
    assert redacted(path, capsys, *options) == expected
    out = tmp_path / "out"
    assert (
        redacted(path.parent, capsys, *options, "--out", str(out)) == ""
        and (out / name).read_bytes().decode() == expected
    )
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert redacted("-", capsys, *options) == expected


@pytest.mark.parametrize("ending", ["parquet", "xlsx"])
def test_labels_in_a_table_with_types_follow_their_text(ending, tmp_path, capsys):
    pandas, is_typed = pytest.importorskip("pandas"), ending == "parquet"
    frames = []
    for record in (RECORD, AFTER):
        spans = record["entities"][:1]
        cells = [spans if is_typed else json.dumps(spans), None if is_typed else "[]"]
        frames.append(pandas.DataFrame({"text": [record["text"], "It rained."], "n": [1, 2], "entities": cells}))
    given, out = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    frames[0].to_parquet(given) if is_typed else frames[0].to_excel(given, index=False)
    assert main(["redact", str(given), "--out", str(out)]) == 0
    assert "columns that are not read and stay: n\n" in capsys.readouterr().err
    if is_typed:
        found, before, after = (pyarrow.parquet.read_table(p) for p in (out, given, given))
        assert found.schema.equals(before.schema) and found.drop_columns(["text", "entities"]).equals(
            after.select(["n"])
        )
        assert found["entities"].to_pylist() == [AFTER["entities"][:1], None]
    else:
        assert pandas.read_excel(out).equals(frames[1])


@pytest.mark.parametrize("ending", ["parquet", "arrow", "xlsx"])
def test_words_in_the_cells_of_a_table_with_types_are_read_as_a_sentence(ending, tmp_path, capsys):
    """And a name has its mask in every row, if that is asked for."""
    pandas, is_typed = pytest.importorskip("pandas"), ending != "xlsx"
    rows_of = [SENTENCE, [], None, ["Okonkwo", "met", "Ada", "Brandt"]]
    after = [OF_SENTENCE, [], None, ["[PER_3]", "met", "[PER_1]", "[PER_1]"]]
    given, out = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    cells = [one if is_typed or one is None else json.dumps(one, ensure_ascii=False) for one in rows_of]
    frame = pandas.DataFrame({"tokens": cells, "n": [1, 2, 3, 4]})
    write = {
        "parquet": frame.to_parquet,
        "arrow": frame.to_feather,
        "xlsx": lambda path: frame.to_excel(path, index=False),
    }
    write[ending](given)
    assert main(["redact", str(given), "--text-column", "tokens", "--same-everywhere", "--out", str(out)]) == 0
    assert "one mask stands for several" not in capsys.readouterr().err
    if is_typed:
        read = {"parquet": pandas.read_parquet, "arrow": pandas.read_feather}[ending](out)
        found = [None if cell is None else [*cell] for cell in read["tokens"]]
    else:
        found = [json.loads(cell) if isinstance(cell, str) else None for cell in pandas.read_excel(out)["tokens"]]
    assert found == after


@pytest.mark.parametrize(
    "spelled", ['{"tokens":["A\\u0064a", "Brandt" ,"\\/"]}', '{"log": "{\\"tokens\\": [\\"left\\"]}"}']
)
def test_words_that_stay_keep_their_spelling(spelled, file, capsys):
    expected = spelled.replace('"A\\u0064a", "Brandt"', '"[PER_1]", "[PER_1]"')
    assert redacted(file("a.jsonl", f"{spelled}\n"), capsys) == f"{expected}\n"


@pytest.mark.parametrize("named", ["text", "tokens"])
def test_json_in_a_cell_that_is_nested_too_deep_is_a_problem_of_its_row(named, file, capsys):
    path = file("a.csv", f"text,tokens\nAda left.,{'[' * 900}{']' * 900}\n")
    assert main(["redact", str(path), "--text-column", named]) == 1
    assert capsys.readouterr().err == f"boustro: {path}:2: JSON that is nested too deep to be read\n"


def test_words_that_have_one_mask_together_are_noted(file, capsys):
    records = [{"text": f"{name} left.", "words": [*name.split(), "left", "."]} for name in ("Ada Brandt", "Okonkwo")]
    path = file("a.jsonl", rows(*(one | {"tags": ["O"] * len(one["words"])} for one in records)))
    assert main(["redact", str(path)]) == 0
    out, said = capsys.readouterr()
    assert "note: 1 record in which one mask stands for several listed words" in said
    assert [json.loads(line)["words"] for line in out.splitlines()] == [
        ["[PER_1]"] * 2 + ["left", "."],
        ["[PER_1]", "left", "."],
    ]


def test_labels_of_texts_that_are_not_named_stay(file, capsys):
    given = {"text": "Okonkwo left.", "meta": LEFT, "mine": {"about": LEFT}}
    path = file("a.jsonl", rows(given))
    assert json.loads(redacted(path, capsys, "--text-column", "text")) == given | {"text": "[PER_1] left."}
    after = {"about": {"text": "[PER_1] left.", "entities": [[8, 12, "A"]]}}
    assert json.loads(redacted(path, capsys, "--text-column", "mine")) == given | {"mine": after}


def test_a_broken_row_elsewhere_in_the_file_hides_no_unit(file, tmp_path, capsys):
    deep = '{"a":' * 900 + "1" + "}" * 900
    record = rows(FORMS["doccano"](TEXTS[1], marked(TEXTS[1], "UTF-16 units"))).strip()
    path = file("a.jsonl", f'{record}\n{{"text": "é"\n{deep}\n["Ada", [[0, 3, "A"]]]\n')
    found = redacted(path, capsys, "--errors", str(tmp_path / "e.jsonl")).splitlines()
    expected = FORMS["doccano"](masked(TEXTS[1]), marked(masked(TEXTS[1]), "UTF-16 units", MASKED))
    assert json.loads(found[0]) == expected and json.loads(found[-1]) == ["[PER_1]", [[0, 7, "A"]]]
    capsys.readouterr()
    named = ["--text-column", "text", "--errors", str(tmp_path / "f.jsonl")]
    assert json.loads(redacted(path, capsys, *named).splitlines()[0]) == expected

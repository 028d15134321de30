"""Redaction of text in chunks: the same text, whatever the chunks, and nothing of a name before it is masked."""

import gzip
import json
import os
import random
import re
import shutil
import unicodedata
import zipfile
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import boustro
from boustro.apps.batch.redact import RedactionJob
from boustro.apps.cli.main import main
from boustro.apps.live.masks import Masks, Region, Restorer, TooManyNames, merged, name_parts, restore
from boustro.apps.live.redactor import THRESHOLD, Contradiction, Redactor, open_tagger, rewrite, whole_characters
from boustro.apps.live.structured import BodyTexts, Checker
from boustro.heads.training import mix_all
from boustro.options import OptionError
from boustro.tasks.tagger.tags import may_be_name, without_lone_words
from boustro.text.columnar import write_columns
from boustro.types import Entity
from conftest import ROOT
from labelled import DATA
from toy_tagger import NAMES, Event, ToyLive, ToyTagger

TEXT = "Ada Brandt and Élodie 🦬 met Okonkwo in Port Lisse; in May it rained. May said: call Ada at +49 30 1234567, ok?"
MASKED = (
    "[PER_1] and [PER_2] 🦬 met [PER_3] in [LOC_1]; in May it rained. [PER_4] said: call [PER_5] at +[PHONE_1], ok?"
)
WORDS = [*NAMES, "May", "said", "Port", "Brandt", "it", "rained.", "🦬", "[PER_1]", "[PER_", "[LOC_2]", "]", "3"]
texts = st.lists(st.sampled_from([*WORDS, " ", " ", "\n", "-"]), max_size=30).map("".join)


def chunked(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[a:b] for a, b in pairwise(places)]


def halves(text: str) -> str:
    """Characters beyond the first plane as two halves, as JSON of other programs has them."""
    units = text.encode("utf-16-le")
    return "".join(units[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(units), 2))


def redact(chunks: list[str], **options) -> tuple[str, list]:
    redactor = Redactor(ToyTagger(), **options, live=ToyLive)
    found = [*map(redactor.feed, chunks), redactor.end()]
    assert redactor.held == 0
    return "".join(f.text for f in found), [r for f in found for r in f.redactions]


@pytest.mark.parametrize("delay", [1, 2, 8, None])
def test_any_chunks_give_the_same_text_with_the_same_masks(delay):
    draw = random.Random(1)
    for _ in range(60):
        cuts = draw.choices(range(len(TEXT)), k=draw.randint(0, 40))
        text, found = redact(chunked(TEXT, cuts), delay=delay)
        assert text == MASKED
        assert [text[r.at : r.at + len(r.written)] for r in found] == [r.written for r in found]
    assert redact(list(halves(TEXT)), delay=delay)[0] == MASKED


def test_without_a_tagger_that_of_the_package_reads():
    redactor = Redactor(labels=["PERSON"])
    assert redactor.feed("Ada Brandt moved to Leeds.").text + redactor.end().text == "[PERSON_1] moved to Leeds."
    checker = Checker()
    assert checker.json('{"by": "Ada Brandt"}', Masks(checker.labels)) == '{"by": "[PERSON_1]"}'


def test_a_word_that_may_be_in_a_name_is_left_out_whole_or_in_a_stream():
    text, redactor = "any news from lisse about the parcel yet?", Redactor()
    assert not boustro.load("starter-names").predict(text)
    streamed = "".join(redactor.feed(letter).text for letter in text) + redactor.end().text
    assert "lisse" not in streamed
    slot = BodyTexts().text(text, "")
    (checker := Checker()).fill([slot], Masks(checker.labels))
    assert "lisse" not in slot.result
    for counted in (redactor.counted, checker.counted):
        assert counted.words == 8 and 0.125 <= counted.share < 0.5
    assert str(counted) == f"{counted.masked} of 8 words ({counted.share:.1%}) are masked"
    best = Redactor(threshold=1)
    assert best.feed(text).text + best.end().text == text


def test_a_folder_is_opened_once_in_a_process_and_again_when_it_is_written_anew(tagger_folder, tmp_path, monkeypatch):
    opened, real = [], boustro.Tagger.from_pretrained
    monkeypatch.setattr(boustro.Tagger, "from_pretrained", lambda folder: opened.append(folder) or real(folder))
    shutil.copytree(tagger_folder, tmp_path / "ner")
    with ThreadPoolExecutor(8) as pool:
        taggers = list(pool.map(lambda _: open_tagger(str(tmp_path / "ner"), threshold=0.2), range(8)))
    assert [*map(str, opened)] == [str(tmp_path / "ner")] and {tagger.threshold for tagger in taggers} == {0.2}
    os.utime(tmp_path / "ner" / "manifest.json", ns=(1, 1))
    open_tagger(tmp_path / "ner")
    assert len(opened) == 2


def test_a_word_over_the_threshold_is_in_an_entity_of_a_type_that_counts(tagger_folder):
    tagger = boustro.load(tagger_folder)
    sentences = boustro.read_data(DATA)
    head, inputs = tagger.fitted.head, tagger.fitted.inputs(sentences)
    scores, lengths = head._decoded(mix_all(head, inputs.streams).float(), torch.tensor(inputs.sizes))
    p = head.decoder._marginals(scores, lengths)
    people = p[:, [tag.endswith("PER") for tag in head.labels]].sum(1)
    own = np.concatenate(tagger.tag(sentences))
    for least in (0.5, 0.01, 1e-4):
        found = np.concatenate(tagger.with_threshold(least).tag(sentences))
        assert ((found != "O") >= (own != "O")).all() and (found != "O")[1 - p[:, 0] >= least].all()
        found = np.concatenate(tagger.with_threshold(least, ["PER"]).tag(sentences))
        assert np.char.endswith(found, "PER")[people >= least].all() and ((found != "O") >= (own != "O")).all()
    assert (found != own).any() and tagger.threshold is None
    text = " ".join(sentences[0].words)
    assert tagger.predict(text, threshold=0.01) == tagger.with_threshold(0.01).predict(text)
    with pytest.raises(ValueError, match="both say how unlikely"):
        tagger.predict(text, recall=0.5, threshold=0.01)


@given(texts, st.lists(st.integers(0, 200), max_size=12), st.sampled_from([1, 3, None]))
def test_chunks_and_the_whole_text_agree_whatever_the_text(text, cuts, delay):
    def masks_of(chunks):
        found = redact(chunks, delay=delay)[0]
        return re.sub(r"_\d+]", "]", found) if "_" in text else found  # a mask that comes later can take a number

    assert masks_of(chunked(text, cuts)) == masks_of(list(text))


def test_nothing_of_a_name_is_released_before_it_is_final():
    redactor = Redactor(ToyTagger(), delay=2, live=ToyLive)
    seen = ""
    for character in "It rained on Ada Brandt and on Port Lisse too, they say, in all of the spring.":
        seen += redactor.feed(character).text
        assert all(start not in seen for start in ("A", "Br", "Po", "Li"))
    assert redactor.held > 0 and "spring" not in seen
    assert seen + redactor.end().text == "It rained on [PER_1] and on [LOC_1] too, they say, in all of the spring."


def test_what_is_written_instead():
    assert redact([TEXT], write="label")[0].startswith("[PER] and [PER] 🦬 met [PER] in [LOC];")
    text, found = redact([TEXT], write="event", labels=["PHONE"])
    assert text.endswith("call Ada at +, ok?") and [(r.label, r.written) for r in found] == [("PHONE", "")]
    assert text[found[0].at :] == ", ok?" and found[0].score == 0.9


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (Redactor, {"tagger": ToyTagger(), "labels": ["PERS"], "live": ToyLive}, "did you mean 'PER'"),
        (Redactor, {"tagger": ToyTagger(), "threshold": 0.1, "live": ToyLive}, "a threshold is for a Tagger"),
        (Redactor, {"labels": []}, "no label is named"),
        (Checker, {"labels": ["person"]}, "no label 'person'; did you mean 'PERSON'\\? \\(it has ORGANISATION, OTHER"),
    ],
)
def test_labels_and_thresholds_that_a_tagger_has_not_are_refused(make, options, said):
    with pytest.raises(OptionError, match=said):
        make(**options)


def test_a_name_has_one_mask_in_all_texts_of_a_conversation():
    masks = Masks(ToyTagger.types)
    assert masks.mask("LOC", "Port  LISSE") == masks.mask("LOC", "Port\nLisse") == "[LOC_1]"
    assert redact(["Okonkwo saw Ada\u00a0 Brandt."], masks=masks, delay=1)[0].startswith("[PER_1] saw [PER_2]")
    text, _ = redact(["Ada and Okonkwo left [LOC_1] for Zürich."], masks=masks, delay=1)
    assert text == "[PER_2] and [PER_1] left [LOC_1] for [LOC_2]."


def test_a_mask_in_the_text_stays_and_its_number_is_taken():
    assert redact(list("[PER_1] saw Ada."))[0] == "[PER_1] saw [PER_2]."
    masks = Masks(["PER"])
    spans = [Region(0, 14, "PER", None), Region(22, 27, "PER", None)]
    assert rewrite("Dr [PER_7], Li called PER_7", spans, masks, "mask").text == "[PER_1][PER_7][PER_2] called [PER_3]"
    assert rewrite("[PER_7]", [Region(1, 6, "PER", None)], masks, "mask").text == "[PER_7]"
    assert redact(["[PHONE_12345] +49 30 1234567"])[0] == "[PHONE_12345] +[PHONE_1]"
    for chunks in (["Ada, [PER_1], Okonkwo"], list("Ada, [PER_1], Okonkwo")):  # behind a name
        assert redact(chunks)[0] == "[PER_2], [PER_1], [PER_3]"


EDGES = {
    "«| Ada Brandt |» Lisse |": "| [PER_1] | Lisse |",
    "«Ada | Okonkwo»": "[PER_1] | [PER_2]",
    "<«b>Ada</b> Brandt»": "<b>[PER_1]</b> [PER_2]",
    "</«p»>\n<«br/»>«<i»>": "</p>\n<br/><i>",
    "«<Ada Brandt>» «<ada>»": "<[PER_1]> <[PER_2]>",
    "«**Ada**» «`Ada`» «_Ada_» «~~Ada~~,»": "**[PER_1]** `[PER_1]` _[PER_1]_ ~~[PER_1]~~,",
    "&«quot»;Ada «&#39;Ada&nbsp;»": "&quot;Ada &#39;[PER_1]&nbsp;",
    "«‘Ada’» «“Ada”» «(Ada)!» «Ada\u200b»": "‘[PER_1]’ “[PER_1]” ([PER_1])! [PER_1]\u200b",
    "«José García» «Jose\u0301 Garci\u0301a» «JOSÉ\n GARCÍA.»": "[PER_1] [PER_1] [PER_1].",
    "«O’Brien» «O'Brien» «Anna‑Lena» «Anna-Lena»": "[PER_1] [PER_1] [PER_2] [PER_2]",
    "«दानि» «...» «12:30» «747 | Ada» «030 12»": "[PER_1] ... 12:30 747 | [PER_2] [PHONE_1]",
    "«Ada 🦬» «Ada ❤️»": "[PER_1] 🦬 [PER_1] ❤️",
    "<«PERSON»> «[LOCATION_2] Ada» [«E-MAIL»] «<US_SSN>»": "<PERSON> [LOCATION_2] [PER_1] [E-MAIL] <US_SSN>",
    "«Ada¹» «Ada[1]» «Ada²³,» «Adaᵃ» «Mª»": "[PER_1]¹ [PER_1][1] [PER_1]²³, [PER_1]ᵃ [PER_2]",
}
"""What a tagger finds, between « and », and the text with masks."""


class Finder(ToyTagger):
    """Finds what it is told."""

    def __init__(self, marked: str) -> None:
        super().__init__()
        self.text, self.spans = "", []
        for part in re.split("[«»]", marked):
            self.spans.append((len(self.text), len(self.text) + len(part)))
            self.text += part

    def find(self, text):
        begin = text.find(self.text)
        spans = [(begin + a, begin + b) for a, b in self.spans[1::2]]
        return [Entity("PHONE" if text[a] == "0" else "PER", a, b, text[a:b], 0.9) for a, b in spans]


@pytest.mark.parametrize("marked", EDGES)
def test_a_mask_begins_and_ends_where_a_name_does_at_every_door(marked):
    tagger, masked = Finder(marked), EDGES[marked]
    redactor = Redactor(tagger, None, live=ToyLive)
    redactor._live._decide = lambda until, ended: [
        Event("final", e.label, e.start, e.end, e.text, 1) for e in tagger.find(tagger.text)
    ]
    redactor._live.feed = lambda chunk: []
    assert redactor.feed(tagger.text).text + redactor.end().text == masked
    checker, reading = Checker(tagger), BodyTexts()
    slot = reading.text(tagger.text, "")
    checker.fill([slot], Masks(tagger.types))
    assert slot.result == masked
    given = json.dumps({"a": {"to": tagger.text}})
    assert json.loads(checker.json(given, Masks(tagger.types))) == {"a": {"to": masked}}


FIELDS = {
    "name=Ada+Brandt&city=Port+Lisse": "name=[PER_1]&city=[LOC_1]",
    "GET /find?q=Ada%20Brandt&x=1#top HTTP/1.1": "GET /find?q=[PER_1]&x=1#top HTTP/1.1",
    "see ?q=Z%C3%BCrich, http://a.example/?by=Ada&amp;Okonkwo=Okonkwo%0AAda": (
        "see ?q=[LOC_1], http://a.example/?by=[PER_1]&amp;[PER_2]=[PER_2]%0A[PER_1]"
    ),
    "mailto:ada@a.example?subject=Dear%20Ada": "mailto:ada@a.example?subject=Dear%20[PER_1]",
    'by: Ada; to=Okonkwo {"by": "Ada", "to":"Okonkwo"}': 'by: [PER_1]; to=[PER_2] {"by": "[PER_1]", "to":"[PER_2]"}',
    "1+1=2 & x=%FF&y=Ada+": "1+1=2 & x=%FF&y=[PER_1]+",
}


@pytest.mark.parametrize("text", FIELDS)
def test_the_values_of_fields_in_a_text_are_read_one_by_one_and_all_else_stays(text):
    checker, slot = Checker(ToyTagger()), BodyTexts().text(text, "")
    checker.fill([slot], Masks(checker.labels))
    assert slot.result == FIELDS[text]
    assert checker.json(json.dumps({"a": text}), Masks(checker.labels)) == json.dumps({"a": FIELDS[text]})


def test_a_key_is_in_no_mask_of_a_text_that_arrives():
    text, places = "Ada&city=Port%20Lisse&Okonkwo=Ada", [(0, 8), (9, 21), (22, 29), (30, 33)]
    regions = [Region(start, end, "PER", 1) for start, end in places]
    found = [text[part.start : part.end] for region in regions for part in name_parts(text, [region])]
    assert found == ["Ada", "Port", "Lisse", "Okonkwo", "Ada"]


def test_regions_that_overlap_are_one():
    found = [Region(5, 12, "LOC", 0.5), Region(2, 9, "PER", 0.9), Region(3, 4, "X", 1), Region(12, 13, "X", 1)]
    assert [(r.start, r.end, r.label) for r in merged(found)] == [(2, 12, "PER"), (12, 13, "X")]


class Lying(ToyTagger):
    def __init__(self, events, safe):
        self.events, self.safe = events, safe

    def live(self, delay=None):
        return self

    def feed(self, chunk):
        return self.events

    def end(self):
        return []


@pytest.mark.parametrize(
    ("events", "safe"), [([], 9), ([Event("final", "PER", 3, 9, "", 1)], 3), ([Event("final", "PER", 0, 2, "", 1)], 3)]
)
def test_a_tagger_that_contradicts_itself_ends_it(events, safe):
    redactor = Redactor(Lying([], 3), live=Lying.live)
    redactor.feed("text")
    redactor._live = Lying(events, safe)
    with pytest.raises(Contradiction):
        redactor.feed("more")
    with pytest.raises(RuntimeError, match="begin another"):
        redactor.end()


def test_an_entity_and_a_mask_are_released_whole_or_not_at_all():
    tagger = Lying([], 2)
    redactor = Redactor(tagger, live=Lying.live)
    assert redactor.feed("[PER_1] ").text == ""
    tagger.safe = 7
    assert redactor.feed("[PER").text == "[PER_1]"
    tagger.events, tagger.safe = [Event("final", "LOC", 10, 17, "", 1)], 14
    assert redactor.feed("_2] x").text == " "  # the entity begins in a mask
    tagger.events = []
    assert redactor.end().text == "[PER_2] [LOC_1]"


def test_a_failure_of_the_tagger_ends_it_and_releases_nothing():
    redactor = Redactor(ToyTagger(fails_at="bad"), delay=0, live=ToyLive)
    assert redactor.feed("good and ").text == "good and "
    with pytest.raises(RuntimeError, match="cannot read"):
        redactor.feed("so bad ")
    with pytest.raises(RuntimeError, match="begin another"):
        redactor.feed("x")


def test_half_characters_are_joined_or_replaced():
    assert whole_characters("a\ud83e", last=False) == ("a", "\ud83e")
    assert whole_characters("\ud83e\uddac", last=False) == ("🦬", "")
    assert whole_characters("\ud83e", last=True) == ("\ufffd", "")
    assert whole_characters("\uddacx", False)[0] == "\ufffdx"


@given(
    st.lists(st.sampled_from(["[PER_1]", "[PER_10]", "[PER_2]", "[", "[PER_", "1", "]", "x "]), max_size=12), st.data()
)
def test_names_are_put_back_whatever_the_chunks(parts, data):
    names, text = {"[PER_1]": 'Ada "A."\n', "[PER_10]": "Li"}, "".join(parts)
    cuts = data.draw(st.lists(st.integers(0, 60), max_size=8))
    restorer = Restorer(names)
    assert "".join([*map(restorer.feed, chunked(text, cuts)), restorer.end()]) == restore(text, names)


def test_names_in_json_are_escaped():
    assert restore("[PER_1]", {"[PER_1]": 'A "B"\n'}, in_json=True) == 'A \\"B\\"\\n'


def test_there_are_as_many_masks_as_their_digits_allow_and_too_many_names_end_the_work_early(
    toy, file, tmp_path, monkeypatch, capsys
):
    masks = Masks(["PER"])
    last = [masks.mask("PER", f"Ada {number}") for number in range(12345)][-1]
    assert (last, restore(f"see {last}", masks.names)) == ("[PER_12345]", "see Ada 12344")
    assert masks.unfinished(last[:-1]) == 0 == masks.unfinished("[PER_123456")
    monkeypatch.setattr("boustro.apps.live.masks.MOST_NUMBER", 1)
    few = Masks(["PER"])
    with pytest.raises(TooManyNames):
        [few.mask("PER", name) for name in ("Ada", "Okonkwo")]
    monkeypatch.setattr("boustro.apps.batch.redact.ROWS_AT_ONCE", 1)
    rows = RedactionJob.find
    asked = []
    monkeypatch.setattr(RedactionJob, "find", lambda job, given: asked.append(given) or rows(job, given))
    text = file("a.txt", "Ada\nOkonkwo\n" + "Ada\n" * 9)
    for out in ([], ["--out", str(tmp_path / "b.txt")]):
        assert main(["redact", str(text), "--same-everywhere", *out]) == 1
        said = capsys.readouterr().err
        assert "more than 1 names with the label PER; leave out --same-everywhere" in said and "--resume" not in said
    assert len(asked) == 2
    assert main(["redact", str(text), *out, "--resume"]) == 0 and len(asked) == 12


@pytest.mark.parametrize("label", ["party [GB]", "x" * 99, "a_1"])
def test_the_masks_of_any_label_are_put_back(label):
    masks = Masks([label, "party (GB)"])
    text = f"{masks.mask(label, 'Ada')} met {masks.mask('party (GB)', 'Okonkwo')}"
    assert restore(text, masks.names) == "Ada met Okonkwo" and len(masks.names) == 2
    again = Masks([label])
    again.reserve(text)
    assert again.mask(label, "Ada") not in text


SAME = ["Dr. Ada Brandt|Ada Brandt|Frau Prof. Dr. Ada Brandt|Dra. ADA BRANDT", "Dr Okonkwo|Okonkwo", "Mr Okonkwo"]


def test_titles_make_no_other_person_of_a_name_but_those_that_tell_namesakes_apart():
    masks = Masks(["PER", "LOC"])
    made = [{masks.mask("PER", name) for name in names.split("|")} for names in [*SAME, "Mrs Okonkwo", "Dr."]]
    assert made == [{f"[PER_{number}]"} for number in range(1, 6)]
    assert masks.mask("LOC", "Queen Ada Road") != masks.mask("LOC", "Ada Road")


FILES = {
    "t.csv": '\ufeffid;"message";n\r\n1;"Ada Brandt met Okonkwo. Ada Brandt paid";"x"\n2;"";\r\n\r\n3;Ada again;7',
    "t.jsonl": '{"n": 1, "log": "{\\"by\\": \\"Ada Brandt\\"}", "to": ["Ada Brandt"]}\n\n{"n": 2.5}\n',
    "t.json": '[\n  {\n    "to": "Ada Brandt",\n    "n": 1\n  }\n]\n',
    "t.txt": "Ada Brandt left.\r\n\r\nAda Brandt came with Okonkwo.",
}
MASKS = {"Ada Brandt": "[PER_1]", "Okonkwo": "[PER_2]", "Ada": "[PER_1]"}


def masked(text: str) -> str:
    return re.sub("|".join(MASKS), lambda match: MASKS[match[0]], text)


@pytest.fixture
def toy(monkeypatch):
    """The command with a tagger that knows its names by heart."""
    monkeypatch.setattr("boustro.apps.live.structured.open_tagger", lambda *_: ToyTagger())


def test_a_folder_of_files_comes_back_with_masks_and_all_else_as_it_was(toy, file, tmp_path, capsys):
    (tmp_path / "given" / "in").mkdir(parents=True)
    for name, content in FILES.items():
        file(f"given/in/{name}", content)
    column, out = ["--text-column", "message"], tmp_path / "shared"
    assert main(["redact", str(tmp_path / "given"), *column, "--out", str(tmp_path / "part")]) == 1
    assert "no 'message' (found: to, n)" in (said := capsys.readouterr().err) and "2 of 4 files could not be" in said
    found = {p.name: p.read_bytes().decode() for p in (tmp_path / "part" / "in").iterdir()}
    assert found == {name: masked(FILES[name]) for name in ("t.csv", "t.txt")}
    for name, content in FILES.items():
        target = ["redact", str(tmp_path / "given" / "in" / name), "--out", str(out / name)]
        assert main([*target, *column * (name == "t.csv"), "--json", str(tmp_path / "told.json")]) == 0
        assert (out / name).read_bytes().decode() == masked(content)
        said = capsys.readouterr().err
        assert said.count("what is not found stays") == 1 and " words (" in said
    assert "1 table with columns that are not read" not in said
    told = json.loads((tmp_path / "told.json").read_text())
    assert told == {"files": 1, "rows": 3, "left_out": 0, "words": 8, "masked": 5, "share": 0.625, "labels": {"PER": 3}}
    assert main(target) == 1 and "give --overwrite" in capsys.readouterr().err
    assert main([*target, "--overwrite", "--with", "label"]) == 0
    assert (out / "t.txt").read_text() == "[PER] left.\n\n[PER] came with [PER]."


NUMBERS = '"a": 1.10, "b":1E5,"c" : -0, "d": 1.000000000000000005, "e": 1e400, "f": 1' + "0" * 5000
STREAMED = [
    f'\ufeff{{"to":"Ada",  {NUMBERS}, "u": "\\u00e9 Ada", "half": "\\ud83d Ada", '
    f'"say": "{{\\"n\\": 1.0,\\"to\\":\\"Ada\\"}}"}}\n\n"Ada"',
    '\ufeff[\n {"to": "Ada"},\n {"n": 1.50}\n]\n',
    '{\n "to": "Ada"}\n{"to": "Ada"}',
    'message\tn\r\n"Ada"\t"Ada"\r\nmessage\tn\r\n\r\n\r\n',
    "sep=;\nn;message\n1;Ada\n2\n",
    "message|n\n\n  \nOkonkwo|1\n \n",
    "Ada, message\n",
]


@pytest.mark.parametrize("given", STREAMED)
def test_a_stream_is_what_a_file_without_an_ending_is(toy, given, file, capsys, monkeypatch):
    named = ["--text-column", "message"] if "message" in given and "\n" in given[:-1] else []
    path = file("given", given)
    assert main(["redact", str(path), *named, "--quiet"]) == 0
    found = capsys.readouterr().out
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["redact", "-", *named, "--quiet"]) == 0
    assert capsys.readouterr().out == found and found != given
    names = {"[PER_1]": "Ada" if "Ada" in given else "Okonkwo", "[PER_2]": "Okonkwo"}
    assert restore(found, names) == given


EVERYWHERE = ["--same-everywhere"]


@pytest.mark.parametrize(
    ("name", "same"), [("t.csv", []), ("t.csv", EVERYWHERE), ("t.jsonl", EVERYWHERE), ("t.txt", []), ("t.parquet", [])]
)
def test_a_mask_that_a_row_has_is_taken_wherever_it_stands(toy, file, tmp_path, name, same):
    rows = [{"text": "Ada left.", "by": "[PER_1]"}, {"text": "Okonkwo left.", "by": "[PER_2] [PER_0003]"}]
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / name
    if name == "t.parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        lines = {"t.csv": "{text},{by}", "t.jsonl": '{{"text": "{text}", "by": "{by}"}}', "t.txt": "{text} {by}"}[name]
        head = "text,by\n" if name == "t.csv" else ""
        path.write_text(head + "".join(lines.format(**row) + "\n" for row in rows))
    (tmp_path / "in" / "u.txt").write_text("[PER_5], Ada")
    assert main(["redact", str(tmp_path / "in"), "--out", str(tmp_path / "out"), *same]) == 0
    out = tmp_path / "out" / name
    found = str(pyarrow.parquet.read_table(out).to_pylist()) if name == "t.parquet" else out.read_text()
    assert ("[PER_4] left" in found and "[PER_6] left" in found) if same else found.count("[PER_2] left") == 1
    assert "[PER_1] left" in found or same
    assert (tmp_path / "out" / "u.txt").read_text() == ("[PER_5], [PER_4]" if same else "[PER_5], [PER_1]")


def test_one_name_has_one_mask_in_a_row_or_everywhere(toy, file, tmp_path, capsys):
    text = file("a.csv", "text,n\nOkonkwo left.,1\nAda Brandt left.,2\n")
    assert main(["redact", str(text)]) == 0
    out, err = capsys.readouterr()
    assert out == "text,n\n[PER_1] left.,1\n[PER_1] left.,2\n"
    assert "columns that are not read and stay: n" in err
    assert main(["redact", str(text), "--same-everywhere", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("text,n\n[PER_1] left.,1\n[PER_2] left.,2\n", "")


def test_lines_that_share_a_mask_are_said_to_have_masks_of_their_own(toy, file, tmp_path, capsys, monkeypatch):
    letter, said = (
        file("a.txt", "Okonkwo left.\nAda left.\n"),
        "masks begin anew in each line, so [PER_1] may be another",
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("Okonkwo left.\nAda left.\n")
    for words in ([letter], [letter, "--out", tmp_path / "b.txt"], [tmp_path / "in", "--out", tmp_path / "c"], ["-"]):
        with letter.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert main(["redact", *map(str, words)]) == 0
        assert capsys.readouterr().err.count(said) == 1
    others = {"b.txt": "Okonkwo left.\nIt rained.\n", "b.jsonl": '{"t": "Ada"}\n' * 2, "b.csv": "text\nAda\nAda\n"}
    quiet = [[letter, "--same-everywhere"], [letter, "--with", "label"], *([file(*one)] for one in others.items())]
    for words in quiet:
        assert main(["redact", *map(str, words)]) == 0
        assert "begin anew" not in capsys.readouterr().err


FRAMES = [
    '{"text":{"0":"%s","1":"%s"},"Ada":{"0":1,"1":"%s"}}',
    '{"0": {"text": "%s", "Ada": 1}, "1": {"text": "%s", "Ada": "%s"}}',
    '{"columns":["text","Ada"],"index":[0,1],"data":[["%s",1],["%s","%s"]]}',
    '{"schema":{"fields":[{"name":"text"},{"name":"Ada"}],"primaryKey":["index"]},'
    '"data":[{"index":0,"text":"%s","Ada":1},{"index":1,"text":"%s","Ada":"%s"}]}',
]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_row_of_a_data_frame_in_json_is_one_as_in_a_table(toy, file, tmp_path, capsys, frame):
    path = str(file("a.json", frame % ("Okonkwo left.", "Ada Brandt met Okonkwo", "Okonkwo")))
    assert main(["redact", path]) == 0
    out, _ = capsys.readouterr()
    assert out == frame % ("[PER_1] left.", "[PER_1] met [PER_2]", "[PER_2]")
    assert main(["redact", path, "--text-column", "text", "--out", str(tmp_path / "b.json")]) == 0
    assert "b.json: 2 rows" in capsys.readouterr().err
    assert (tmp_path / "b.json").read_text() == frame % ("[PER_1] left.", "[PER_1] met [PER_2]", "Okonkwo")
    assert main(["redact", path, *EVERYWHERE]) == 0
    assert capsys.readouterr().out == frame % ("[PER_1] left.", "[PER_2] met [PER_1]", "[PER_1]")
    assert main(["redact", path, "--text-column", "body"]) == 1
    assert "no 'body' (found: text, Ada)" in capsys.readouterr().err
    path = str(file("a.jsonl", f"{frame}\n{frame}\n" % (("Okonkwo left.", "Ada Brandt met Okonkwo", "Okonkwo") * 2)))
    assert main(["redact", path]) == 0  # a value beside another is no table, and its keys are read
    assert "[PER_3]" in capsys.readouterr().out


def test_words_are_counted_alike_however_their_accents_are_written(file, capsys):
    given, said = "Ask Zoë Côté and José Muñoz in Málaga.", set()
    for form in ("NFC", "NFD"):
        assert main(["redact", str(file("a.txt", unicodedata.normalize(form, given)))]) == 0
        said.add(re.search(r"\d+ of 8 words", capsys.readouterr().err)[0])
    assert len(said) == 1


def test_columns_of_a_folder_are_those_of_its_tables_and_are_there_before_anything_is_written(toy, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("body,n\nOkonkwo left.,Okonkwo\n")
    (tmp_path / "in" / "e.txt").write_text("Okonkwo left.\n")
    words = ["redact", str(tmp_path / "in"), "--text-column", "body", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert (tmp_path / "out" / "a.csv").read_text() == "body,n\n[PER_1] left.,Okonkwo\n"
    assert (tmp_path / "out" / "e.txt").read_text() == "[PER_1] left.\n"
    (tmp_path / "in" / "z.csv").write_text("text\nOkonkwo left.\n")
    assert main([*words[:-1], str(tmp_path / "new")]) == 1 and "z.csv: no column 'body'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_table_in_windows_1252_becomes_utf8_that_a_spreadsheet_reads(toy, file, tmp_path):
    path, out = file("a.csv", "text;n\r\nOkonkwo grüßt.;5 €\r\n".encode("cp1252")), tmp_path / "b.csv"
    assert main(["redact", str(path), "--out", str(out)]) == 0
    assert out.read_bytes() == "\ufefftext;n\r\n[PER_1] grüßt.;5 €\r\n".encode()


@pytest.mark.parametrize("form", ["parquet", "arrow", "stream"])
@pytest.mark.parametrize("piped", [False, True])
def test_a_typed_table_comes_back_in_its_own_form_and_types(toy, tmp_path, monkeypatch, form, piped):
    table = pyarrow.table(
        {
            "text": pyarrow.array(["Ada left.", None, "Ada left."]).dictionary_encode(),
            "big": pyarrow.array(["Okonkwo", "", None], pyarrow.large_string()),
            "deep": [{"who": ["Ada"], "n": 1.5}, None, {"who": [], "n": 2.5}],
            "raw": [b"\x00Ada", b"", None],
            "price": [Decimal("1.10"), None, Decimal("2.00")],
        }
    )
    fields = [field.with_metadata({"unit": "Ada"}) for field in table.schema]
    table = table.cast(pyarrow.schema(fields, metadata={"pandas": '{"index_columns": []}', "who": "Ada"}))
    given, out = tmp_path / "a.arrow", tmp_path / "b.arrow"
    write_columns(table.schema, [table], given, form)
    openers = {
        "parquet": pyarrow.parquet.ParquetFile,
        "arrow": pyarrow.ipc.open_file,
        "stream": pyarrow.ipc.open_stream,
    }

    def read(path: Path) -> pyarrow.Table:
        opened = openers[form](path)
        return opened.read() if form == "parquet" else opened.read_all()

    table = read(given)
    with given.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        words = ["-" if piped else str(given), "--text-column", "text,big", "--out", str(out)]
        assert main(["redact", *words, "--quiet"]) == 0
    found = read(out)
    assert found.schema.equals(table.schema, check_metadata=True)
    assert found["text"].to_pylist() == ["[PER_1] left.", None, "[PER_1] left."]
    assert found["big"].to_pylist() == ["[PER_2]", "", None]
    assert found.drop_columns(["text", "big"]).equals(table.drop_columns(["text", "big"]))


@pytest.mark.parametrize("ending", ["parquet", "xlsx"])
def test_a_table_with_types_keeps_them(toy, tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    columns = {"id": [10**14, 2], "text": ["Okonkwo left.", None], "day": pandas.to_datetime(["2026-01-02"] * 2)}
    given, kind = pandas.DataFrame(columns), "parquet" if ending == "parquet" else "excel"
    read, write = getattr(pandas, f"read_{kind}"), getattr(given, f"to_{kind}")
    write(tmp_path / f"a.{ending}", index=False)
    assert main(["redact", str(tmp_path / f"a.{ending}"), "--out", str(tmp_path / f"b.{ending}")]) == 0
    found, given = read(tmp_path / f"b.{ending}"), read(tmp_path / f"a.{ending}")
    assert found["text"].tolist()[0] == "[PER_1] left." and pandas.isna(found["text"][1])
    assert found.drop(columns="text").equals(given.drop(columns="text"))


def workbook(path: Path) -> None:
    """A sheet of tickets with what spreadsheets have, and others."""
    openpyxl = pytest.importorskip("openpyxl")
    from openpyxl.chart import PieChart, Reference
    from openpyxl.comments import Comment

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Tickets"
    for row in [["id", "text", "by", "len"], [1, "Ada Brandt & <Ada>", "Okonkwo"], [2, "it rained", "Ada"], [3], [4]]:
        sheet.append(row)
    sheet.append([5, " see_x000D_Okonkwo", "=B2", "=LEN(B2)", "too many"])
    sheet["B4"], sheet["B5"] = "=C2", "Okonkwo"
    sheet.merge_cells("B5:C5")
    sheet["B2"].hyperlink, sheet["C3"].comment = "https://a.example/Ada", Comment("Ada said so", "Li")
    sheet["B2"].font = openpyxl.styles.Font(bold=True)
    sheet["A2"].number_format = "000"
    sheet.column_dimensions["B"].width = 44
    chart = PieChart()
    chart.add_data(Reference(sheet, min_col=1, min_row=2, max_row=3))
    chart.set_categories(Reference(sheet, min_col=2, min_row=2, max_row=3))
    sheet.add_chart(chart)
    other = book.create_sheet("Other")
    other["A1"], other["A2"], other["A3"] = "Ada", "=Tickets!B2", "=Tickets!B3"
    book.save(path)
    # as Excel saves it: a table of strings, stored values, other parts
    with zipfile.ZipFile(path) as made:
        parts = {name: made.read(name) for name in made.namelist()}
    strings = "".join(
        f"<si><t>{text}</t></si>" for text in ("Ada Brandt &amp; &lt;Ada&gt;", "Okonkwo", "Ada", "unused")
    )
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    first, second = (f"xl/worksheets/sheet{number}.xml" for number in (1, 2))
    text = parts[first].decode()
    for cell, number in (("B2", 0), ("C2", 1), ("B5", 1), ("C3", 2)):
        text = re.sub(rf'(<c r="{cell}"[^>]*?) t="inlineStr"><is>.*?</is>', rf'\1 t="s"><v>{number}</v>', text)
    text = text.replace('<c r="B4"><f>', '<c r="B4" t="str"><f t="shared" ref="B4:D4" si="7">')
    repeated = '</c><c r="D4" t="str"><f t="shared" si="7"/><v>seven</v></c></row>'
    text = re.sub(r'(r="B4".*?</f><v>)</v></c></row>', rf"\1Okonkwo</v>{repeated}", text)
    stored = ("Ada Brandt &amp; &lt;Ada&gt;", "it rained")
    for cell, value in zip(("A2", "A3"), stored, strict=True):
        parts[second] = re.sub(
            f'(<c r="{cell}")(>.*?)<v></v>', rf'\1 t="str"\2<v>{value}</v>', parts[second].decode()
        ).encode()
    parts[first] = text.encode()
    calculation = re.sub("<calcPr[^>]*/>", '<calcPr calcId="1"/>', parts["xl/workbook.xml"].decode())
    parts["xl/workbook.xml"] = calculation.encode()
    parts["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}" count="4" uniqueCount="4">{strings}</sst>'.encode()
    parts["xl/calcChain.xml"] = f'<calcChain xmlns="{MAIN}"><c r="B4" i="1"/></calcChain>'.encode()
    parts["xl/media/image1.png"] = parts["xl/vbaProject.bin"] = b"\x00Ada"
    more = "".join(
        f'<Override PartName="/xl/{part}.xml" ContentType="{kind}.{part}+xml"/>'
        for part in ("sharedStrings", "calcChain")
    )
    types = parts["[Content_Types].xml"].decode().replace("</Types>", f"{more}</Types>")
    parts["[Content_Types].xml"] = types.encode()
    name = next(name for name in parts if name.startswith("xl/charts/"))
    label = '<strCache><ptCount val="1"/><pt idx="0"><v>Ada Brandt &amp; &lt;Ada&gt;</v></pt></strCache>'
    cat = rf"<cat><strRef>\1{label}</strRef></cat>"
    parts[name] = re.sub("<cat><numRef>(<f>.*?</f>).*?</cat>", cat, parts[name].decode()).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in parts.items():
            made.writestr(name, data)


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def test_of_a_workbook_only_the_cells_that_change_are_written(toy, tmp_path, capsys, monkeypatch):
    workbook(given := tmp_path / "a.xlsx")
    out, same = tmp_path / "b.xlsx", tmp_path / "c.xlsx"
    how = ["--errors", str(tmp_path / "e.jsonl"), "--overwrite"]
    with given.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["redact", "-", "--out", str(same), *how]) == 0
    capsys.readouterr()
    assert main(["redact", str(given), "--out", str(out), *how]) == 0
    assert out.read_bytes() == same.read_bytes()
    said = capsys.readouterr().err
    assert "1 sheet behind the first one, which is not read and stays" in said and "1 workbook with comments" in said
    assert json.loads((tmp_path / "e.jsonl").read_text())["place"] == f"{given}: row 6"
    with zipfile.ZipFile(given) as a, zipfile.ZipFile(out) as b:
        assert [name for name in a.namelist() if name != "xl/calcChain.xml"] == b.namelist()
        differ = {name for name in b.namelist() if a.read(name) != b.read(name)}
        parts = {name: b.read(name).decode() for name in differ}
    changed = ("[Content_Types]", "sharedStrings", "sheet1", "sheet2", "chart1", "workbook")
    assert {*map(os.path.basename, differ)} == {f"{name}.xml" for name in changed}
    assert 'fullCalcOnLoad="1" calcId="1"' in parts["xl/workbook.xml"]
    assert "Brandt" not in "".join(parts.values()) and "calcChain" not in parts["[Content_Types].xml"]
    assert parts["xl/sharedStrings.xml"].count("<si><t/></si>") == 1 and "unused" in parts["xl/sharedStrings.xml"]
    import openpyxl

    sheet, other = openpyxl.load_workbook(out).worksheets
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert rows == [
        ["id", "text", "by", "len", None],
        [1, "[PER_1] & <[PER_2]>", "Okonkwo", None, None],
        [2, "it rained", "Ada", None, None],
        [3, "[PER_1]", None, "seven", None],
        [4, "[PER_1]", None, None, None],
        [None] * 5,
    ]
    assert [[cell.value for cell in row] for row in other] == [["Ada"], ["=Tickets!B2"], ["=Tickets!B3"]]
    stored = openpyxl.load_workbook(out, data_only=True)["Other"]
    assert [cell.value for (cell,) in stored] == ["Ada", None, "it rained"]
    assert sheet["B2"].hyperlink.target == "https://a.example/Ada" and sheet["B2"].font.bold
    assert (sheet.title, other["A1"].value, sheet["A2"].number_format) == ("Tickets", "Ada", "000")
    assert [str(cells) for cells in sheet.merged_cells.ranges] == ["B5:C5"] and sheet.column_dimensions["B"].width == 44


@pytest.mark.parametrize(
    ("name", "content", "more", "message"),
    [
        ("a.txt", "Ada\n", ["--text-column", "message"], "lines of text have no columns"),
        ("a.csv", "text\nAda\n", ["--out", "b.xlsx"], "end it in .csv"),
        ("a.jsonl", '{"a": "Ada"}\n', ["--out", "b.csv"], "b.csv: it is of the same kind as a.jsonl; end it in .jsonl"),
        ("a", '{"a": "Ada"}\n', ["--out", "b.parquet"], "end it in .jsonl"),
        ("a.txt", "Ada\n", ["--out", "b.xlsx"], "end it in .txt"),
        ("a.parquet", b"PAR1", [], "name what to write with --out"),
        ("a.txt", "Ada\n", ["--labels", "PERS,LOC"], "no label 'PERS'; did you mean 'PER'? (it has PER, LOC, PHONE)"),
        ("a.txt", "Ada\n", ["--labels", ","], "--labels has an empty value"),
        ("a.txt", "Ada\n", ["--threshold", "1.5"], "--threshold must be at least 0 and at most 1, not '1.5'"),
        ("a.txt", "Ada\n", ["--threshold", "1", "--threshold", "1"], "--threshold is given twice"),
        ("a.txt", "Ada\n", ["--resume"], "--resume needs --out"),
    ],
)
def test_what_cannot_be_redacted_is_refused(toy, file, tmp_path, monkeypatch, capsys, name, content, more, message):
    monkeypatch.chdir(tmp_path)
    file(name, content)
    assert main(["redact", name, *more]) in (1, 2)
    assert message in capsys.readouterr().err and not (tmp_path / "b.xlsx").exists()


def test_the_page_names_the_threshold_that_a_redactor_has():
    page = (ROOT / "docs" / "redaction.md").read_text()
    assert re.findall(r"^\| `threshold` \| (\S+) |^\| \*\*(0\.\d+)\*\*|at least (0\.\d+), of", page, re.MULTILINE) == [
        ("", "", f"{THRESHOLD}"),
        ("", f"{THRESHOLD}", ""),
        (f"{THRESHOLD}", "", ""),
    ]


def test_a_number_is_masked_only_where_the_tagger_finds_an_entity(tagger_folder):
    checker = Checker(threshold=1e-9)
    assert checker.json('{"n": 7, "to": "box"}', Masks(checker.labels)).startswith('{"n": 7, "to": "[')


CALLS = (
    "Please call me back on 020 7946 0112 after four, or +44 20 7946 0112 at 12:30 on 3 May 2024 about order 88-1234."
)


def test_a_number_is_in_a_name_only_where_the_best_answer_has_it_beside_letters():
    numbers = re.findall(r"\d+", CALLS)
    for delay in (0, 3, None):  # of every word that has a letter any probability will do
        redactor = Redactor(threshold=0, delay=delay, write="label")
        text = "".join(redactor.feed(letter).text for letter in CALLS) + redactor.end().text
        left = re.findall(r"\b(?!PER|PLA|ORG)[a-z]+", text, re.IGNORECASE)
        assert re.findall(r"\d+", text) == numbers and "Please" in left and not any(map(may_be_name, left))
    checker, slot = Checker(threshold=0), BodyTexts().text(CALLS, "")
    checker.fill([slot], Masks(checker.labels))
    assert re.findall(r"\d+", re.sub(r"\[\w+]", "", slot.result)) == numbers and "call" not in slot.result
    tags, words = tuple("B-LOC I-LOC O B-LOC I-LOC B-LOC".split()), ("14", "Mill", "in", "7", "Lisse", "9")
    for own, left in (([], "O B-LOC O O B-LOC O"), ([(0, 2), (5, 6)], "B-LOC I-LOC O O B-LOC O")):
        found = [Entity("LOC", *span) for span in own]
        assert without_lone_words(tags, found, [True] * 6, words) == tuple(left.split())
        assert without_lone_words(tags, found, [False] * 6, words) == tags


ORDINARY = "Ask Tom again. Hi, I'm new here, we've met on Tuesday and it doesn't work AGAIN. city: Leeds; by=Tom"


def test_what_is_hardly_ever_a_name_is_one_only_where_the_tagger_says_so():
    checker, slot = Checker(write="label"), BodyTexts().text(ORDINARY, "")
    checker.fill([slot], Masks(checker.labels))
    assert without_lone_words(("B-PER", "O", "O"), [], [True] * 3, ("ada", ":", "hello"))[0] == "B-PER"
    assert slot.result == ORDINARY.replace("Tom", "[PERSON]").replace("Leeds", "[PLACE]")
    words = ("city", "'", ":", "Lyon", "Tuesday", "Wednesday", "I'm", "WHO", "AGAIN", "Don't")
    tags = ("B-LOC", "O", "O", "B-LOC", "B-PER", "B-PER", "B-PER", "B-ORG", "B-ORG", "B-PER")
    left = ("O", "O", "O", "B-LOC", "O", "B-PER", "O", "B-ORG", "O", "O")
    assert without_lone_words(tags, [Entity("PER", 5, 6), Entity("PER", 6, 7)], [True] * 10, words) == left
    sure = Checker(threshold=1, write="label")
    for text in ("I'm new.", "We met I'm on it."):
        sure.fill([slot := BodyTexts().text(text, "")], Masks(sure.labels))
        assert slot.result == text


@pytest.mark.parametrize("delay", [0, 1, 2, 8, None])
def test_what_is_joined_to_a_word_that_is_final_is_masked_all_the_same(delay):
    text = "Pieter van der Merwe left Cape Town with Ulrike von Harten of Johnson & Johnson on a ship that day."
    for step in (1, 7, 200):
        redactor = Redactor(delay=delay)
        said = "".join(redactor.feed(text[at : at + step]).text for at in range(0, len(text), step))
        said += redactor.end().text
        assert not re.search("Pieter|Merwe|Ulrike|Harten|Johnson", said)
        assert delay in (0, 1) or said == "[PERSON_1] left [PLACE_1] with [PERSON_2] of [PERSON_3] on a ship that day."


def test_other_names_are_left_out_where_they_are_asked_for_and_a_label_counts_by_its_own_probability(tagger_folder):
    assert Redactor().labels == Checker().labels == {"PERSON", "PLACE", "ORGANISATION"}
    assert Redactor(labels=["OTHER"]).labels == {"OTHER"}
    assert Redactor(tagger_folder).labels == {*boustro.load(tagger_folder).types}
    of_all = boustro.load("starter-names").with_threshold(0.3)
    words = open_tagger(of_all, ["PERSON"]).fitted.head.words
    assert words.least == 0.3 and words.types == words.names == {"PERSON"}


AS_JSON = '{"text": "Ada"}\n{"text": "Ada"\n{"text": "Li"}\n'
BROKEN = {
    "a.txt:2": (b"Ada left.\n\xc3\xa9\xff Ada\nOkonkwo left.\n", "[PER_1] left.\n[PER_1] left.\n"),
    "a.jsonl:2": (AS_JSON, '{"text": "[PER_1]"}\n{"text": "Li"}\n'),
    "a.json:2, item 2": ('[{"text": "Ada"},\n {"to": "Ada"}, {"text": 7}]\n', '[{"text": "[PER_1]"}, {"text": 7}]\n'),
    "a.csv:3": ("text,n\nAda,1\nAda,2,3\nLi,4\n", "text,n\n[PER_1],1\nLi,4\n"),
}
"""What stands in a file whose row at this place cannot be read, and the file without that row."""


@pytest.mark.parametrize("place", BROKEN)
def test_a_row_that_cannot_be_read_costs_that_row_where_errors_are_kept_and_else_the_file(
    toy, file, tmp_path, monkeypatch, capsys, place
):
    monkeypatch.chdir(tmp_path)
    (given, left), name = BROKEN[place], place.split(":")[0]
    columns = ["--text-column", "text"] if name == "a.json" else []
    (tmp_path / "in").mkdir()
    for part, content in (
        (f"in/{name}", given),
        ("in/b.docx", b"PK\x03\x04"),
        ("in/u.txt", "Ada left."),
        ("in/v.csv", ""),
    ):
        file(part, content)
    assert main(["redact", "in", "--out", "out", *columns]) == 1
    said = capsys.readouterr().err
    assert (
        "2 of 4 files could not be read and are not in out" in said and f"in/{place}: " in said and "in/b.docx" in said
    )
    assert {p.name: p.read_text() for p in (tmp_path / "out").iterdir()} == {"u.txt": "[PER_1] left.", "v.csv": ""}
    keeping = ["--errors", "e.jsonl", "--json", "told.json", "--overwrite", *columns]
    for source, to in (("in/" + name, []), ("in/" + name, ["--out", f"b{name}"]), ("-", [])):
        with (tmp_path / "in" / name).open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert main(["redact", source, *to, *keeping]) == 0
        found = capsys.readouterr()
        assert ((tmp_path / f"b{name}").read_text() if to else found.out) == left
        kept = json.loads((tmp_path / "e.jsonl").read_text())["place"]
        assert kept == (place.replace(name, "standard input") if source == "-" else f"in/{place}")
        assert "1 row that could not" in found.err and json.loads((tmp_path / "told.json").read_text())["left_out"] == 1


INTERRUPTED = ["a.csv", "a.jsonl", "a.json", "a.txt.gz", "a.xlsx", "a.parquet", "folder"]


@pytest.mark.parametrize(
    ("name", "more"), [*((name, EVERYWHERE[: n % 2]) for n, name in enumerate(INTERRUPTED)), ("folder", EVERYWHERE)]
)
def test_a_run_that_was_interrupted_goes_on_and_writes_the_same(monkeypatch, tmp_path, capsys, name, more):
    pandas = pytest.importorskip("pandas")
    texts = [f"{who} met {other} {n} times." for n, who in enumerate([*NAMES] * 2) for other in ("Ada", "Okonkwo")]
    frame, source = pandas.DataFrame({"n": range(len(texts)), "text": texts}), tmp_path / name
    (tmp_path / "folder").mkdir()
    for path in [source] if name != "folder" else [source / "a.csv", source / "b.jsonl", source / "c.txt"]:
        as_json = {"orient": "records", "lines": path.suffix == ".jsonl", "force_ascii": False}
        {
            ".csv": lambda path: frame.to_csv(path, index=False),
            ".json": lambda path, how=as_json: frame.to_json(path, **how),
            ".jsonl": lambda path, how=as_json: frame.to_json(path, **how),
            ".txt": lambda path: path.write_text("\n".join(texts)),
            ".gz": lambda path: path.write_bytes(gzip.compress("\n".join(texts).encode())),
            ".xlsx": lambda path: frame.to_excel(path, index=False),
            ".parquet": frame.to_parquet,
        }[path.suffix](path)
    monkeypatch.setattr("boustro.apps.batch.redact.ROWS_AT_ONCE", 5)
    asked = []

    def wait():
        asked.append(None)
        if len(asked) == most:
            raise KeyboardInterrupt

    monkeypatch.setattr("boustro.apps.live.structured.open_tagger", lambda *_: ToyTagger(waits=wait))
    out = [str(tmp_path / f"{number}-{name.removesuffix('.gz')}") for number in range(2)]
    most = 0
    assert main(["redact", str(source), "--out", out[0], *more]) == 0
    total, most = len(asked), 17
    asked.clear()
    words = ["redact", str(source), "--out", out[1], *more]
    capsys.readouterr()
    assert main(words) == 130
    kept = re.search(r"interrupted: (\d+) rows are kept; .* --resume goes on", capsys.readouterr().err)
    left = Path(f"{out[1]}.part").read_text()
    assert kept and "Ada" not in left and "Okonkwo" not in left and not Path(out[1]).exists()
    assert main(words) == 1 and f"{kept[1]} rows are done: --resume goes on" in capsys.readouterr().err
    asked.clear()
    most = 0
    assert main([*words, "--resume"]) == 0 and 0 < len(asked) <= total  # texts that come again are known
    capsys.readouterr()
    assert main([*words, "--resume"]) == 1 and "no unfinished work beside it to go on" in capsys.readouterr().err
    files = [sorted(p for p in Path(one).rglob("*")) or [Path(one)] for one in out]
    if name == "a.xlsx":
        first, again = (pandas.read_excel(one) for one in out)
        assert first.equals(again)
    else:
        assert [p.read_bytes() for p in files[0]] == [p.read_bytes() for p in files[1]]
    assert not [p for p in tmp_path.iterdir() if p.suffix in (".part", ".progress")]


@pytest.mark.parametrize("delay", [0, 2])
def test_numbers_that_stay_let_no_word_with_letters_through_in_a_stream(tagger_folder, delay):
    tagger, draw = boustro.load(tagger_folder), random.Random(delay)
    words = [word for sentence in boustro.read_data(DATA) for word in sentence.words] + ["7946", "14", "2024"] * 8

    def marked(text: str, names: list[str], least: float) -> set[int]:
        live = boustro.Live(tagger.with_threshold(least, None, names), delay)
        events = [event for part in re.split("(?<= )", text) for event in live.feed(part)] + live.end()
        return {place for e in events if e.kind == "final" for place in range(e.start, e.end)}

    for least in (0, 0.05, 0.5):
        text = " ".join(draw.choices(words, k=30))
        every, lettered = marked(text, [], least), marked(text, tagger.types, least)
        starts = [m.start() for m in re.finditer(r"\S+", text) if may_be_name(m[0])]
        assert [n in every for n in starts] == [n in lettered for n in starts] and lettered <= every

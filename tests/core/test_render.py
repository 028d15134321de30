"""Entities shown in text: nested, crossing, in the order of the text, and each label in a colour of its own."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.tasks.answers import LabelSet
from boustro.tasks.render import (
    COLOURS,
    INK,
    PAPER,
    Shown,
    as_html,
    as_mark,
    as_terminal,
    colours,
    css,
    css_class,
    html_head,
    in_brackets,
    in_form,
    page_colours,
)
from boustro.tasks.tagger.entities import SpanLabelling
from boustro.types import Entity, Sentence

TEXT = "Bank of Port Lisse fell"
NESTED = [Entity("LOC", 8, 18), Entity("ORG", 0, 18)]
CROSSING = [Entity("LOC", 8, 18), Entity("ORG", 0, 12)]


def bare(shown):
    return re.sub(r"<small>.*?</small>|<[^>]*>", "", shown).replace(" ", "")


def test_entities_stand_in_the_order_of_the_text_and_the_longer_first():
    entities = [Entity("A", 4, 5), Entity("Z", 0, 2), Entity("B", 0, 4), Entity("A", 0, 2), Entity("A", 1, 2)]
    assert [(e.start, e.end, e.label) for e in sorted(entities)] == [
        (0, 4, "B"),
        (0, 2, "A"),
        (0, 2, "Z"),
        (1, 2, "A"),
        (4, 5, "A"),
    ]


def test_a_span_head_answers_in_the_order_of_the_text():
    answer = SpanLabelling("spans", ["LOC", "ORG"]).read(
        [(5, 6, 0, 0.8), (2, 3, 0, 0.7), (0, 3, 1, 0.9)], Sentence(("w",) * 7)
    )
    assert [(e.label, e.start) for e in answer.entities] == [("ORG", 0), ("LOC", 2), ("LOC", 5)]


def test_nested_entities_are_told_once_one_inside_the_other():
    assert in_brackets(TEXT, NESTED) == "[Bank of [Port Lisse LOC] ORG] fell"
    shown = as_html(TEXT, NESTED)
    assert bare(shown) == TEXT.replace(" ", "")
    assert re.sub(r' class="[^"]*"', "", shown) == (
        "<mark>Bank of <mark>Port Lisse <small>LOC</small></mark> <small>ORG</small></mark> fell"
    )
    assert as_terminal(TEXT, NESTED).plain == "Bank of [Port Lisse LOC] ORG fell"


def test_of_entities_that_cross_the_later_one_goes_on_behind():
    assert in_brackets(TEXT, CROSSING) == "[Bank of [Port LOC…] ORG][… Lisse LOC] fell"
    shown = as_html(TEXT, CROSSING)
    assert bare(shown) == TEXT.replace(" ", "") and shown.count("<mark") == shown.count("</mark>") == 3


def test_two_labels_of_the_same_words_are_both_told():
    assert in_brackets("Ada", [Entity("PER", 0, 3), Entity("HERO", 0, 3)]) == "[[Ada PER] HERO]"


@st.composite
def placed(draw):
    start = draw(st.integers(0, 7))
    return Entity(draw(st.sampled_from("AB")), start, draw(st.integers(start + 1, 8)))


@given(st.lists(placed(), unique=True))
def test_however_entities_lie_the_text_is_told_once_and_marks_are_well_nested(entities):
    shown = as_html("&bcdefgh", entities)
    assert bare(shown) == "&amp;bcdefgh"
    depth = 0
    for tag in re.findall(r"</?mark", shown):
        depth += 1 if tag == "<mark" else -1
        assert depth >= 0
    assert depth == 0
    plain = in_brackets("&bcdefgh", entities)
    for label in "AB":
        assert len(re.findall(rf" {label}\]", plain)) == sum(e.label == label for e in entities)


ONTONOTES = (
    "CARDINAL DATE EVENT FAC GPE LANGUAGE LAW LOC MONEY NORP ORDINAL ORG PERCENT PERSON PRODUCT "
    "QUANTITY TIME WORK_OF_ART"
).split()


@pytest.mark.parametrize("labels", [ONTONOTES, [f"type-{n}" for n in range(60)]], ids=["18", "60"])
def test_no_two_labels_of_a_page_look_alike(labels):
    chosen = page_colours(labels)
    assert len(set(chosen.values())) == len(labels)
    assert page_colours(reversed(labels)) == chosen
    style = css(labels)
    for theme in style.split("@media"):
        rules = [re.search(rf"\.{css_class(label)}{{([^}}]*)}}", theme).group(1) for label in labels]
        assert len(set(rules)) == len(labels)


def test_the_commonest_pair_and_names_of_one_kind():
    chosen = page_colours(["COMPANY", "PERSON"])
    assert chosen["PERSON"] == colours("PER") != chosen["COMPANY"] == colours("ORG")


SIGHT = (  # linear RGB to that of all colours, without green, red and blue: Machado et al. 2009, severity 1
    np.eye(3),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
)
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colours):
    given = np.array([[*bytes.fromhex(colour[1:])] for colour in colours]) / 255
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(linear([one, other]) @ [0.2126, 0.7152, 0.0722])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_are_told_apart_and_read_by_everybody(theme):
    edges = [(c.light, c.dark)[theme] for c in COLOURS]
    for colour, edge in zip(COLOURS, edges, strict=True):
        assert contrast(edge, PAPER[theme]) >= 3 and contrast(edge, ("#ffffff", "#121212")[theme]) >= 3
        assert contrast(INK[theme], colour.grounds[theme]) >= 4.5
    for sight in SIGHT:
        lab = 100 * np.cbrt(np.clip(linear(edges) @ sight.T, 0, 1) @ TO_CONES.T) @ TO_LAB.T
        apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1)[np.triu_indices(len(COLOURS), 1)]
        assert apart.min() >= 9  # Okabe and Ito's eight: 7.6


def test_a_label_keeps_its_colour_where_it_is_free():
    assert all(page_colours([label])[label] == colours(label) for label in [*ONTONOTES, "PER"])
    assert page_colours(["PER", "LOC", "ORG", "MISC", "X"])["PER"] == colours("PER")
    labels = [f"type-{n}" for n in range(40)] + ["PER", "LOC"]  # as they are added to a page
    given = [page_colours(labels[:n], in_order=True) for n in (39, 40, 42)]
    assert given[0].items() <= given[1].items() <= given[2].items()


def test_a_page_of_tagged_text_says_how_wide_it_is_and_what_it_is():
    head = html_head("a <b>.txt", ["PER"])
    assert head.startswith("<!doctype html><html lang=")
    assert "<meta name=viewport content='width=device-width,initial-scale=1'>" in head
    assert "<title>a &lt;b&gt;.txt</title>" in head and css(["PER"]) in head


def test_two_sets_of_labels_never_look_alike_and_each_label_has_its_colour():
    one, two = ([as_mark(name, 0.9) for name in names] for names in (["Food, drink"], ["Food", "drink"]))
    pages = [in_form(Shown({}, "Tea", said=said), "html") for said in (one, two)]
    assert [re.findall(r'<mark class="(.*?)"', page) for page in pages] == [
        [css_class(label.label) for label in said] for said in (one, two)
    ]
    assert bare(pages[0]) == "&quot;Food,drink&quot;Tea" and bare(pages[1]) == "Food,drinkTea"
    terminal = [in_form(Shown({}, "Tea", said=said), "text", colour=True).plain for said in (one, two)]
    assert terminal[0].startswith('"Food, drink"') and terminal[1].startswith("Food Food, drink drink")
    sets = [LabelSet(names, names, dict.fromkeys(names, 0.9)) for names in (["Food, drink"], ["Food", "drink"])]
    assert [str(each) for each in sets] == ['"Food, drink"', "Food, drink"]

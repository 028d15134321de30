"""Entities shown in text: nested, crossing, in the order of the text, and each label in a colour of its own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.tasks.render import as_html, as_terminal, colours, css, css_class, html_head, in_brackets, page_colours
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
    assert len(labels) > 18 or all(c.line == "none" for c in chosen.values())
    style = css(labels)
    for theme in style.split("@media"):
        rules = [re.search(rf"\.{css_class(label)}{{([^}}]*)}}", theme).group(1) for label in labels]
        assert len(set(rules)) == len(labels)


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

"""Probabilities of entities under a CRF are those of all tag sequences that contain them."""

from itertools import product

import pytest
import torch

from boustro.heads.crf.layer import CRF
from boustro.heads.crf.spans import span_posteriors
from boustro.heads.crf.tags import entity_forms, entity_types
from boustro.heads.options import HiddenSequenceOptions, SequenceOptions
from boustro.heads.registry import make_head
from boustro.heads.span.decoding import overlaps, overlaps_or_joins, resolve
from boustro.metrics.spans import extract_spans
from boustro.tasks.data.schemes import to_bio

SCHEMES = {
    "bio": ("O", "B-X", "I-X", "B-Y", "I-Y"),
    "bioes": ("O", "B-X", "I-X", "E-X", "S-X", "S-Y"),
    "io": ("O", "X", "Y"),
    "bio without I-Y": ("O", "B-X", "I-X", "B-Y"),
}


def spans_of(crf, scores, lengths, longest, least, temperature=1.0):
    """As a `TagDecoder` finds them."""
    words = scores.detach().double().numpy() / temperature
    given = words, lengths.numpy(), crf.chain.over(temperature), entity_forms(crf.tags)
    return span_posteriors(*given, longest, least)


def random_crf(tags, seed):
    torch.manual_seed(seed)
    crf = CRF(tags)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def by_enumeration(crf, scores, scheme):
    """{(start, end, type): probability} over all valid tag sequences."""
    found, total, tags = {}, 0.0, crf.tags
    for ids in product(range(len(tags)), repeat=len(scores)):
        try:
            mean = crf.loss(scores, torch.tensor(ids), torch.tensor([len(scores)])).detach()
        except ValueError:
            continue
        p = float(torch.exp(-mean.double() * len(scores)))
        total += p
        for entity in extract_spans(to_bio(tuple(tags[i] for i in ids), scheme.split()[0])):
            key = (entity.start, entity.end, entity.label)
            found[key] = found.get(key, 0.0) + p
    assert total == pytest.approx(1, abs=1e-4)
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_entity_is_as_probable_as_all_sequences_that_contain_it(scheme):
    tags = SCHEMES[scheme]
    crf, types = random_crf(tags, 3), entity_types(tags)
    lengths = torch.tensor([3, 0, 1, 4])
    scores = torch.randn(8, len(tags))
    spans = spans_of(crf, scores, lengths, 4, 0.0)
    for number, (own, block) in enumerate(zip(spans, scores.split(lengths.tolist()), strict=True)):
        found = {(start, end, types[kind]): p for start, end, kind, p in own if p > 1e-12}
        assert found == pytest.approx(by_enumeration(crf, block, scheme) if len(block) else {}, abs=1e-4), number
        assert own == sorted(own)


def test_longest_and_least_leave_candidates_out():
    crf = random_crf(SCHEMES["bio"], 1)
    scores, lengths = torch.randn(9, 5), torch.tensor([4, 5])
    everything = spans_of(crf, scores, lengths, 5, 0.0)
    some = spans_of(crf, scores, lengths, 2, 0.05)
    kept = [[span for span in own if span[1] - span[0] <= 2 and span[3] >= 0.05] for own in everything]
    assert some == kept and 0 < sum(map(len, some)) < sum(map(len, everything))


def test_a_sentence_does_not_depend_on_its_batch():
    crf = random_crf(SCHEMES["bioes"], 2)
    scores = torch.randn(7, 6)
    together = spans_of(crf, scores, torch.tensor([3, 4]), 4, 1e-6)
    alone = [spans_of(crf, part, torch.tensor([len(part)]), 4, 1e-6)[0] for part in scores.split([3, 4])]
    for own, others in zip(together, alone, strict=True):
        assert [span[:3] for span in own] == [span[:3] for span in others]
        assert [span[3] for span in own] == pytest.approx([span[3] for span in others], abs=1e-9)


def test_a_threshold_takes_the_most_probable_of_overlapping_entities():
    found = [(0, 2, 0, 0.4), (1, 3, 0, 0.5), (3, 4, 1, 0.3), (4, 6, 0, 0.9), (5, 6, 1, 0.95)]
    assert resolve(found, overlaps) == [(1, 3, 0, 0.5), (3, 4, 1, 0.3), (5, 6, 1, 0.95)]
    touching = [(0, 1, 0, 0.4), (1, 2, 0, 0.5), (2, 3, 1, 0.3)]
    assert resolve(touching, overlaps_or_joins) == [(1, 2, 0, 0.5), (2, 3, 1, 0.3)]


@pytest.mark.parametrize("scheme", ["bio", "bioes", "io"])
def test_tags_under_a_threshold_are_those_of_probable_entities(scheme):
    tags = SCHEMES[scheme]
    torch.manual_seed(4)
    streams, lengths = ((1, 6),), torch.tensor([4, 0, 5])
    head = make_head("linear", SequenceOptions(threshold=0.2, dropout=0.0, max_span=5), streams, tags)
    torch.nn.init.normal_(head.crf.transitions)
    vectors = torch.randn(9, 6) * 3
    head.eval()
    with torch.inference_mode():
        answers = head.predict(vectors, lengths)
        spans = spans_of(head.crf, head.scores(vectors, lengths), lengths, 5, 0.2)
    types, number = entity_types(tags), 0
    for (ids, p), own in zip(answers, spans, strict=True):
        wanted = resolve(own, overlaps_or_joins if scheme == "io" else overlaps)
        found = extract_spans(to_bio(tuple(tags[i] for i in ids), scheme))
        assert [(e.start, e.end, e.label) for e in found] == [(a, b, types[kind]) for a, b, kind, _ in wanted]
        for start, end, _, probability in wanted:
            assert p[start:end] == pytest.approx([probability] * (end - start), rel=1e-6)
        number += len(wanted)
    assert number > 0


@pytest.mark.parametrize(
    ("options", "labels", "said"),
    [
        ({"crf": False}, ("O", "B-X", "I-X"), "threshold is not read where crf is False"),
        ({}, ("NOUN", "VERB"), "a threshold needs a CRF over the tags of entities; leave --threshold "),
    ],
)
def test_a_threshold_needs_a_crf_over_entities(options, labels, said):
    with pytest.raises(ValueError, match=said):
        make_head("mlp", HiddenSequenceOptions(threshold=0.3, max_span=4, **options), ((1, 6),), labels)

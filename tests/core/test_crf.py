"""The CRF: against the sum over all tag sequences; probabilities of entities; many chains at once."""

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boustro.heads.crf import Chain, best_valid, entity_forms, entity_types, layer
from boustro.heads.crf.layer import CRF, expectations, valid_tensors
from boustro.heads.decoding import span_posteriors
from boustro.heads.lockstep.train import expected_counts
from boustro.heads.options import HiddenSequenceOptions, SequenceOptions
from boustro.heads.registry import make_head
from boustro.heads.span import overlaps, overlaps_or_joins, resolve
from boustro.metrics.spans import extract_spans
from boustro.tasks.data.schemes import entities_to_bio, to_bio

BIO = ["O", "B-PER", "I-PER", "I-LOC", "B-LOC"]
BIOES = ["I-PER", "O", "B-PER", "E-PER", "S-PER"]
PLAIN = ["NN", "VB", "DT"]
TAG_SETS = [BIO, BIOES, PLAIN, ["O"], ["O", "I-PER", "I-LOC"]]
cases = st.tuples(
    st.sampled_from(TAG_SETS),
    st.lists(st.integers(0, 4), min_size=0, max_size=5),
    st.integers(0, 10_000),
    st.sampled_from([0.3, 3.0, 30.0]),
)


def viterbi(scores, lengths, tags):
    return torch.from_numpy(best_valid(scores.detach().double().numpy(), lengths.numpy(), tags))


def entities_to_bioes(entities, num_words: int) -> tuple[str, ...]:
    tags = ["O"] * num_words
    for entity in entities:
        names = ["S"] if entity.end - entity.start == 1 else ["B", *"I" * (entity.end - entity.start - 2), "E"]
        tags[entity.start : entity.end] = [f"{name}-{entity.label}" for name in names]
    return tuple(tags)


def is_valid(sequence: Sequence[str], tags: Sequence[str]) -> bool:
    """By another road than the code's: valid is what reading the entities and writing them again leaves as it is."""
    if not any(tag.startswith("B-") for tag in tags):
        return True
    write = entities_to_bioes if any(tag.startswith("E-") for tag in tags) else entities_to_bio
    return tuple(sequence) == write(extract_spans(sequence), len(sequence))


@functools.cache
def valid_paths(tags: tuple[str, ...], length: int) -> torch.Tensor:
    """(paths, length): all valid sequences of tag ids."""
    paths = itertools.product(range(len(tags)), repeat=length)
    return torch.tensor([path for path in paths if is_valid([tags[i] for i in path], tags)]).view(-1, length)


def path_scores(crf: CRF, scores: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
    """The definition, in float64: (paths,) scores of one sentence's sequences."""
    total = scores.double()[torch.arange(len(scores)), paths].sum(1)
    total = total + crf.starts.double()[paths[:, 0]] + crf.ends.double()[paths[:, -1]]
    return total + crf.transitions.double()[paths[:, :-1], paths[:, 1:]].sum(1)


def draw(tags, lengths, seed, scale) -> tuple[CRF, torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """A CRF with random parameters, scores, lengths, and the valid paths of every sentence."""
    generator = torch.Generator().manual_seed(seed)
    crf = CRF(tags)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(0, 2, generator=generator)
    scores = torch.randn(sum(lengths), len(tags), generator=generator) * scale
    known = {length: valid_paths(tuple(tags), length) for length in set(lengths) if length}
    paths = [known.get(length, torch.zeros(1, 0, dtype=torch.int64)) for length in lengths]
    return crf, scores.requires_grad_(), torch.tensor(lengths, dtype=torch.int64), paths


def by_sentence(x: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
    return list(x.split(lengths.tolist()))


@given(cases)
def test_loss_and_gradients_are_those_of_the_sum_over_all_valid_sequences(case):
    crf, scores, lengths, paths = draw(*case)
    generator = torch.Generator().manual_seed(case[2])
    picks = [int(torch.randint(len(found), (), generator=generator)) for found in paths]
    gold = torch.cat([torch.zeros(0, dtype=torch.int64), *[p[i] for p, i in zip(paths, picks, strict=True)]])
    expected = torch.zeros((), dtype=torch.float64)
    for words, found, pick in zip(by_sentence(scores, lengths), paths, picks, strict=True):
        if len(words):
            every = path_scores(crf, words, found)
            expected = expected + every.logsumexp(0) - every[pick]
    expected = expected / max(1, len(scores))
    parameters = [scores, *crf.parameters()]
    wanted = torch.autograd.grad(expected, parameters, allow_unused=True) if len(scores) else [None] * 4
    loss = crf.loss(scores, gold, lengths)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected.float(), rtol=1e-5, atol=1e-6)
    for found, value, parameter in zip(torch.autograd.grad(loss, parameters), wanted, parameters, strict=True):
        torch.testing.assert_close(found, torch.zeros_like(parameter) if value is None else value, rtol=1e-4, atol=1e-6)


@given(cases, st.sampled_from([1.0, 2.0]))
def test_marginals_are_the_shares_of_all_valid_sequences(case, temperature):
    crf, scores, lengths, paths = draw(*case)
    found = crf.marginals(scores, lengths, temperature)
    assert found.shape == scores.shape and found.dtype == torch.float32
    for words, shares, candidates in zip(by_sentence(scores, lengths), by_sentence(found, lengths), paths, strict=True):
        if len(words):
            weights = (path_scores(crf, words, candidates) / temperature).softmax(0)
            one_hot = torch.nn.functional.one_hot(candidates, len(crf.tags))
            torch.testing.assert_close(shares, (weights[:, None, None] * one_hot).sum(0).float(), rtol=1e-4, atol=1e-6)


@given(cases)
def test_decode_finds_the_best_of_all_valid_sequences(case):
    crf, scores, lengths, paths = draw(*case)
    found = crf.decode(scores, lengths)
    assert found.shape == (len(scores),) and found.dtype == torch.int64
    for words, path, candidates in zip(by_sentence(scores, lengths), by_sentence(found, lengths), paths, strict=True):
        if len(words):
            assert path.tolist() == candidates[path_scores(crf, words, candidates).argmax()].tolist()


@pytest.mark.parametrize(
    "tags", [BIO, BIOES, ["O", "B-PER", "E-PER"], ["O", "S-PER"], ["O", "B-PER", "I-LOC", "B-LOC"]]
)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_sequence_is_valid_if_its_entities_write_it_so(tags, length):
    valid = valid_tensors(tags)
    for path in itertools.product(range(len(tags)), repeat=length):
        allowed = (
            valid.starts[path[0]]
            and valid.ends[path[-1]]
            and all(valid.pairs[i, j] for i, j in itertools.pairwise(path))
        )
        assert bool(allowed) == is_valid([tags[i] for i in path], tags), [tags[i] for i in path]


@pytest.mark.parametrize(
    ("tags", "starts", "pairs", "ends"),
    [
        ("O I-PER I-LOC", "", "", ""),  # IO
        ("PER LOC O", "", "", ""),  # labels
        ("O B-PER I-PER NN", "I-PER", "O>I-PER NN>I-PER", ""),  # a label among BIO tags
        ("O B-a-b I-a-b I-a", "I-a-b", "O>I-a-b I-a>I-a-b", ""),  # the type is all that follows the first hyphen
        ("O I-PER E-PER", "", "I-PER>O", "I-PER"),  # IOE2: ends are marked, beginnings are not
        ("O B-PER I-PER S-LOC", "I-PER", "O>I-PER S-LOC>I-PER", ""),  # each type by its own tags
    ],
)
def test_what_is_not_valid_follows_from_the_names(tags, starts, pairs, ends):
    tags = tags.split()
    valid = valid_tensors(tags)
    assert " ".join(t for t, ok in zip(tags, valid.starts, strict=True) if not ok) == starts
    assert " ".join(t for t, ok in zip(tags, valid.ends, strict=True) if not ok) == ends
    found = [f"{a}>{b}" for (i, a), (j, b) in itertools.product(enumerate(tags), repeat=2) if not valid.pairs[i, j]]
    assert " ".join(found) == pairs


@given(
    st.sampled_from([BIO, BIOES]),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 10_000),
    st.sampled_from(["normal", "huge", "tied", "impossible"]),
)
def test_no_decoded_sequence_is_invalid(tags, lengths, seed, kind):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(sum(lengths), len(tags), generator=generator)
    if kind == "huge":
        scores = scores * 1e4
    elif kind == "tied":
        scores = scores.sign()
    elif kind == "impossible":
        scores = torch.where(scores > 0.5, 0.0, -torch.inf)
    lengths = torch.tensor(lengths)
    for path in [viterbi(scores, lengths, tags)] + [CRF(tags).decode(scores, lengths)] * (kind != "impossible"):
        for sentence in by_sentence(path, lengths):
            assert is_valid([tags[i] for i in sentence], tags)


@given(cases)
def test_viterbi_is_an_untrained_crf_and_needs_no_normalised_scores(case):
    _, scores, lengths, _ = draw(*case)
    found = viterbi(scores.log_softmax(-1), lengths, case[0])
    assert found.tolist() == viterbi(scores, lengths, case[0]).tolist() == CRF(case[0]).decode(scores, lengths).tolist()


@pytest.mark.parametrize(
    ("tags", "gold", "message"),
    [
        (BIO, [0, 0, 1, 3], "sentence 3 of the batch has I-LOC after B-PER"),
        (BIO, [0, 2, 1, 0], "sentence 1 of the batch has I-PER after O"),
        (BIO, [1, 2, 2, 0], "sentence 3 of the batch begins with I-PER"),
        (BIOES, [4, 4, 4, 2], "sentence 3 of the batch ends with B-PER"),
    ],
)
def test_gold_tags_that_are_not_valid_are_named(tags, gold, message):
    with pytest.raises(ValueError, match=message):
        CRF(tags).loss(torch.zeros(4, 5), torch.tensor(gold), torch.tensor([2, 0, 2]))


@pytest.mark.parametrize("call", [lambda crf, s, n: crf.decode(s, n), lambda crf, s, n: crf.loss(s, s[:, 0].long(), n)])
def test_lengths_and_widths_that_do_not_fit_are_refused(call):
    with pytest.raises(ValueError, match="sum to 3, but there are 4 words"):
        call(CRF(BIO), torch.zeros(4, 5), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="4 columns, but there are 5 tags"):
        call(CRF(BIO), torch.zeros(4, 4), torch.tensor([4]))


@pytest.mark.parametrize("tags", [["B-PER", "I-PER", "E-PER"], []])
def test_tags_of_which_none_can_stand_alone_are_refused(tags):
    with pytest.raises(ValueError, match="can stand alone"):
        CRF(tags)


@given(st.sampled_from([BIO, BIOES]), st.integers(0, 10_000), st.sampled_from([1e3, 1e4, 1e6]))
def test_no_gradient_is_nan_however_far_apart_the_scores_are(tags, seed, scale):
    crf, scores, lengths, _ = draw(tags, [4, 1, 3, 0, 4], seed, scale)
    gold = viterbi(torch.randn(len(scores), len(tags)), lengths, tags)
    crf.loss(scores, gold, lengths).backward()
    assert scores.grad is not None and scores.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in crf.parameters())
    assert crf.marginals(scores, lengths).isfinite().all()


def test_no_probability_is_nan_where_each_side_all_but_rules_out_what_the_other_wants():
    """Before the second word B-PER is certain, after it I-LOC: no tag there is likely on both sides."""
    tags = ["O", *(f"{prefix}-{label}" for label in ("PER", "LOC") for prefix in "BIES")]
    scores = torch.zeros(4, len(tags))
    scores[0, tags.index("B-PER")] = scores[2, tags.index("I-LOC")] = 2000
    scores.requires_grad_()
    crf, lengths = CRF(tags), torch.tensor([4])
    torch.testing.assert_close(crf.marginals(scores, lengths).sum(1), torch.ones(4))
    crf.loss(scores, torch.zeros(4, dtype=torch.int64), lengths).backward()
    assert scores.grad is not None and scores.grad.isfinite().all() and crf.transitions.grad.isfinite().all()


def test_scores_in_half_precision_and_autocast_change_nothing():
    crf, scores, lengths, _ = draw(BIO, [4, 0, 2, 3], 1, 3.0)
    scores = scores.detach().bfloat16()
    gold = viterbi(scores, lengths, BIO)
    with torch.autocast("cpu", torch.bfloat16):
        results = crf.loss(scores, gold, lengths), crf.marginals(scores, lengths), crf.decode(scores, lengths)
    wanted = scores.float()
    assert torch.equal(results[0], crf.loss(wanted, gold, lengths)) and results[0].dtype == torch.float32
    assert torch.equal(results[1], crf.marginals(wanted, lengths)) and results[1].dtype == torch.float32
    assert torch.equal(results[2], crf.decode(wanted, lengths))


@pytest.mark.parametrize("cells", [1, 60, 1 << 17])
def test_a_sentence_gets_the_same_alone_and_in_any_company(monkeypatch, cells):
    lengths = [3, 0, 9, 1, 1, 6, 0, 2, 4]
    crf, scores, _, _ = draw(BIO, [0], 3, 1.0)
    scores = torch.randn(sum(lengths), len(BIO), generator=torch.Generator().manual_seed(1))
    parts = scores.split(lengths)
    alone = [(crf.marginals(p, torch.tensor([len(p)])), crf.decode(p, torch.tensor([len(p)]))) for p in parts]
    monkeypatch.setattr(layer, "CELLS", cells)  # how many sentences are worked on at once
    together = torch.tensor(lengths)
    torch.testing.assert_close(crf.marginals(scores, together), torch.cat([m for m, _ in alone]), rtol=0, atol=1e-6)
    assert crf.decode(scores, together).tolist() == torch.cat([d for _, d in alone]).tolist()


def test_the_parameters_are_all_that_is_saved():
    crf, scores, lengths, _ = draw(BIO, [4, 2], 5, 1.0)
    assert sorted(crf.state_dict()) == ["ends", "starts", "transitions"]
    other = CRF(BIO)
    other.load_state_dict(crf.state_dict())
    assert torch.equal(other.marginals(scores, lengths), crf.marginals(scores, lengths))


@pytest.mark.parametrize("tags", [BIO, BIOES])
def test_messages_are_the_same_by_odds_and_by_logarithms(tags, monkeypatch):
    crf, lengths, generator = draw(tags, [0], 5, 1.0)[0], torch.tensor([4, 1, 30, 0, 90]), torch.Generator()
    scores = 3 * torch.randn(int(lengths.sum()), len(tags), generator=generator)
    given = crf._prepare(scores, lengths)
    with torch.no_grad():
        by_odds = layer.log_messages(*given)
        monkeypatch.setattr(layer, "_by_odds", lambda *_: None)
        by_logs = layer.log_messages(*given)
    reached = by_logs > by_logs.amax(-1, keepdim=True) - 300  # the others are as good as impossible
    assert reached.any(-1).all() and not reached.all()
    torch.testing.assert_close(by_odds[reached], by_logs[reached], rtol=1e-12, atol=1e-9)


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


def test_spans_that_would_cross_the_end_of_a_sentence_are_not_computed():
    crf = random_crf(SCHEMES["bio"], 1)
    scores = torch.cat([torch.zeros(3, 5), torch.full((3, 5), 900.0)])
    with np.errstate(over="raise"):
        first, second = spans_of(crf, scores, torch.tensor([3, 3]), 6, 1e-9)
    assert first and second and max(end for _, end, *_ in first) == 3


def by_enumeration(crf, scores, scheme, temperature):
    """{(start, end, type): probability} over all valid tag sequences."""
    found, paths = {}, valid_paths(tuple(crf.tags), len(scores))
    shares = (path_scores(crf, scores, paths) / temperature).softmax(0)
    for ids, p in zip(paths.tolist(), shares.tolist(), strict=True):
        for entity in extract_spans(to_bio(tuple(crf.tags[i] for i in ids), scheme.split()[0])):
            key = (entity.start, entity.end, entity.label)
            found[key] = found.get(key, 0.0) + p
    return found


@pytest.mark.parametrize(("scheme", "temperature"), zip(SCHEMES, (1.0, 2.0, 1.0, 1.0), strict=True))
def test_an_entity_is_as_probable_as_all_sequences_that_contain_it(scheme, temperature):
    tags = SCHEMES[scheme]
    crf, types = random_crf(tags, 3), entity_types(tags)
    lengths = torch.tensor([3, 0, 1, 4])
    scores = torch.randn(8, len(tags))
    spans = spans_of(crf, scores, lengths, 4, 0.0, temperature)
    for number, (own, block) in enumerate(zip(spans, scores.split(lengths.tolist()), strict=True)):
        found = {(start, end, types[kind]): p for start, end, kind, p in own if p > 1e-12}
        wanted = by_enumeration(crf, block, scheme, temperature) if len(block) else {}
        assert found == pytest.approx(wanted, abs=1e-4), number
        assert own == sorted(own)


def test_longest_and_least_leave_candidates_out():
    crf = random_crf(SCHEMES["bio"], 1)
    scores, lengths = torch.randn(9, 5), torch.tensor([4, 5])
    everything = spans_of(crf, scores, lengths, 5, 0.0)
    some = spans_of(crf, scores, lengths, 2, 0.05)
    kept = [[span for span in own if span[1] - span[0] <= 2 and span[3] >= 0.05] for own in everything]
    assert some == kept and 0 < sum(map(len, some)) < sum(map(len, everything))


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
        ({}, ("NOUN", "VERB"), "a threshold needs a CRF over the tags of entities; remove --threshold"),
    ],
)
def test_a_threshold_needs_a_crf_over_entities(options, labels, said):
    with pytest.raises(ValueError, match=said):
        make_head("mlp", HiddenSequenceOptions(threshold=0.3, max_span=4, **options), ((1, 6),), labels)


LETTERED = [["O", "B-X", "I-X", "B-Y", "I-Y"], ["I-X", "O", "B-X", "E-X", "S-X"], ["O"], ["O", "I-X", "I-Y"]]


@given(
    st.sampled_from(LETTERED),
    st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=1, max_size=4),
    st.integers(0, 10_000),
    st.sampled_from([0.3, 3.0, 300.0]),
)
def test_each_head_has_the_counts_of_its_own_chain(tags, lengths, seed, scale):
    """`lengths` per head: some heads have no sentences, some sentences no words; they come in any order."""
    generator = torch.Generator().manual_seed(seed)
    heads, width = len(lengths), len(tags)
    shapes, valid = ((heads, width), (heads, width, width), (heads, width)), valid_tensors(tags)
    parts = (torch.randn(shape, generator=generator, dtype=torch.float64) * 2 for shape in shapes)
    chains = Chain(*(part.masked_fill(~ok, -torch.inf) for part, ok in zip(parts, valid, strict=True)))
    sentences = [(m, n) for m, own in enumerate(lengths) for n in own]
    sentences = [sentences[i] for i in torch.randperm(len(sentences), generator=generator)]
    numbers, flat = torch.tensor(sentences, dtype=torch.int64).view(-1, 2).T
    scores = torch.randn(int(flat.sum()), width, generator=generator, dtype=torch.float64) * scale
    tag_counts, counts = expected_counts(scores, flat, numbers, chains)
    owners = numbers.repeat_interleave(flat)
    for m in range(heads):
        alone = expectations(scores[owners == m], flat[numbers == m], Chain(*(part[m] for part in chains)))
        torch.testing.assert_close(tag_counts[owners == m], alone.tags)
        for together, apart in zip(counts, alone[2:], strict=True):
            torch.testing.assert_close(together[m], apart)

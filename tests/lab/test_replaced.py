"""lab.objectives.replaced and lab.masked: by hand, the law of the samples, and the losses of transformers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from boustro.lab.masked import ReplacedLMWithLoss, replace, sample
from boustro.lab.objectives.examples import collate, keyed_generator
from boustro.lab.objectives.replaced import replaced
from boustro.lab.presets import make_generator_config, make_masked_config
from test_masked import LENGTH, VOCABULARY, make_pieces
from test_masked_objective import END, MASK, dense_targets, make_masking, segments


@given(segments, st.integers(0, 99))
def test_every_chosen_piece_is_masked_and_nothing_else(pieces, seed):
    masking = make_masking(mask_share=0.5, random_share=0.5)  # which play no part
    found = replaced(pieces, keyed_generator(0, 0, seed), masking)
    asked = found.targets != -100
    assert len(set(found.positions[asked].tolist())) == asked.sum()
    assert (found.targets[asked] == pieces[found.positions[asked]]).all()
    restored = found.input_ids.copy()
    restored[found.positions[asked]] = found.targets[asked]
    assert (restored == pieces).all() and (found.input_ids[found.positions[asked]] == MASK).all()
    assert not masking.special[pieces[found.positions[asked]]].any()
    assert ((found.draws >= 0) & (found.draws < 1)).all() and found.draws.shape == found.positions.shape


def test_what_the_discriminator_reads_by_hand():
    inputs, is_replaced = replace(
        torch.tensor([[MASK, 3, MASK, 6, MASK]]),
        positions=torch.tensor([[0, 2, 4, 0, 0]]),
        targets=torch.tensor([[8, 4, 7, -100, -100]]),
        sampled=torch.tensor([[8, 9, 5, 33, 34]]),  # the first is right; the last two stand in empty places
    )
    assert inputs.tolist() == [[8, 3, 9, 6, 5]]
    assert is_replaced.tolist() == [[False, False, True, False, True]]


def test_samples_follow_the_distribution():
    logits = torch.tensor([0.5, 0.25, 0.0, 0.25]).log().expand(4, 4)
    assert sample(logits, torch.tensor([0.0, 0.4999, 0.5, 0.9999])).tolist() == [0, 0, 1, 3]
    grid = (torch.arange(10_000) + 0.5) / 10_000
    row = torch.randn(7, generator=torch.Generator().manual_seed(1))
    counts = torch.bincount(sample(row.expand(10_000, 7), grid), minlength=7) / 10_000
    torch.testing.assert_close(counts, row.softmax(0), atol=2e-4, rtol=0)


def make_pair():
    torch.manual_seed(0)
    config = make_masked_config("electra-tiny", make_pieces(), VOCABULARY, LENGTH)
    config.num_hidden_layers = 1
    generator = ElectraForMaskedLM(make_generator_config(config)).eval()
    discriminator = ElectraForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in [*generator.parameters(), *discriminator.parameters()]:
            parameter.normal_(0, 0.1)
    return generator, discriminator


def make_batch():
    pieces = np.random.default_rng(0).integers(1, 49, (3, LENGTH))
    pieces[1, -4:] = END
    rows = [replaced(row, keyed_generator(0, 0, i), make_masking(rate=0.4)) for i, row in enumerate(pieces)]
    return pieces, rows, collate(rows)


@pytest.mark.usefixtures("small_chunks")
def test_the_losses_are_those_of_transformers_and_samples_pass_no_gradient():
    generator, discriminator = make_pair()
    module = ReplacedLMWithLoss(generator, discriminator)
    pieces, rows, batch = make_batch()
    batch["documents"] = torch.zeros_like(batch["documents"])
    batch["documents"][1, -4:] = -1  # where nothing was chosen
    seen = (batch["documents"] >= 0).long()
    labels = torch.from_numpy(np.stack([dense_targets(row.positions, row.targets, LENGTH) for row in rows]))
    out = generator(input_ids=batch["input_ids"], attention_mask=seen, labels=labels)
    read = {}
    hook = discriminator.electra.register_forward_pre_hook(
        lambda _, args, kwargs: read.update(kwargs), with_kwargs=True
    )
    losses = module(**batch)
    hook.remove()
    torch.testing.assert_close(losses["masked_loss"], out.loss)
    inputs, originals = read["input_ids"], torch.from_numpy(pieces)
    labels = torch.from_numpy(np.stack([dense_targets(row.positions, row.targets, LENGTH) for row in rows]))
    chosen = labels != -100
    assert torch.equal(inputs[~chosen], originals[~chosen])
    for row in range(3):  # the samples are those that the draws pick
        at = batch["positions"][row][batch["targets"][row] != -100]
        draws = batch["draws"][row][batch["targets"][row] != -100]
        assert torch.equal(inputs[row, at], sample(out.logits[row, at].detach(), draws))
    wanted = discriminator(input_ids=inputs, attention_mask=seen, labels=(inputs != originals).long()).loss
    torch.testing.assert_close(losses["replaced_loss"], wanted)
    torch.testing.assert_close(losses["loss"], losses["masked_loss"] + 50 * losses["replaced_loss"])
    losses["masked_loss"].backward(retain_graph=True)
    own = {name: p.grad.clone() for name, p in generator.named_parameters() if "embeddings." not in name}
    assert all(p.grad is None for name, p in discriminator.named_parameters() if "embeddings." not in name)
    module.zero_grad()
    losses["loss"].backward()
    for name, parameter in generator.named_parameters():
        if name in own and name != "generator_lm_head.weight":  # tied to the shared embeddings
            torch.testing.assert_close(parameter.grad, own[name], msg=name)
    assert all(p.grad is not None for p in discriminator.parameters())


def test_embeddings_are_shared_in_every_way():
    generator, discriminator = make_pair()
    module = ReplacedLMWithLoss(generator, discriminator)
    words = discriminator.electra.embeddings.word_embeddings.weight
    assert generator.electra.embeddings.word_embeddings.weight is words and generator.generator_lm_head.weight is words
    assert generator.electra.embeddings is discriminator.electra.embeddings
    assert sum(p is words for p in module.parameters()) == 1


def test_a_generator_of_another_vocabulary_is_refused():
    generator, discriminator = make_pair()
    generator.config.vocab_size = 61
    with pytest.raises(ValueError, match="generator's vocab_size is 61 and the discriminator's 60"):
        ReplacedLMWithLoss(generator, discriminator)

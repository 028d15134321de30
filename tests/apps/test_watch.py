"""A tagger over the LM that writes: the text is the same, the states those of one reading, and nothing stays behind."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from boustro import Tagger
from boustro.apps.live.states import answer_vectors, from_states, word_vectors
from boustro.apps.live.stream import Live
from boustro.apps.live.watch import Watch
from boustro.encoders.outside import PieceStates, forward_lm
from boustro.types import Sentence
from labelled import DATA

FRAGMENTS = "er re th an on ing ne us o ; 0 ar".split(), ["B-PER"] * 12  # of such words a random LM's texts consist
PROMPTS = ["Ada Brandt left", "In Lisse it rained, and"]


def write_gemma(folder, tokenizer):
    """A tiny Gemma, whose first block has a window of 8 pieces."""
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 128, "sliding_window": 8}
    shape |= {"layer_types": ["sliding_attention", "full_attention"], "vocab_size": len(tokenizer)}
    torch.manual_seed(3)
    lm = AutoModelForCausalLM.from_config(AutoConfig.for_model("gemma3_text", **shape, bos_token_id=0, eos_token_id=0))
    with torch.no_grad():
        for parameter in lm.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    lm.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["llama", "gpt2", "gemma", "pair"])
def watched(request, tiny_lm, tiny_pair, tiny_tokenizer, tmp_path_factory):
    """(a tagger whose states will be given, the LM that writes, its tokenizer)."""
    kind, folder = request.param, tmp_path_factory.mktemp("watch")
    if kind == "gemma":
        lm = write_gemma(folder / "gemma", AutoTokenizer.from_pretrained(tiny_tokenizer))
    else:
        lm = tiny_lm("gpt2" if kind == "gpt2" else "llama", sentinel=True)
    documents = [Sentence(tuple(words), tuple(tags), document="d") for words, tags in [*DATA, FRAGMENTS]]
    tagger = Tagger(tiny_pair if kind == "pair" else str(lm), "mlp", epochs=8, mix_epochs=4, lr=1e-2, hidden=32)
    tagger.fit(documents, seed=1).save_pretrained(folder / "ner")
    model = AutoModelForCausalLM.from_pretrained(lm, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(lm, padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    return Tagger.from_pretrained(folder / "ner", given_states=True), model, tokenizer


def given(tokenizer, prompts=PROMPTS):
    texts = [tokenizer.eos_token + prompt for prompt in prompts]
    return tokenizer(texts, return_tensors="pt", padding=True)


def wanted(tagger, model, prompt, row, length):
    """The entities of the answer from the states of one reading of all."""
    real = row[torch.cat([prompt.bool(), torch.ones(len(row) - len(prompt), dtype=torch.bool)])]
    start = int(prompt.sum())
    with torch.inference_mode():
        states = model(real[None], output_hidden_states=True).hidden_states
    lm = forward_lm(tagger.encoder())
    chosen = torch.stack([states[layer][0] for layer in lm.layers], 1)
    pieces = PieceStates(lm, chosen[start - 1])
    text = pieces.add(real[start : start + length].tolist(), chosen[start : start + length]) + pieces.end()
    return text, tagger.result(answer_vectors(tagger, text, word_vectors(tagger, pieces, text)))


def count_hooks(model):
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def places(entities):
    return [(e.label, e.start, e.end) for e in entities]


HOWS = {
    "greedy": {},
    "sampled": {"do_sample": True, "top_k": 0},
    "without a cache": {"use_cache": False},
    "several": {"num_return_sequences": 2, "do_sample": True},
}


@pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)
def test_the_text_is_the_same_and_the_entities_those_of_one_reading(watched, how):
    tagger, model, tokenizer = watched
    prompt = given(tokenizer)
    options = {"max_new_tokens": 40, "eos_token_id": None, "pad_token_id": tokenizer.pad_token_id, **how}
    torch.manual_seed(5)
    plain = model.generate(**prompt, **options)
    torch.manual_seed(5)
    hooks = count_hooks(model)
    with Watch(tagger, model, delay=None) as seen:
        written = model.generate(**prompt, **options)
    assert torch.equal(plain, written)
    assert count_hooks(model) == hooks
    copies, columns = how.get("num_return_sequences", 1), prompt["input_ids"].shape[1]
    assert len(seen) == len(written) == copies * len(PROMPTS)
    assert any(seen[number].entities for number in range(len(seen))) or "do_sample" not in how
    for number, row in enumerate(written):
        text, entities = wanted(tagger, model, prompt["attention_mask"][number // copies], row, 40)
        assert seen[number].prompt == PROMPTS[number // copies]
        assert seen[number].text == text == tokenizer.decode(row[columns:], skip_special_tokens=True)
        assert places(seen[number].entities) == places(entities)
        assert [e.score for e in seen[number].entities] == pytest.approx([e.score for e in entities], abs=0.01)
    assert "generate" not in vars(model)


def test_events_come_while_it_writes_and_are_those_of_the_stream(watched):
    tagger, model, tokenizer = watched
    told, prompt = [], given(tokenizer)
    with Watch(tagger, model, delay=2, every=3, on_event=lambda n, event: told.append((n, event))) as seen:
        written = model.generate(**prompt, max_new_tokens=40, eos_token_id=None, pad_token_id=0)
    for number, row in enumerate(written):
        assert [event for n, event in told if n == number] == seen[number].events
        lm, mask = forward_lm(tagger.encoder()), prompt["attention_mask"][number]
        real, start = row[-(int(mask.sum()) + 40) :], int(mask.sum())
        with torch.inference_mode():
            states = model(real[None], output_hidden_states=True).hidden_states
        chosen = torch.stack([states[layer][0] for layer in lm.layers], 1)
        pieces = PieceStates(lm, chosen[start - 1])
        text = pieces.add(real[start:].tolist(), chosen[start:]) + pieces.end()
        live = Live(tagger, 2, states=pieces)
        final = [e for e in [*live.feed(text), *live.end()] if e.kind == "final"]
        assert places(seen[number].entities) == places(final)
        assert seen[number].safe == len(text)


def test_a_text_that_ends_by_itself_ends_there(watched):
    tagger, model, tokenizer = watched
    prompt = given(tokenizer)
    free = model.generate(**prompt, max_new_tokens=30, eos_token_id=None, pad_token_id=0)
    columns = prompt["input_ids"].shape[1]
    end = int(free[0, columns + 10])
    options = {"max_new_tokens": 30, "eos_token_id": end, "pad_token_id": 70}
    ends, model.generation_config.eos_token_id = model.generation_config.eos_token_id, end
    with Watch(tagger, model, delay=None) as seen:
        written = model.generate(**prompt, **options)
    model.generation_config.eos_token_id = ends
    length = written[0, columns:].tolist().index(end)
    text, entities = wanted(tagger, model, prompt["attention_mask"][0], written[0], length)
    assert seen[0].text == text
    assert places(seen[0].entities) == places(entities)


def test_the_prompt_is_tagged_where_asked(watched):
    """Of an LM of others behind its run-up, which is no part of the text."""
    tagger, model, tokenizer = watched
    lm = forward_lm(tagger.encoder())
    run_up = tokenizer.decode(lm.before[len(lm.start) :])
    prompt = given(tokenizer, [run_up + own for own in PROMPTS])
    with Watch(tagger, model, delay=None, prompt=True) as seen:
        model.generate(**prompt, max_new_tokens=2)
    for number, mask in enumerate(prompt["attention_mask"]):
        ids = prompt["input_ids"][number][mask.bool()]
        with torch.inference_mode():
            states = model(ids[None], output_hidden_states=True).hidden_states
        found = from_states(tagger, ids.tolist(), {n: layer[0] for n, layer in enumerate(states)})
        assert seen[number].prompt == PROMPTS[number]
        assert places(seen[number].prompt_entities) == places(found)


def test_a_prompt_whose_first_word_is_read_otherwise_than_in_training_is_not_tagged(watched):
    tagger, model, tokenizer = watched
    lm = forward_lm(tagger.encoder())
    bare = ["Ada Brandt left", "<|endoftext|>Ada Brandt left"][: 1 + (lm.before != lm.start)]
    for text in bare:
        with Watch(tagger, model, prompt=True), pytest.raises(ValueError, match=r"do not begin with '<\|endoftext\|>"):
            model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=2)


def test_a_cache_that_others_see_stays_as_it_is(watched):
    tagger, model, tokenizer = watched
    prompt = given(tokenizer)
    options = {"max_new_tokens": 5, "eos_token_id": None, "pad_token_id": 0, "return_dict_in_generate": True}
    plain = model.generate(**prompt, **options)
    with Watch(tagger, model, delay=None) as seen:
        written = model.generate(**prompt, **options)
    name = next(name for name in ("past_key_values", "cache") if written.get(name) is not None)
    assert written[name].get_seq_length() == plain[name].get_seq_length()
    assert seen[0].text


REFUSED = {
    "beams": {"num_beams": 2},
    "assisted": {"prompt_lookup_num_tokens": 2},
    "static": {"cache_implementation": "static"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_followed_is_refused_before_anything_is_written(watched, what):
    tagger, model, tokenizer = watched
    with Watch(tagger, model) as seen, pytest.raises(ValueError, match=what):
        model.generate(**given(tokenizer), max_new_tokens=3, **REFUSED[what])
    assert not len(seen)
    assert "generate" not in vars(model)


def test_another_model_is_refused(watched, tiny_lm):
    other = AutoModelForCausalLM.from_pretrained(tiny_lm("llama", seed=4, sentinel=True))
    with pytest.raises(ValueError, match="the tagger was trained on"):
        Watch(watched[0], other)
    third = AutoModelForCausalLM.from_pretrained(tiny_lm("qwen3", sentinel=True))
    with pytest.raises(ValueError, match="the tagger was trained on"):
        Watch(watched[0], third)

"""States from elsewhere: what they give equals what the tagger computes itself, and what does not fit is refused."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from boustro import Tagger
from boustro.apps.live.states import answer_states, from_states, read_states
from boustro.encoders.outside import forward_lm
from boustro.text.detokenise import SpelledPieces
from conftest import SENTENCES
from labelled import DATA

TEXT = " Ada Brandt left Vellmar. In Lisse it rained, and Zürich’s Okonkwo sold 🛶 boats."


def computed(lm_folder, text, start):
    """(ids, {layer: states}) of a text as transformers computes them."""
    tokenizer = AutoTokenizer.from_pretrained(lm_folder)
    model = AutoModelForCausalLM.from_pretrained(lm_folder, dtype=torch.float32)
    ids = [*start, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    with torch.inference_mode():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    return ids, {number: layer[0] for number, layer in enumerate(states)}


@pytest.fixture(scope="module")
def documents():
    """`DATA` in one document, so that the tagger reads whole texts."""
    from boustro.types import Sentence

    return [Sentence(tuple(words), tuple(tags), document="d") for words, tags in DATA]


@pytest.fixture(scope="module", params=["forward", "pair", "memory", "run-up"])
def reading(request, tiny_lm, tiny_pair, documents, tmp_path_factory):
    """(the folder of a tagger, the folder of its forward LM, the pieces before every text)."""
    lm = str(tiny_lm("llama", sentinel=True))
    spec = {"pair": tiny_pair, "memory": tiny_pair}.get(request.param, lm)
    options = {"memory": {"memory": True}, "run-up": {"prefix": "Ada Brandt left Lisse:"}}.get(request.param, {})
    tagger = Tagger(spec, "mlp", epochs=20, lr=1e-2, hidden=32, pool_mentions=True, spelling=True, **options)
    folder = tmp_path_factory.mktemp("states") / request.param
    tagger.fit(documents, seed=1).save_pretrained(folder)
    return folder, lm, forward_lm(tagger.encoder()).before


def test_states_computed_elsewhere_give_what_predict_gives(reading):
    folder, lm, start = reading
    tagger = Tagger.from_pretrained(folder, given_states=True)
    wanted = Tagger.from_pretrained(folder).predict(TEXT)
    assert wanted
    found = from_states(tagger, *computed(lm, TEXT, start), text=TEXT)
    assert [(e.label, e.start, e.end) for e in found] == [(e.label, e.start, e.end) for e in wanted]
    assert [e.score for e in found] == pytest.approx([e.score for e in wanted], abs=0.02)


@pytest.mark.parametrize("more", [1, 2])
def test_any_number_of_start_pieces_may_stand_before_a_text(reading, more):
    folder, lm, before = reading
    tagger = Tagger.from_pretrained(folder, given_states=True)
    ids, states = computed(lm, TEXT, [*before[:1] * more, *before])
    found = from_states(tagger, ids, states)
    assert all(TEXT[e.start : e.end] == e.text for e in found)
    assert [(e.start, e.end) for e in from_states(tagger, ids, states, text=TEXT)] == [(e.start, e.end) for e in found]


def test_the_lm_is_not_loaded_and_cannot_read(reading):
    folder, _, _ = reading
    if folder.name == "memory":
        pytest.skip("a memory names its LMs, which are loaded")
    with pytest.raises(ValueError, match="weights were not loaded"):
        Tagger.from_pretrained(folder, given_states=True).predict(TEXT)


@pytest.fixture(scope="module")
def forward(tiny_lm, documents, tmp_path_factory):
    """(a tagger of one LM for given states, ids, states, the folder of the LM)."""
    lm = str(tiny_lm("llama", sentinel=True))
    folder = tmp_path_factory.mktemp("states") / "forward"
    Tagger(lm, "mlp", epochs=20, lr=1e-2, hidden=32, layers="1,2").fit(documents, seed=1).save_pretrained(folder)
    tagger = Tagger.from_pretrained(folder, given_states=True)
    return tagger, *computed(lm, TEXT, [AutoTokenizer.from_pretrained(lm).eos_token_id]), lm


WRONG = {
    "no states of layer 2": lambda ids, states: (ids, {1: states[1]}),
    "of width 16": lambda ids, states: (ids, {n: s[:, :16] for n, s in states.items()}),
    "one row is one piece": lambda ids, states: (ids, {n: s[1:] for n, s in states.items()}),
    "no piece 5,000 in the vocabulary": lambda ids, states: ([*ids[:-1], 5000], states),
    "do not begin with": lambda ids, states: (ids[1:], {n: s[1:] for n, s in states.items()}),
    "no numbers, beyond float16's range": lambda ids, states: (ids, {n: (s * 1e5).half() for n, s in states.items()}),
    "1 values that are no numbers": lambda ids, states: (ids, {n: with_nan(s) for n, s in states.items()}),
    "holds int64": lambda ids, states: (ids, {n: s.long() for n, s in states.items()}),
    "holds float8_e5m2": lambda ids, states: (ids, {n: s.to(torch.float8_e5m2) for n, s in states.items()}),
    "far from those that the head was trained on": lambda ids, states: (ids, {1: states[1], 2: states[1] * 20}),
}


def with_nan(states):
    changed = states.clone()
    changed[3, 5] = float("nan")
    return changed


@pytest.mark.parametrize("message", WRONG)
def test_states_that_do_not_fit_are_refused_in_one_sentence(forward, message):
    tagger, ids, states, _ = forward
    with pytest.raises(ValueError, match=message) as caught:
        from_states(tagger, *WRONG[message](ids, states))
    assert "\n" not in str(caught.value)


def test_pieces_that_do_not_spell_the_text_are_refused(forward):
    tagger, ids, states, _ = forward
    with pytest.raises(ValueError, match="they differ from character 1 on"):
        from_states(tagger, ids, states, text=" Bob left.")


def test_a_tagger_that_reads_both_ways_takes_no_states(documents, tiny_lm, forward):
    tagger = Tagger(f"unmasked:{tiny_lm('llama', sentinel=True)}", "linear", epochs=1).fit(documents, seed=1)
    with pytest.raises(ValueError, match="a causal LM that reads forward, and it has none"):
        from_states(tagger, *forward[1:3])


def test_files_of_both_forms_are_read(forward, tmp_path):
    tagger, ids, states, lm = forward
    wanted = from_states(tagger, ids, states)
    own = {"token_ids": torch.tensor(ids)} | {f"layer.{n}": s.clone() for n, s in states.items()}
    save_file(own, tmp_path / "own.safetensors", {"text": TEXT, "weights": tagger.encoder().weights()})
    last = before_norm(lm, ids)  # as vLLM gives it
    stacked = {"token_ids": torch.tensor(ids), "hidden_states": torch.stack([states[1], last], 1)}
    save_file(stacked, tmp_path / "vllm.safetensors")
    save_file(stacked, tmp_path / "said.safetensors", {"layers": "1,2"})
    files = [("own", None), ("vllm", [1, 2]), ("said", None)]
    for name, layers in files:
        answer = answer_states(tagger, read_states(tmp_path / f"{name}.safetensors", layers))
        found = tagger.result(answer)
        assert [(e.label, e.start, e.end) for e in found] == [(e.label, e.start, e.end) for e in wanted], name
    with pytest.raises(ValueError, match="does not say which layers it has"):
        read_states(tmp_path / "vllm.safetensors")
    save_file(own, tmp_path / "other.safetensors", {"weights": "0"})
    with pytest.raises(ValueError, match="computed by another LM"):
        answer_states(tagger, read_states(tmp_path / "other.safetensors"))
    (tmp_path / "no.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_states(tmp_path / "no.safetensors")


def test_the_command_reads_the_file(forward, tmp_path, capsys, documents):
    from boustro.apps.cli.main import main

    tagger, ids, states, _ = forward
    tagger.save_pretrained(tmp_path / "ner")
    stacked = {"token_ids": torch.tensor(ids), "hidden_states": torch.stack([states[0], states[1]], 1)}
    save_file(stacked, tmp_path / "few.safetensors")
    layers = {f"layer.{n}": s.clone() for n, s in states.items()}
    save_file({"token_ids": torch.tensor(ids), **layers}, tmp_path / "all.safetensors")
    command = ["predict", str(tmp_path / "ner"), "--format", "jsonl", "--states"]
    assert main([*command, str(tmp_path / "all.safetensors")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["text"] == TEXT
    assert found["entities"] == [e.to_dict() for e in from_states(tagger, ids, states)]
    assert main([*command, str(tmp_path / "few.safetensors"), "--state-layers", "0,1"]) == 1
    assert "no states of layer 2, which the tagger reads; there are 0, 1" in capsys.readouterr().err


def before_norm(lm, ids):
    model, kept = AutoModelForCausalLM.from_pretrained(lm, dtype=torch.float32), []
    model.model.norm.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    with torch.inference_mode():
        model(torch.tensor([ids]))
    return kept[0][0]


@given(
    st.lists(st.sampled_from([*SENTENCES, " 🇩🇪", "नमस्ते", "\n\n", " 👩‍👧 ", "中国", "é", "\ufffd"]), max_size=4),
    st.data(),
)
def test_pieces_spell_what_they_are_made_of_whatever_comes_together(tiny_tokenizer, parts, data):
    text, tokenizer = "".join(parts), AutoTokenizer.from_pretrained(tiny_tokenizer)
    ids, spelled, out, at = tokenizer(text)["input_ids"], SpelledPieces(tokenizer), "", 0
    while at < len(ids):
        count = data.draw(st.integers(1, 9))
        out += spelled.add(ids[at : at + count])
        at += count
        assert text.startswith(out)  # what was given out stays
    assert out + spelled.end() == text
    assert len(spelled.starts) == len(spelled.ends) == len(ids)
    assert np.all(np.diff(spelled.starts) >= 0) and np.all(np.diff(spelled.ends) >= 0)

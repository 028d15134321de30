import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro import Infiller
from boustro.lab.generation.both_ends.infiller import BROKEN_GAPS
from boustro.lab.generation.both_ends.pair import TextPieces, begin_with_space
from boustro.lab.generation.templates import split_gaps
from boustro.text.tokenizers import load_tokenizer, with_special_pieces
from conftest import SENTENCES
from tokenizer_kinds import TINY
from world import run

FAST = {"read_on": 4, "tokens_per_gap": "1-2", "dtype": "float32"}


@pytest.fixture(scope="module")
def infiller(tiny_pair) -> Infiller:
    return Infiller(tiny_pair, **FAST)


def test_nothing_outside_the_gaps_changes(infiller):
    texts = ["Ada ___ the ___.", "___ left", "left\n___", "an un___able\tman  ___", "(____)___ Ada"]
    texts.append("__ is no gap, ___ is")
    for text, found in zip(texts, infiller.fill(texts), strict=True):
        rest, end = split_gaps(text), 0
        assert found.text == text and len(found.gaps) == len(rest) - 1
        for part, gap in zip(rest, found.gaps, strict=False):
            assert found.filled[end : gap.start] == part and found.filled[gap.start : gap.end] == gap.text
            assert gap.text and not gap.text.startswith(" ")
            end = gap.end
        assert found.filled[end:] == rest[-1]


def test_each_gap_is_filled_in_turn(infiller):
    text = "Ada ___ the harbour ___ and left."
    found = infiller.fill(text)
    first = infiller.fill("Ada ___ the harbour")
    assert found.gaps[0] == first.gaps[0]  # what lies behind the next gap is not read
    second = infiller.fill(f"{first.filled} ___ and left.")
    assert found.filled == second.filled and found.gaps[1].joint == pytest.approx(second.gaps[0].joint, abs=1e-3)


def test_batches_change_nothing(infiller):
    texts = [f"Ada {'left ' * n}___ in {n} ___" for n in range(20)]
    together, alone = infiller.fill(texts), [infiller.fill(text) for text in texts]
    assert [own.filled for own in together] == [own.filled for own in alone]


def test_candidates_are_different_texts_best_first(tiny_pair):
    found = Infiller(tiny_pair, **FAST, candidates=4).fill("Ada ___ the harbour.").to_dict()
    (gap,) = found["gaps"]
    texts = [gap["text"], *(other["text"] for other in gap["others"])]
    assert len(set(texts)) == len(texts) == 4
    assert "others" not in Infiller(tiny_pair, **FAST).fill("Ada ___ it.").to_dict()["gaps"][0]


def test_what_is_noticed_is_counted(tiny_pair):
    infiller = Infiller(tiny_pair, **FAST)
    infiller.fill(["harbour " * 80 + "___ end", "short ___"])
    ((said, count),) = [item for item in infiller.counts.items() if item[0] != BROKEN_GAPS and item[1]]
    assert count == 1 and "the nearest 57 pieces" in said
    infiller.pieces.text = lambda pieces, spaced: "\N{REPLACEMENT CHARACTER}"  # type: ignore[method-assign]
    infiller.fill("a ___")
    assert infiller.counts[BROKEN_GAPS] == 1


@pytest.mark.parametrize("kind", [kind for kind in TINY if not kind.startswith("word_piece")])
def test_pieces_around_a_gap_are_those_of_the_whole_text(kind):
    tokenizer = TINY[kind](SENTENCES)
    pieces = TextPieces(tokenizer)
    whole = "The harbour master sold nine small boats , he said."
    for left, right in (
        ("The harbour ", " nine small boats , he said."),
        ("", " master sold nine small boats , he said."),
    ):
        middle = whole[len(left) : len(whole) - len(right)]
        before, spaced = pieces.left(left)
        after, all_pieces = pieces.right(right), tokenizer(whole, add_special_tokens=False)["input_ids"]
        own = all_pieces[len(before) : len(all_pieces) - len(after)]
        assert [*before, *own, *after] == all_pieces
        assert pieces.text(own, spaced) == middle and begin_with_space(tokenizer)[own[0]] == spaced


@given(left=st.text(max_size=20), right=st.text(max_size=20))
def test_pieces_of_any_text_say_the_text(tiny_tokenizer, left, right):
    pieces = TextPieces(load_tokenizer(tiny_tokenizer))
    before, spaced = pieces.left(left)
    assert pieces.tokenizer.decode(before) + " " * spaced == left
    assert pieces.tokenizer.decode(pieces.right(right)) == right


def test_a_vocabulary_without_spaces_is_refused():
    with pytest.raises(ValueError, match="does not keep spaces apart"):
        TextPieces(TINY["word_piece"](SENTENCES))


def test_a_vocabulary_of_bytes_writes_after_a_space(tiny_lm):
    spec = "+".join(str(tiny_lm("llama", direction, vocab=257)) for direction in ("forward", "backward"))
    found = Infiller(spec, **FAST).fill("Ada ___ it")
    assert found.filled.startswith("Ada ") and found.filled.endswith(" it")


def test_models_that_cannot_fill(tiny_lm, tiny_pair, tmp_path):
    forward, backward = tiny_pair.split("+")
    other = tiny_lm("llama", "backward", vocab=300)
    from transformers import AutoConfig, AutoModelForMaskedLM

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    AutoModelForMaskedLM.from_config(AutoConfig.for_model("bert", vocab_size=404, **shape)).save_pretrained(tmp_path)
    with_special_pieces(forward, ["mask", "cls", "sep", "pad"]).save_pretrained(tmp_path)
    for spec, said in (
        (f"{forward}+{other}", "different vocabularies"),
        (f"{backward}+{forward}", "a forward LM and a backward LM, in this order"),
        (forward, "is one model"),
        (f"{forward}+{backward}+{forward}", "is 3 models"),
        (str(tmp_path), "is a masked LM"),
        (f"masked:{tmp_path}+{backward}", "is a masked LM"),
    ):
        with pytest.raises(ValueError, match=said):
            Infiller(spec, **FAST)
    with pytest.raises(ValueError, match="no room for a context"):
        Infiller(tiny_pair, tokens_per_gap="60")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["a ___", " "], "text 2 is empty"),
        (["a __ b"], "text 1 has no gap"),
        (["a ___", None], "text 2 is None"),
        (["a ___ \ud800"], "half a character"),
    ],
)
def test_texts_that_cannot_be_filled(infiller, texts, said):
    with pytest.raises(ValueError, match=said):
        infiller.fill(iter(texts))


def test_the_command_takes_a_text_a_file_and_standard_input(tiny_pair, file, monkeypatch):
    options = ["--encoder", tiny_pair, "--read-on", "4", "--tokens-per-gap", "1"]
    text = "Ada ___ it."
    code, out, _ = run(["lab", "infill", text, *options])
    assert code == 0 and out.startswith("Ada ") and out.endswith(" it.\n")
    lines = "".join(f"{line}\n" for line in [text] * 20)
    code, from_file, _ = run(["lab", "infill", str(file("gaps.txt", lines)), *options, "--format", "jsonl"])
    found = [json.loads(line) for line in from_file.splitlines()]
    assert code == 0 and [own["filled"] + "\n" for own in found] == [out] * 20
    assert set(found[0]["gaps"][0]) == {"start", "end", "text", "joint"}
    code, several, _ = run(["lab", "infill", text, *options, "--candidates", "3"])
    assert code == 0 and several.startswith(out.strip() + "\t") and several.count(" | ") == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no gap here"], 1, "the text has no gap"),
        (["missing.txt"], 1, "missing.txt: no such file"),
        ([""], 1, "the text is empty"),
        (["."], 1, ". is a folder"),
        (["{file}"], 1, "gaps.txt:2 has no gap"),
        (["a ___", "--candidates", "9", "--tokens-per-gap", "2"], 2, "needs a --beam of at least 9"),
        (["a ___", "--tokens-per-gap", "none"], 2, "a range such as 1-4"),
        (["a ___", "--encoder", "starter-forward"], 1, "is one model"),
    ],
)
def test_the_command_says_what_is_wrong(words, code, said, file):
    path = file("gaps.txt", "Ada ___ it.\nno gap\n")
    found, out, errors = run(["lab", "infill", *(word.format(file=path) for word in words)])
    assert (found, out) == (code, "") and said in " ".join(errors.replace("│", " ").split())


def test_the_shipped_pair_knows_a_little():
    infiller = Infiller(tokens_per_gap="1")
    assert infiller.fill("He was born in London and died ___ Paris.").gaps[0].text == "in"
    assert infiller.fill("It is one ___ the oldest towns.").filled == "It is one of the oldest towns."

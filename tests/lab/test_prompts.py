"""boustro lab prompt: templates, pieces, scores against plain models, calibration by hand, fine-tuning, the command."""

import json
from itertools import islice
from math import exp

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from boustro.apps.cli.main import main
from boustro.lab.generation.both_ends.reader import EndReader
from boustro.lab.generation.templates import PromptPieces, known_templates, open_template, read_template
from boustro.lab.judges import CausalJudge, MaskedJudge
from boustro.lab.prompting import PromptClassifier
from boustro.text.files import DataFile
from boustro.text.patterns import fill, pattern_text
from boustro.text.tokenizers import load_tokenizer
from generators import write_masked_lm
from pretraining import replacing

TEXTS = {"a": ["rain", "ferry"], "b": "boats and nets"}
TEMPLATE = {"text": "{text} It was ___, said Ada.", "labels": TEXTS, "aliases": {"0": "a", "1": "b"}}
RECORDS = [{"text": "Ada left Vellmar."}, {"text": "Nobody reads."}, {"text": "The bank closes on Tuesdays and snows."}]


@pytest.fixture(scope="module")
def masked(tmp_path_factory, tiny_tokenizer):
    place = tmp_path_factory.mktemp("prompted")
    kinds = {"prefix": ("prefix", "eurobert"), "full": (None, "eurobert"), "bert": (None, "bert")}
    return {name: str(write_masked_lm(place / name, tiny_tokenizer, *kind)) for name, kind in kinds.items()}


def template(**changed):
    return read_template("own", TEMPLATE | changed, "own.json")


# Patterns and templates


def test_patterns_lead_into_records():
    record = {"context": "Ada left.", "answers": [{"text": "May"}], "a.b": "dotted"}
    assert fill("{answers.0.text} of: {context}", record, "x") == "May of: Ada left."
    assert fill("{question|a.b}!", record, "x") == "dotted!"
    assert pattern_text("context", record, "x") == "Ada left."
    for pattern, said in (
        ("{answers.1.text}", "'answers.1.text'"),
        ("{context.0}", "'context.0'"),
        ("{answers}", "no"),
    ):
        with pytest.raises(ValueError, match=said):
            fill(pattern, record, "x:1")
    with pytest.raises(ValueError, match=r"x:1: no text under the key 'q'; name it with --prompt-key \(found: list\)"):
        pattern_text("q", [], "x:1", "--prompt-key")


def test_every_template_of_the_package_is_sound():
    assert {"sentiment", "question-type", "entailment", "paraphrase", "acceptability"} <= known_templates().keys()
    tokenizer = load_tokenizer("starter")
    for name in known_templates():
        own = open_template(name)
        pieces = PromptPieces(own, tokenizer)
        assert len(own.labels) > 1 and len(pieces.neutral()) >= 2
        for label, words in pieces.words.items():
            texts = [tokenizer.decode(word).strip() for word in words]
            assert texts == list(own.words[label])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"text": "{text} It was."}, "the text has 0 gaps"),
        ({"text": "{text} ___ ___."}, "the text has 2 gaps"),
        ({"text": " ___ {text}."}, "no text before the gap"),
        ({"text": "It was ___."}, "no field such as {text}"),
        ({"text": "{text} un___able"}, "must begin with a space or a punctuation mark"),
        ({"labels": {"a": "x"}}, "at least two labels"),
        ({"labels": {"a": "x", "b": ["x"]}}, "the word 'x' stands twice"),
        ({"labels": {"a": "x", "b": [" y"]}}, "without spaces"),
        ({"labels": []}, "labels must be an object"),
        ({"aliases": {"0": "c"}}, "unknown label of the alias '0' in own.json 'c'"),
        ({"neutral": []}, "neutral must be a list of texts"),
        ({"text": "{text} ___", "neutral": [""]}, "nothing stands before the gap"),
        ({"lables": {}}, "'lables' is no part of a template; did you mean 'labels'"),
    ],
)
def test_templates_that_are_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        template(**changed)


def test_pieces_of_a_text_in_a_template(tiny_tokenizer):
    tokenizer = load_tokenizer(tiny_tokenizer)
    pieces = PromptPieces(template(), tokenizer, most=3)
    ids = lambda text: tokenizer(text)["input_ids"]  # noqa: E731
    left, right = pieces.sides({"text": "Ada left Vellmar.", "other": "ferry " * 9}, "x")
    start = tokenizer.decode(ids("Ada left Vellmar.")[:3])
    assert (left, right) == (ids(f"{start} It was"), ids(", said Ada.")) and pieces.num_cut == 1
    assert pieces.words == {"a": [ids(" rain"), ids(" ferry")], "b": [ids(" boats and nets")]}
    assert pieces.neutral()[0][0] == ids("It was") and pieces.neutral()[1][0] == ids("N/A It was")
    quoted = PromptPieces(template(text='{text} "___".'), tokenizer)
    assert quoted.words["a"][0] == ids("rain") and quoted.sides({"text": "Ada"}, "x")[0] == ids('Ada "')


def test_the_words_that_are_taught_to_a_masked_lm_have_as_many_pieces(tiny_tokenizer):
    tokenizer = load_tokenizer(tiny_tokenizer)
    pieces = PromptPieces(template(labels={"a": ["boats and nets", "rain"], "b": ["snow"]}), tokenizer)
    rain, snow, boats = pieces.words["a"][1], pieces.words["b"][0], pieces.words["a"][0]
    assert len(rain) == len(snow) < len(boats)
    assert pieces.taught(equal=True) == {"a": ("rain", rain), "b": ("snow", snow)}
    assert pieces.taught(equal=False) == {"a": ("boats and nets", boats), "b": ("snow", snow)}
    with pytest.raises(
        ValueError, match=r"'boats and nets' \d; 'snow' \d\), .*give each label a word of as many pieces"
    ):
        PromptPieces(template(labels={"a": "boats and nets", "b": "snow"}), tokenizer).taught(equal=True)


# Scores


@pytest.mark.parametrize("kind", ["prefix", "full", "bert"])
def test_a_masked_lm_scores_words_by_what_it_predicts_in_the_gap(masked, kind):
    judge = MaskedJudge(masked[kind], "left-to-right", "cpu")
    pieces = PromptPieces(template(), judge.tokenizer)
    gaps = [pieces.sides(record, "x") for record in RECORDS]
    words = [word for own in pieces.words.values() for word in own]
    found = judge.word_scores(gaps, words)
    lm, model = AutoModelForMaskedLM.from_pretrained(masked[kind]), judge.lm
    for row, (left, right) in enumerate(gaps):
        for column, word in enumerate(words):
            total, shown = 0.0, [model.mask_id] * len(word)
            for place, piece in enumerate(word):
                ids = torch.tensor([[*model.before, *left, *shown, *right, *model.after]])
                start = len(model.before) + len(left)
                seen = torch.ones(1, 1, ids.shape[1], ids.shape[1], dtype=torch.bool)
                if kind == "prefix":
                    seen[..., :start, start:] = False
                given = {"attention_mask": seen} if kind == "prefix" else {}
                logits = lm(ids, **given).logits[0, start + place].masked_fill(~model.writable, -torch.inf)
                total += float(logits.log_softmax(-1)[piece])
                shown[place] = piece
            assert float(found[row, column]) == pytest.approx(total, abs=2e-3)


def test_causal_lms_score_the_word_and_what_stands_after_the_gap(tiny_pair, tiny_lm):
    judge = CausalJudge(tiny_pair, "forward", "cpu")
    pieces = PromptPieces(template(), judge.tokenizer)
    gaps = [pieces.sides(record, "x") for record in RECORDS]
    words = [word for own in pieces.words.values() for word in own]
    found = judge.word_scores(gaps, words)
    lm = AutoModelForCausalLM.from_pretrained(tiny_pair.split("+")[0])
    reader: EndReader = judge.forward
    for row, (left, right) in enumerate(gaps):
        for column, word in enumerate(words):
            read = [*reader.frame(left), *word, *right]
            log_probs = lm(torch.tensor([read])).logits[0].log_softmax(-1)
            wanted = sum(float(log_probs[n - 1, read[n]]) for n in range(len(reader.frame(left)), len(read)))
            assert float(found[row, column]) == pytest.approx(wanted, abs=2e-3)


class Fixed:
    """A judge with scores of its own: the prior of three content-free texts, then those of one text."""

    def __init__(self, *scores):
        self.scores, self.score, self.window = list(scores), "fixed", 99

    def word_scores(self, gaps, words):
        found = torch.tensor(self.scores.pop(0))
        assert found.shape == (len(gaps), len(words))
        return found


def test_calibration_by_hand(tiny_tokenizer, monkeypatch):
    """The mean over a label's words; the mean over content-free texts; the quotient, normalised."""
    prior, text = [[-1.0, -3.0, -1.0], [-2.0, -2.0, -5.0], [-3.0, -1.0, -1.0]], [[-1.0, -2.0, -1.5]]
    judge = Fixed(prior, text, prior, text)
    judge.tokenizer = load_tokenizer(tiny_tokenizer)
    monkeypatch.setattr("boustro.lab.prompting.open_judge", lambda *given: judge)

    def labels(scores):
        a, b = (exp(scores[0]) + exp(scores[1])) / 2, exp(scores[2])
        return a / (a + b), b / (a + b)

    means = [sum(own) / 3 for own in zip(*map(labels, prior), strict=True)]
    plain = labels(text[0])
    divided = [p / m for p, m in zip(plain, means, strict=True)]
    for calibrate, wanted in ((False, plain), (True, [d / sum(divided) for d in divided])):
        classifier = PromptClassifier("any", template(), calibrate=calibrate)
        (answer,) = classifier.answer(RECORDS[:1])
        assert list(answer.probabilities.values()) == pytest.approx(wanted, abs=1e-5)
        assert list(classifier.prior.values()) == pytest.approx(means, abs=1e-5)
        assert answer.label == "ab"[wanted.index(max(wanted))]


def test_a_text_without_content_favours_no_label_after_calibration(tiny_tokenizer, monkeypatch):
    """The first label then, whatever another batch adds to its last bits."""
    prior = [[-1.0, -3.0, -2.0]]
    for noise in (-1e-6, 0.0, 1e-6):
        judge = Fixed(prior, [[-1.0, -3.0, -2.0 + noise]])
        judge.tokenizer = load_tokenizer(tiny_tokenizer)
        monkeypatch.setattr("boustro.lab.prompting.open_judge", lambda *given, judge=judge: judge)
        classifier = PromptClassifier("any", template(neutral=["N/A"]), calibrate=True)
        (answer,) = classifier.answer([{"text": "N/A"}])
        assert answer.label == "a"


# The command, and fine-tuning

SEEN = [("Ada left.", 0), ("It rained.", 1), ("Ada reads.", 0), ("It snows.", 1), ("Ada wrote it.", 0)]


@pytest.fixture
def files(tmp_path):
    rows = [json.dumps({"text": text, "label": label}) + "\n" for text, label in SEEN]
    (tmp_path / "labelled.jsonl").write_text("".join(rows))
    (tmp_path / "own.json").write_text(json.dumps(TEMPLATE))
    return tmp_path


def test_the_command_prints_answers_and_their_scores_beside_the_controls(masked, tiny_pair, files, capsys):
    for model, more in ((masked["prefix"], ["--calibrate"]), (tiny_pair, []), (masked["bert"], ["--score", "duel"])):
        words = ["lab", "prompt", str(files / "labelled.jsonl"), "--encoder", model]
        words += ["--template", str(files / "own.json"), *more]
        assert main([*words, "--json", str(files / "out.json")]) == 0
        out, errors = capsys.readouterr()
        answers, figures = [json.loads(line) for line in out.splitlines()], json.loads((files / "out.json").read_text())
        right = sum(own["answer"] == "ab"[own["label"]] for own in answers)
        scores = figures["scores"]
        assert scores["answers"]["accuracy"] == pytest.approx(100 * right / 5) and figures["texts"] == 5
        assert scores["majority (a)"]["accuracy"] == pytest.approx(60)
        prior = max(figures["prior"], key=figures["prior"].get)
        assert scores[f"prior only ({prior})"]["accuracy"] in (pytest.approx(40), pytest.approx(60))
        assert ("not calibrated" in scores) == ("--calibrate" in more)
        assert sum(answers[0]["probabilities"].values()) == pytest.approx(1, abs=1e-3) and "majority (a)" in errors
    assert main([*words, "--json", "-", "--quiet"]) == 0
    out, errors = capsys.readouterr()
    assert json.loads(out)["texts"] == 5 and errors == ""
    words[2] = str(files / "plain.txt")
    (files / "plain.txt").write_text("ferry " * 80 + "".join(f"\n{text}" for text, _ in SEEN))
    assert main([*words, "--prompt-pieces", "20"]) == 0
    out, errors = capsys.readouterr()
    assert len(out.splitlines()) == 6 and "majority" not in errors, "no labels, no scores"
    assert "note: 1 text was cut to its first pieces" in errors


@pytest.mark.parametrize(
    ("line", "more", "said"),
    [
        ('{"text": "Ada", "label": 7}', [], ":1: the template own has no label '7' (known: a, b, 0, 1)"),
        ('{"txt": "Ada"}', [], ":1: no text under the key 'text' (found: txt)"),
        ('{"text": "Ada", "label": 0}\n{"text": "Ada"}', [], ":2: some texts have a label and some have none"),
        ("ferry " * 80, [], ":1: the template with its text has"),
        ("Ada", ["--score", "forward"], "unknown score of a masked LM 'forward'"),
        ("Ada", ["--template", "sentimnt"], "did you mean 'sentiment'"),
        ("Ada", ["--train", "{train}"], "a line has no label under the key 'label'"),
    ],
)
def test_what_is_refused(masked, files, capsys, line, more, said):
    (files / "x.txt").write_text(line + "\n")
    (files / "train.jsonl").write_text('{"text": "Ada"}\n')
    words = [
        "lab",
        "prompt",
        str(files / "x.txt"),
        "--encoder",
        masked["prefix"],
        "--template",
        str(files / "own.json"),
    ]
    more = [word.replace("{train}", str(files / "train.jsonl")) for word in more]
    assert main(replacing(words, *more)) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["prefix", "causal"])
def test_fine_tuning_learns_the_words_of_the_labels(masked, tiny_lm, files, capsys, kind):
    """A word of each label, in the form that boustro lab prompt reads: no end-of-text piece, no head of lengths."""
    model = masked["prefix"] if kind == "prefix" else str(tiny_lm("llama", sentinel=True))
    (files / "own.json").write_text(
        json.dumps(TEMPLATE | {"labels": {"a": ["rain", "ferry"], "b": ["boats and nets", "snow"]}})
    )
    words = ["lab", "seq2seq", "--lm", model, "--train", str(files / "labelled.jsonl"), "--out", str(files / "lm")]
    words += ["--template", str(files / "own.json"), "--epochs", "60", "--lr", "1e-2"]
    assert main(words) == 0
    assert not (files / "lm" / "length_head.safetensors").exists()
    assert "prompt_end" not in json.loads((files / "lm" / "config.json").read_text())
    capsys.readouterr()
    asked = ["lab", "prompt", str(files / "labelled.jsonl"), "--encoder", str(files / "lm"), "--json", "-"]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"]["answers"]["accuracy"] == 100, "a constant answer gets 60"
    learned = json.loads((files / "lm" / "template.json").read_text())
    assert learned["labels"] == {"a": ["rain"], "b": ["snow" if kind == "prefix" else "boats and nets"]}
    assert learned["text"] == TEMPLATE["text"] and found["template"] == "lm"
    assert main(["lab", "prompt", str(files / "labelled.jsonl"), "--encoder", model]) == 1
    assert "was not fine-tuned on a template; name one with --template" in capsys.readouterr().err
    words[5] = str(files / "x.jsonl")
    (files / "x.jsonl").write_text('{"text": "Ada"}\n')
    assert main([*words, "--overwrite"]) == 1
    assert "x.jsonl:1: no label under the key 'label'; name it with --label-key" in capsys.readouterr().err


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("sentiment", "glue/sst2/train.jsonl"),
        ("sentiment", "text_classification/sst-sentences-dev.jsonl.xz"),
        ("question-type", "text_classification/trec-dev.jsonl.xz"),
        ("entailment", "glue/rte/train.jsonl"),
        ("paraphrase", "glue/mrpc/train.jsonl"),
        ("acceptability", "glue/cola/train.jsonl"),
    ],
)
def test_templates_of_the_package_fit_published_data(name, file, shared_data):
    own = open_template(name)
    pieces, found = PromptPieces(own, load_tokenizer("starter")), set()
    for place, record in islice(DataFile(shared_data / file).open("json"), 100):
        left, _ = pieces.sides(record, place)
        found.add(own.label(record["label"], place))
        assert left
    assert len(found) >= 2 and found <= set(own.labels)

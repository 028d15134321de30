import json
import re

import numpy as np
import pytest

from boustro import Writer
from generators import write_masked_lm
from test_choices import total
from world import run

pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: pip install 'boustro[harness]'")

from boustro.lab.harness.run import (
    CUT_CONTEXTS,
    BoustroLM,
    HarnessQuestion,
    accuracy_of,
    answer,
    known_tasks,
    open_task,
)
from boustro.lab.judges import SCORES

QUESTIONS = [
    {"question": "The ferry leaves", "choices": ["at seven", "the baker", "nine boats in winter"], "answer": 0},
    {"question": "It rained for", "choices": ["football", "40 days"], "answer": 1},
    {"question": "Ada Brandt", "choices": ["is never on time", "closes", "a crate of cherries", "it"], "answer": 0},
    {"question": "When the wind turns north", "choices": ["a bank", "they mend nets"], "answer": 1},
]
OURS = "arc_easy arc_challenge openbookqa continuation_easy continuation_hard".split()
ROWS = dict.fromkeys(OURS, QUESTIONS) | {
    "piqa": [{"goal": "mend a net", "sol1": "knot it", "sol2": "burn it", "label": 0}] * 2,
    "siqa": [
        {"context": "Ada left.", "question": "Why?", "answerA": "rain", "answerB": "a b", "answerC": "x", "label": "2"}
    ],
    "winogrande": [
        {"sentence": "Ada gave Ines a net because _ had two.", "option1": "Ada", "option2": "Ines", "answer": "1"}
    ],
}
GOLD = {"piqa": [0, 0], "siqa": [1], "winogrande": [0]}


def write_tasks(folder):
    for name, file in known_tasks().items():
        path = folder / file.read_text("utf-8").split("test: ")[1].split("}")[0]
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]), "utf-8")


@pytest.fixture
def data(tmp_path):
    write_tasks(tmp_path)
    return tmp_path


@pytest.mark.parametrize("score", SCORES)
def test_the_harness_agrees_with_our_own_accuracy_item_by_item(tiny_pair, data, score):
    lm = BoustroLM(tiny_pair, score)
    (questions,) = answer(lm, {"openbookqa": open_task("openbookqa", data)}).values()
    assert len(questions) == len(QUESTIONS)
    for row, found in zip(QUESTIONS, questions, strict=True):
        values = []
        for choice in row["choices"]:
            context, pieces = lm.tok_encode(row["question"]), lm.tok_encode(f" {choice}")
            parts = {
                "forward": total(lm.judge.forward, context, pieces),
                "prior": total(lm.judge.forward, [], pieces),
                "backward": total(lm.judge.backward, pieces, context[::-1]),
            }
            signs, mean = SCORES[score]
            values.append(sum(sign * parts[name] for name, sign in signs.items()) / (len(pieces) if mean else 1))
        np.testing.assert_allclose(found.scores, values, atol=1e-3)
        assert found.right == (int(np.argmax(values)) == row["answer"]) and found.gold == row["answer"]
        by_length = np.divide(values, [len(choice) for choice in row["choices"]])
        assert found.right_by_length == (int(np.argmax(by_length)) == row["answer"])


def test_every_task_in_the_package_reads_its_rows(tiny_pair, data):
    answered = answer(BoustroLM(tiny_pair), {name: open_task(name, data) for name in known_tasks()})
    for name, questions in answered.items():
        assert [q.gold for q in questions] == GOLD.get(name, [row["answer"] for row in QUESTIONS])
        for question in questions:
            assert question.right == (int(np.argmax(question.scores)) == question.gold)
    (winogrande,), (siqa,) = answered["winogrande"], answered["siqa"]
    assert winogrande.choices() == ["Ada gave Ines a net because Ada", "Ada gave Ines a net because Ines"]
    assert {text for _, text in winogrande.requests} == {" had two."}
    assert siqa.requests[1] == ("Ada left. Why?", " a b")
    assert answered["continuation_easy"][0].choices()[0] == "at seven"  # no space is put between


def test_one_lm_answers_alone(tiny_pair, data):
    forward, backward = tiny_pair.split("+")
    both = BoustroLM(tiny_pair, "backward")
    alone = BoustroLM(backward)
    assert (alone.score, BoustroLM(forward).score, BoustroLM(tiny_pair).score) == ("backward", "forward", "pair-pmi")
    found, wanted = (answer(lm, {"a": open_task("arc_easy", data)})["a"] for lm in (alone, both))
    assert [own.scores for own in found] == [own.scores for own in wanted]
    assert alone.prior([" it"]) == pytest.approx(
        [total(alone.judge.backward, [], alone.tok_encode(" it")[::-1])], abs=1e-3
    )
    for model, score, said in (
        (forward, "pair", "needs a backward LM"),
        (backward, "forward-pmi", "needs a forward LM"),
        (tiny_pair, "par", "did you mean 'pair'"),
        (f"{forward}+{forward}", None, "one of each direction"),
    ):
        with pytest.raises(ValueError, match=said):
            BoustroLM(model, score)


@pytest.mark.parametrize("score", ["one-shot", "duel", "one-shot-pmi", None])
def test_a_masked_lm_answers_by_its_own_scores(tiny_tokenizer, data, tmp_path, score):
    folder = str(write_masked_lm(tmp_path / "masked", tiny_tokenizer))
    lm = BoustroLM(folder, score)
    (questions,) = answer(lm, {"openbookqa": open_task("openbookqa", data)}).values()
    name, pmi = (score or "one-shot-pmi").removesuffix("-pmi"), not score or score.endswith("-pmi")
    writer = Writer(folder, score=name, pmi=pmi)
    for question in questions:
        wanted = [result.log_prob for result in writer.score(question.requests)]
        np.testing.assert_allclose(question.scores, wanted, atol=1e-3)
        assert question.right == (int(np.argmax(wanted)) == question.gold)
    alone = [result.log_prob for result in Writer(folder, score=name).score([("It", " it")])]
    with_pmi = [result.log_prob for result in Writer(folder, score=name, pmi=True).score([("It", " it")])]
    assert lm.prior([" it"]) == pytest.approx([alone[0] - with_pmi[0]], abs=1e-3)
    with pytest.raises(ValueError, match="unknown score of a masked LM 'forward'"):
        BoustroLM(folder, "forward")


def test_long_contexts_are_cut_on_the_left_and_counted(tiny_pair, tmp_path):
    texts = ["It rained for", f"{'net ' * 90}It rained for"]
    rows = [{"question": text, "choices": ["football", "40 days"], "answer": 1} for text in texts]
    (tmp_path / "openbookqa-train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    lm = BoustroLM(tiny_pair)
    answer(lm, {"long": open_task("openbookqa", tmp_path)})
    assert lm.counts[CUT_CONTEXTS] == 2
    with pytest.raises(ValueError, match="a choice has 90 pieces, and the window only 63"):
        lm._loglikelihood_tokens([(("", ""), [5], [7] * 90)], disable_tqdm=True)
    with pytest.raises(ValueError, match="has no pieces"):
        lm._loglikelihood_tokens([(("", ""), [5], [])], disable_tqdm=True)
    with pytest.raises(ValueError, match="multiple choice only"):
        lm.generate_until([])


def test_accuracy_and_controls_by_hand():
    questions = [
        HarnessQuestion([("q", " long one"), ("q", " b")], [-4.0, -3.0], 0, False, True),
        HarnessQuestion([("q", " c"), ("q", " longer"), ("q", " d")], [-1.0, -9.0, -2.0], 0, True, True),
        HarnessQuestion([("because Ada", " x"), ("because Ines", " x")], [-1.0, -2.0], 1, False, False),
    ]
    found = accuracy_of("t", questions, [[-2.0, -1.0], [-1.0, -2.0, -3.0], [-3.0, -1.0]])
    figures = (found.accuracy, found.by_length, found.longest, found.prior)
    assert found.questions == 3 and figures == pytest.approx((100 / 3, 200 / 3, 200 / 3, 200 / 3))
    assert found.chance == pytest.approx(100 * (1 / 2 + 1 / 3 + 1 / 2) / 3)
    assert found.standard_error == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("arc_esy", None, "did you mean 'arc_easy'"),
        ("arc_easy", None, "no such file, which the task arc_easy reads"),
        ("arc_easy", ['{"question": "a", "choices": ["b"]}'], ":1: the row lacks answer"),
        ("arc_easy", ['{"question": "a", "choices": ["b"], "answer": 0}', "{"], ":2: not a JSON object"),
        ("arc_easy", ["[]"], ":1: the row lacks everything"),
        ("arc_easy", [""], "no rows"),
        ("own.yaml", None, "expected output_type: multiple_choice"),
        ("bad.yaml", None, "not valid YAML"),
        ("list.yaml", None, "expected a task with the texts"),
        ("bare.yaml", None, "no file of JSON lines"),
    ],
)
def test_tasks_that_cannot_be_read(tmp_path, name, rows, said):
    texts = "task: t\ndoc_to_text: a\ndoc_to_choice: b\ndoc_to_target: c\n"
    for file, content in (
        ("own.yaml", texts + "output_type: generate_until\n"),
        ("bad.yaml", "a: ["),
        ("list.yaml", "- a"),
        ("bare.yaml", texts + "output_type: multiple_choice\n"),
    ):
        (tmp_path / file).write_text(content, "utf-8")
    if rows:
        (tmp_path / "arc-easy-train.jsonl").write_text("\n".join(rows), "utf-8")
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        open_task(str(tmp_path / name) if name.endswith(".yaml") else name, tmp_path)


@pytest.mark.parametrize(("right", "said"), [((2, 0), "row 1: the right choice"), ((0, 2), "row 2: there are 2")])
def test_a_right_choice_that_is_none_is_refused(tiny_pair, tmp_path, right, said):
    rows = [{"question": "a", "choices": ["b", "c"], "answer": n} for n in right]
    (tmp_path / "arc-easy-train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(ValueError, match=said):
        answer(BoustroLM(tiny_pair), {"arc_easy": open_task("arc_easy", tmp_path)})


def test_the_command_prints_a_table_and_json(tiny_pair, data):
    command = [*"lab harness --tasks openbookqa,piqa --data".split(), str(data), "--encoder", tiny_pair, "--limit", "2"]
    code, out, errors = run(command)
    assert code == 0 and "longest choice" in out and "prior only" in out and errors == ""
    code, out, _ = run([*command, "--json", "-"])
    found = json.loads(out)
    assert code == 0 and [own["questions"] for own in found["tasks"]] == [2, 2] and found["score"] == "pair-pmi"
    code, _, errors = run(["lab", "harness", "--tasks", "arc_esy"])
    assert code == 1 and "did you mean 'arc_easy'" in errors


def test_the_command_says_how_far_it_is_where_standard_error_is_a_file(tiny_pair, data, monkeypatch):
    monkeypatch.setattr("boustro.progress.LINE_SECONDS", 0.0)
    command = ["lab", "harness", "--tasks", "openbookqa", "--data", str(data), "--encoder", tiny_pair, "--limit", "2"]
    code, _, errors = run(command)
    assert code == 0 and re.search(r"^scoring: [\d,]+ of [\d,]+ choices", errors, re.MULTILINE)
    assert "%|" not in errors  # the harness's own bars

"""boustro lab seq2seq over several tasks: shares with a cap, what is held back, losses by task; lab score --by."""

import json
from collections import Counter

import pytest

from boustro.apps.cli.main import main
from boustro.lab.adapt.options import MixtureOptions, Seq2SeqConfig
from boustro.lab.adapt.seq2seq import PairReader, PromptPair, TaskMixture
from boustro.lab.generation.models import open_lm
from generators import write_masked_lm

SIZES = {"copy": 9, "upper": 4, "odd": 3, "even": 2}


def pairs(sizes=SIZES):
    numbered = ((task, n) for task, count in sizes.items() for n in range(count))
    return [PromptPair([5, n, 0], [7], end=(0,), task=task, record={"task": task, "n": n}) for task, n in numbered]


def mixture(sizes=SIZES, seed=1, **options):
    return TaskMixture.of(pairs(sizes), [], MixtureOptions(task_key="task", **options), seed)


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_tokenizer):
    folder = tmp_path_factory.mktemp("mixture")
    write_masked_lm(folder / "lm", tiny_tokenizer)
    rows = [
        {"prompt": f"{task} {n}", "response": f" Ada {task}" + " left" * (task == "odd"), "task": task}
        for task, count in SIZES.items()
        for n in range(count)
    ]
    for name, own in (("a", rows[:10]), ("b", rows[10:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return folder


def test_an_epoch_has_a_tasks_pairs_up_to_the_cap_drawn_anew():
    mixed = mixture(task_cap=3)
    names = [pair.task for pair in mixed.pairs]
    epochs = [mixed.order(1, epoch).tolist() for epoch in range(40)]
    wanted = {"copy": 3, "upper": 3, "odd": 3, "even": 2}
    assert mixed.num_in_epoch == 11
    for order in epochs:
        assert len(set(order)) == 11 and Counter(names[n] for n in order) == wanted
    seen = Counter(n for order in epochs for n in order)
    assert all(5 <= seen[n] <= 23 for n in range(9)), "40 / 3 times each"
    assert epochs[0] != epochs[1] and mixed.order(1, 0).tolist() == epochs[0] != mixed.order(2, 0).tolist()


def test_one_task_without_a_cap_is_in_the_order_that_it_always_had():
    from boustro.lab.objectives.examples import keyed_generator

    mixed = TaskMixture.of(pairs({"": 12}), [], MixtureOptions(), 1)
    assert mixed.order(7, 3).tolist() == keyed_generator(7, 3, 0).permutation(12).tolist()


def test_what_is_held_back_is_not_trained_on():
    mixed = mixture(held_out=("o*", "even"), dev_pairs=2)
    assert {task: len(own) for task, own in mixed.tasks.items()} == {"copy": 7, "upper": 2}
    groups = {group: {task: len(own) for task, own in tasks.items()} for group, tasks in mixed.measured.items()}
    assert groups == {"held-in": {"copy": 2, "upper": 2}, "held-out": {"odd": 3, "even": 2}}
    back = [json.loads(line) for line in mixed.held_back().splitlines()]
    trained = {(pair.record["task"], pair.record["n"]) for pair in mixed.pairs}
    assert len(back) == 9 and not trained & {(row["task"], row["n"]) for row in back}
    assert {row["group"] for row in back if row["task"] == "odd"} == {"held-out"}
    assert mixture(held_out=("o*", "even"), dev_pairs=2).held_back() == mixed.held_back()
    assert mixture(held_out=("o*", "even"), dev_pairs=2, seed=2).held_back() != mixed.held_back()


def test_of_small_tasks_at_most_half_is_held_back():
    mixed = mixture({"one": 1, "two": 2, "nine": 9}, dev_pairs=3)
    assert {task: len(own) for task, own in mixed.tasks.items()} == {"one": 1, "two": 1, "nine": 6}
    assert {task: len(own) for task, own in mixed.measured["held-in"].items()} == {"two": 1, "nine": 3}
    assert mixed.describe().endswith("; of 2 tasks at most half of their pairs are held back")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"held_out": ("cpoy",)}, "unknown task 'cpoy': known are copy, upper, odd, even; did you mean 'copy'"),
        ({"held_out": ("*",)}, "all tasks are held out"),
        ({"task_key": None, "task_cap": 2}, "need --task-key"),
    ],
)
def test_mixtures_that_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        TaskMixture.of(pairs(), [], MixtureOptions(**({"task_key": "task"} | options)), 1)


def test_the_command_reports_held_in_and_held_out_tasks_apart(place, tmp_path, capsys):
    words = ["lab", "seq2seq", "--lm", place / "lm", "--train", f"{place / 'a.jsonl'},{place / 'b.jsonl'}"]
    words += ["--target-key", "response"]
    words += ["--task-key", "task", "--held-out", "odd", "--dev-pairs", 1, "--task-cap", 4, "--epochs", 12]
    words += ["--held-back", tmp_path / "back.jsonl", "--out", tmp_path / "tuned", "--lr", 1e-2, "--batch-pairs", 4]
    assert main([str(word) for word in words]) == 0
    errors = capsys.readouterr().err
    assert "3 tasks, 8 pairs in an epoch, at most 50.0% of one (copy); 3 tasks held-in, 1 tasks held-out" in errors
    found = json.loads((tmp_path / "tuned" / "training.json").read_text())["tasks"]
    assert found["held-in"]["tasks"].keys() == {"copy", "upper", "even"}
    assert found["held-out"]["tasks"]["odd"]["pairs"] == 3
    assert found["held-in"]["after"] < found["held-in"]["before"]
    tasks = found["held-in"]["tasks"].values()
    assert found["held-in"]["after"] == pytest.approx(sum(row["after"] for row in tasks) / 3)
    back = tmp_path / "back.jsonl"
    assert len(back.read_text().splitlines()) == 6
    assert (
        main(["lab", "generate", "--encoder", str(tmp_path / "tuned"), str(back), "--strategy", "left-to-right"]) == 0
    )
    (tmp_path / "written.jsonl").write_text(capsys.readouterr().out)
    rate = ["lab", "score", str(tmp_path / "written.jsonl"), "--target-key", "response", "--by", "group", "--json", "-"]
    assert main(rate) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores.keys() == {
        f"{group}{name}" for group in ("", "held-in: ", "held-out: ") for name in ("texts", "lead-1")
    }
    assert main([*rate[:6], "gruop"]) == 1
    assert "written.jsonl:1: no value under the key 'gruop'" in capsys.readouterr().err


def test_a_pair_without_a_task_is_refused(place, tmp_path, capsys):
    words = ["lab", "seq2seq", "--lm", str(place / "lm"), "--train", str(place / "a.jsonl")]
    words += ["--target-key", "response"]
    assert main([*words, "--task-key", "kind", "--out", str(tmp_path / "lm")]) == 1
    assert "a.jsonl:1: no task under the key 'kind'; name it with --task-key" in capsys.readouterr().err


def test_prompts_of_several_keys(place, tmp_path):
    (tmp_path / "qa.jsonl").write_text(
        json.dumps({"context": "Ada left in May.", "question": " When?", "answers": [{"text": "May"}]}) + "\n"
    )
    model = open_lm(str(place / "lm"))
    keys = {"prompt_key": "{answers.0.text} in: {context}", "target_key": "question"}
    config = Seq2SeqConfig(lm="x", train=(tmp_path / "qa.jsonl",), out=tmp_path / "lm", **keys)
    (pair,) = PairReader(config, model).read(tmp_path / "qa.jsonl")
    assert pair.prompt == [*model.pieces("May in: Ada left in May."), 0] and pair.target == model.pieces(" When?")

"""`boustro fit` and `evaluate`, for every task.

torch is imported when a command runs, so that its help does not wait for it.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from boustro.errors import count_of
from boustro.heads.options import HeadOptions
from boustro.names import FAST, LARGE
from boustro.options import (
    Positional,
    PositiveOrZero,
    Recall,
    Seed,
    check_options,
)
from boustro.output import DEFAULT_RUN, RunOptions, check_output, duration, give, only_errors, print_notices
from boustro.store import claim
from boustro.tasks import TASKS, gives_none, kept_columns, read_examples, saved_rule, task_class, task_of
from boustro.tasks.config import CROSS_VALIDATE, TaskConfig
from boustro.tasks.data import with_kept
from boustro.tasks.data.reading import (
    DEFAULT_OPTIONS,
    DEFAULT_TRAIN_DATA,
    OUTSIDE_TEXTS,
    DataOptions,
    TrainDataOptions,
)
from boustro.tasks.labellings import make_labelling
from boustro.tasks.plan import Examples, Plan, plan_of
from boustro.tasks.sets import labelled_pairs, read_sets
from boustro.text.places import LM, DataPlace, Model
from boustro.text.words import word_rule


def fit(
    train: DataPlace,
    out: Path,
    dev: DataPlace | None = None,
    task: str = "tag",
    encoder: LM | None = None,
    head: str | None = None,
    seed: Seed = 1,
    training: TaskConfig = TaskConfig(),  # noqa: B008 (frozen)
    of_head: HeadOptions = HeadOptions(),  # noqa: B008 (frozen)
    reading: TrainDataOptions = DEFAULT_TRAIN_DATA,
    cross_validate: PositiveOrZero = CROSS_VALIDATE,
    json: Path | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Train a head on labelled examples, the encoder staying frozen.

    Args:
        train: Training set. {reads}.
        out: Folder to write.
        dev: Development set, which chooses the best epoch. Without it the last epoch is kept.
        task: {tasks}. By default as the training set has it.
        encoder: Spec of the encoder, such as starter, gpt2 or gpt2+./backward. By default starter, for a tagger
            starter-large, for a classifier starter-texts, for scores of pairs starter+starter-words.
        head: Kind of head, what is trained on the vectors of the words. {heads}. By default that of the task; of 10 to
            99 different examples, without --dev, the one of several that cross-validation finds best.
        seed: Random seed of the head's weights, the order of examples and dropout.
        cross_validate: Without --dev: seconds that it may take to say how good the model is, by heads that answer parts
            of the training set that they have not learned, and whether more labels would help. 0 leaves it out.
        json: Write the scores on the development set, or of cross-validation, to this file (- for standard output).
        overwrite: Replace an existing folder of this task at --out.
        dry_run: Print how many words the encoder must read, how long that takes and how much disk, then stop.
    """
    check_options(fit, locals())
    check_output(json)
    with claim(out, TASKS[task].folder, overwrite):  # said before anything is loaded; below it is held
        pass
    kind, chosen = task_class(task), head or TASKS[task].config.default_head
    with only_errors(run.quiet):
        # What is wrong with the data is said before torch is imported.
        given = read_sets(kind, train, dev, reading, training)
        labelled = [example for example in given.train if example.is_labelled]
        make_labelling(chosen, labelled, of_head, getattr(training, "types", ()))
        plan = plan_of(kind, encoder, chosen, training, of_head, cache=run.cache, device=run.device)
        model = kind.of(plan, encoder=encoder, head=head)
        plan = _plan_for(model, given, named=encoder is not None)
        with claim(out, TASKS[task].folder, overwrite):
            if dry_run:
                return _print_cost(plan.reader, [given.train, given.dev, given.weak])
            from boustro.apps.cli.described import CHEAP, advice

            for sentence in advice(plan.reader.encoder(), CHEAP):
                print(sentence, file=sys.stderr)
            model.learn(given, seed, 0.0 if dev else cross_validate, plan)
            model.save_pretrained(out)
        _say_fitted(task, model, out)
        _give_scores(model.record, json, TASKS[task].examples)


def _plan_for(model: Any, given: Examples, named: bool) -> Plan[Any]:
    """Return a model's plan as examples want it; says so on standard error where nobody `named` an encoder."""
    from boustro.encoders.spec import Spec

    plan, note = model.plan_for(given)
    notes = [note] if note else []
    if not named and plan.reader.spec == LARGE:
        notes.append(f"note: --encoder {FAST} reads five times as fast as {LARGE}, and finds less")
    for sentence in notes:
        print(sentence, file=sys.stderr)
    Spec.parse(plan.reader.spec).check(plan.reader.reading)
    return plan


def _print_cost(reader: Any, data: Sequence[Sequence[Any]]) -> None:
    """Print words, bytes and time for the examples of several sets, the training set first; a sample is read."""
    from boustro.encoders.cache import default_cache, features_to_write, num_words, words_per_second

    read = [reader.sentences(examples)[0] for examples in data if examples]
    words, encoder = sum(map(num_words, read)), reader.encoder(cached=True)
    if cache := default_cache() if reader.cache is True else reader.cache:
        needed = features_to_write(encoder, read).values()
        size, seconds = (sum(column) for column in zip((0, 0.0), *needed, strict=True))
        where = f"{size / 2**20:,.1f} MB to write to {cache}"
    else:
        seconds = words / words_per_second(encoder, read[0])
        where = f"{words * encoder.bytes_per_word / 2**20:,.1f} MB in memory"
    print(
        f"{reader.spec}: {count_of(words, 'words')} to read, {encoder.bytes_per_word:,} bytes each; {where}, "
        f"{duration(seconds)}"
    )


def _say_fitted(task: str, model: Any, out: Path) -> None:
    """Print the outcome of a training on standard error."""
    from boustro.tasks.fitting.estimate import CHOICE

    record = model.record
    if CHOICE in record:
        print(record[CHOICE], file=sys.stderr)
    print(f"task: {task} ({model!r})", file=sys.stderr)
    print_notices(record["notices"])
    by_dev = record["dev"] and len(record["losses"]) > 1  # else the last one is kept, if it has several
    best = f"; of {len(record['losses'])} epochs number {record['best_epoch']} is kept, by --dev" if by_dev else ""
    print(
        f"{out}: {record['head_parameters'] / 1e6:.2f}M parameters trained in {record['train_seconds']:.0f} s "
        f"after {record['encode_seconds']:.0f} s of encoding{best}; what this means: boustro help training",
        file=sys.stderr,
    )
    if facts := record.get("weak"):
        tried = ", ".join(f"{score:.1f} with {weight}" for weight, score in facts["tried"].items())
        print(
            f"weight of the {facts['sentences']:,} weak {TASKS[task].examples}: {facts['weight']:g}"
            + (f" (on parts of the training set left out: {tried})" if tried else ""),
            file=sys.stderr,
        )
    if facts := record.get("calibration"):
        print(
            f"temperature {facts['temperature']:.2f}: calibration error {facts['error']:.3f} instead of "
            f"{facts['error_before']:.3f}, on {facts['answers']:,} answers for training examples left out",
            file=sys.stderr,
        )


def _give_scores(record: Mapping[str, Any], json: Path | None, examples: str) -> None:
    """The scores on the development set, or what cross-validation says where there is none; beside both what the names
    of labels alone score."""
    from boustro.tasks.fitting.estimate import DEV_NAMES, KEY, tell_beside

    told = [*tell_beside(record, examples)]
    if scores := record["dev_scores"]:
        scores = scores | ({"calibration": facts} if (facts := record["dev_calibration"]) else {})
        scores = scores | ({"names": record[DEV_NAMES]} if DEV_NAMES in record else {})
        give(scores, json, lambda: print(_scores_text(scores), *told, sep="\n"), indent=1)
    elif facts := record.get(KEY):
        place = sys.stderr if "why_not" in facts else sys.stdout  # a reason is no result
        give({KEY: facts}, json, lambda: print(*told, sep="\n", file=place), indent=1)


def evaluate(
    folder: Positional[Model],
    data: Positional[DataPlace],
    json: Path | None = None,
    reading: DataOptions = DEFAULT_OPTIONS,
    recall: Recall | None = None,
    encoder: LM | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Score a trained folder on labelled examples: entity F1 as conlleval computes it, accuracy, or SQuAD's scores.

    Args:
        folder: A folder that boustro fit wrote.
        data: Labelled examples, in any form that boustro fit takes.
        json: Write the scores to this file (- for standard output).
        recall: Score the longer lists of boustro predict --recall.
        encoder: Where the encoder is now, if it has moved.
    """
    from boustro.apps.batch.ways import refuse_of_taggers
    from boustro.apps.runtime import load
    from boustro.tasks.calibrate import calibration

    with only_errors(run.quiet):
        check_output(json)
        kind = task_class(task_of(folder))
        refuse_of_taggers(kind, recall)
        outside = OUTSIDE_TEXTS if gives_none(folder) else {}
        with word_rule(saved_rule(folder)):  # what is wrong with the data is said before the model is opened
            own = replace(with_kept(reading, kept_columns(folder), data), **outside)
            given = read_examples(kind, data, own, training=True)
        model: Any = load(folder, encoder=encoder, cache=run.cache, device=run.device)
        print_notices(model.fitted.labelling.unknown([example for example in given if example.is_labelled]))
        model = model if recall is None else model.with_recall(recall)
        examples, answers = labelled_pairs(given, model.answer(given, cached=True))
        scores = model.fitted.score(examples, answers).to_dict()
        again = None if recall else lambda: labelled_pairs(given, model.answer(given, cached=True))[1]
        errors = calibration(model.fitted, examples, answers, again)
        scores |= {"calibration": errors} if errors else {}
        print_notices(model.notices(cached=True))
        give(scores, json, lambda: print(_scores_text(scores)), indent=1)


def _scores_text(scores: Mapping[str, Any]) -> str:
    """Return a table, and what stands beside its scores."""
    from boustro.metrics.score import score_text

    lines = [score_text(scores)]
    if (label := scores["signature"].get("no_relation")) is not None:
        lines.append(f"no relation        {label}")
    if errors := scores.get("calibration"):
        before = f" ({errors['error_before']:.3f} without its temperature)" if "error_before" in errors else ""
        lines.append(f"calibration error  {errors['error']:.3f}{before}")
    return "\n".join(lines)

"""`boustro fit`, `evaluate` and `predict`, for every task.

torch is imported when a command runs, so that its help does not wait for it. `in_documents` (`fit --documents`) puts
labelled sentences into the documents that they were taken from, so that LMs read what stands around them:

    labelled     Ada left .
    document     It rained. Ada left. Nobody knew.
    →            It rained .  |  Ada left . (labelled)  |  Nobody knew .

A sentence of a document is a labelled one if both have the same characters, whatever the spaces and the words. Each
labelled sentence stands in one place, the first that is free.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from boustro.apps.batch.command import DEFAULT_OUTPUT, OutputOptions
from boustro.heads.options import HeadOptions
from boustro.names import FAST, LARGE
from boustro.options import (
    Instead,
    OptionError,
    Positional,
    PositiveOrZero,
    Range,
    Recall,
    Seed,
    Share,
    check_options,
    command_line,
)
from boustro.output import DEFAULT_RUN, RunOptions, check_output, duration, give, only_errors, print_notices
from boustro.store import claim
from boustro.tasks import TASKS, gives_none, kept_columns, read_examples, saved_rule, task_class, task_of
from boustro.tasks.config import NONE_SHARE, TaskConfig
from boustro.tasks.data import like, with_kept
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DEFAULT_TRAIN_DATA, DataOptions, TrainDataOptions
from boustro.tasks.data.texts import texts_outside, whole_text
from boustro.tasks.labellings import make_labelling
from boustro.text.documents import is_stream, read_documents
from boustro.text.places import LM, DataPlace, Model, TextSource
from boustro.text.words import split_text, word_rule
from boustro.types import Sentence


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
    cross_validate: PositiveOrZero = 120.0,
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
    kind, config = task_class(task), TASKS[task].config
    chosen = head or config.default_head
    if reading.documents and not (kind.in_documents or kind.lenient):
        raise OptionError("--documents is for taggers and for classifiers of texts; remove it")
    with only_errors(run.quiet):
        # What is wrong with the data is said before torch is imported.
        sentences = read_examples(kind, train, reading, training=True)
        labelled = [example for example in sentences if kind.is_labelled(example)]
        make_labelling(chosen, [*labelled, *kind.named_examples(training)], of_head)
        with texts_outside(bool(getattr(training, "none", 0))):
            dev_sentences = read_examples(kind, dev, like(reading, dev)) if dev else None
        weak = read_examples(kind, reading.weak, like(reading, reading.weak)) if reading.weak else None
        if reading.documents and not kind.in_documents:
            from boustro.tasks.label_names import MOST_TEXTS

            texts = islice(read_documents(reading.documents, split="line"), MOST_TEXTS)
            sentences = [*sentences, *(whole_text(text).sentence for text in texts)]
        elif reading.documents:
            texts = read_documents(reading.documents, split="line")
            sentences, counts = in_documents(sentences, texts, every=getattr(training, "memory", False))
            print_notices(counts)
        from boustro.encoders.spec import Spec
        from boustro.tasks.plan import plan_of

        plan = plan_of(kind, encoder, chosen, training, of_head, cache=run.cache, device=run.device)
        plan, note = plan.for_languages_of(kind.running_texts(sentences), named=encoder is not None)
        model = kind.of(plan)
        if note:
            print(note, file=sys.stderr)
        if encoder is None and model.encoder_spec == LARGE:
            print(f"note: --encoder {FAST} reads five times as fast as {LARGE}, and finds less", file=sys.stderr)
        Spec.parse(model.encoder_spec).check(model.plan.reader.reading)
        with claim(out, TASKS[task].folder, overwrite):
            if dry_run:
                return _print_cost(model.plan, [sentences, dev_sentences or [], weak or []])
            from boustro.apps.cli.described import CHEAP, advice
            from boustro.tasks.estimate import fit_best
            from boustro.tasks.plan import Examples, plans_to_choose

            model.plan = model.plan.suited_to(sentences)
            for sentence in advice(model.encoder(), CHEAP):
                print(sentence, file=sys.stderr)
            how = {"dev": dev_sentences or (), "weak": weak or (), "weight": reading.weak_weight}
            given, seconds = Examples(train=sentences, **how), 0.0 if dev else cross_validate
            model.fitted = fit_best(plans_to_choose(model.plan, head), given, seed, seconds)
            model.keep_columns(vars(reading), train)
            model.save_pretrained(out)
        _say_fitted(task, model, out)
        _give_scores(model.record, json, TASKS[task].examples)


def _print_cost(plan: Any, data: Sequence[Sequence[Any]]) -> None:
    """Print words, bytes and time for the examples of several sets, the training set first; a sample is read."""
    from boustro.encoders.cache import default_cache, features_to_write, num_words, words_per_second

    reader = plan.suited_to(data[0]).reader
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
        f"{reader.spec}: {words:,} words to read, {encoder.bytes_per_word:,} bytes each; {where}, {duration(seconds)}"
    )


def _say_fitted(task: str, model: Any, out: Path) -> None:
    """Print the outcome of a training on standard error."""
    from boustro.tasks.estimate import CHOICE

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
    """The scores on the development set, or what cross-validation says where there is none."""
    from boustro.tasks.estimate import KEY, format_estimate

    if scores := record["dev_scores"]:
        scores = scores | ({"calibration": facts} if (facts := record["dev_calibration"]) else {})
        give(scores, json, lambda: _print_scores(scores), indent=1)
    elif facts := record.get(KEY):
        place = sys.stderr if "why_not" in facts else sys.stdout  # a reason is no result
        give({KEY: facts}, json, lambda: print(*format_estimate(facts, examples), sep="\n", file=place), indent=1)


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
    from boustro.apps.runtime import load
    from boustro.tasks.calibrate import calibration

    with only_errors(run.quiet):
        check_output(json)
        kind = task_class(task_of(folder))
        _refuse_of_taggers(kind, recall)
        with word_rule(saved_rule(folder)), texts_outside(gives_none(folder)):
            # what is wrong with the data is said before the model is opened
            sentences = read_examples(kind, data, with_kept(reading, kept_columns(folder), data))
        model: Any = load(folder, encoder=encoder, cache=run.cache, device=run.device)
        print_notices(model.unknown_labels(sentences))
        model = model if recall is None else model.with_recall(recall)
        answers = model.answer(sentences, cached=True)
        scores = model.score_answers(sentences, answers).to_dict()
        again = None if recall else lambda: model.answer(sentences, cached=True)
        errors = calibration(model.fitted, sentences, answers, again)
        scores |= {"calibration": errors} if errors else {}
        print_notices(model.notices(cached=True))
        give(scores, json, lambda: _print_scores(scores), indent=1)


def predict(
    folder: Positional[Model | None],
    files: Positional[tuple[TextSource, ...]] = ("-",),
    labels: Annotated[str | None, Instead("folder")] = None,
    types: Annotated[str | None, Instead("folder")] = None,
    several: bool = False,
    none: Share = NONE_SHARE,
    format: (
        Literal["text", "jsonl", "csv", "tsv", "conll", "html", "labelstudio", "argilla", "parquet", "arrow"] | None
    ) = None,
    reads: Literal["text", "jsonl", "conll", "conllu", "parquet", "arrow", "xml"] | None = None,
    text_column: tuple[str, ...] = (),
    recall: Recall | None = None,
    threshold: Share | None = None,
    explain: bool = False,
    states: tuple[Path, ...] = (),
    state_layers: str | None = None,
    live: bool = False,
    delay: Annotated[int, Range(0, 256)] | None = None,
    encoder: LM | None = None,
    output: OutputOptions = DEFAULT_OUTPUT,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Label text, one document per line or per row of a table, each as soon as it is read.

    Args:
        folder: A folder that boustro fit wrote.
        labels: Names of labels, separated by commas, in place of a folder: what a text is about is known from their
            names alone, or from what is said of them, such as delivery,payment,"praise: thanks or a compliment". The
            files' own texts make the answers better (see: boustro help tasks).
        types: Names of types of entities in the same way, such as politician,"law: an act or a treaty": names in
            English are found, and have the type whose name suits them best, or none.
        several: With --labels, a text may have several of them, or none.
        none: With --labels, the share of texts that fit no label and get none, 0 to 1.
        files: Text files (.gz, .bz2, .xz too), tables (.csv, .tsv, .xlsx, .parquet), streams such as /dev/stdin, or -
            for standard input; or one folder of files, whose answers go to the folder --out.
        format: text (coloured in a terminal), jsonl (one object per line, with character offsets, and with the file
            where there are several), csv or tsv (the rows that were read, with the answers in columns behind them),
            conll (each line a document; taggers only), html, or labelstudio or argilla (a list of records with
            suggestions, to import there; entities and labels only). By default as --out ends, else text. Of a folder
            of files: jsonl, which is the default, parquet or arrow.
        reads: What the files hold. By default as they end (.csv, .tsv, .xlsx, .jsonl, .conll, .conllu, .parquet,
            .arrow), else lines of text; xml: a corpus with words whose sense is asked for.
        text_column: Column or key of the text, or the two of a pair of texts. By default text or sentence, sentence1
            and sentence2, and so on.
        recall: Promise of a tagger that was trained with a development set: give every entity that is probable enough,
            so that on average this share of all entities is among them, such as 0.95. They may then overlap.
        threshold: Give also every word that is in an entity with at least this probability, 0 to 1, such as 0.05. For
            taggers whose words have probabilities: all but those with a span head.
        explain: Add to each answer what decided it, as jsonl: what each LM of a pair answers alone, and how much each
            word counted for the label or number of a text. Reads a text once for each of its words.
        states: Safetensors files with the pieces of a text each and the states that the tagger's LM had of them in
            another engine, such as vLLM, in place of text; its weights are not loaded.
        state_layers: The numbers of the layers of `hidden_states` in these files, such as 4,9,14.
        live: Tag one text while it arrives, such as on standard input: a JSON line for every entity that stands for
            now, is revised, or is final. Taggers only.
        delay: With --live, how many words must follow a word before its tag is final, 0 to 256; by default 8.
        encoder: Where the encoder is now, if it has moved.
    """
    check_options(predict, locals())
    if labels is not None or types is not None:
        others = {"states": states, "live": live, "delay": delay, "recall": recall}
        own = {"threshold": threshold} if types is None else {"several": several, "none": none != NONE_SHARE}
        _refuse_beside_names(labels, types, files, others | own | ({"encoder": encoder} if types else {}))
        if types is not None:
            return _predict_types(types, threshold, files, (format, reads, explain, text_column, output, run))
        from boustro.tasks.classifier import Classifier

        how: dict[str, Any] = {"several": several, "none": none, "encoder": encoder, "device": run.device}
        make = partial(Classifier.from_labels, labels, **how)
        return _predict_labels(make, files, (format, reads, explain, text_column, output, run))
    if several or none != NONE_SHARE:
        raise OptionError(f"--{'several' if several else 'none'} is read with --labels; remove it, or name labels")
    assert folder is not None
    kind = task_class(task_of(folder))
    _refuse_of_taggers(kind, recall, threshold)
    from boustro.apps.batch.labeller import OpenedFolder

    if live or delay is not None:
        others = [
            format not in (None, "jsonl"),
            reads,
            text_column,
            recall,
            explain,
            states,
            output != DEFAULT_OUTPUT,
        ]
        _predict_live(
            OpenedFolder(folder, encoder, run.device, run.cache, None, threshold),
            files,
            live and not any(others),
            delay,
            run,
        )
        return
    if any(Path(file).is_dir() for file in files):
        others = {"reads": reads, "recall": recall, "threshold": threshold, "explain": explain, "states": states}
        others |= {"errors": output.errors, "overwrite": output.overwrite}
        return _predict_folder(folder, files, format, text_column, encoder, others, output, run)
    if format in ("parquet", "arrow"):
        raise OptionError(f"--format {format} is for a folder of files; end --out in .{format}")
    if output.engine != "local":
        raise OptionError("--engine ray is for a folder of files; remove it")
    from boustro.apps.batch.predict import predict_files, predict_states

    opened = OpenedFolder(folder, encoder, run.device, run.cache, recall, threshold)
    if states:
        return predict_states(opened, states, state_layers, format, output.out, run)
    predict_files(opened, files, format, reads, explain, text_column, output, run)


def _refuse_beside_names(
    labels: str | None, types: str | None, files: Sequence[str], others: Mapping[str, Any]
) -> None:
    """`OptionError` for options that do not go with names of labels or of types, and for folders."""
    if labels is not None and types is not None:
        raise OptionError("--labels are of whole texts and --types of the names in them; give one of them")
    named = "--types" if labels is None else "--labels"
    if given := [name for name, value in others.items() if value]:
        why = "for taggers" if labels is not None else "not read with --types"
        raise OptionError(f"--{given[0]} is {why}; remove it")
    if folders := [file for file in files if Path(file).is_dir()]:
        raise OptionError(f"{named} is not for a folder of files, such as {folders[0]}; name files")


def _predict_labels(make: Callable[[Iterable[str]], Any], files: tuple[str, ...], how: tuple[Any, ...]) -> None:
    """Predict labels that are known by their names; `make` gives the classifier for the files' own texts, and `how` are
    the further arguments of `predict_files`."""
    from boustro.apps.batch.labeller import OpenedFolder, folder_of
    from boustro.apps.batch.predict import predict_files
    from boustro.apps.batch.rows import Columns, read_rows
    from boustro.tasks.classifier import Classifier
    from boustro.tasks.label_names import MOST_TEXTS

    _, reads, _, text_column, output, run = how
    again = [file for file in files if not is_stream(file)]
    columns = Columns.of(Classifier, text_column, {})
    for file in again if reads is None else ():
        columns.check(file, Classifier)
    rows = (row for row in read_rows(again, reads, None, columns) if row and not (row.problem or row.is_empty))
    given = (row.parse_or_advise(Classifier, [], output.errors is not None) for row in rows)
    texts = (text for text in given if not isinstance(text, ValueError))
    with only_errors(run.quiet):
        model = make(islice(texts, MOST_TEXTS))
        with folder_of(model) as folder:
            opened = OpenedFolder(folder, None, run.device, run.cache)
            predict_files(opened, files, *how, model=model)


def _predict_types(types: str, threshold: float | None, files: tuple[str, ...], how: tuple[Any, ...]) -> None:
    """Predict entities whose types are known by their names, as `_predict_labels`."""
    from boustro.apps.batch.labeller import OpenedFolder, folder_of
    from boustro.apps.batch.predict import predict_files
    from boustro.tasks.tagger import Tagger

    run: RunOptions = how[-1]
    with only_errors(run.quiet), folder_of(Tagger.from_labels(types, device=run.device)) as folder:
        predict_files(OpenedFolder(folder, None, run.device, run.cache, None, threshold), files, *how)


def _predict_folder(
    model: Path,
    files: tuple[str, ...],
    format: str | None,
    text_column: tuple[str, ...],
    encoder: str | None,
    others: Mapping[str, Any],
    output: OutputOptions,
    run: RunOptions,
) -> None:
    """Predict the files of a folder; `others` are the options that it does not have."""
    source = next(file for file in files if Path(file).is_dir())
    if len(files) > 1:
        raise ValueError(f"{source} is a folder, which is labelled alone; name no other file")
    if given := [name for name, value in others.items() if value]:
        raise OptionError(f"--{given[0]} is not for a folder of files; remove it")
    if output.out is None:
        whole = command_line("predict", model, source, out="answers")
        raise ValueError(f"{source} is a folder; name one for its answers, to label all of them: {whole}")
    if format not in (None, "jsonl", "parquet", "arrow"):
        raise OptionError(f"--format {format}: of a folder of files answers are jsonl, parquet or arrow")
    from boustro.apps.batch.shards import Predictor, predict_folder

    predictor = Predictor(model, text=text_column or "text", encoder=encoder, device=run.device)
    predict_folder(predictor, Path(source), format or "jsonl", output, run.quiet)  # type: ignore[arg-type]


def _predict_live(opened: Any, files: tuple[str, ...], alone: bool, delay: int | None, run: RunOptions) -> None:
    """With --live; `alone` says that no other option is given that is not for it."""
    if not alone or len(files) > 1:
        raise OptionError(
            "--live reads one text and writes JSON lines to standard output: it goes with --delay, --threshold, "
            "--encoder and the options of where to compute, and --delay goes with it"
        )
    from boustro.apps.batch.predict import predict_live

    predict_live(opened, next(iter(files), "-"), delay, run)


def _refuse_of_taggers(kind: Any, recall: float | None, threshold: float | None = None) -> None:
    for option in [*(["--recall"] if recall is not None else []), *(["--threshold"] if threshold is not None else [])]:
        if not hasattr(kind, "with_recall"):
            raise OptionError(f"{option} is for taggers, and this is a {kind.__name__}; remove it")
    if recall is not None and threshold is not None:
        raise OptionError("--recall and --threshold both say how unlikely an answer may be; give one of them")


def _print_scores(scores: Mapping[str, Any]) -> None:
    from boustro.metrics.score import score_text

    print(score_text(scores))
    if (label := scores["signature"].get("no_relation")) is not None:
        print(f"no relation        {label}")
    if errors := scores.get("calibration"):
        before = f" ({errors['error_before']:.3f} without its temperature)" if "error_before" in errors else ""
        print(f"calibration error  {errors['error']:.3f}{before}")


NOT_FOUND = "training sentences that stand in none of the documents, read as they are"
AROUND = "sentences of documents around them, read as context only"


def in_documents(
    labelled: Sequence[Sentence], texts: Iterable[str], every: bool = False
) -> tuple[list[Sentence], dict[str, int]]:
    """The sentences of all texts with a labelled one, in order, then labelled ones that no text has; and counts.

    Args:
        labelled: Sentences; those of texts keep their words and labels, and get the text as their document.
        texts: Documents.
        every: Keep the sentences of texts without a labelled one, too.
    """
    free: dict[str, list[int]] = defaultdict(list)
    for number in reversed(range(len(labelled))):
        free[_letters(labelled[number])].append(number)
    kept: list[Sentence] = []
    placed: set[int] = set()
    around = 0
    for place, text in enumerate(texts, start=1):
        sentences, numbers = [], set()
        for part in split_text(text, f"text {place}"):
            if left := free.get(_letters(part.sentence)):
                numbers.add(number := left.pop())
                sentences.append(replace(labelled[number], document=part.sentence.document))
            else:
                sentences.append(part.sentence)
        kept += sentences if numbers or every else []
        around += len(sentences) - len(numbers) if numbers else 0
        placed |= numbers
    rest = [sentence for number, sentence in enumerate(labelled) if number not in placed]
    return [*kept, *rest], {AROUND: around, NOT_FOUND: len(rest)}


def _letters(sentence: Sentence) -> str:
    return "".join("".join(sentence.words).split())

"""`boustro label`: a page for labelling, with a tagger that learns from every answer.

torch is imported when the command runs: the command line lists its options without it.
"""

import contextlib
import os
import secrets
import sys
import webbrowser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from boustro.encoders.options import Context
from boustro.errors import count_of
from boustro.options import AS_GIVEN, Count, OptionError, Positional, Range, check_options
from boustro.output import DEFAULT_RUN, RunOptions, only_errors
from boustro.store import check_file, claim
from boustro.tasks import DEFAULT_TASK, TASKS
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.text.places import LM, DataPlace, Model, TextPath


@dataclass(frozen=True, kw_only=True)
class LabellingOptions:
    """A labelling session."""

    task: str | None = None
    """What is labelled: tag for entities, classify for the topics of texts. By default what --out has answers of, else
    tag."""
    labels: Annotated[tuple[str, ...], AS_GIVEN] = ()
    """Labels to start with; more can be added on the page. Topics may be described, such as "praise: thanks, or a
    compliment"; give the option again for each that is. By default the kinds of names that the encoder knows."""
    several: bool = False
    """Whole texts: a text may have several labels, or none. By default it has one."""
    sentences: bool = False
    """Label each sentence of a text by itself. By default a line, a JSON object or a row of a table is one text, which
    is labelled as a whole."""
    order: Literal["uncertain", "diverse", "in-order"] = "uncertain"
    """Which sentence comes next: the one from which the tagger learns most, one unlike those answered, or the next."""
    form: Literal["auto", "text", "jsonl", "conll"] = "auto"
    """What the file of texts is. By default as its name and its first lines say."""
    train: DataPlace | None = None
    """Labelled sentences that the suggestions start from; the model that is written learns from the answers alone."""
    tagger: Model | None = None
    """Tagger folder to start from: its labels, its encoder, and its suggestions, which the answers correct."""
    out_tagger: Path | None = None
    """Folder for the tagger or classifier that boustro fit makes of the answers, written at the end and whenever the
    page asks for it. Without it the page writes one beside the answers."""
    context: Context = "document"
    """What the LMs read around a sentence: the text that it stands in, or nothing."""
    pool_mentions: bool = True
    """With whole documents: for suggestions also read each word by the mean vector of all its mentions in its
    document."""
    spelling: bool = False
    """Read each word also by its letters, as a tagger with this option does. For LMs that have read little of the
    language."""
    head: str | None = None
    """Kind of head of the model that is written, by default as for boustro fit; with span entities may be nested."""
    epochs: Count | None = None
    """Passes over the answers when that is trained. By default as for boustro fit."""
    pool: Count = 4000
    """Most unanswered sentences to choose the next one from; more are read as these are answered."""
    port: Annotated[int, Range(0, 65535)] = 8080
    """Port of the page on 127.0.0.1; 0 takes a free one."""
    browser: bool = True
    """Open the page in the default browser."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)


def label(
    texts: Positional[TextPath | None] = None,
    out: Path | None = None,
    encoder: LM | None = None,
    session: LabellingOptions = LabellingOptions(),
    overwrite: bool = False,
    reading: DataOptions = DEFAULT_OPTIONS,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Label entities or topics on a page in the browser, with a model that learns from every answer; Ctrl+C ends it.

    Every answer is on the disk before the next sentence shows, and the same command goes on where a session ended.

    Args:
        texts: Texts to label: plain text, JSON lines, a table (.csv, .tsv, .xlsx, .parquet) or CoNLL columns; labels in
            them are kept aside as gold.
        out: File of answers (JSON lines), which boustro fit reads. It is continued where it exists.
        encoder: Spec of the encoder, such as starter, gpt2 or gpt2+./backward. By default that of --tagger, else for
            topics starter-texts, and for entities starter-names for suggestions and starter-large for the model that
            is written.
        overwrite: Replace an existing folder at --out-tagger.
    """
    check_options(label, locals())
    with only_errors(run.quiet):
        if texts is None or out is None:
            raise OptionError("name a file of texts and --out, such as boustro label texts.txt --out labelled.jsonl")
        from boustro.apps.label.answers import held_task, manner_of

        task = session.task or held_task(out)[0] or DEFAULT_TASK
        session, manner = replace(session, task=task), manner_of(task, session.several, out)
        check_file(out)
        with contextlib.ExitStack() as held:
            if session.out_tagger:
                held.enter_context(claim(session.out_tagger, TASKS[task].folder, overwrite))
            _serve(texts, out, manner, encoder, session, reading, run, held)


def _serve(
    texts: Path,
    out: Path,
    manner: Any,
    encoder: str | None,
    options: LabellingOptions,
    reading: DataOptions,
    run: RunOptions,
    held: contextlib.ExitStack,
) -> None:
    from boustro.apps.serve.http import HttpOptions, listen, require_serve

    require_serve("boustro label")
    os.environ.setdefault("TQDM_DISABLE", "1")
    listening = HttpOptions(port=options.port, grace_seconds=1)
    listener = held.enter_context(listen(listening))
    # A port that is taken, and what is wrong with the files, is said before torch is imported.
    from boustro.apps.label.answers import AnswerFile

    loaded = manner.read(texts, options.form, reading, options.sentences)
    examples = manner.examples(Path(options.train), reading) if options.train else ()
    file = held.enter_context(AnswerFile(out, manner.answer).open())
    file.read()
    from boustro.apps.label import background
    from boustro.apps.label.session import LabellingSession
    from boustro.names import is_shipped
    from boustro.tasks.label_names import told_labels
    from boustro.text.languages import foreign_note, said, sentence_encoder

    nested = options.head is not None and background.allows_nested(options.head)
    means = told_labels(options.labels) if options.labels else {}
    noticed: dict[str, int] = {}
    if manner.whole and encoder is None:
        encoder, noticed = sentence_encoder(text.written for text in loaded)
    further = (
        background.documents_of(texts, loaded, options, manner, reading),
        background.write_meanings(out, means, manner),
    )
    source = background.choose_source(encoder, options, run, manner, examples, means, *further)
    labels = background.starting_labels(means, source)
    unit = "texts" if all(text.text for text in loaded) and not options.sentences else "sentences"
    offered = [] if labels else background.offered_labels(source)
    english = is_shipped(source.encoder)
    note = foreign_note(text.written for text in loaded) if english else ""
    session = LabellingSession(loaded, file, labels, options.order, nested, manner, unit, offered, note, english)
    if note or noticed:
        print(note or said(noticed), file=sys.stderr)
    print(
        f"{texts}: {count_of(len(loaded), unit)}; {out}: "
        f"{count_of(session.resumed['answers'], 'answers')} so far"
        + (f", {session.resumed['elsewhere']:,} of them to other texts" * bool(session.resumed["elsewhere"])),
        file=sys.stderr,
    )
    with background.Background(session, source, options.out_tagger) as work:
        _run_page(work, out, options, listening, listener)


def _run_page(work: Any, out: Path, options: LabellingOptions, listening: Any, listener: Any) -> None:
    """Serve the page until it ends; then print how far it came, and how to go on."""
    from boustro.apps.label.app import LabellingApp
    from boustro.apps.serve import http

    session, token = work.session, secrets.token_urlsafe(18)
    page = f"{http.address_of(listener)}/#{token}"
    app = LabellingApp(session, work).make(listening, token)
    if options.browser:
        webbrowser.open(page)
    http.run_app(app, listening, listener, address=f"label at {page}")
    print(f"{out}: {count_of(len(session.answers), 'answers')}", file=sys.stderr)
    if session.answers:
        if options.train:
            print(
                f"note: {options.train} taught the suggestions alone, and the model learns from {out}; to train on "
                "both, put their sentences into one file",
                file=sys.stderr,
            )
        if options.out_tagger:
            _save(work, options.out_tagger)
        print(f"next: {work.command}", file=sys.stderr)


def _save(work: Any, folder: Path) -> None:
    """Train at the end of a session; why that is not done is said, and is no failure of the session."""
    try:
        if not work.is_trained:
            print(f"{folder}: training on the answers, as boustro fit does", file=sys.stderr)
        print(f"{folder}: a {type((trained := work.train()).model).__name__} ({trained.head})", file=sys.stderr)
    except ValueError as error:
        print(f"{folder}: not written: {error}", file=sys.stderr)

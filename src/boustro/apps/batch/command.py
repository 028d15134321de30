"""`boustro predict` and its options, which the command line lists without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from boustro.options import AS_GIVEN, Instead, OptionError, Positional, Range, Recall, Share, Workers, check_options
from boustro.output import DEFAULT_RUN, RunOptions
from boustro.text.places import LM, Model, TextSource


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where answers go."""

    out: Path | None = None
    """File to write, complete or absent: .csv, .tsv, .xlsx, .jsonl, .json, .parquet, .arrow, .conll, .html or .txt; by
    default standard output. Of a folder of files, a folder: a file for each, errors.jsonl with the rows that have no
    answer, job.json."""
    resume: bool = False
    """Go on where an interrupted or killed run that wrote --out was."""
    overwrite: bool = False
    """Replace existing files at --out and --errors, and start unfinished work again unless --resume is given too."""
    errors: Path | None = None
    """Write the rows that cannot be read or answered to this file, as JSON lines, and go on. By default the first ends
    the run."""
    workers: Workers = 1
    """Processes that label; each opens the folder, and they share the cores. Of Ray, actors, each with the model."""
    engine: Literal["local", "ray"] = "local"
    """Who labels a folder of files: local, or ray for Ray Data, on the cluster that $RAY_ADDRESS names, or one that is
    started here."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.out is None and self.resume:
            raise OptionError("--resume needs --out, the file to write")


DEFAULT_OUTPUT = OutputOptions()


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """Who answers, what is read, and how answers are shown; which of them go together: `batch.ways`."""

    labels: Annotated[tuple[str, ...], Instead("folder"), AS_GIVEN] = ()
    """Names of labels in place of a folder: what a text is about is known from their names alone, or from what is said
    of the last one, such as delivery,"praise: thanks, or a compliment"; give the option again for each label that is
    described. The files' own texts make the answers better (see: boustro help texts)."""
    types: Annotated[tuple[str, ...], Instead("folder"), AS_GIVEN] = ()
    """Names of types of entities in the same way, such as politician,"law: an act or a treaty": names in English are
    found, and have the type whose name suits them best, or none."""
    several: bool = False
    """With --labels, a text may have several of them, or none."""
    none: Share | None = None
    """With --labels, the share of texts that fit no label and get none, 0 to 1, such as 0.05. By default only texts in
    another language have none; 0 labels all."""
    format: (
        Literal["text", "jsonl", "csv", "tsv", "conll", "html", "labelstudio", "argilla", "parquet", "arrow"] | None
    ) = None
    """text (coloured in a terminal), jsonl (one object per line, with character offsets, and with the file where there
    are several), csv or tsv (the rows that were read, with the answers in columns behind them), conll (each line a
    document; taggers only), html, or labelstudio or argilla (a list of records with suggestions, to import there;
    entities and labels only). By default as --out ends, else text. Of a folder of files: jsonl, which is the default,
    parquet or arrow."""
    reads: Literal["text", "jsonl", "conll", "conllu", "parquet", "arrow", "xml"] | None = None
    """What the files hold. By default as they end (.csv, .tsv, .xlsx, .jsonl, .conll, .conllu, .parquet, .arrow), else
    lines of text; xml: a corpus with words whose sense is asked for."""
    text_column: tuple[str, ...] = ()
    """Column or key of the text, or the two of a pair of texts. By default text or sentence, sentence1 and sentence2,
    and so on."""
    recall: Recall | None = None
    """Promise of a tagger that was trained with a development set: give every entity that is probable enough, so that
    on average this share of all entities is among them, such as 0.95. They may then overlap."""
    threshold: Share | None = None
    """Give also every word that is in an entity with at least this probability, 0 to 1, such as 0.05. For taggers whose
    words have probabilities: all but those with a span head."""
    explain: bool = False
    """Add to each answer what decided it, as jsonl: what each LM of a pair answers alone, and how much each word
    counted for the label or number of a text. Reads a text once for each of its words."""
    states: tuple[Path, ...] = ()
    """Safetensors files with the pieces of a text each and the states that the tagger's LM had of them in another
    engine, such as vLLM, in place of text; its weights are not loaded."""
    state_layers: str | None = None
    """The numbers of the layers of `hidden_states` in these files, such as 4,9,14."""
    live: bool = False
    """Tag one text while it arrives, such as on standard input: a JSON line for every entity that stands for now, is
    revised, or is final. Taggers only."""
    delay: Annotated[int, Range(0, 256)] | None = None
    """With --live, how many words must follow a word before its tag is final, 0 to 256; by default 8."""

    __post_init__ = check_options


DEFAULT_PREDICT = PredictOptions()


def predict(
    folder: Positional[Model | None],
    files: Positional[tuple[TextSource, ...]] = ("-",),
    answers: PredictOptions = DEFAULT_PREDICT,
    encoder: LM | None = None,
    output: OutputOptions = DEFAULT_OUTPUT,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Label text, one document per line or per row of a table, each as soon as it is read.

    Args:
        folder: A folder that boustro fit wrote.
        files: Text files (.gz, .bz2, .xz too), tables (.csv, .tsv, .xlsx, .parquet), streams such as /dev/stdin, or -
            for standard input; or one folder of files, whose answers go to the folder --out.
        encoder: Where the encoder is now, if it has moved.
    """
    check_options(predict, locals())
    from boustro.apps.batch.ways import Prediction

    Prediction(folder, files, answers, encoder, output, run).run()

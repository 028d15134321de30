"""The options of `boustro backward`, `pack`, `fuse`, `elmo`, `adapt`, `seq2seq`, `memory`, `names` and `distill-words`.

torch is not imported here, because a command's help lists these options.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from boustro.encoders.options import KEPT_WORDS, Context, ReadingOptions, StartOptions
from boustro.lab.pretrain.config import OutputConfig, RunConfig, Steps
from boustro.options import (
    Count,
    CountOrZero,
    DropoutRate,
    Given,
    OptionError,
    Positional,
    Positive,
    PositiveOrZero,
    Range,
    Seed,
    ShareAboveZero,
    Where,
    Width,
    Workers,
    check_options,
    option_name,
)
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.text.documents import Split
from boustro.text.places import LM, Corpus, DataName, DataPlace, Folder, TextPath

MAX_LETTERS = 7  # the number of widths in models.elmo.PAPER_FILTERS


@dataclass(frozen=True, kw_only=True)
class SegmentOptions:
    """The options of training on token shards."""

    validation: Folder | None = None
    """Token shards for the validation loss."""
    tokens: CountOrZero | None = None
    """Pieces to train on; by default one pass over the shards; 0 keeps the initial weights."""
    segment_length: Count = 255
    """Pieces per segment; the context window also includes the sentinel."""
    batch_segments: Count = 16
    """Segments per step."""
    validation_pieces: ClassVar[int] = 200_000

    __post_init__ = check_options


@dataclass(frozen=True, kw_only=True)
class FuseConfig(SegmentOptions, StartOptions, RunConfig):
    """The options of `boustro lab fuse`."""

    forward: LM
    """Spec of the forward LM, such as gpt2 or starter-forward."""
    backward: LM
    """Spec of the backward LM, over the same vocabulary."""
    shards: Folder
    """Token shards to train on, written by boustro lab tokenize with the tokenizer of the two LMs."""
    out: Path
    """Where to write the fusion folder; as an encoder it is named fused:OUT."""
    kind: Literal["attention", "linear"] = "attention"
    """attention: over all states of both LMs; linear: a control that reads only the two nearest states."""
    width: Width | None = None
    """Width of the fused states; by default the forward LM's."""
    lr: PositiveOrZero = 1e-2
    """Peak learning rate. Much lower values learn too slowly, because the output embeddings are frozen."""


@dataclass(frozen=True, kw_only=True)
class BackwardConfig:
    """The options of `boustro backward`."""

    model: Positional[LM]
    """The forward LM: a folder, or a name on the Hub."""
    text: tuple[Corpus, ...]
    """Raw text: files, folders or names of datasets on the Hub, as for boustro lab tokenize."""
    out: Path
    """Where to write the backward LM; the pair is then named MODEL+OUT."""
    minutes: Positive = 60.0
    """Minutes that everything may take on this machine; the pieces that the LM reads follow from them."""
    preset: str = "mini"
    """Architecture, as for boustro lab pretrain: tiny, mini, small, or a path to a transformers config.json."""
    sampled_pieces: Count = 4096
    """How many pieces besides the batch's own the softmax of a step is computed over, drawn by frequency."""
    segment_length: Annotated[int, Range(2, 2**20)] = 256
    """Pieces per segment, and the LM's context window."""
    batch_segments: Count = 16
    """Segments per optimiser step."""
    passes: Count = 4
    """The most passes over the text."""
    lr: PositiveOrZero = 5e-3
    """Peak learning rate."""
    seed: Seed = 1
    """Seed of the weights and the data order."""
    text_key: str = "text"
    """Key or column of the text in files of records and datasets."""
    split: Split = "blank-line"
    """What ends a document in a text file."""
    workers: Workers | None = None
    """Processes that tokenize; by default one per core."""
    compile: bool = True
    """Compile the LM with torch.compile (needs a C++ compiler on a CPU)."""
    save_minutes: PositiveOrZero = 5.0
    """Minutes between checkpoints."""
    overwrite: bool = False
    """Start again: replace a finished folder, and what a stopped run left."""
    dry_run: bool = False
    """Print the plan and its cost, and stop."""

    __post_init__ = check_options


@dataclass(frozen=True, kw_only=True)
class PackConfig:
    """The options of `boustro pack`."""

    model: Positional[LM]
    """A causal LM, or a masked one, a sentence-transformers folder among them: a folder, or a name on the Hub."""
    out: Path
    """Where to write the folder; as an encoder it is named OUT, of a masked LM without modules.json masked:OUT."""
    blocks: Count | None = None
    """Keep the first blocks only. By default all."""
    bits: Literal[4, 8, 16] = 4
    """Bits of a value of a matrix, with a scale and a minimum for each 32 values; 16 leaves them as they are."""
    texts: tuple[Corpus, ...] = ()
    """Raw text: leave out the pieces of the vocabulary that it does not need. Its states stay the same; other texts are
    read in smaller pieces, and other scripts not at all. Of masked LMs."""
    overwrite: bool = False
    """Replace a folder that is there."""

    __post_init__ = check_options


@dataclass(frozen=True, kw_only=True)
class RawTextOptions:
    """Options of raw text: which is read, and how."""

    corpus: Positional[tuple[Corpus, ...]] = ()
    """Files of text, JSON, CSV, TSV, parquet or Arrow (.gz, .bz2, .xz, .zst too), folders of them, or names of datasets
    on the Hub."""
    text_key: str = "text"
    """Key or column of the text in files that are not plain text, and in datasets."""
    split: Split = "blank-line"
    """What separates documents in a text file."""
    max_documents: Count | None = None
    """How many documents of the corpus to read, from its beginning; by default all."""

    __post_init__ = check_options


@dataclass(frozen=True, kw_only=True)
class MemoryConfig(RawTextOptions, ReadingOptions, OutputConfig):
    """The options of `boustro lab memory`; words are read as taggers will read them."""

    out: Path
    """Where to write the memory's folder; as an encoder it is named memory:OUT."""
    data: tuple[DataName, ...] = ()
    """Labelled files, or data sets of the Hub, whose words are read too, in their documents; their labels are not."""
    encoder: LM = "starter"
    """Spec of the encoder that reads the text, and that the memory belongs to."""
    layers: str = "last"
    """Layers that taggers will read; the memory has the highest of them."""
    words: Count = KEPT_WORDS
    """How many words to keep, the most frequent ones."""
    code_bytes: CountOrZero = 0
    """Bytes of a word for each LM, by product quantisation; at most the width. 0 keeps 2 bytes for each dimension."""


@dataclass(frozen=True, kw_only=True)
class NamesConfig(ReadingOptions, OutputConfig):
    """The options of `boustro lab names`; words are read as taggers will read them."""

    data: Positional[tuple[DataName, ...]]
    """Labelled files, or data sets of the Hub, each with its own types. The label ? marks words that may be names."""
    out: Path
    """Where to write the folder; as an encoder it is named names:OUT, and boustro predict OUT finds names."""
    kinds: TextPath | None = None
    """A JSON file with the kind of each type, such as {"city": "PLACE", "date": null}; null is no name."""
    encoder: LM = "starter-memory"
    """Spec of the encoder whose vectors the network reads."""
    layers: str = "last"
    """Layers that taggers will read; the network reads the highest of them."""
    width: Width = 64
    """Values of the vector in which names of one type are near to each other."""
    hidden: Width = 384
    """Hidden units of the network."""
    epochs: Count = 4
    """Passes over the files."""
    lr: Positive = 1.5e-3
    """Peak learning rate of AdamW."""
    dropout: DropoutRate = 0.3
    """Dropout of the hidden units; a third of it of the vectors."""
    seed: Seed = 1
    """Seed of the initial weights, the data order and dropout."""


@dataclass(frozen=True, kw_only=True)
class TableConfig(RawTextOptions, ReadingOptions, OutputConfig):
    """The options of `boustro lab distill-words`."""

    encoder: LM
    """Spec of the encoder that reads words and texts, such as masked:FOLDER for a sentence encoder."""
    out: Path
    """Where to write the table's folder; as an encoder it is named table:OUT."""
    layers: str = "last"
    """Layers to read; the table has the highest of them."""
    pooling: str | None = "mean"
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""
    context: Context = "sentence"
    """What the encoder reads: a text is a sentence, so it is the sentence alone."""
    words: Count = 40_000
    """How many words to keep, the most frequent ones."""
    parts: CountOrZero = 3000
    """How many parts of other words to keep, of which these are made."""
    texts: Count = 200_000
    """How many sentences to learn from, drawn from the corpus."""
    epochs: CountOrZero = 4
    """Passes over these; 0 keeps the vectors that words have alone."""
    code_bytes: CountOrZero = 96
    """Bytes of a word, by product quantisation, or the width where it is less. 0 keeps 2 bytes for each dimension."""
    seed: Seed = 1
    """Seed of the sample of texts and of their order."""


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(RawTextOptions):
    """The options of training on the words of raw text."""

    validation: TextPath | None = None
    """Text for the validation loss."""
    words: CountOrZero | None = None
    """Words to train on; by default one pass over the corpus; 0 skips training."""
    batch_words: Count = 2048
    """Words per step, about."""


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(CorpusOptions, RunConfig):
    """The options of `boustro lab elmo`."""

    out: Path
    """Where to write the ELMo folder; as an encoder it is named elmo:OUT."""
    width: Width = 128
    """Width of a word vector, and of a state in one direction."""
    cells: Width = 512
    """Number of cells in an LSTM layer."""
    letter_window: Annotated[int, Range(1, MAX_LETTERS)] = 5
    """Width of the widest convolution, in letters; the paper's is 7."""

    @property
    def steps(self) -> Steps:
        return Steps("adamw", weight_decay=0.01, decay=0.5)


@dataclass(frozen=True, kw_only=True)
class TextAdaptOptions(SegmentOptions):
    """Training on running text: predict hidden pieces (LLM2Vec), or what a second reading gives."""

    shards: Folder | None = None
    """Token shards to train on, written by boustro lab tokenize with the LM's tokenizer."""
    learn: Literal["hidden-pieces", "second-reading"] = "hidden-pieces"
    """hidden-pieces: predict pieces that are hidden; second-reading: give in one reading, without the mask, the states
    that the LM itself has when it reads the text a second time."""
    mask_rate: ShareAboveZero = 0.2
    """Share of the pieces that are hidden and predicted."""
    mask_piece: str | None = None
    """The piece that replaces a hidden one; by default the tokenizer's mask piece, or else _ (as in LLM2Vec)."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range, and for options of another objective."""
        check_options(self)
        if self.learn == "second-reading" and (self.mask_rate, self.mask_piece) != (0.2, None):
            raise OptionError("mask_rate and mask_piece are for learn hidden-pieces: no piece is hidden otherwise")


@dataclass(frozen=True, kw_only=True)
class LabelAdaptOptions:
    """Training on labelled sentences: predict the label of each word (LS-unLLaMA)."""

    train: DataPlace | None = None
    """Training set: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a dataset of the Hub."""
    dev: DataPlace | None = None
    """Development set, for the loss and the entity F1 of the trained head."""
    epochs: CountOrZero = 3
    """Passes over the training set."""
    batch_pieces: Count = 1024
    """Pieces per step, about, including padding."""
    context: Literal["sentence", "document"] = "document"
    """What the LM reads: each sentence alone, or its whole document if the data has documents."""

    __post_init__ = check_options


@dataclass(frozen=True, kw_only=True)
class ThingAdaptOptions(RawTextOptions):
    """Training on what things are: where raw text mentions one, the states are near what it is (NuNER)."""

    things: TextPath | None = None
    """Things and what they are, such as aspirin, a tab and drug on each line, or JSON or a table with name and type.
    Their mentions in the raw text are what is learned from."""
    sentences: Annotated[Count, Where("things", Given())] = 12_000
    """How many sentences with a mention to learn from, the first of the text."""


@dataclass(frozen=True, kw_only=True)
class AdaptConfig(StartOptions, RunConfig):
    """The options of `boustro lab adapt`."""

    lm: LM
    """Spec of the LM, such as gpt2 or starter-forward; backward:PATH if its config does not state the direction; for
    --things masked:PATH too."""
    out: Path
    """Where to write the folder; as an encoder it is named unmasked:OUT, after --things or --blocks none OUT alone, of
    a masked LM masked:OUT."""
    blocks: str | None = None
    """Blocks whose causal mask is removed: all, a range such as 3-4, or none. By default all, with --things none."""
    rank: Annotated[int, Range(1, 4096)] = 16
    """Rank of the LoRA matrices."""
    dropout: DropoutRate = 0.05
    """Dropout on the adapter's inputs."""
    lr: PositiveOrZero = 5e-4
    """Peak learning rate; use a lower one for a large LM."""
    text: TextAdaptOptions = TextAdaptOptions()
    labels: LabelAdaptOptions = LabelAdaptOptions()
    terms: ThingAdaptOptions = ThingAdaptOptions()
    data: DataOptions = DEFAULT_OPTIONS

    @property
    def steps(self) -> Steps:
        return Steps("adamw", weight_decay=0.0)

    @property
    def way(self) -> str:
        """The option that names what is learned from."""
        given = [way for way, group in self._ways.items() if getattr(group, way) is not None]
        if len(given) != 1:
            raise ValueError(
                "give one of --shards FOLDER (running text), --train FILE (labelled sentences) and --things FILE (what "
                "things in raw text are)"
            )
        return given[0]

    @property
    def without_mask(self) -> str:
        """The blocks whose mask is removed."""
        return self.blocks or ("none" if self.way == "things" else "all")

    @property
    def spec(self) -> str:
        """The folder as an encoder."""
        kept = "masked:" if self.lm.startswith("masked:") else ""
        return f"{kept if self.without_mask == 'none' else 'unmasked:'}{self.out}"

    @property
    def _ways(self) -> dict[str, Any]:
        return {"shards": self.text, "train": self.labels, "things": self.terms}

    def __post_init__(self) -> None:
        """Raises `ValueError` unless the options of exactly one kind of training data are given."""
        super().__post_init__()
        if any(group != type(group)() for way, group in self._ways.items() if way != self.way):
            taken = (f"--{way} takes {_option_words(group, way)}" for way, group in self._ways.items())
            raise ValueError(f"these options cannot be combined: {'; '.join(taken)}")


def _option_words(group: Any, without: str) -> str:
    words = (option_name(option.name) for option in fields(group) if option.name not in (without, "corpus"))
    return ", ".join(f"--{word}" for word in words)


@dataclass(frozen=True, kw_only=True)
class MixtureOptions:
    """How pairs of several tasks are mixed, and what is held back."""

    task_key: str | None = None
    """The key of a pair's task. Losses are then reported by task, of held-in and of held-out tasks apart."""
    task_cap: Count | None = None
    """At most so many pairs of a task in an epoch, drawn anew for each. By default all."""
    held_out: tuple[str, ...] = ()
    """Tasks that are not trained on, by name or by patterns such as quoref_*; their pairs are measured."""
    dev_pairs: CountOrZero = 0
    """Pairs of every other task, drawn by --seed, that are not trained on either, and are measured; of small tasks at
    most half."""
    held_back: Path | None = None
    """Write all pairs that are measured to this file of JSON lines, with a group (held-in or held-out) each."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range, and for options that need --task-key."""
        check_options(self)
        if self.task_key is None and (self.task_cap or self.held_out or self.dev_pairs or self.held_back):
            raise OptionError("--task-cap, --held-out, --dev-pairs and --held-back need --task-key")


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(RunConfig):
    """The options of `boustro lab seq2seq`."""

    lm: LM
    """The LM to fine-tune: masked, such as boustro lab pretrain --objective prefix-suffix wrote, or causal."""
    train: tuple[TextPath, ...]
    """Pairs: JSON lines with a prompt and a target text each (.gz, .bz2, .xz too); with --template labelled texts."""
    out: Path
    """Where to write the model folder, with which boustro lab generate (or boustro lab prompt) writes."""
    dev: TextPath | None = None
    """Pairs for the validation loss."""
    prompt_key: str = "prompt"
    """The key of the prompt, or a text with keys, such as "{answers.0.text} in: {context}"."""
    target_key: str = "target"
    """The key of the target, or a text with keys; of a list of texts the first is taken."""
    template: str | None = None
    """Learn to write the word of each text's label into a template of boustro lab prompt: a name, or a JSON file."""
    label_key: str = "label"
    """With --template: the key of the label."""
    prompt_pieces: Count | None = None
    """Read only the first pieces of a prompt, or of each text in a template. By default pairs that do not fit into the
    window are left out."""
    mixture: MixtureOptions = MixtureOptions()
    epochs: Count = 3
    """Passes over the pairs."""
    batch_pairs: Count = 16
    """Pairs per step."""
    lr: PositiveOrZero = 1e-3
    """Peak learning rate."""

"""The options of `boustro label`. torch is not imported here: the command line lists them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from boustro.encoders.options import Context
from boustro.options import Count, Range, check_options
from boustro.text.places import Data, Model


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """A labelling session."""

    task: str = "tag"
    """What is labelled: tag for entities in sentences, classify for the topics of whole texts."""
    labels: tuple[str, ...] = ()
    """Labels to start with, with spaces or commas between them; more can be added on the page."""
    several: bool = False
    """Whole texts: a text may have several labels, or none. By default it has one."""
    sentences: bool = False
    """Whole texts: label each of their sentences as a text. By default a line, or a JSON object, is one text."""
    order: Literal["uncertain", "diverse", "in-order"] = "uncertain"
    """Which sentence comes next: the one from which the tagger learns most, one unlike those answered, or the next."""
    form: Literal["auto", "text", "jsonl", "conll"] = "auto"
    """What the file of texts is. By default as its name and its first lines say."""
    train: Data | None = None
    """Labelled sentences to start from."""
    tagger: Model | None = None
    """Tagger folder to start from: its labels, its encoder, and its suggestions, which the answers correct."""
    out_tagger: Path | None = None
    """Folder for the tagger or classifier, written at the end and whenever the page asks for it. Without it the page
    saves one beside the answers."""
    context: Context = "document"
    """What the LMs read around a sentence: the text that it stands in, or nothing."""
    pool_mentions: bool = True
    """With whole documents: also read each word by the mean vector of all its mentions in its document."""
    spelling: bool = False
    """Read each word also by its letters, as a tagger with this option does. For LMs that have read little of the
    language."""
    head: str | None = None
    """Head that "finish training" trains, by default the task's own: for entities mlp; with span they may be nested."""
    epochs: Count | None = None
    """Passes over the answers when training is finished. By default as for boustro fit."""
    pool: Count = 4000
    """Most unanswered sentences to choose the next one from; more are read as these are answered."""
    port: Annotated[int, Range(0, 65535)] = 8080
    """Port of the page on 127.0.0.1; 0 takes a free one."""
    browser: bool = True
    """Open the page in the default browser."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)
        names = (name.strip() for word in self.labels for name in word.split(","))
        object.__setattr__(self, "labels", tuple(dict.fromkeys(name for name in names if name)))

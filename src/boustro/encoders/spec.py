"""Specs: the short names of encoders, the same in Python, on the command line and in saved files.

gpt2                a causal LM of the Hub or a folder; reads as its config says, forward by default
gpt2@607a30d        the same at one revision: a commit, branch or tag of the Hub
backward:PATH       a backward LM whose config does not say so (the published ones)
gpt2+./backward     several side by side, with one vocabulary
starter             the pair in the package; starter-forward and starter-backward, its halves
starter-memory      the same with its memory of words, which is in the package too
starter-names       the same with what a small network learned of names, in the package too
starter-lm          the first blocks of SmolLM2, in the package in four bits
starter-large       starter-lm+starter-texts+starter-memory, with what such a network learned of names
masked:PATH         a masked LM of the BERT family, or one that boustro lab adapt trained
unmasked:PATH       a causal LM without its causal mask, untrained: every piece sees both sides
unmasked:3-4:PATH   the same in blocks 3 and 4 only; unmasked:4:PATH in one
unmasked:DIR        a causal LM that boustro lab adapt trained to read so, in the blocks that it was trained for
DIR                 one that it trained with its mask, on what things are
repeated:PATH       a causal LM that is given the text twice and read in the second copy; repeated:3:PATH three times
fused:DIR           a forward and a backward LM under a fusion that boustro lab fuse trained; the folder names the two
memory:DIR          an encoder and its mean vectors of words in raw text (boustro lab memory); the folder names it
names:DIR           an encoder and a network that finds names (boustro lab names); the folder names the encoder
sentences:NAME      a model of sentence-transformers; a folder that has modules.json needs no kind before it
table:DIR           a table of words that a sentence encoder has read (boustro lab distill-words); no LM reads anything
starter-words       the table of the package
starter-texts       the sentence encoder of the package
languages           a sentence encoder of many languages, with pip install 'boustro[languages]'
elmo:DIR            an ELMo that boustro lab elmo trained: reads letters, so no word is unknown; both directions

The order is kind, number or range, path or name, revision: `unmasked:3-4:gpt2@607a30d`. A spec is parsed once:

    Spec.parse("gpt2+backward:a/lm@v1").parts[1]      SpecPart("backward:a/lm@v1", "backward:", "a/lm", "v1")
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boustro.choose import lazy, nearest
from boustro.encoders.base import ConcatEncoder, Encoder, Identity, JoinedIdentity, check_vocabularies
from boustro.encoders.cache import CachedEncoder, default_cache
from boustro.encoders.loading import check_config, naming, weights_fingerprint
from boustro.encoders.options import Context, Precision, ReadingOptions, Reads, Spacing
from boustro.errors import require_torch
from boustro.names import (
    ADAPTATION,
    ELMO,
    FUSION,
    LANGUAGES,
    MEMORY,
    MODULES,
    NAMES,
    PACKAGED,
    SENTENCES,
    TABLE,
    expand_home,
    locate_model,
    place_of,
)
from boustro.options import OptionError, check_options
from boustro.store import Artefact
from boustro.text.start import AUTO

if TYPE_CHECKING:
    from boustro.encoders.extended import FolderExtender


class Kind(NamedTuple):
    """How one kind of spec becomes an encoder."""

    make: Callable[..., Any]
    """Called with the folder, the `ReadingOptions`, `spec`, `device`, `tokenizer` and the options below; what reads is
    imported by the call. Of a kind that `extends`, called with the folder alone."""
    options: tuple[str, ...]
    """The options of `load_encoder` that not every kind has."""
    number: str = ""
    """The keyword for the number after the kind: "blocks" for `unmasked:3-4:`."""
    given: Callable[..., Encoder] | None = None
    """The same as `make` where the states of an LM will be given, so that its weights are not loaded."""
    unread: tuple[str, ...] = ()
    """The `ReadingOptions` that change nothing."""
    decided_by: Callable[[Artefact, str | None], str] = weights_fingerprint
    """From the folder and the revision the fingerprint of what decides the numbers."""
    elsewhere: Callable[[str], str] | None = None
    """For a kind whose models are not files: from a path, such as an address, the fingerprint of the weights behind it;
    `ValueError` where there are none."""
    adapted: Callable[..., Encoder] | None = None
    """In place of `make` for a folder with an adapter of an LM."""
    extends: bool = False
    """Whether `make` gives what extends the encoder that the folder names (`extended.FolderExtender`)."""


LM_MODULE = "boustro.encoders.lm"


def _kind_of_folder(folder: Artefact) -> str | None:
    """Return the kind of a folder; one of peft is an adaptation too."""
    return folder.kind or (ADAPTATION if (folder / "adapter_config.json").is_file() else None)


CAUSAL_OPTIONS = ("start_piece", "revision", "direction", "whole")
KINDS: dict[str, Kind] = {
    "lm": Kind(
        lazy(f"{LM_MODULE}:LMEncoder"),
        CAUSAL_OPTIONS,
        given=lazy("boustro.encoders.outside:load_outside"),
        adapted=lazy("boustro.encoders.adapted:load_causal"),
    ),
    "masked": Kind(
        lazy(f"{LM_MODULE}:MaskedEncoder"),
        ("revision", "whole"),
        unread=("start_piece", "prefix"),
        adapted=lazy("boustro.encoders.adapted:load_masked"),
    ),
    "backward": Kind(lazy(f"{LM_MODULE}:LMEncoder", direction="backward"), CAUSAL_OPTIONS),
    "unmasked": Kind(lazy("boustro.encoders.adapted:load_causal", unmasked=True), CAUSAL_OPTIONS, "blocks"),
    "repeated": Kind(lazy(f"{LM_MODULE}:RepeatedEncoder"), (*CAUSAL_OPTIONS, "between"), "copies"),
    "fused": Kind(lazy("boustro.encoders.fused:FusedEncoder"), ("start_piece",), unread=("prefix",)),
    SENTENCES: Kind(
        lazy("boustro.encoders.sentences:open_sentences"),
        ("revision", "whole", "reads"),
        unread=("start_piece", "prefix"),
        decided_by=lazy("boustro.encoders.sentences:fingerprint_of"),
    ),
    MEMORY: Kind(lazy("boustro.encoders.extended:open_memory"), ("start_piece",), extends=True),
    NAMES: Kind(lazy("boustro.encoders.extended:open_names"), ("start_piece",), extends=True),
    TABLE: Kind(
        lazy("boustro.encoders.word_table:open_table"),
        (),
        unread=("spacing", "start_piece", "prefix"),  # tasks choose layers and pooling for all encoders
    ),
    "elmo": Kind(lazy("boustro.encoders.elmo:ElmoEncoder"), (), unread=("spacing", "start_piece", "prefix")),
}
NAMED_BY = {
    ADAPTATION: lazy("boustro.encoders.adapted:named_by_adaptation"),
    FUSION: lazy("boustro.encoders.fused:named_by_fusion"),
    MEMORY: lazy("boustro.encoders.extended:named_by_folder"),
    NAMES: lazy("boustro.encoders.extended:named_by_folder"),
}
"""The specs that a folder of this kind names."""


@dataclass(frozen=True, slots=True)
class SpecPart:
    """One encoder of a spec.

    Attributes:
        name: As it is written, names of the package in full.
        prefix: The kind and the number: "unmasked:3-4:"; empty for a plain LM.
        path: The folder, file or name, as it is written, without the revision.
        revision: A commit, branch or tag of the Hub.
    """

    name: str
    prefix: str
    path: str
    revision: str | None

    @classmethod
    def parse(cls, name: str) -> "SpecPart":
        """Parse a part; a path that exists is never split. `ValueError` for an unknown kind, for several models, and
        for a revision of a folder."""
        bare, at, revision = name.rpartition("@")
        if not at or _exists(_split_kind(name)[1]):
            bare, revision = name, ""
        prefix, path = _split_kind(bare)
        if revision and (path in PACKAGED or _exists(path)):
            raise ValueError(f"{name!r}: {path} is a folder here, which has no revision; leave out @{revision}")
        kind = prefix.partition(":")[0]
        if kind and kind not in KINDS:
            near = nearest(kind, KINDS)
            hint = f"; did you mean {near}:{path}?" if near else ""
            raise ValueError(f"unknown kind {kind!r} in {bare!r}: known are {', '.join(KINDS)}, or none at all{hint}")
        if path in PACKAGED and (spec := PACKAGED[path].spec):
            lms = " or ".join(prefix + lm for lm in spec.split("+"))
            raise ValueError(f"{bare!r}: {path} is several models side by side; name one LM: {lms}")
        return cls(name, prefix, path, revision or None)

    @property
    def kind(self) -> Kind:
        """How it becomes an encoder."""
        is_sentences = not self.prefix and (Path(expand_home(self.path)) / MODULES).is_file()
        return KINDS[SENTENCES if is_sentences else self.prefix.partition(":")[0] or "lm"]

    @property
    def number(self) -> dict[str, str]:
        """The number after the kind, as a keyword: {"blocks": "3-4"}."""
        number = self.prefix.rstrip(":").partition(":")[2]
        return {self.kind.number: number} if number else {}

    @property
    def place(self) -> Artefact:
        """Return the folder of the model, or its name on the Hub. Raises as `names.locate_model` and
        `multilingual.open_package`."""
        if self.kind.elsewhere:
            return Artefact(self.path)
        if self.path == LANGUAGES:
            return Artefact(lazy("boustro.encoders.multilingual:open_package")())
        is_sentences = self.kind is KINDS[SENTENCES] and self.path in PACKAGED
        return (place_of if self.kind.extends or self.kind is KINDS[TABLE] or is_sentences else locate_model)(self.path)

    def fingerprint(self) -> list[Any]:
        """Return the kind, and the fingerprints of the weights and of the LMs that the folder names."""
        if self.kind.elsewhere:
            return [self.prefix.rstrip(":"), self.kind.elsewhere(self.path), []]
        place = self.place
        weights = self.kind.decided_by(place, self.revision)
        return [self.prefix.rstrip(":"), weights, [Spec.parse(other).fingerprint() for other in _named_by(place)]]

    def exact(self, weights: str) -> str:
        """Return the part with nothing left open, by the fingerprint of the weights that were loaded."""
        if self.path in PACKAGED and PACKAGED[self.path].kind:
            return self.path
        if self.kind.elsewhere or self.path in PACKAGED:
            return self.name
        if _exists(self.path):
            return self.prefix + str(Path(expand_home(self.path)).resolve())
        commit = weights.rpartition("@")[2]
        return self.name if commit == "None" else f"{self.prefix}{self.path}@{commit}"


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec, and the encoders that it names side by side."""

    text: str
    parts: tuple[SpecPart, ...]

    @classmethod
    def parse(cls, text: str) -> "Spec":
        """Parse a spec; a path that exists is never split. `ValueError` for an empty part, and as `SpecPart.parse`."""
        known = PACKAGED.get(text)
        if Path(text).exists() and not (known and (known.kind or known.spec)):
            return cls(text, (SpecPart.parse(text),))
        names = [name for part in text.split("+") for name in _in_full(part).split("+")]
        if not all(name.strip() for name in names):
            raise ValueError(f"{text!r} has an empty part; write for example gpt2+./backward")
        return cls(text, tuple(map(SpecPart.parse, names)))

    @property
    def gives_vectors(self) -> bool:
        """Whether what it names gives whole texts vectors that are used as they are: tables of words, and folders of
        sentence-transformers."""
        return all(part.kind in (KINDS[TABLE], KINDS[SENTENCES]) for part in self.parts)

    @property
    def is_sentences(self) -> bool:
        """Whether it names folders of sentence-transformers alone."""
        return all(part.kind is KINDS[SENTENCES] for part in self.parts)

    @property
    def reads_as_made(self) -> bool:
        """Whether a part refuses to be read otherwise than it was when it was made: a memory, and names."""
        return any(part.kind.extends for part in self.parts)

    def refuse_unread(self, reading: ReadingOptions) -> None:
        """`OptionError` where there are options that are not the default and that no part reads."""
        given = [
            option.name
            for option in fields(ReadingOptions)
            if getattr(reading, option.name) != option.default
            and all(option.name in part.kind.unread for part in self.parts)
        ]
        if given:
            raise OptionError(f"{', '.join(given)} is not read by {self.text}; remove it")

    def check(self, reading: ReadingOptions | None = None) -> None:
        """Raise what `load_encoder` would raise for a part that is misspelt or missing, without loading any weights.

        `OptionError` for an option of `reading` that would change nothing.
        """
        if reading:
            self.refuse_unread(reading)
        for part in self.parts:
            place = part.place
            if part.kind.elsewhere:
                part.kind.elsewhere(part.path)
            elif part.kind is KINDS[SENTENCES]:
                modules = lazy("boustro.encoders.sentences:read_modules")(place, part.revision)
                check_config(modules.body, part.revision)
            elif not _named_by(place) and place.kind not in (ELMO, TABLE):
                check_config(place, part.revision)

    def fingerprint(self) -> list[Any]:
        """For every part its kind and the fingerprints of its weights and of the LMs that its folder names."""
        return [part.fingerprint() for part in self.parts]

    def exact(self, identity: Identity | JoinedIdentity) -> str:
        """Return the spec with nothing left open: `"gpt2+./backward"` → `"gpt2@607a30d…+/home/me/backward"`.

        A model of the Hub gets the commit that was loaded (from the encoder's `identity`), a local folder its absolute
        path.
        """
        if self.text in PACKAGED and PACKAGED[self.text].spec:
            return self.text
        return "+".join(part.exact(lm.weights) for part, lm in zip(self.parts, identity.lms, strict=True))


def _split_kind(bare: str) -> tuple[str, str]:
    """`"unmasked:3-4:./lm"` → `("unmasked:3-4:", "./lm")`; a path that exists is never split."""
    kind, colon, path = bare.partition(":")
    if not colon or _exists(bare) or len(kind) == 1:
        return "", bare
    takes_number = kind in KINDS and KINDS[kind].number and not _exists(path)
    number = re.match(r"[\d-]+:", path) if takes_number else None
    cut = len(kind) + 1 + (number.end() if number else 0)
    return bare[:cut], bare[cut:]


def _in_full(part: str) -> str:
    """Return a name of the package with its kind, or what it stands for; any other part as it is."""
    known = PACKAGED.get(part)
    return part if known is None or known.is_lm else known.spec or f"{known.kind}:{part}"


def locate(name: str) -> tuple[Artefact, str | None]:
    """Return the place of the one LM that a spec names, and its revision: `"gpt2@607a30d"` → `("gpt2", "607a30d")`."""
    part = SpecPart.parse(name)
    return part.place, part.revision


def _named_by(folder: Artefact) -> list[str]:
    """Return the specs that a folder of an adaptation, a fusion, a memory or names names; none for anything else."""
    kind = _kind_of_folder(folder)
    return NAMED_BY[kind](folder) if kind in NAMED_BY else []


def _exists(path: str) -> bool:
    return Path(expand_home(path)).exists()


def load_encoder(
    spec: str,
    layers: str | int | Sequence[int] = "auto",
    pooling: str | None = None,
    device: str | None = None,
    dtype: Precision | None = None,
    cache: bool | str | Path | None = None,
    *,
    spacing: Spacing = "natural",
    context: Context = "sentence",
    start_piece: str = AUTO,
    prefix: str = AUTO,
    revision: str | None = None,
    **options: Any,
) -> Encoder:
    """Load the encoder that a spec names.

    Args:
        spec: A model of the Hub or a folder, with its kind, number and revision, or several joined by `+`: `"gpt2"`,
            `"gpt2+./backward"`, `"starter"`, `"masked:bert-base-cased"`, `"unmasked:3-4:gpt2@607a30d"`. All kinds are
            listed in `boustro.encoders.spec`.
        layers: Layers to read: "all", "last", or numbers: 0 is the embeddings, 1 to n the blocks, -1 the last; as a
            text also shares, "25%,50%,last". Blocks above the highest layer are not loaded. By
            default all of an LM of up to 8 blocks, and 25%,50%,75%,last of a deeper one.
        pooling: Where a word is read: exit, before, entry, first, last, mean, or several joined by `+`, which are
            concatenated (`boustro.encoders.reading`). By default exit+before; of an ELMo exit, of a fusion mean.
        device: Such as "cpu" or "cuda:1". By default CUDA, else MPS, else the CPU. "auto" spreads the model over the
            GPUs, the CPU's memory and the disk (`boustro.models.placing`).
        dtype: Precision of the computation, by default the fastest on this machine. With "float32" the arrays are
            float32, otherwise float16.
        cache: True or a folder keeps features on disk, so that each text is computed once.
        spacing: The space before a word: as in running text, or always.
        context: What an LM reads: the sentence alone, or the document around it, up to the LM's window.
        start_piece: What a causal LM is given before every text: none, bos, eos, or a piece such as `<s>`. By default
            what its tokenizer puts there, else the piece between documents, or what an LM of ours was trained with
            (`boustro.text.start`).
        prefix: A text that a causal LM reads before everything else, once for all: none, or words of your own. By
            default a plain sentence for LMs that are not ours.
        revision: A commit, branch or tag of the Hub, for parts of the spec that name none.
        options: Options of one kind: `between`, the text between copies (`repeated:`); `direction`, "forward" or
            "backward"; `whole`, True to load all blocks whatever layers are read.

    Returns an encoder: `encode(sentences)` yields per sentence a tuple of arrays (words, layers, width), one per
    stream, in text order; `encode_all(sentences)` concatenates them. Raises `ValueError` for an unknown kind or option,
    a damaged folder, or LMs that do not share a vocabulary, and `FileNotFoundError` for a missing model.

    Examples:
        >>> encoder = boustro.load_encoder("starter", layers="last")
        >>> forward, backward = next(encoder.encode([["Ada", "left", "."]]))
        >>> forward.shape
        (3, 1, 512)
    """
    check_options(load_encoder, locals())
    reading = ReadingOptions(
        layers=layers if isinstance(layers, str) else ",".join(map(str, np.atleast_1d(layers))),
        pooling=pooling,
        spacing=spacing,
        context=context,
        start_piece=start_piece,
        prefix=prefix,
        dtype=dtype,
    )
    require_torch()
    return open_encoder(spec, reading, device=device, cache=cache, revision=revision, **options)


class OpeningStep(NamedTuple):
    """One thing that is opened for an encoder: a part, or a folder that extends the parts before it.

    Attributes:
        part, place: As the spec has it, and its folder.
        options: Those of its kind.
        before: How many encoders stand before it side by side.
        within: Says of the folders that name the encoder which it is a part of what they are, the innermost first.
        extender, inner: What the folder extends by, and the spec of what it extends; `None` of a part.
    """

    part: SpecPart
    place: Artefact
    options: dict[str, Any]
    before: int
    within: tuple[str, ...]
    extender: "FolderExtender | None" = None
    inner: "Spec | None" = None


def _steps(
    named: Spec, reading: ReadingOptions, given: Mapping[str, Any], within: tuple[str, ...] = ()
) -> Iterator[OpeningStep]:
    """Yield, in order, the parts of an encoder, and behind those that it extends each folder of that kind."""
    named.refuse_unread(reading)
    read_by_none = given.keys() - {option for part in named.parts for option in part.kind.options}
    for number, part in enumerate(named.parts):
        own = {"revision": part.revision} if part.revision else {}
        if unknown := (own.keys() - {*part.kind.options}) | read_by_none:
            raise ValueError(f"{part.name}: this kind of encoder has no option {', '.join(sorted(unknown))}")
        place = part.place
        if not part.kind.extends:
            options = {name: value for name, value in {**given, **own}.items() if name in part.kind.options}
            options.pop("start_piece", None)  # it is in `reading`
            yield OpeningStep(part, place, options, number, within)
            continue
        extender = part.kind.make(place)
        with naming(extender.said[0]):
            inner = Spec.parse(extender.config["encoder"])
            read = {name: value for name, value in given.items() if name == "start_piece"}
            yield from _steps(inner, reading, read, (extender.said[0], *within))
        yield OpeningStep(part, place, {}, number, within, extender, inner)


def open_encoder(
    spec: str,
    reading: ReadingOptions,
    *,
    device: str | None = None,
    cache: bool | str | Path | None = None,
    revision: str | None = None,
    given_states: bool = False,
    reads: Reads = "words",
    **options: Any,
) -> Encoder:
    """Open an encoder as `load_encoder` does; with `given_states`, the weights of a causal LM are not loaded, because
    its states will be given (`encoders.outside`). Of a folder of sentence-transformers is read what a task `reads`."""
    asked = None if reading.start_piece == AUTO else reading.start_piece
    given = {**options, "revision": revision, "start_piece": asked}
    given = {option: value for option, value in given.items() if value is not None}
    opened: list[Encoder] = []
    for step in _steps(Spec.parse(spec), reading, given):
        part, kind = step.part, step.part.kind
        with contextlib.ExitStack() as named:
            for what in reversed(step.within):
                named.enter_context(naming(what))
            if step.extender and step.inner:
                first = len(opened) - len(step.inner.parts)
                with naming(step.extender.said[0]):
                    base = _side_by_side(opened[first:], step.inner.text)
                opened[first:] = [step.extender.extend(base, part.name)]
                continue
            make = kind.adapted if kind.adapted and _kind_of_folder(step.place) == ADAPTATION else kind.make
            how: dict[str, Any] = {"spec": part.name, "device": device, **part.number, **step.options}
            how["tokenizer"] = opened[-step.before].tokenizer if step.before else None
            if "reads" in kind.options:
                how["reads"] = "words" if step.within else reads
            if given_states and kind.given and not step.within:
                make = kind.given
            opened.append(make(part.path if kind.elsewhere else step.place, reading, **how))
    encoder = _side_by_side(opened, spec)
    return with_cache(encoder, cache) if cache else encoder


def _side_by_side(parts: Sequence[Encoder], spec: str) -> Encoder:
    """Return one encoder of several; `ValueError` for LMs with different vocabularies."""
    if len(parts) == 1:
        return parts[0]
    from boustro.encoders.lm import LMEncoder

    causal = [part for part in parts if isinstance(part, LMEncoder)]
    check_vocabularies([part.spec for part in causal], [part.vocabulary() for part in causal])
    return ConcatEncoder(parts, spec)


def with_cache(encoder: Encoder, cache: bool | str | Path = True) -> Encoder:
    """Return a loaded encoder behind the feature cache, in the folder `cache` if it is one; each LM on its own."""
    folder = Path(cache) if isinstance(cache, (str, Path)) else default_cache()
    return encoder if folder is None else encoder.over(lambda part: CachedEncoder(part, folder))

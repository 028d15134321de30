"""A recogniser for Presidio: a tagger's entities among those that its analyzer finds.

    analyzer = AnalyzerEngine(registry=registry, nlp_engine=engine)
    analyzer.registry.add_recognizer(BoustroRecognizer("ner", {"MISC": None, "VESSEL": "SHIP"}))
    analyzer.analyze("Ada Brandt flew to Port Lisse.", language="en")

The usual labels have names of Presidio by themselves (`STANDARD`), and others keep their own. The text is split into
words as `Tagger.predict` does, whatever the NLP engine is. Source: presidio_analyzer.EntityRecognizer (2.2).

Text that arrives in chunks has results too, which Presidio's own analyzer cannot give:

    stream = recognizer.live(delay=8)
    for chunk in chunks:
        for result in stream.feed(chunk): ...      # final; offsets count the characters of the whole text
        stream.safe                                # text before this has no other result
    for result in stream.end(): ...
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

try:
    from presidio_analyzer import AnalysisExplanation, EntityRecognizer, RecognizerResult
except ImportError as error:
    raise ImportError(
        "BoustroRecognizer needs presidio-analyzer; install it with: pip install 'boustro[presidio]'"
    ) from error

from boustro.apps.live.masks import NAME_KINDS, OTHER_KINDS, Region, name_parts
from boustro.apps.live.redactor import check_masked
from boustro.apps.live.stream import Live
from boustro.options import OptionError, Recall
from boustro.tasks.tagger import Tagger
from boustro.version import __version__

STANDARD = {label: name for name, labels in (NAME_KINDS | OTHER_KINDS).items() for label in labels.split()}
"""Presidio's names for the labels of the usual data sets and of the package's tagger; letters' case does not count."""


class BoustroRecognizer(EntityRecognizer):
    """Finds what a tagger finds, with the probability as score.

    Args:
        tagger: A `Tagger`, a tagger folder, or a tagger's name on the Hub.
        labels: Presidio's name for each of the tagger's labels, over `STANDARD`; `None` leaves a label out. Of the
            tagger of the package OTHER is left out unless it is named here.
        supported_language: The language of the texts, as Presidio names it.
        recall: See `Tagger.with_recall`: for a text that must not keep a name, longer lists.
        options: Other arguments of `EntityRecognizer`: name, context, …
        encoder, device: See `Tagger.from_pretrained`.

    Raises `OptionError` for a label that the tagger does not have, and for a tagger of whose labels neither `labels`
    nor `STANDARD` names any: the analyzer would ask it for nothing; and what `Tagger.from_pretrained` raises.
    """

    def __init__(
        self,
        tagger: Tagger | str | Path,
        labels: Mapping[str, str | None] | None = None,
        supported_language: str = "en",
        *,
        recall: Recall | None = None,
        encoder: str | None = None,
        device: str | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(tagger, Tagger):
            tagger = Tagger.from_pretrained(tagger, encoder=encoder, device=device)
        if labels:
            check_masked(labels, tagger)
        self.tagger = tagger if recall is None else tagger.with_recall(recall)
        by_default = (label for label in tagger.types if label in check_masked(None, tagger))
        names = {label: STANDARD.get(label.upper(), label) for label in by_default} | dict(labels or {})
        if not labels and not any(label.upper() in STANDARD for label in tagger.types):
            known, first = ", ".join(tagger.types), next(iter(tagger.types), "LABEL")
            raise OptionError(
                f"none of the tagger's labels ({known or 'none'}) is one that Presidio asks for; say what they are "
                f'there: BoustroRecognizer(tagger, {{"{first}": "PERSON"}}), and None leaves a label out'
            )
        self.names = {label: name for label in tagger.types if (name := names.get(label)) is not None}
        options = {"name": "BoustroRecognizer", "version": __version__, **options}
        super().__init__(sorted(set(self.names.values())), supported_language=supported_language, **options)

    def load(self) -> None:
        """Nothing: the tagger is open."""

    def analyze(self, text: str, entities: Collection[str], nlp_artifacts: Any = None) -> list[RecognizerResult]:
        """Return the entities of a text whose names, here or in the tagger, are among `entities`; offsets are code
        points."""
        return self.results(self.tagger.predict(text), entities, text)

    def live(self, delay: int | None = 8, entities: Collection[str] = ()) -> "LiveRecognizer":
        """Finds the same in one text that arrives in chunks; `delay` as `Live` has it.

        Raises what `Live` raises for a tagger that cannot.
        """
        return LiveRecognizer(self, delay, entities)

    def results(
        self, found: Iterable[Any], entities: Collection[str] = (), text: str | None = None
    ) -> list[RecognizerResult]:
        """A tagger's entities as Presidio has them, of the names among `entities`; by default of all. Each begins and
        ends as a name does, see `name_parts`, which sees the markup around it where the `text` is known."""
        results = []
        for entity in found:
            name = self.names.get(entity.label)
            if name is None or (entities and not {name, entity.label} & {*entities}):
                continue
            score = entity.score or 0.0
            why = AnalysisExplanation(self.name, score, textual_explanation=f"{entity.label} by {self.tagger!r}")
            metadata = {
                RecognizerResult.RECOGNIZER_NAME_KEY: self.name,
                RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
            }
            given, begin = (entity.text, entity.start) if text is None else (text, 0)
            parts = name_parts(given, [Region(entity.start, entity.end, entity.label, score)], begin)
            results += [RecognizerResult(name, p.start, p.end, score, why, dict(metadata)) for p in parts]
        return results


class LiveRecognizer:
    """The results for one text that arrives in chunks, each once it is final."""

    def __init__(self, recognizer: BoustroRecognizer, delay: int | None, entities: Collection[str]) -> None:
        self._recognizer, self._entities = recognizer, entities
        self._live = Live(recognizer.tagger, delay)

    @property
    def safe(self) -> int:
        """No other result will have a character before this one."""
        return self._live.safe

    def feed(self, chunk: str) -> list[RecognizerResult]:
        """Read a chunk; the results that are final now."""
        return self._final(self._live.feed(chunk))

    def end(self) -> list[RecognizerResult]:
        """The text is complete: the results that were open."""
        return self._final(self._live.end())

    def _final(self, events: Iterable[Any]) -> list[RecognizerResult]:
        return self._recognizer.results([event for event in events if event.kind == "final"], self._entities)

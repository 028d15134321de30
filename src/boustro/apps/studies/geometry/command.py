"""`boustro lab geometry measure` and `map`: how word vectors lie in their space, in numbers and as a picture.

torch is imported when the command runs, so that its help does not wait for it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from boustro.encoders.reading import parse_pooling
from boustro.options import Count, OptionError, Positional, check_options
from boustro.output import DEFAULT_RUN, RunOptions, check_output, give, keep_file, only_errors, print_notices
from boustro.text.places import LM, TextPath

MOST_SENTENCES = 1000


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """Options of `geometry map`: what it draws, and where to."""

    word: str | None = None
    """map: the lemma whose occurrences are drawn."""
    layers: str = "last"
    """map: layers to read, side by side. measure reads all."""
    transform: Literal["raw", "standardised", "top-removed", "whitened"] = "standardised"
    """map: what is done to the vectors before they are projected."""
    out: Path | None = None
    """map: the HTML page to write."""
    overwrite: bool = False
    """map: replace an existing file at --out."""

    __post_init__ = check_options


DEFAULT_MAP = MapOptions()


def geometry(
    action: Positional[Literal["measure", "map"]],
    data: Positional[TextPath],
    encoder: LM = "starter",
    pairs: TextPath | None = None,
    pooling: str | None = None,
    sentences: Count = MOST_SENTENCES,
    drawing: MapOptions = DEFAULT_MAP,
    json: Path | None = None,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Measure how alike word vectors are, layer by layer, or draw the occurrences of a word.

    Args:
        action: measure: a table of anisotropy, rogue dimensions, self-similarity and intra-sentence similarity. map: a
            page with the occurrences of --word, coloured by sense.
        data: measure: a text file, a document per line. map: sense-tagged text, as the task sense reads it.
        encoder: Spec of the encoder.
        pairs: measure: also correlate cosines with people's judgements of word pairs in context (JSON lines with
            context1, start1, context2, start2 and score), under every transform of the last layer.
        pooling: Where a word is read. By default what suits the encoder.
        sentences: measure: read this many sentences. map: draw at most so many occurrences.
        json: Write the figures of measure to this file (- for standard output).
    """
    check_options(geometry, locals())
    word, out = drawing.word, drawing.out
    if action == "map" and (word is None or out is None):
        raise OptionError("geometry map needs --word and --out")
    if action == "measure" and (word is not None or out is not None):
        raise OptionError("--word and --out are for map")
    if pooling is not None:
        parse_pooling(pooling)
    reading: dict[str, Any] = {"pooling": pooling, "device": run.device, "cache": run.cache or None}
    with only_errors(run.quiet):
        check_output(json)
        if word is not None and out is not None:
            keep_file(out, drawing.overwrite)
            from boustro.apps.studies.geometry.map import draw_map, find_occurrences

            asked = find_occurrences(data, word, sentences)
            from boustro.encoders.spec import load_encoder

            opened = load_encoder(encoder, drawing.layers, **reading)
            draw_map(opened, asked, word, out, drawing.transform)
            return
        from boustro.apps.studies.geometry.measures import correlate, measure_layers, print_figures, read_word_pairs
        from boustro.encoders.spec import load_encoder

        judged = read_word_pairs(pairs) if pairs else []
        opened = load_encoder(encoder, "all", **reading)
        figures: dict[str, Any] = {"encoder": encoder, "layers": measure_layers(opened, data, sentences)}
        print_notices(opened.counts)
        if judged:
            figures["pairs"] = len(judged)
            figures["spearman"] = correlate(load_encoder(encoder, "last", **reading), judged)
        give(figures, json, lambda: print_figures(figures), indent=1)

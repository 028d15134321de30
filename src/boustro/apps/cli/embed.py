"""`boustro embed` and `boustro similarity`.

torch is imported when a command runs, so that its help does not wait for it.
"""

import io
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from boustro.errors import count_of
from boustro.names import SHIPPED_TABLE
from boustro.options import Count, OptionError, Positional, command_line
from boustro.output import DEFAULT_RUN, RunOptions, check_output, give, keep_file, only_errors, print_notices
from boustro.store import write_file
from boustro.tasks import kept_columns
from boustro.tasks.config import VectorOptions
from boustro.text.places import LM, Model, TextPath
from boustro.types import Note

if TYPE_CHECKING:
    from boustro.tasks.embed.task import SentenceEncoder

DEFAULT_VECTORS = VectorOptions()
FIT_TEXTS = 50_000  # means over them are what is learned, and all of them are in memory


def embed(
    file: Positional[TextPath],
    out: Path,
    encoder: LM = SHIPPED_TABLE,
    model: Model | None = None,
    fit: TextPath | None = None,
    text_column: str | None = None,
    normalize: bool = False,
    overwrite: bool = False,
    embedding: VectorOptions = DEFAULT_VECTORS,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Write one vector per text: an array (texts, width), float32, rows in the order of the texts.

    Args:
        file: Texts, one a line, or JSON lines or a table (.csv, .tsv, .xlsx, .parquet) with a text each; - is standard
            input.
        out: The array to write (.npy).
        encoder: Spec of the encoder, such as starter-words, starter or gpt2; with --model, where it is now.
        model: A folder that boustro fit --task embed wrote; it has its own encoder and options.
        fit: Texts to take statistics of. By default those of the file itself.
        text_column: Key or column of the text. By default text or sentence.
        normalize: Divide each vector by its length.
        overwrite: Replace an existing file at --out.
    """
    import numpy as np

    with only_errors(run.quiet):
        if out.suffix not in ("", ".npy"):
            raise OptionError(f"--out {out}: what is written is an array of numpy; end the name in .npy")
        keep_file(out, overwrite)
        texts, made = _open(file, text_column, encoder, model, fit, embedding, run)
        vectors = made.encode(texts, normalize_embeddings=normalize)
        content = io.BytesIO()
        np.save(content, vectors)
        write_file(out, content.getvalue())
        print_notices(made.notices())
        print(f"{out}: {count_of(vectors.shape[0], 'vectors')} of width {vectors.shape[1]:,}", file=sys.stderr)
        if str(file) == "-":
            return
        how = {"encoder": encoder if encoder != SHIPPED_TABLE else None, "model": model, "text_column": text_column}
        print(f"next: {command_line('similarity', file, query='TEXT', **how)}", file=sys.stderr)


def similarity(
    corpus: Positional[TextPath],
    query: str,
    top: Count = 10,
    json: Path | None = None,
    encoder: LM = SHIPPED_TABLE,
    model: Model | None = None,
    fit: TextPath | None = None,
    text_column: str | None = None,
    embedding: VectorOptions = DEFAULT_VECTORS,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Find the texts of a corpus that are most like a query, by the cosine of their vectors.

    Args:
        corpus: Texts, one a line, or JSON lines or a table (.csv, .tsv, .xlsx, .parquet) with a text each.
        query: A text; - reads queries from standard input, one a line.
        top: Texts to show for each query.
        json: Write the results to this file (- for standard output).
        encoder: Spec of the encoder; with --model, where it is now.
        model: A folder that boustro fit --task embed wrote; it has its own encoder and options.
        fit: Texts to take statistics of. By default those of the corpus itself.
        text_column: Key or column of the text. By default text or sentence.
    """
    if query == "-" and str(corpus) == "-":
        raise OptionError("standard input cannot be both the corpus and the queries; name a file of texts")
    from boustro.tasks.embed.data import read_texts_in_order

    with only_errors(run.quiet):
        check_output(json)
        texts, made = _open(corpus, text_column, encoder, model, fit, embedding, run)
        from boustro.tasks.embed.task import nearest_texts

        queries = list(read_texts_in_order(query)) if query == "-" else [query]
        results = nearest_texts(made, texts, queries, top)
        print_notices(made.notices())
        give([result.to_dict() for result in results], json, lambda: print("\n\n".join(map(str, results))), indent=1)


def _open(
    file: Path,
    column: str | None,
    encoder: str,
    model: Path | None,
    fit: Path | None,
    options: VectorOptions,
    run: RunOptions,
) -> "tuple[list[str], SentenceEncoder]":
    """Return the texts of a file, and what embeds them: a folder, or statistics of `fit` or of the texts themselves."""
    from itertools import islice

    from boustro.tasks.embed.data import read_texts_in_order

    if model is not None and (options != DEFAULT_VECTORS or fit is not None):
        raise OptionError("a --model has its own options and statistics; remove the others, or --model")
    notes: list[Note] = []
    kept = kept_columns(model).get("text_column", ()) if model else ()
    if not (texts := list(read_texts_in_order(file, column, notes, kept))):  # said before torch is imported
        raise ValueError(f"{file}: there is no text in this file")
    print_notices(Counter(note.what for note in notes))
    from boustro.encoders.spec import Spec
    from boustro.tasks.embed.task import SentenceEncoder

    if model is not None:
        moved = None if encoder == SHIPPED_TABLE else encoder
        opened = SentenceEncoder.from_pretrained(model, encoder=moved, cache=False, device=run.device)
        return texts, opened
    options = options.for_vectors(Spec.parse(encoder).gives_vectors)
    made = SentenceEncoder(encoder, "statistics", cache=False, device=run.device, **vars(options))
    if options.needs_texts:
        made.fit(texts if fit is None else islice(read_texts_in_order(fit, column, notes), FIT_TEXTS))
    return texts, made

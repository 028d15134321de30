"""`boustro embed`, `boustro similarity` and `boustro embed-fit`.

torch is imported when a command runs, so that its help does not wait for it.
"""

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from boustro.embeddings.options import EmbedData, EmbedOptions, EmbedTraining
from boustro.options import Count, OptionError, Seed, check_options
from boustro.output import DEFAULT_RUN, RunOptions, check_output, give, only_errors, print_notices
from boustro.store import check_file, claim, write_file

if TYPE_CHECKING:
    from boustro.embeddings.encoder import SentenceEncoder

DEFAULT_OPTIONS = EmbedOptions()
BATCH_TEXTS = 1024
FIT_TEXTS = 50_000
MAGIC = b"\x93NUMPY"
"""How every .npy file begins."""


def embed(
    file: Positional[Path],
    out: Path,
    encoder: str = "starter",
    model: Path | None = None,
    fit: Path | None = None,
    normalize: bool = False,
    embedding: EmbedOptions = DEFAULT_OPTIONS,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Write one vector per text: an array (texts, width), float32, rows in the order of the texts.

    Args:
        file: Texts, one a line, or JSON lines with a text each; - is standard input.
        out: The array to write (.npy).
        encoder: Spec of the encoder, such as starter, gpt2 or gpt2+./backward; with --model, where it is now.
        model: A folder that boustro embed-fit wrote; it has its own encoder and options.
        fit: Texts to take statistics of. By default those of the file itself.
        normalize: Divide each vector by its length.
    """
    import numpy as np

    with only_errors(run.quiet):
        check_file(out)
        _refuse_other_file(out)
        texts, made = _open(file, encoder, model, fit, embedding, run)
        vectors = made.encode(texts, batch_size=BATCH_TEXTS, normalize_embeddings=normalize)
        content = io.BytesIO()
        np.save(content, vectors)
        write_file(out, content.getvalue())
        print_notices(made.counts)
        print(f"{out}: {vectors.shape[0]:,} vectors of width {vectors.shape[1]:,}", file=sys.stderr)


def _refuse_other_file(out: Path) -> None:
    """`FileExistsError` for a file that is no array, which `embed` did not write."""
    if out.is_file():
        with out.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise FileExistsError(f"{out} exists and is no array of vectors, so it is kept; choose another name")


def similarity(
    corpus: Positional[Path],
    query: str,
    top: Count = 10,
    json: Path | None = None,
    encoder: str = "starter",
    model: Path | None = None,
    fit: Path | None = None,
    embedding: EmbedOptions = DEFAULT_OPTIONS,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Find the texts of a corpus that are most like a query, by the cosine of their vectors.

    Args:
        corpus: Texts, one a line, or JSON lines with a text each.
        query: A text; - reads queries from standard input, one a line.
        top: Texts to show for each query.
        json: Write the results to this file (- for standard output).
        encoder: Spec of the encoder; with --model, where it is now.
        model: A folder that boustro embed-fit wrote; it has its own encoder and options.
        fit: Texts to take statistics of. By default those of the corpus itself.
    """
    if query == "-" and str(corpus) == "-":
        raise OptionError("standard input cannot be both the corpus and the queries; name a file of texts")
    from boustro.embeddings.data import read_rows
    from boustro.embeddings.search import nearest_texts

    with only_errors(run.quiet):
        check_output(json)
        texts, made = _open(corpus, encoder, model, fit, embedding, run)
        queries = list(read_rows(query)) if query == "-" else [query]
        found = nearest_texts(made, texts, queries, top)
        print_notices(made.counts)
        give([result.to_dict() for result in found], json, lambda: print("\n\n".join(map(str, found))), indent=1)


def embed_fit(
    out: Path,
    data: EmbedData = EmbedData(),  # noqa: B008 (frozen)
    encoder: str = "starter",
    seed: Seed = 1,
    embedding: EmbedOptions = DEFAULT_OPTIONS,
    training: EmbedTraining = EmbedTraining(),  # noqa: B008 (frozen)
    json: Path | None = None,
    overwrite: bool = False,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Make a folder of sentence embeddings: statistics of texts, or a head trained over the frozen encoder.

    Args:
        out: Folder to write.
        encoder: Spec of the encoder.
        seed: Random seed of the head's weights, the order of examples and dropout.
        json: Write the correlations on the development set to this file (- for standard output).
        overwrite: Replace an existing folder of sentence embeddings at --out.
    """
    check_options(embed_fit, locals())
    if data.texts is None and data.pairs is None:
        raise OptionError("nothing to learn from; give --texts, --pairs or both")
    if data.neighbours and data.texts is None:
        raise OptionError("--neighbours needs raw texts; give --texts")
    from itertools import islice

    from boustro.embeddings.data import read_rows
    from boustro.embeddings.encoder import SentenceEncoder
    from boustro.embeddings.folder import KIND
    from boustro.embeddings.training import score_pairs
    from boustro.encoders.spec import check_spec

    with only_errors(run.quiet):
        check_output(json)
        check_spec(encoder)
        with claim(out, KIND, overwrite):
            model = SentenceEncoder(encoder, device=run.device, **vars(embedding))
            options = {**vars(training), "cache": run.cache}
            if data.neighbours and data.texts:
                model.fit_neighbours(read_rows(data.texts), seed, most=data.most, **options)
            elif data.texts:
                model.fit(islice(read_rows(data.texts), data.most))
            if data.pairs:
                model.fit_pairs(data.pairs, data.dev, seed, **options)
            model.save_pretrained(out)
        print_notices(model.counts)
        if data.dev:
            scores = score_pairs(model, data.dev)
            give(scores, json, lambda: print("  ".join(f"{name} {x:.2f}" for name, x in scores.items())), indent=1)


def _open(
    file: Path, encoder: str, model: Path | None, fit: Path | None, options: EmbedOptions, run: RunOptions
) -> "tuple[list[str], SentenceEncoder]":
    """The texts of a file, and what embeds them: a folder, or statistics of `fit` or of the texts themselves."""
    from itertools import islice

    from boustro.embeddings.data import read_rows
    from boustro.embeddings.encoder import SentenceEncoder

    if model is not None:
        if options != DEFAULT_OPTIONS or fit is not None:
            raise OptionError("a --model has its own options and statistics; leave out the others, or --model")
        moved = None if encoder == "starter" else encoder
        opened = SentenceEncoder.from_pretrained(model, encoder=moved, device=run.device)
        return list(read_rows(file)), opened
    made = SentenceEncoder(encoder, device=run.device, **vars(options))
    texts = list(read_rows(file))
    if made.options.needs_texts:
        made.fit(texts if fit is None else islice(read_rows(fit), FIT_TEXTS))
    return texts, made

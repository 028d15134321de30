"""A spaCy pipeline component: a tagger's entities as `doc.ents`, on spaCy's own tokens.

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("boustro", config={"tagger": "ner"})   # a tagger folder, or a tagger's name on the hub
    nlp("Ada Brandt flew to Port Lisse.").ents

Sentences are spaCy's where the pipeline has found them, else a document is one sentence. Tokens of white space are no
words, and no entity begins or ends with one. Entities that were there before are replaced. The component stores no
weights: a saved pipeline keeps its settings, and opens the tagger again.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

try:
    from spacy.language import Language
    from spacy.tokens import Doc, Span
except ImportError as error:
    raise ImportError("the spaCy component needs spaCy; install it with: pip install 'boustro[spacy]'") from error

from boustro.metrics.spans import extract_spans
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence


@Language.factory(
    "boustro",
    default_config={"encoder": None, "device": None},
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
)
def make_component(nlp: Language, name: str, tagger: str, encoder: str | None, device: str | None) -> "TaggerComponent":
    """The factory that `nlp.add_pipe("boustro", config={"tagger": ...})` calls.

    Args:
        tagger: A tagger folder, or a tagger's name on the hub.
        encoder: Where the tagger's LMs are now, should they have moved.
        device: By default the best at hand.
    """
    return TaggerComponent(Tagger.from_pretrained(tagger, encoder=encoder, device=device))


class TaggerComponent:
    """Sets the entities of documents; those of a batch are read together."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """The same documents in the same order, `batch_size` at a time."""
        remaining = iter(stream)
        while docs := list(islice(remaining, batch_size)):
            read = [
                (i, *read_sentence(part, f"document {i}")) for i, doc in enumerate(docs) for part in sentences_of(doc)
            ]
            entities: list[list[Span]] = [[] for _ in docs]
            tagged = self.tagger.tag([sentence for _, sentence, _ in read])
            for tags, (i, _, tokens) in zip(tagged, read, strict=True):
                for e in extract_spans(tags):
                    entities[i].append(Span(docs[i], tokens[e.start].i, tokens[e.end - 1].i + 1, label=e.label))
            for doc, spans in zip(docs, entities, strict=True):
                doc.set_ents(spans)
                yield doc


def sentences_of(doc: Doc) -> list[Span]:
    """spaCy's sentences where it knows them, else the whole document."""
    return list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]


def read_sentence(part: Span, document: str) -> tuple[Sentence, list]:
    """The words of a part of a document, the space before each known, and the token that each word is."""
    tokens = [token for token in part if not token.is_space]
    spaces = tuple(t.i == 0 or bool(t.nbor(-1).whitespace_) or t.nbor(-1).is_space for t in tokens)
    return Sentence(tuple(t.text for t in tokens), spaces=spaces, document=document), tokens

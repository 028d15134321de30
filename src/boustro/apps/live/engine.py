"""From words as they come to entities that are final, and to those that stand now; characters are not known here.

    engine = Engine(fitted, delay=8)
    engine.push([Word(…), Word(…), None])    the entities, over numbers of words, that have become final
    engine.end()                             the rest
    engine.pending(), engine.hold            those that stand now; the first word that may be part of one later

A word's right side is read from the end of the text as it stands, so every new word gives a row (`encoders.arriving`),
in which the first word becomes final; many rows are read at once. Of words that are final nothing is read again. Where
the vectors of a word never change (a forward LM alone, or given states), a row is the new word alone.

A word is final when `delay` words stand behind it (of its sentence, if sentences are read alone, or else of the text),
or when nothing can follow. An entity is final when its words are, and the word behind it, which could continue it.
`hold` never goes back, and no entity that is found later begins before it. A `Decoder` says what the head says of a
sentence that goes on, and what it will not take back; a `Track` keeps what of the sentence is final.

    delay 2, Ada Brandt left Vellmar   Ada and Brandt are final, left is not: Ada Brandt may be longer, hold is Ada
    … left Vellmar in                  left is final: Ada Brandt is final, hold is Vellmar

W words, C tags, d width.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.arriving import RowVectors, States, Word, WordBuffer, WordRange
from boustro.heads.bodies import PerWord
from boustro.heads.crf import LOWEST, Chain, best_path, log_sum_exp, make_chain, posteriors, softmax, valid_transitions
from boustro.heads.inputs import TO_THE_END, encode_distances
from boustro.heads.tagging import TaggingHead
from boustro.types import Entity, Sentence

ROW_BLOCK_WORDS = 512
"""Words of the rows that are read at once; one row at least."""
SENTENCE_WORDS = 512
"""Words of a sentence that are kept: a longer one is read by its head in what is left of it. No final part of an entity
is longer."""


class StreamEntity(NamedTuple):
    """An entity over the words of the stream, `[start, stop)`."""

    label: str
    start: int
    stop: int
    score: float


class Decoder(ABC):
    """Entities of one sentence. Words are numbered from the first that the sentence still has; `drop` changes that."""

    def __init__(self, head: Any, labelling: Any) -> None:
        self.head, self._labelling = head, labelling

    @abstractmethod
    def update(self, words: Sequence[str], vectors: Tensor, final: int, complete: bool) -> list[Entity]:
        """Return the entities of the words, given their vectors (W, d).

        The words before `final` were final before or become it now; `complete` says whether the sentence has an end.
        """

    @abstractmethod
    def drop(self, count: int) -> None:
        """The first words are no longer given."""

    def _read(self, output: Any, words: Sequence[str], final: int, complete: bool) -> list[Entity]:
        likely = getattr(self.head, "words", None)
        if likely is not None and likely.names and not (complete and final >= len(words)):
            # a number stays while a word that is not final may still make it part of a name, or it would be released
            own, of_names = output[2], output[3].copy()
            outside = self.head.labels.index("O")
            while final > 0 and own[final - 1] != outside:
                final -= 1
            of_names[final:] = False
            output = (*output[:3], of_names)
        return list(self._labelling.read(output, Sentence(tuple(words))).entities)


class AnyDecoder(Decoder):
    """Of every other head, which reads the whole sentence so far; the `Track` keeps what is final."""

    def update(self, words: Sequence[str], vectors: Tensor, final: int, complete: bool) -> list[Entity]:
        (output,) = self.head.predict(vectors, torch.tensor([len(vectors)]))
        return self._read(output, words, final, complete)

    def drop(self, count: int) -> None:
        return None


class LaggedTagDecoder(Decoder):
    """Of a head that scores tags and takes the best sequence: fixed lag over the CRF.

    The tag of a word that becomes final is that of the best path at that moment, which begins with the tags that are
    final already. A path needs no end before the sentence has one.

        delay 1     Ada [Brandt]             Ada is final: B-PER on the best path of two words
                    Ada Brandt [left]        Brandt is final: the best path that begins with B-PER
    """

    head: TaggingHead

    def __init__(self, head: TaggingHead, labelling: Any, steady: bool) -> None:
        super().__init__(head, labelling)
        self._per_word = isinstance(head.body, PerWord)
        self._steady = steady and self._per_word
        self._scored: np.ndarray | None = None
        """The scores of the words that are not final, where they stay as they are."""
        self._output: list[list[Any]] = []
        """Of the final words the tags, their probabilities, and what a head with likely words has beside them."""
        self._last: int | None = None
        self._reached: np.ndarray | None = None
        """Log of the sum over all paths to each tag of the last final word, at the head's temperature."""
        self._chain, self._soft = _chains(head)

    def update(self, words: Sequence[str], vectors: Tensor, final: int, complete: bool) -> list[Entity]:
        done = len(self._output[0]) if self._output else 0
        output = self._output
        if done < len(vectors):
            scores = self._scores(vectors, done)
            if self._steady:
                self._scored = scores[max(final - done, 0) :]
            found = self._decode(scores, final - done, complete)
            output = [[*old, *new] for old, new in zip(self._output or [[] for _ in found], found, strict=True)]
            self._output = [given[: max(final, done)] for given in output]
        arrays = (
            np.array(given, kind) for given, kind in zip(output, (np.int64, np.float32, np.int64, bool), strict=False)
        )
        return self._read(tuple(arrays), words, final, complete)

    def drop(self, count: int) -> None:
        for given in self._output:
            del given[:count]

    def _scores(self, vectors: Tensor, done: int) -> np.ndarray:
        if not self._per_word:
            return _as_array(self.head.scores(vectors, torch.tensor([len(vectors)]))[done:])
        known = self._scored
        new = vectors[done:] if known is None else vectors[done + len(known) :]
        if known is not None and not len(new):
            return known
        scores = _as_array(self.head.scores(new, torch.tensor([len(new)])))
        return scores if known is None else np.concatenate([known, scores])

    def _decode(self, scores: np.ndarray, final: int, complete: bool) -> list[list[Any]]:
        """Return the best path of the words that were not final before, the probability of each tag, and what a head
        with likely words has beside them; `final` are so now."""
        lengths, soft = np.array([len(scores)]), scores / self.head.temperature
        chain, soft_chain = self._chain, self._soft
        if not complete:
            chain, soft_chain = (c._replace(ends=np.zeros_like(c.ends)) for c in (chain, soft_chain))
        if self._last is not None:
            chain = chain._replace(starts=self._chain.transitions[self._last])

        def best(scores: np.ndarray) -> np.ndarray:
            if self.head.crf is None and self.head.options.decode == "argmax":
                return scores.argmax(-1)
            return best_path(np.maximum(scores, LOWEST) if self.head.crf is None else scores, lengths, chain)

        ids = own = best(scores)
        if self.head.crf is None:
            probabilities = softmax(soft)
        else:
            if self._reached is not None:
                soft_chain = soft_chain._replace(starts=self._through(self._reached))
            probabilities = posteriors(soft, lengths, soft_chain)
            starts = soft_chain.starts
            for row in soft[: max(final, 0)]:
                self._reached = reached = starts + row
                starts = self._through(reached)
        if (allowed := self.head.decoder.allowed(probabilities, ids)) is not None:
            ids = best(np.where(allowed, scores, LOWEST))
        if final > 0:
            self._last = int(ids[min(final, len(ids)) - 1])
        chosen = np.take_along_axis(probabilities, ids[:, None], 1)[:, 0]
        beside = self.head.words.beside(own, ids, self.head.labels) if self.head.words else ()
        return [given.tolist() for given in (ids, chosen, *beside)]

    def _through(self, reached: np.ndarray) -> np.ndarray:
        """Log of the sum over all paths to each tag of the next word, without its own score."""
        return log_sum_exp(reached + self._soft.transitions.T)


def _as_array(scores: Tensor) -> np.ndarray:
    return scores.float().cpu().numpy().astype(np.float64)


def _chains(head: TaggingHead) -> tuple[Chain, Chain]:
    """Return the transitions of a head, and the same at its temperature."""
    if (chain := head.decoder.chain) is None:
        valid = valid_transitions(head.labels)
        none = make_chain(valid, *(np.zeros(allowed.shape) for allowed in valid))
        return none, none
    return chain, chain.over(head.temperature)


class Track:
    """One sentence that has words whose answer may still change; words are numbered in the stream.

    An entity of more than `SENTENCE_WORDS` words is final in parts, so that memory and `hold` have a bound.
    """

    def __init__(self, first: int, decoder: Decoder, nested: bool) -> None:
        self.first = first  # of the words that are kept
        self.final = self.hold = first
        self.complete = False
        self.words: list[str] = []
        self.vectors: list[Tensor] = []
        self.pending: list[StreamEntity] = []
        self._decoder, self._nested = decoder, nested
        self._done: list[StreamEntity] = []

    @property
    def stop(self) -> int:
        """The number behind the last word."""
        return self.first + len(self.vectors)

    @property
    def is_done(self) -> bool:
        """Whether nothing can change any more."""
        return self.complete and self.final == self.stop

    def give(self, first: int, words: Sequence[str], vectors: Tensor) -> None:
        """Words and their vectors (W, d), the last ones of the sentence so far; those of final words stay."""
        for number, (word, vector) in enumerate(zip(words, vectors, strict=True), first):
            if number >= self.stop:
                self.words.append(word)
                self.vectors.append(vector)
            elif number >= self.final:
                self.vectors[number - self.first] = vector

    def update(self, final: int) -> list[StreamEntity]:
        """Answer again; the words before `final` are final now. Returns the entities that have become final."""
        self.final = max(self.final, min(final, self.stop))
        if not self.vectors:  # all was cut off
            return []
        given = self.words, torch.stack(self.vectors)
        entities = self._decoder.update(*given, self.final - self.first, self.complete)
        spans = [StreamEntity(e.label, self.first + e.start, self.first + e.end, e.score or 0.0) for e in entities]
        # of one that was joined to words which are final by now the rest is left
        spans = [f._replace(start=max(f.start, self.hold)) for f in spans if f.stop > self.hold]
        spans = [f for f in spans if not self._in_the_way(f)]
        done = [f for f in spans if f.stop < self.final or self.is_done]
        self.pending = [f for f in spans if f not in done]
        self._done = [f for f in [*self._done, *done] if f.stop > self.hold]
        self.hold = min([self.final, *(f.start for f in self.pending)]) if not self.is_done else self.stop
        if self.final - self.hold >= SENTENCE_WORDS:
            done += self._cut()
        self._forget(SENTENCE_WORDS)
        return done

    def _cut(self) -> list[StreamEntity]:
        """Return the final words of the entities that go on; what is behind them will be read as entities of its
        own."""
        parts = [f._replace(stop=self.final) for f in self.pending if f.start < self.final]
        self.pending = [f._replace(start=max(f.start, self.final)) for f in self.pending if f.stop > self.final]
        self.hold = self.final
        self._forget(0)
        return parts

    def _in_the_way(self, span: StreamEntity) -> bool:
        """Return whether it is final already, or shares words with what is."""
        for other in self._done:
            if span.start < other.stop and other.start < span.stop:
                inside = other.start <= span.start and span.stop <= other.stop
                around = span.start <= other.start and other.stop <= span.stop
                same = (span.start, span.stop) == (other.start, other.stop)
                if same or not (self._nested and (inside or around)):
                    return True
        return False

    def _forget(self, kept: int) -> None:
        """Drop words that no later entity can have, as far as more than `kept` are there."""
        count = min(len(self.vectors) - kept, self.hold - self.first)
        if count > 0:
            del self.vectors[:count], self.words[:count]
            self.first += count
            self._decoder.drop(count)


class Engine:
    """`fitted` is what training gave (`tasks.plan.Fitted`); `states` stand in the place of the first LM's own."""

    def __init__(self, fitted: Any, delay: int, states: States | None = None) -> None:
        self.delay = delay
        self.head, self.labelling, reader = fitted.head, fitted.labelling, fitted.plan.reader
        self.head.eval()
        self._by_sentence = reader.reading.context == "sentence"
        self.words = WordBuffer()
        self.vectors = RowVectors(reader.encoder(), self.words, self._by_sentence, states)
        self._tracks: list[Track] = []
        self._tells_distance = self.head.side > 0
        self._steady = self.vectors.never_change and not self._tells_distance
        self._device = next(self.head.parameters()).device

    @property
    def hold(self) -> int:
        """The first word that may be part of an entity that is not final."""
        return min((track.hold for track in self._tracks), default=self.words.stop)

    def pending(self) -> list[StreamEntity]:
        """Entities that stand now."""
        return [span for track in self._tracks for span in track.pending]

    @torch.inference_mode()
    def push(self, items: Iterable[Word | None]) -> list[StreamEntity]:
        """Entities that become final by the next words, and ends of sentences (`None`)."""
        done: list[StreamEntity] = []
        some: list[Word | None] = []
        block = max(1, ROW_BLOCK_WORDS // (self.delay + 1))
        for item in items:
            some.append(item)
            if len(some) >= 2 * block:
                done += self._push(some)
                some = []
        return done + self._push(some)

    @torch.inference_mode()
    def end(self) -> list[StreamEntity]:
        """Entities that become final because nothing follows."""
        done = []
        for track in self._tracks:
            track.complete = True
            done += self._finish(track)
        self._tracks.clear()
        return done

    def _push(self, items: Sequence[Word | None]) -> list[StreamEntity]:
        new = [word for word in items if word is not None]
        first = self.words.stop
        for word in new:
            self.words.append(word)
        rows = [self._row(number) for number in range(first, first + len(new))]
        parts: list[Tensor] = []
        if new:
            self.vectors.append(first)
            parts = list(self._mix(rows).split([len(row) for row in rows]))
        done: list[StreamEntity] = []
        waiting = zip(rows, parts, strict=True)
        last = len(new)
        for item in items:
            if item is None:
                done += self._close()
            else:
                row, vectors = next(waiting)
                last -= 1
                done += self._step(row, vectors, answer=last == 0)
        return done

    def _row(self, number: int) -> WordRange:
        if self._steady:
            return WordRange(number, number + 1, fixes=True)
        first = max(number - self.delay, self.words.base, 0)
        if self._by_sentence:
            while self.words.sentence(first) != self.words.sentence(number):
                first += 1
        return WordRange(first, number + 1, number - first == self.delay)

    def _mix(self, rows: Sequence[WordRange]) -> Tensor:
        """Return (W, d + F): the input of the head for the words of rows, end to end."""
        streams = self.vectors.read(rows)
        mixed = self.head.mix([torch.from_numpy(stream).to(self._device) for stream in streams])
        mixed = mixed.half().float()  # as `heads.training.mix_all` keeps them
        if not self._tells_distance:
            return mixed
        behind = [row.stop - 1 - n for row in rows for n in range(row.first, row.stop)]
        return torch.cat([mixed, torch.from_numpy(encode_distances(behind)).to(self._device)], dim=1)

    def _step(self, row: WordRange, vectors: Tensor, answer: bool) -> list[StreamEntity]:
        """Read a row, whose last word has come. With `answer` tell what stands now too, not only what is final."""
        number = row.stop - 1
        if self.words[number].begins or not self._tracks:
            if isinstance(self.head, TaggingHead) and self.head.options.threshold is None:
                decoder: Decoder = LaggedTagDecoder(self.head, self.labelling, self._steady)
            else:
                decoder = AnyDecoder(self.head, self.labelling)
            self._tracks.append(Track(number, decoder, self.labelling.nested))
        final, done = number - self.delay + 1, []
        for track in self._tracks:
            first, stop = max(track.first, row.first), min(row.stop, track.stop + (track is self._tracks[-1]))
            if stop > first:
                words = [self.words[number].text for number in range(first, stop)]
                track.give(first, words, vectors[first - row.first : stop - row.first])
            if answer or track.final < min(final, track.stop):
                done += track.update(final)
        self._tracks = [track for track in self._tracks if not track.is_done]
        return done

    def _close(self) -> list[StreamEntity]:
        """The sentence has ended; where sentences are read alone, nothing can change it any more."""
        if not self._tracks or self._tracks[-1].complete:
            return []
        track = self._tracks[-1]
        track.complete = True
        done = self._finish(track) if self._by_sentence or not self.delay else []
        self._tracks = [track for track in self._tracks if not track.is_done]
        return done

    def _finish(self, track: Track) -> list[StreamEntity]:
        """All words of a sentence are final, with the vectors that they have."""
        if self._tells_distance:
            known = torch.from_numpy(encode_distances([TO_THE_END])).to(self._device)[0]
            for number in range(track.final, track.stop):
                vector = track.vectors[number - track.first]
                track.vectors[number - track.first] = torch.cat([vector[: -self.head.side], known])
        return track.update(track.stop)

    def forget(self) -> None:
        """Drop what no later row needs."""
        oldest = min([self.words.stop - self.delay, *(track.first for track in self._tracks)])
        before = oldest - self.vectors.keeps
        if before - self.words.base > 64:  # in bulk: a deletion for every word would copy the lists every time
            self.words.drop(before)
            self.vectors.drop(before)

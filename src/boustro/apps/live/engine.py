"""From words as they come to entities that are final, and to those that stand now; characters are not known here.

    engine = Engine(fitted, delay=8)
    engine.push([Word(…), Word(…), None])    the entities, over numbers of words, that have become final
    engine.end()                             the rest
    engine.pending(), engine.hold            those that stand now; the first word that may be part of one later

A word's right side is read from the end of the text as it stands, so every new word gives one row (`live.rows`), in
which the first word becomes final; many rows are read at once. Of words that are final nothing is read again. Where the
vectors of a word never change (a forward LM alone, or given states), a row is the new word alone.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from boustro.apps.live.decoding import make_decoder
from boustro.apps.live.segment import Word
from boustro.apps.live.tracks import Found, Track
from boustro.encoders.arriving import Row, States, Vectors, Words
from boustro.heads.sides import ALL, encode_distances

BLOCK_WORDS = 512
"""Words of the rows that are read at once; one row at least."""


class Engine:
    """`fitted` is what training gave (`tasks.plan.Fitted`); `states` stand in the place of the first LM's own."""

    def __init__(self, fitted: Any, delay: int, states: States | None = None) -> None:
        self.delay = delay
        self.head, self.labelling, reader = fitted.head, fitted.labelling, fitted.plan.reader
        self.head.eval()
        self._by_sentence = reader.reading.context == "sentence"
        self.words = Words()
        self.vectors = Vectors(reader.encoder(), self.words, self._by_sentence, states)
        self._tracks: list[Track] = []
        self._tells_distance = self.head.side > 0
        self._steady = self.vectors.never_change and not self._tells_distance
        self._device = next(self.head.parameters()).device

    @property
    def hold(self) -> int:
        """The first word that may be part of an entity that is not final."""
        return min((track.hold for track in self._tracks), default=self.words.stop)

    def pending(self) -> list[Found]:
        """Entities that stand now."""
        return [found for track in self._tracks for found in track.pending]

    @torch.inference_mode()
    def push(self, items: Iterable[Word | None]) -> list[Found]:
        """Entities that become final by the next words, and ends of sentences (`None`)."""
        done: list[Found] = []
        some: list[Word | None] = []
        block = max(1, BLOCK_WORDS // (self.delay + 1))
        for item in items:
            some.append(item)
            if len(some) >= 2 * block:
                done += self._push(some)
                some = []
        return done + self._push(some)

    @torch.inference_mode()
    def end(self) -> list[Found]:
        """Entities that become final because nothing follows."""
        done = []
        for track in self._tracks:
            track.complete = True
            done += self._finish(track)
        self._tracks.clear()
        return done

    def _push(self, items: Sequence[Word | None]) -> list[Found]:
        new = [word for word in items if word is not None]
        first = self.words.stop
        for word in new:
            self.words.append(word)
        rows = [self._row(number) for number in range(first, first + len(new))]
        parts: list[Tensor] = []
        if new:
            self.vectors.append(first)
            parts = list(self._mix(rows).split([len(row) for row in rows]))
        done: list[Found] = []
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

    def _row(self, number: int) -> Row:
        if self._steady:
            return Row(number, number + 1, fixes=True)
        first = max(number - self.delay, self.words.base, 0)
        if self._by_sentence:
            while self.words.sentence(first) != self.words.sentence(number):
                first += 1
        return Row(first, number + 1, number - first == self.delay)

    def _mix(self, rows: Sequence[Row]) -> Tensor:
        """(W, d + F): the input of the head for the words of rows, end to end."""
        streams = self.vectors.read(rows)
        mixed = self.head.mix([torch.from_numpy(stream).to(self._device) for stream in streams])
        mixed = mixed.half().float()  # as `heads.training.mix_all` keeps them
        if not self._tells_distance:
            return mixed
        behind = [row.stop - 1 - n for row in rows for n in range(row.first, row.stop)]
        return torch.cat([mixed, torch.from_numpy(encode_distances(behind)).to(self._device)], dim=1)

    def _step(self, row: Row, vectors: Tensor, answer: bool) -> list[Found]:
        """The last word of the row has come. With `answer` what stands now is answered too, not only what is final."""
        number = row.stop - 1
        if self.words[number].begins or not self._tracks:
            self._tracks.append(
                Track(number, make_decoder(self.head, self.labelling, self._steady), self.labelling.nested)
            )
        final, done = number - self.delay + 1, []
        for track in self._tracks:
            first, stop = max(track.first, row.first), min(row.stop, track.stop + (track is self._tracks[-1]))
            if stop > first:
                track.give(first, vectors[first - row.first : stop - row.first])
            if answer or track.final < min(final, track.stop):
                done += track.update(final)
        self._tracks = [track for track in self._tracks if not track.is_done]
        return done

    def _close(self) -> list[Found]:
        """The sentence has ended; where sentences are read alone, nothing can change it any more."""
        if not self._tracks or self._tracks[-1].complete:
            return []
        track = self._tracks[-1]
        track.complete = True
        done = self._finish(track) if self._by_sentence or not self.delay else []
        self._tracks = [track for track in self._tracks if not track.is_done]
        return done

    def _finish(self, track: Track) -> list[Found]:
        """All words of a sentence are final, with the vectors that they have."""
        if self._tells_distance:
            known = torch.from_numpy(encode_distances([ALL])).to(self._device)[0]
            for number in range(track.final, track.stop):
                vector = track.vectors[number - track.first]
                track.vectors[number - track.first] = torch.cat([vector[: -self.head.side], known])
        return track.update(track.stop)

    def forget(self) -> None:
        """Drop what no later row needs."""
        oldest = min([self.words.stop - self.delay, *(track.first for track in self._tracks)])
        before = oldest - self.vectors.keeps
        if before - self.words.base > 64:
            self.words.drop(before)
            self.vectors.drop(before)

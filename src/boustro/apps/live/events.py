"""What a stream tells: entities that stand for now, changes of these, and entities that are final.

Ada           provisional PER "Ada"
Ada Brandt    revised     PER "Ada Brandt", in the place of PER "Ada"
… left        final       PER "Ada Brandt"
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from boustro.types import Entity

DELAY, MOST_DELAY = 8, 256
"""Words of right context before a tag is final, by default and at most."""
WAIT = 2
"""Words that follow an entity before it is told provisionally, by default."""
EVERY = 8
"""Pieces of an LM that writes that are read at once: reading several costs hardly more than reading one."""
Kind = Literal["provisional", "revised", "final"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something about the characters `[start, end)` of the whole text.

    Attributes:
        kind: provisional (shown for now), revised (something else in the place of `was`; with the label "" nothing), or
            final.
        label, start, end, text, score: Of the entity.
        was: The provisional entity that is gone: its label, start and end.
    """

    kind: Kind
    label: str
    start: int
    end: int
    text: str
    score: float
    was: tuple[str, int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name, without `was` where there is none, as JSON can hold them."""
        fields = asdict(self)
        if self.was is None:
            del fields["was"]
        return fields


class Standing:
    """The provisional entities that were told."""

    def __init__(self) -> None:
        self._told: list[Entity] = []

    @property
    def events(self) -> list[Event]:
        """Each as it was told."""
        return [_event("provisional", e) for e in self._told]

    def change(self, final: Iterable[Entity], now: Sequence[Entity]) -> list[Event]:
        """What is to be told where these entities have become final, and those stand now."""
        events = []
        for entity in sorted(final):
            was = self._take(entity)
            events.append(_event("final", entity, was))
        kept = {_key(e) for e in now} & {_key(e) for e in self._told}
        fresh = [e for e in sorted(now) if _key(e) not in kept]
        gone = [e for e in self._told if _key(e) not in kept]
        self._told = gone
        changed = [(e, self._take(e)) for e in fresh]
        for e in self._told:
            events.append(Event("revised", "", e.start, e.end, e.text, 0.0, _key(e)))
        events += [_event("revised" if was else "provisional", e, was) for e, was in changed]
        self._told = sorted(now)
        return events

    def _take(self, entity: Entity) -> tuple[str, int, int] | None:
        """The entity that was told in the place of this one and is not the same; it is told no longer."""
        same = [e for e in self._told if _key(e) == _key(entity)]
        over = [e for e in self._told if e.start < entity.end and entity.start < e.end]
        if not (chosen := same or over):
            return None
        self._told.remove(chosen[0])
        return None if same else _key(chosen[0])


def _key(entity: Entity) -> tuple[str, int, int]:
    return entity.label, entity.start, entity.end


def _event(kind: Kind, e: Entity, was: tuple[str, int, int] | None = None) -> Event:
    return Event(kind, e.label, e.start, e.end, e.text, round(e.score or 0.0, 4), was)

"""One request and its answer: their masks, and the names that the client may see again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from boustro.apps.live.masks import Restorer, restore
from boustro.apps.live.redactor import Redaction, Released, whole_characters
from boustro.apps.serve.guard.checker import Checker
from boustro.apps.serve.guard.fields import Kind, known_texts, read_request
from boustro.apps.serve.guard.options import GuardLimits, GuardOptions
from boustro.apps.serve.guard.reading import Reading, Slot, Unchecked, filled
from boustro.apps.serve.http import Refused

LOGPROBS = ("logprobs", "top_logprobs", "prompt_logprobs")


class Conversation:
    """Reads a request, then its answer.

    Nothing outlives it: the masks of a conversation come out the same in its next request, because that has the same
    texts in the same order (`live.masks`).
    """

    def __init__(self, checker: Checker, options: GuardOptions, limits: GuardLimits) -> None:
        self.checker, self.options, self.limits = checker, options, limits
        self.masks = checker.new_masks()
        self.names: Mapping[str, str] = {}
        """Put back in the answer."""
        self.num_choices = 1
        self.is_streamed = self.wants_json = False

    async def ask(self, kind: Kind, body: Any) -> Any:
        """The body for the upstream. Raises `Unchecked` and `Refused`."""
        self._look_at(body)
        if not self.options.checks_prompts:
            if self.checker.write == "mask":  # names of the prompt have masks in the answer too, the same every time
                await self._fill([Slot(whole_characters(text, last=True)[0], "") for text in known_texts(body)])
            return body
        reading = Reading(self.options.pass_fields)
        tree = read_request(kind, body, reading)
        await self._fill(reading.slots)
        self.names = dict(self.masks.names) if self.options.put_back else {}
        return filled(tree)

    def _look_at(self, body: Any) -> None:
        """What the answer depends on, whether or not the rest is checked."""
        if not isinstance(body, dict):
            raise Unchecked("", "is not an object")
        for name in LOGPROBS:
            if body.get(name):
                raise Unchecked(name, "would have the tokens of the text in the answer, past the tagger; leave it out")
        if "audio" in (body.get("modalities") or ()):
            raise Unchecked("modalities", "asks for sound, which cannot be checked")
        self.is_streamed = body.get("stream") or False
        if not isinstance(self.is_streamed, bool):
            raise Unchecked("stream", "is neither true nor false")
        prompts = body.get("prompt")
        several = 1
        if isinstance(prompts, list) and not all(isinstance(one, int) for one in prompts):
            several = len(prompts)
        number = 1 if body.get("n") is None else body["n"]
        if not isinstance(number, int) or not 1 <= number * several <= self.limits.choices:
            raise Unchecked("n", f"asks for no number of choices from 1 to {self.limits.choices}")
        self.num_choices = number * several
        form = body.get("response_format")
        self.wants_json = isinstance(form, dict) and str(form.get("type")).startswith("json")

    async def _fill(self, slots: Sequence[Slot]) -> None:
        size = sum(len(slot.text) for slot in slots)
        if size > self.limits.characters:
            message = f"the request has {size:,} characters of text; {self.limits.characters:,} are checked at most"
            raise Refused(413, "too_large", message)
        await self.checker.fill(slots, self.masks)

    def reading_answer(self) -> Reading:
        """For a part of the answer."""
        return Reading(self.options.drop_fields, keep=False, wants_json=self.wants_json)

    def fill_answer(self, slots: Iterable[Slot]) -> None:
        """Give slots of the answer their results; in the tagger's thread."""
        if self.options.checks_answers:
            self.checker.fill_now(list(slots), self.masks, self.names)
            return
        for slot in slots:
            text = restore(slot.text, self.names)
            slot.result = slot.number if slot.number is not None and text == slot.text else text

    def read_answer(self, kind: Kind, answer: Any) -> Any:
        """A whole answer for the client; in the tagger's thread. Raises `Unchecked`."""
        reading = self.reading_answer()
        tree = kind.answer(answer, reading, "")
        if not isinstance(tree, dict) or not isinstance(answer.get("choices"), list):
            raise Unchecked("", "is no answer: it has no choices")
        if len(answer["choices"]) > self.num_choices:
            raise Unchecked("choices", "are more than were asked for")
        self.fill_answer(reading.slots)
        return filled(tree) | self.told((slot.place, r) for slot in reading.slots for r in slot.redactions)

    def told(self, redactions: Iterable[tuple[str, Redaction]]) -> dict[str, Any]:
        """What a body says of what was left out, with `--with event`."""
        if self.options.with_ != "event":
            return {}
        return {
            "redactions": [{"place": place, "label": r.label, "at": r.at, "score": r.score} for place, r in redactions]
        }

    def channel(self) -> "Channel":
        """A text of a streamed answer; in the tagger's thread."""
        return Channel(self)


class Channel:
    """One text that arrives in chunks: redacted, and with names put back."""

    def __init__(self, conversation: Conversation) -> None:
        checker, names = conversation.checker, conversation.names
        self._redactor = checker.new_redactor(conversation.masks) if conversation.options.checks_answers else None
        self._restorer = Restorer(names) if names else None
        self._half = ""

    @property
    def held(self) -> int:
        """Characters that wait for the tagger."""
        return self._redactor.held if self._redactor else 0

    def feed(self, chunk: str, last: bool = False) -> Released:
        """What may be seen now."""
        if self._redactor:
            parts = [self._redactor.feed(chunk), *([self._redactor.end()] if last else [])]
            text, gone = "".join(part.text for part in parts), tuple(r for part in parts for r in part.redactions)
        else:
            text, self._half = whole_characters(self._half + chunk, last)
            gone = ()
        if self._restorer:
            text = self._restorer.feed(text) + (self._restorer.end() if last else "")
        return Released(text, gone)

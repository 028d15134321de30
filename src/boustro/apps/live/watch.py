"""A tagger over the LM that is writing: it reads the states that `model.generate` computes, and computes none again.

    with boustro.Watch(tagger, model, delay=8) as seen:
        model.generate(**prompt, max_new_tokens=200, streamer=streamer)
    seen[0].entities                    of the first text that was written; seen[0].prompt is what it goes on from

Hooks on the blocks that the tagger reads take their states, and a stopping criterion, which never stops, takes the
pieces. So the text is the same to the bit as without a tagger. The state of a piece is there one step after the piece,
so events are one piece behind the text; the very last piece of a text that is cut off is read after it, alone.

B sequences, P pieces, L layers that the tagger reads, D width of a state.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from boustro.apps.live.states import answer_vectors, text_begin, word_vectors
from boustro.apps.live.stream import DELAY, EVERY, Event, Live
from boustro.encoders.lm import LMEncoder
from boustro.encoders.loading import exact_revision, weights_fingerprint
from boustro.encoders.outside import PieceStates, forward_lm
from boustro.models.blocks import find_blocks
from boustro.types import Entity

CACHES = ("past_key_values", "cache")
"""What a body of transformers calls the cache among its arguments."""
STATIC = ("static", "offloaded_static", "sliding_window", "hybrid")
OnEvent = Callable[[int, Event], None]


class Seen:
    """One text that an LM has written.

    Attributes:
        prompt: The text that it goes on from.
        text: What is written so far, as far as it was read.
        events: What was told about it, in order; characters are those of `text`.
        entities: All of `text`, once it has ended.
        prompt_entities: Of the prompt, where that was asked for.
    """

    def __init__(self, tagger: Any, lm: LMEncoder, delay: int | None, every: int, prompt: str, before: Tensor) -> None:
        """`before` (L, D) is the state of the last piece of the prompt."""
        self.prompt, self.text = prompt, ""
        self.events: list[Event] = []
        self.entities: list[Entity] = []
        self.prompt_entities: list[Entity] = []
        self._tagger, self._states = tagger, PieceStates(lm, before)
        self._live = None if delay is None else Live(tagger, delay, states=self._states)
        self._every, self._waiting, self._new = every, "", 0

    @property
    def safe(self) -> int:
        """The text before this character will never be part of another entity."""
        return 0 if self._live is None else self._live.safe

    def add(self, piece: int, state: Tensor) -> list[Event]:
        """Return the next piece, with its state (L, D)."""
        return self._feed(self._states.add([piece], state[None]), last=False)

    def end(self) -> list[Event]:
        """No piece follows."""
        told = self._feed(self._states.end(), last=True)
        if self._live is None:
            vectors = word_vectors(self._tagger, self._states, self.text)
            self.entities = self._tagger.result(answer_vectors(self._tagger, self.text, vectors))
            return told
        more = self._live.end()
        self.events += more
        final = [event for event in self.events if event.kind == "final"]
        self.entities = [Entity(e.label, e.start, e.end, e.text, e.score) for e in final]
        return told + more

    def _feed(self, text: str, last: bool) -> list[Event]:
        self.text += text
        self._waiting += text
        self._new += 1
        if self._live is None or not self._waiting or not (last or self._new >= self._every):
            return []
        events = self._live.feed(self._waiting)
        self._waiting, self._new = "", 0
        self.events += events
        return events


class Watch:
    """`with` it, what `model.generate` writes is tagged, from the states that it computes; `[0]` is the first text."""

    def __init__(
        self,
        tagger: Any,
        model: Any,
        delay: int | None = DELAY,
        *,
        every: int = EVERY,
        prompt: bool = False,
        on_event: OnEvent | None = None,
    ) -> None:
        """Nothing is watched yet.

        Args:
            tagger: A trained `Tagger`.
            model: The causal LM of transformers that the tagger was trained on, with its head.
            delay: As for `Live`; with `None` nothing is told before the end of a text.
            every: How many pieces are read at once; events are as late.
            prompt: Tag the prompt too, which must then begin as `states.text_begin` says.
            on_event: Called with the number of the text and the event, while it is written.

        Raises `ValueError` for another model, for beams, assisted generation and static caches, and as `Live`.
        """
        if every < 1:
            raise ValueError(f"every is {every}: give a number of pieces, at least 1")
        self._tagger, self._model = tagger, model
        self._delay, self._every, self._prompt, self._on_event = delay, every, prompt, on_event
        self._lm = forward_lm(tagger.encoder())
        self._body = model.get_decoder() if hasattr(model, "get_decoder") else model
        refuse_other_model(self._lm, model)
        self.texts: list[Seen] = []
        self._hooks: list[Any] = []
        self._run: GenerationRun | None = None

    def __getitem__(self, number: int) -> Seen:
        """Return a text, in the order of writing; those of a batch in its order."""
        return self.texts[number]

    def __len__(self) -> int:
        return len(self.texts)

    def __enter__(self) -> Self:
        if "generate" in vars(self._model):
            raise ValueError("this model is watched already; one tagger at a time")
        blocks = find_blocks(self._body, self._lm.num_layers)
        if not blocks:
            raise ValueError(f"the blocks of {type(self._model).__name__} were not found, so it cannot be watched")
        for layer in self._lm.layers:
            if layer < len(blocks):
                self._hooks.append(
                    blocks[layer].register_forward_pre_hook(partial(self._enter, layer), with_kwargs=True)
                )
        self._hooks.append(self._body.register_forward_hook(self._leave, with_kwargs=True))
        self._model.generate = self._generate
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        del self._model.generate

    def _enter(self, layer: int, _: Any, given: tuple, named: dict[str, Any]) -> None:
        if self._run:
            self._run.layers[layer] = given[0] if given else named["hidden_states"]

    def _leave(self, _: Any, given: tuple, named: dict[str, Any], left: Any) -> None:
        if self._run:
            self._run.layers[self._lm.num_layers] = left[0]
            self._run.take(named)

    def _generate(self, *given: Any, **named: Any) -> Any:
        original = type(self._model).generate
        named = inspect.signature(original).bind_partial(self._model, *given, **named).arguments
        named |= named.pop("kwargs", {})
        model, rest = named.pop("self"), named.pop("args", ())
        refuse_unfollowed(model, named)
        ends = setting(model, named, "eos_token_id")
        self._run = run = GenerationRun(self, frozenset([ends] if isinstance(ends, int) else ends or ()))
        named["stopping_criteria"] = StoppingCriteriaList([*(named.get("stopping_criteria") or ()), run])
        try:
            written = original(model, *rest, **named)
            returned = named.get("past_key_values") is not None or not isinstance(written, Tensor)
            run.end(written if isinstance(written, Tensor) else written.sequences, returned)
        finally:
            self._run = None
        return written

    def tell(self, number: int, events: Sequence[Event]) -> None:
        """Hand on what is told about a text."""
        if self._on_event is not None:
            for event in events:
                self._on_event(number, event)


class GenerationRun(StoppingCriteria):
    """One call of `generate`, followed."""

    def __init__(self, watch: Watch, ends: frozenset[int]) -> None:
        self._watch, self._lm, self._ends = watch, watch._lm, ends
        self.layers: dict[int, Tensor] = {}
        self._stacks: list[Tensor] = []
        self._named: dict[str, Any] = {}
        self._texts: list[Seen] = []
        self._have = 0  # columns whose states have been taken
        self._first = len(watch.texts)
        self._done: list[bool] = []

    def take(self, named: dict[str, Any]) -> None:
        """The states of one forward pass."""
        stacked = torch.stack([self.layers[layer] for layer in self._lm.layers], dim=2)  # (B, P, L, D)
        self.layers.clear()
        self._named = named
        if not self._texts and not self._watch._prompt:
            stacked = stacked[:, -1:]  # of a prompt that is not tagged only the last state is needed
        self._stacks.append(stacked.detach().float().cpu())

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Return the pieces so far, (B, P); the last has no state yet. Never stops."""
        if not self._texts:
            self._begin(input_ids)
        self._advance(input_ids)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    def _begin(self, input_ids: Tensor) -> None:
        self._have = input_ids.shape[1] - 1  # all of the prompt
        mask = self._named.get("attention_mask")
        if not isinstance(mask, Tensor) or mask.shape != (len(input_ids), self._have):
            mask = torch.ones(len(input_ids), self._have)
        states = torch.cat(self._stacks, dim=1)
        self._stacks.clear()
        watch = self._watch
        for row, ids in enumerate(input_ids[:, : self._have].cpu()):
            real = mask[row].bool().cpu()
            real_ids = ids[real].tolist()
            begin = text_begin(self._lm, real_ids, "the prompt") if watch._prompt else 0
            prompt = self._lm.tokenizer.decode(
                real_ids[begin:], skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            seen = Seen(watch._tagger, self._lm, watch._delay, watch._every, prompt, states[row, -1])
            if watch._prompt:
                seen.prompt_entities = self._of_prompt(real_ids, begin, states[row, real[-states.shape[1] :]])
            self._texts.append(seen)
        watch.texts += self._texts
        self._done = [False] * len(self._texts)

    def _of_prompt(self, ids: list[int], begin: int, states: Tensor) -> list[Entity]:
        if len(states) != len(ids):
            raise ValueError("the beginning of the prompt was read before, so it cannot be tagged; remove prompt")
        pieces, tagger = PieceStates(self._lm, states[begin - 1] if begin else None), self._watch._tagger
        text = pieces.add(ids[begin:], states[begin:]) + pieces.end()
        return tagger.result(answer_vectors(tagger, text, word_vectors(tagger, pieces, text)))

    def _advance(self, input_ids: Tensor) -> None:
        """Hand the pieces that have states now to their texts."""
        states = torch.cat(self._stacks, dim=1) if self._stacks else None
        self._stacks.clear()
        new = input_ids.shape[1] - 1 - self._have
        if states is None or new <= 0:
            return
        for row, ids in enumerate(input_ids[:, self._have : self._have + new].tolist()):
            for piece, state in zip(ids, states[row, -new:], strict=True):
                self._done[row] = self._done[row] or piece in self._ends
                if not self._done[row]:
                    self._watch.tell(self._first + row, self._texts[row].add(piece, state))
        self._have += new

    @torch.no_grad()
    def end(self, written: Tensor, returned: bool) -> None:
        """All is written, (B, P); `returned` tells whether the cache is seen by anybody else."""
        if not self._texts:  # nothing was to be written
            return
        last = written[:, -1].tolist()
        open_rows = [not done and piece not in self._ends for done, piece in zip(self._done, last, strict=True)]
        if any(open_rows) and written.shape[1] > self._have:
            self._read_last(written, returned)
            self._advance(torch.cat([written, written[:, -1:]], dim=1))
        for row, seen in enumerate(self._texts):
            self._watch.tell(self._first + row, seen.end())

    def _read_last(self, written: Tensor, returned: bool) -> None:
        """One step more, for the last piece, whose state generation does not need."""
        named = dict(self._named)
        name = next((name for name in CACHES if named.get(name) is not None), None)
        if name and returned:
            named[name] = copy.deepcopy(named[name])  # the caller's list must not grow with every call
        mask, places = named.get("attention_mask"), named.get("position_ids")
        if isinstance(mask, Tensor):
            named["attention_mask"] = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        if isinstance(places, Tensor):
            next_place = places[:, -1:] + 1
            named["position_ids"] = next_place if name else torch.cat([places, next_place], dim=1)
        named["input_ids"] = written[:, -1:] if name else written
        self._watch._body(**named)


def setting(model: Any, named: dict[str, Any], option: str) -> Any:
    """Return the value of an option in a call of `generate`: given by name, in a config, or the model's own."""
    if option in named:
        return named[option]
    configs = named.get("generation_config"), model.generation_config
    return next((value for c in configs if (value := getattr(c, option, None)) is not None), None)


def refuse_unfollowed(model: Any, named: dict[str, Any]) -> None:
    """`ValueError` for ways of generation that cannot be followed piece by piece."""
    if (setting(model, named, "num_beams") or 1) > 1:
        raise ValueError("beams take back what they have written, so a tagger cannot watch them; take num_beams=1")
    if named.get("assistant_model") is not None or setting(model, named, "prompt_lookup_num_tokens"):
        raise ValueError("assisted generation takes back what it has written; remove the assistant to watch it")
    if setting(model, named, "cache_implementation") in STATIC:
        raise ValueError("a static cache is compiled, and cannot be watched; remove cache_implementation")
    if named.get("inputs_embeds") is not None or named.get("custom_generate") is not None:
        raise ValueError("to be watched, generate must be given pieces (input_ids), and generate by itself")


def refuse_other_model(lm: LMEncoder, model: Any) -> None:
    """`ValueError` for a model that is not the one that the tagger was trained on, as far as it can be known."""
    trained, other = (config.get_text_config() for config in (lm.config, model.config))
    facts = {"width": "hidden_size", "vocabulary": "vocab_size", "architecture": "model_type"}
    for what, name in facts.items():
        if (a := getattr(trained, name, None)) != (b := getattr(other, name, None)):
            raise ValueError(f"the tagger was trained on {lm.spec} ({what} {a}), and this model has {what} {b}")
    if getattr(other, "num_hidden_layers", None) != lm.num_layers:
        raise ValueError(f"the tagger was trained on {lm.spec} ({lm.num_layers} layers), and this model has others")
    path = str(getattr(model, "name_or_path", "") or "")
    if path and lm.adapter is None:
        try:
            weights = weights_fingerprint(path, exact_revision(path, None))
        except (OSError, ValueError):  # it has moved since
            return
        if weights != lm.weights() and not weights.endswith("@None"):
            raise ValueError(
                f"the tagger was trained on {lm.spec}, and the model that writes is {path}, which is another"
            )

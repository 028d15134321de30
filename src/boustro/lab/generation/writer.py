"""`Writer`: continues prompts and scores texts with a masked or a causal LM.

    writer = boustro.Writer("./my-biglm", strategy="mask-predict", length=16, steps=4)
    writer.write(["The ferry to Port Lisse"])            [Result(prompt=…, text=" leaves at …", log_prob=-21.3, …)]
    writer.score([("The ferry", " leaves at seven.")])   [Result(prompt=…, text=…, log_prob=-17.9, steps=6)]

A prompt and its text are split into pieces one by one, so a text that continues a prompt begins with its own space.
Nothing is cut: what does not fit into the model's window is an error.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from boustro.choose import choose
from boustro.encoders.options import Precision
from boustro.given import as_list, as_text, chunk_by_size
from boustro.lab.generation.canvas import Canvas
from boustro.lab.generation.draws import Draws
from boustro.lab.generation.models import CausalLM, open_lm
from boustro.lab.generation.options import GenerationConfig, ScoreConfig
from boustro.lab.generation.scores import MASKED_SCORES
from boustro.lab.generation.strategies import WrittenText, causal_log_probs, find_strategy
from boustro.text.start import AUTO

BATCH = 8192
"""Pieces read at once, or, where that is more, logits in units of 8,192."""


@dataclass(frozen=True)
class Result:
    """A text after a prompt, and its score."""

    prompt: str
    text: str
    log_prob: float
    steps: int
    """How often the LM read the text; for a causal LM that writes, the pieces written."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that the command prints."""
        return {**asdict(self), "log_prob": round(self.log_prob, 4)}


class Writer:
    """A masked or a causal LM that continues prompts and scores texts.

    Args:
        model: A model folder or a name on the Hub, such as `./my-biglm`, `starter-forward` or `gpt2`.
        device: Such as "cpu" or "cuda:1". By default CUDA, else MPS, else the CPU.
        dtype: Precision of the computation.
        start_piece: What a causal LM is given before every text (`text.start`).
        options: Of `GenerationConfig` and `ScoreConfig`.

    Raises `ValueError` for a model or a strategy that does not fit, `FileNotFoundError` if there is no such model.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        dtype: Precision = "float32",
        start_piece: str = AUTO,
        **options: Any,
    ) -> None:
        configs = []
        for kind in (GenerationConfig, ScoreConfig):
            names = {field.name for field in fields(kind)}
            configs.append(kind(**{name: value for name, value in options.items() if name in names}))
        self.writing, self.scoring = configs
        if unknown := options.keys() - {field.name for config in configs for field in fields(config)}:
            raise TypeError(f"Writer has no option {', '.join(sorted(unknown))}")
        self.model = open_lm(model, device, dtype, start_piece)
        self.kind = "causal" if isinstance(self.model, CausalLM) else "masked"
        self.strategy = find_strategy(self.writing.strategy, self.kind, model)
        if self.kind == "causal" and self.scoring.score not in (None, "left-to-right"):
            choose(self.scoring.score, MASKED_SCORES, "score")
            raise ValueError(
                f"score {self.scoring.score!r} needs a masked LM, and {model} is a causal one, which has left-to-right"
            )
        self.counts = Counter[str]()
        """What was noticed, and how often."""
        self.score_of = choose(self.scoring.score or next(iter(MASKED_SCORES)), MASKED_SCORES, "score")

    def write(self, prompts: Iterable[str], first: int = 0, places: Sequence[str] | None = None) -> list[Result]:
        """Return the continuation of each prompt.

        `first` is the number of the first prompt in a longer input, on which its random numbers depend; `places` are
        the prompts' names in messages. Raises `ValueError` for an empty prompt and for one that is too long.
        """
        prompts = as_list(prompts, "prompts")
        names = places or [f"prompt {first + n + 1}" for n in range(len(prompts))]
        pieces = [self._pieces(prompt, "prompt", name) for prompt, name in zip(prompts, names, strict=True)]
        for row, name in zip(pieces, names, strict=True):
            self._refuse_longer(len(row) + 1, name)
        candidates = self._lengths(pieces)
        for lengths in candidates:
            for row, length, name in zip(pieces, lengths, names, strict=True):
                self._refuse_longer(len(row) + length, name)
        best: list[WrittenText | None] = [None] * len(prompts)
        for lengths in candidates:
            for rows in self._batches([len(row) for row in pieces], lengths):
                texts = self._write([pieces[row] for row in rows], [first + row for row in rows], lengths[rows[0]])
                for row, written in zip(rows, texts, strict=True):
                    known = best[row]
                    if known is None or _mean(written) > _mean(known):
                        best[row] = written
        return [
            Result(prompt, self.model.text(written.pieces), written.log_prob, written.steps)
            for prompt, written in zip(prompts, best, strict=True)
            if written is not None
        ]

    def score(
        self, pairs: Iterable[tuple[str, str]], first: int = 0, places: Sequence[str] | None = None
    ) -> list[Result]:
        """Return the log-probability of each text after its prompt, as `ScoreConfig.score` defines it.

        Raises `ValueError` for an empty prompt or text, for special pieces in a text, and for what is too long.
        """
        pairs = as_list(pairs, "pairs of a prompt and a text")
        names = places or [f"pair {first + n + 1}" for n in range(len(pairs))]
        prompts = [self._pieces(prompt, "prompt", name) for (prompt, _), name in zip(pairs, names, strict=True)]
        texts = [self._pieces(text, "text", name) for (_, text), name in zip(pairs, names, strict=True)]
        for prompt, text, name in zip(prompts, texts, names, strict=True):
            self._refuse_longer(len(prompt) + len(text), name)
            if not bool(self.model.writable[text].all()):
                raise ValueError(f"{name}: the text has special pieces of {self.model.name}, which have no probability")
        totals, readings = self.score_pieces(prompts, texts, first)
        scored = zip(pairs, totals, readings, strict=True)
        return [Result(prompt, text, total, count) for (prompt, text), total, count in scored]

    def score_pieces(
        self, prompts: Sequence[list[int]], texts: Sequence[list[int]], first: int = 0
    ) -> tuple[list[float], list[int]]:
        """Score piece ids: the scores, and the numbers of readings."""
        totals, readings = self._scored(prompts, texts, first)
        if self.scoring.pmi:
            alone, more = self._scored([[]] * len(texts), texts, first)
            totals = [total - other for total, other in zip(totals, alone, strict=True)]
            readings = [count + other for count, other in zip(readings, more, strict=True)]
        return totals, readings

    def _scored(
        self, prompts: Sequence[list[int]], texts: Sequence[list[int]], first: int
    ) -> tuple[list[float], list[int]]:
        """Texts of one length together."""
        totals, readings = [0.0] * len(texts), [1] * len(texts)
        for rows in self._batches([len(prompt) for prompt in prompts], [len(text) for text in texts]):
            before, after = [prompts[row] for row in rows], [texts[row] for row in rows]
            if isinstance(self.model, CausalLM):
                scores, count = causal_log_probs(self.model, before, after), 1
            else:
                canvas = Canvas.of(self.model, before, len(after[0]))
                blank = canvas.blank()
                draws = Draws(self.scoring.seed, [first + row for row in rows])
                read = canvas.reader()
                scores, count = self.score_of(read, blank.new_tensor(after), blank, self.scoring, draws)
            for row, total in zip(rows, scores.tolist(), strict=True):
                totals[row], readings[row] = total, count
        return totals, readings

    def _lengths(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        """Return the lengths to try: for each try that of every prompt."""
        config, model = self.writing, self.model
        if isinstance(model, CausalLM):
            return [[config.longest] * len(prompts)]
        if model.length_head is None or (config.length and not config.num_length_candidates):
            return [[length] * len(prompts) for length in config.lengths()]
        tries: list[list[int]] = [[] for _ in prompts]
        most, count = config.length or model.length_head.scores.out_features, config.num_length_candidates or 1
        for rows in self._batches([len(row) for row in prompts], [1] * len(prompts)):
            canvas = Canvas.of(model, [prompts[row] for row in rows], 1)
            for row, likely in zip(rows, canvas.likeliest_lengths(count, most), strict=True):
                tries[row] = [min(length, model.room(prompts[row])) for length in likely]
        return [list(tried) for tried in zip(*tries, strict=True)]

    def _write(self, prompts: list[list[int]], rows: list[int], length: int) -> list[WrittenText]:
        if isinstance(self.model, CausalLM):
            return self.strategy(self.model, prompts, rows, length, self.writing)
        canvas = Canvas.of(self.model, prompts, length)
        read = canvas.reader()
        text = self.strategy(read, canvas.blank(), self.writing, Draws(self.writing.seed, rows))
        pairs = zip(text.pieces.tolist(), text.log_probs.tolist(), strict=True)
        return [WrittenText(pieces, log_prob, text.readings) for pieces, log_prob in pairs]

    def _batches(self, prompts: Sequence[int], texts: Sequence[int]) -> Iterator[list[int]]:
        """Numbers of rows whose texts have one length, of at most so many pieces and logits."""
        order = sorted(range(len(texts)), key=lambda row: (texts[row], prompts[row]))
        vocabulary = len(self.model.writable)
        for length in sorted(set(texts)):
            same = [row for row in order if texts[row] == length]
            logits = length * vocabulary // BATCH
            yield from chunk_by_size(same, lambda row, least=logits: max(prompts[row] + texts[row], least), BATCH)

    def _pieces(self, text: str, what: str, name: str) -> list[int]:
        if not (pieces := self.model.pieces(as_text(text, f"{name}: the {what}"))):
            raise ValueError(f"{name}: the {what} is empty; a text is continued, or scored, after at least one piece")
        most = self.writing.prompt_pieces
        if what == "text":
            return pieces
        self.counts[f"prompts were cut to their first {most} pieces"] += most is not None and len(pieces) > most
        return [*pieces[:most], *self.model.prompt_end]

    def _refuse_longer(self, num_pieces: int, name: str) -> None:
        try:
            self.model.refuse_longer(num_pieces + self.model.num_frame_pieces)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _mean(written: WrittenText) -> float:
    return written.log_prob / max(1, len(written.pieces))

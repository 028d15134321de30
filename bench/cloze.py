"""A trained fusion as a judge of pieces in their place: p(piece | all other pieces), by its own output head.

    cloze = ClozeHead.load("./fusion")
    cloze.closing([([5, 7], [9])])              (1, V): the piece between 5 7 and 9
    cloze.scores([([5, 7], [8, 3], [9])])       (1,): log p(8 | 5 7 · 3 9) + log p(3 | 5 7 8 · 9), in one reading

Every piece is predicted from all others in one reading of both LMs, so a finished text is judged at once; but a piece
whose neighbours are missing is not: the fusion was trained with one piece missing at a time (`models.fusion`).
The sum over a filling is a pseudo-log-likelihood, no likelihood. N rows, P pieces, V pieces of the vocabulary.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file
from torch import Tensor

from boustro.encoders.fused import FusedEncoder, tower_window
from boustro.encoders.spec import load_encoder
from boustro.lab.generation.both_ends.reader import Ids
from boustro.models.fusion import CLOZE, FUSION_FILE, FUSION_KIND, Cloze, TiedHead, Towers, load_fusion
from boustro.store import Artefact

BATCH_ROWS = 64
Middle = tuple[int, ...]
Close = Callable[[Tensor, Sequence[Ids], Sequence[Ids]], Tensor]
"""(f + b − γ · u (N, V), pieces at the left, pieces at the right from right to left) → what chooses the last piece."""


class ClozeHead:
    """Two LMs under a fusion, and the fusion's output head."""

    def __init__(self, towers: Towers, cloze: Cloze, window: int, tokenizer) -> None:
        self.towers, self.cloze, self.window, self.tokenizer = towers, cloze, window, tokenizer
        self.device = cloze.head.bias.device

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> "ClozeHead":
        """The fusion in a folder of `boustro lab fuse`. Raises as `load_encoder`, also for LMs that have changed."""
        encoder = load_encoder(f"fused:{path}", layers="last", device=device, dtype="float32")
        assert isinstance(encoder, FusedEncoder)
        forward, backward = encoder.lms
        towers = encoder.towers
        cloze = load_cloze(Path(path), towers.forward.get_input_embeddings().weight)  # type: ignore[operator]
        return cls(towers, cloze.to(forward.device), tower_window(forward, backward), forward.tokenizer)

    def closing(self, contexts: Sequence[tuple[Ids, Ids]]) -> Float[Tensor, "N V"]:
        """Log-probabilities of the one piece between a left and a right context."""
        texts = [[*left, 0, *right] for left, right in contexts]  # which piece stands there is not seen
        log_probs = []
        for start in range(0, len(texts), BATCH_ROWS):
            part = slice(start, start + BATCH_ROWS)
            places = torch.tensor([[len(left)] for left, _ in contexts[part]], device=self.device)
            log_probs.append(self._log_probs(texts[part], places)[:, 0])
        return torch.cat(log_probs)

    def scores(self, filled: Sequence[tuple[Ids, Ids, Ids]]) -> Float[Tensor, " N"]:
        """Log-probabilities of the pieces of each middle, given its contexts and its other pieces, summed."""
        sums = []
        for start in range(0, len(filled), BATCH_ROWS):
            part = filled[start : start + BATCH_ROWS]
            width = max(len(middle) for _, middle, _ in part)
            texts = [[*left, *middle, *right] for left, middle, right in part]
            wanted = [[*middle, *[0] * (width - len(middle))] for _, middle, _ in part]
            first = torch.tensor([[len(left)] for left, _, _ in part], device=self.device)
            ends = torch.tensor([[len(middle)] for _, middle, _ in part], device=self.device)
            steps = torch.arange(width, device=self.device)
            log_probs = self._log_probs(texts, first + steps.minimum(ends - 1))
            chosen = log_probs.gather(2, torch.tensor(wanted, device=self.device)[..., None])[..., 0]
            sums.append(chosen.masked_fill(steps >= ends, 0.0).sum(1))
        return torch.cat(sums)

    def fill(self, contexts: Sequence[tuple[Ids, Ids]], length: int, writable: Bool[Tensor, " V"]) -> list[Middle]:
        """`length` pieces for each gap, from the left, each as if it were the only one that is missing."""
        written: list[Middle] = [() for _ in contexts]
        for _ in range(length):
            gaps = [([*left, *middle], right) for (left, right), middle in zip(contexts, written, strict=True)]
            log_probs = self.closing(gaps)[:, : len(writable)].masked_fill(~writable, -torch.inf)
            written = [(*middle, piece) for middle, piece in zip(written, log_probs.argmax(-1).tolist(), strict=True)]
        return written

    def closer(self, contexts: Sequence[tuple[Ids, Ids]], pair_weight: float = 0.0) -> Close:
        """What chooses the last piece of gaps that the pair fills; plus the pair's own score, weighted."""

        def close(joint: Tensor, at_left: Sequence[Ids], at_right: Sequence[Ids]) -> Tensor:
            sides = zip(contexts, at_left, at_right, strict=True)
            gaps = [([*left, *before], [*reversed(other), *right]) for (left, right), before, other in sides]
            cloze = self.closing(gaps)[:, : joint.shape[1]].masked_fill(joint == -torch.inf, -torch.inf)
            return cloze + pair_weight * joint if pair_weight else cloze

        return close

    @torch.inference_mode()
    def _log_probs(self, texts: Sequence[Ids], places: Int[Tensor, "N K"]) -> Float[Tensor, "N K V"]:
        lengths = torch.tensor([len(text) for text in texts], device=self.device)
        width = int(lengths.max())
        if width > self.window:
            raise ValueError(f"a text with its gap has {width:,} pieces, and the two LMs read {self.window:,} together")
        pieces = torch.tensor([[*text, *[0] * (width - len(text))] for text in texts], device=self.device)
        forward, backward = (states.float() for states in self.towers.states(pieces, lengths))
        fused = self.cloze.fusion(forward, backward, lengths, CLOZE)
        chosen = fused.gather(1, places[..., None].expand(-1, -1, fused.shape[2]))
        return self.cloze.head(chosen.flatten(0, 1)).log_softmax(-1).unflatten(0, places.shape)


def load_cloze(path: Path, embeddings: Float[Tensor, "V E"]) -> Cloze:
    """The fusion with its head, over the embeddings of its forward LM. Raises as `store.open_folder`."""
    fusion, _ = load_fusion(Artefact(path))
    with Artefact(path).opened(FUSION_KIND):
        head, weights = TiedHead(fusion.width, embeddings), load_file(path / FUSION_FILE)
        head.load_state_dict({n.removeprefix("head."): w for n, w in weights.items() if n.startswith("head.")})
    return Cloze(fusion, head).eval().requires_grad_(False)

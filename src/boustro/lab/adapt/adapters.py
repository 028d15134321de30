"""Adapters of an LM without its mask, trained on running text or on labelled sentences.

The LM is frozen, without dropout of its own; only the adapter is trained, saved in checkpoints and written. With no
steps the folder has the adapter's initial weights, which change nothing: the LM with its mask removed, `unmasked:OUT`.

`adapt_to_text` trains by one of the `OBJECTIVES`:

    hidden-pieces     masked next-piece prediction (`lab.objectives.masked_next`), through the LM's own frozen head
    second-reading    the states of the LM, as it is, when it reads the text a second time

A hidden piece is replaced by the tokenizer's mask piece if it has one, else by "_", as in LLM2Vec: a piece that the LM
knows as a blank. A new piece would need a new embedding, which the frozen LM was never trained with. Depending on the
model LLM2Vec hides 0.2 of the pieces, as here, or 0.8, all masked.

The second reading makes one reading do what two did:

    teacher    [S] p0 p1 p2 ⏎ p0 p1 p2     with its mask, states of the second p0 p1 p2, as `repeated:` reads
    student    [S] p0 p1 p2                without its mask, under the adapter, states of p0 p1 p2

    loss       mean of Huber((s - mean) / sd, (t - mean) / sd)

over pieces, layers and dimensions; mean and sd are the teacher's, of the first texts. The layers are those that a
tagger reads by default. Standardised targets are cut at ±6, so that the few very large dimensions of an LM do not rule.

`adapt_to_labels` trains the adapter and a linear head to label words. Sentences are read as the encoder reads them: in
their documents if the data has documents, in windows, each word at its exit, the state after the whole word. The head,
a linear layer over the top states, is used for training only; the adapter is kept. The head's score on the development
set is written too: it is the score of the method as published, without frozen features and a head trained on them.

Sources: BehnamGhader et al. 2024 (LLM2Vec), section 2; Springer et al. 2024 (echo embeddings), the teacher; Romero et
al. 2015 (FitNets), regression of hidden states; Li et al. 2023 (Label supervised LLaMA, the token classification
without a mask); Dukić and Šnajder 2024 (Looking right is sometimes right, the mask removed in groups of blocks).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from boustro.encoders.adapted import adaptation_facts
from boustro.encoders.lm import LMEncoder, RepeatedEncoder, UnmaskedEncoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import InputRow
from boustro.encoders.spec import Spec, SpecPart
from boustro.heads.options import SequenceOptions
from boustro.lab.adapt.options import AdaptConfig, TextAdaptOptions
from boustro.lab.adapt.training import WordReader, make_batches, open_segments, row_tensors, train, write_run
from boustro.lab.masked import at
from boustro.lab.objectives.examples import IGNORED, collate, keyed_generator
from boustro.lab.objectives.masked_next import MaskedNext, masked_next
from boustro.lab.objectives.masking import Masking, special_pieces
from boustro.lab.pretrain.batches import Batches, HeldOut
from boustro.lab.pretrain.checkpoints import finished_run
from boustro.lab.pretrain.config import run_facts
from boustro.lab.pretrain.distributed import say
from boustro.lab.pretrain.segments import SegmentExample, Segments, SegmentStream
from boustro.lab.pretrain.shards import Shards
from boustro.models.lora import (
    ADAPTATION,
    MASK_KEPT,
    Adaptation,
    LoraShape,
    LoraWeights,
    add_lora,
    save_adaptation,
)
from boustro.models.loss import find_finish, lm_loss
from boustro.tasks import read_examples
from boustro.tasks.data import data_name
from boustro.tasks.data.reading import data_fingerprint
from boustro.tasks.labellings import Labelling, make_labelling
from boustro.tasks.tagger import Tagger
from boustro.text.tokenizers import end_of_text_id
from boustro.types import Sentence
from boustro.version import __version__

ALPHA = 32.0
"""LoRA's scale: the change to a matrix is multiplied by alpha / rank."""


class TextObjective(NamedTuple):
    """An objective over segments of running text."""

    make: Callable[[list[SegmentExample]], dict[str, Tensor]]
    """Segments → the batch of a step."""
    loss_of: Callable[..., Tensor]
    """A batch's tensors → the mean loss."""
    facts: dict[str, Any]
    """What training.json says of it."""
    perplexity: bool
    """Whether the loss has one."""


def open_unmasked(config: AdaptConfig, **options: Any) -> tuple[LMEncoder, Adaptation]:
    """Return the LM of `config`, without its mask in the chosen blocks, and what the folder says; `ValueError` if
    unfit."""
    (part, *others) = Spec.parse(config.lm).parts
    if others or part.prefix not in ("", "backward:"):
        raise ValueError(f"{config.lm}: only a single causal LM can be adapted; choose its blocks with --blocks")
    reading = ReadingOptions(**{"layers": "last", "pooling": "exit", "context": "sentence", **options})
    reading = replace(reading, start_piece=config.start_piece)
    given = {"spec": config.lm, "revision": part.revision, "direction": "backward" if part.prefix else None}
    if (blocks := config.without_mask) == MASK_KEPT:
        encoder = LMEncoder(part.place, reading, **given)
    else:
        encoder = UnmaskedEncoder(part.place, reading, blocks=None if blocks == "all" else blocks, **given)
    facts = adaptation_facts(encoder, part.exact(encoder.weights()).removeprefix(part.prefix))
    return encoder, replace(facts, start_piece=config.start_piece)


def train_adapter(
    config: AdaptConfig,
    base: Adaptation,
    model: nn.Module,
    head: nn.Module | None,
    loss_of: Callable[..., Tensor],
    batches: Batches,
    held_out: Iterable[tuple[dict[str, Any], float]] | None,
    *,
    facts: dict[str, Any],
    describe: Callable[[], dict[str, Any]],
    step_size: int,
    perplexity: bool = True,
    upper: int | None = None,
) -> dict[str, Any]:
    """Train an adapter of all blocks or the `upper` ones, and `head`, on a transformer without its own head, which is
    changed in place; write the folder.

    Returns what `training.json` says; `describe`, called after the training, adds to it. `facts` decide the weights,
    besides the options that both ways share; the rest is as in `lab.adapt.training.train`. Raises `ValueError` for an
    adapter that does not fit and `ImportError` without peft, before anything is computed.
    """
    torch.manual_seed(config.seed)
    shape = LoraShape(rank=config.rank, alpha=ALPHA, dropout=config.dropout, upper=upper)
    adapted = add_lora(model, shape)
    weights = LoraWeights(adapted, head).to(next(model.parameters()).device)
    facts = run_facts(config, (), **asdict(base), **asdict(shape), **facts)
    if finished := finished_run(config, ADAPTATION, facts):
        return finished
    num_parameters = sum(p.numel() for p in weights.parameters())
    mask = "with its mask" if base.blocks == MASK_KEPT else f"mask removed in blocks {base.blocks}"
    say(f"{base.base}, {mask}: {num_parameters / 1e6:.2f}M parameters trained in {len(batches):,} steps")
    result = train(config, facts, weights, loss_of, batches, held_out, step_size=step_size, perplexity=perplexity)
    result |= {"num_parameters": num_parameters, **describe()}
    return write_run(config, ADAPTATION, result, lambda folder: save_adaptation(folder, adapted, base))


MOST_DEVIATION, HUBER_DELTA = (
    6.0,
    2.0,
)  # of standardised states: a few dimensions of an LM are far out, and must not rule the loss
STATISTICS_PIECES = 8192  # settle a mean to 1% of the deviation


def second_reading(config: AdaptConfig, encoder: LMEncoder, base: Adaptation) -> TextObjective:
    """Raises `ValueError` where two copies of a segment do not fit into the LM's window."""
    lm = SpecPart.parse(config.lm)
    how: dict[str, Any] = {"spec": config.lm, "revision": lm.revision, "direction": base.direction}
    teacher = RepeatedEncoder(lm.place, ReadingOptions(start_piece=config.start_piece), **how)
    length = config.text.segment_length
    if length > teacher.room:
        raise ValueError(f"{config.lm} reads texts of up to {teacher.room:,} pieces twice; shorten --segment-length")
    mean, scale = _statistics(config, teacher)

    def make(examples: list[SegmentExample]) -> dict[str, Tensor]:
        texts = [_reading(example.pieces, teacher) for example in examples]
        targets = (_states(teacher, texts) - mean) * scale
        ids = torch.tensor([[*encoder.before, *text] for text in texts])
        return {"input_ids": ids, "targets": targets.clamp(-MOST_DEVIATION, MOST_DEVIATION)}

    def loss_of(input_ids: Tensor, targets: Tensor) -> Tensor:
        read = encoder.model(input_ids=input_ids, output_hidden_states=True, use_cache=False).hidden_states
        states = torch.stack([read[layer][:, len(encoder.before) :] for layer in teacher.layers], 2).float()
        return F.huber_loss((states - mean.to(states.device)) * scale.to(states.device), targets, delta=HUBER_DELTA)

    facts = {"objective": "second-reading", "layers": list(teacher.layers)}
    return TextObjective(make, loss_of, facts, perplexity=False)


def _reading(pieces: np.ndarray, teacher: RepeatedEncoder) -> list[int]:
    return pieces[:: -1 if teacher.backward else 1].tolist()


@torch.no_grad()
def _states(teacher: RepeatedEncoder, texts: list[list[int]]) -> Tensor:
    """Return (B, T, L, D) on the CPU, in float32."""
    return teacher.last_copy(texts).float().cpu()


def _statistics(config: AdaptConfig, teacher: RepeatedEncoder) -> tuple[Tensor, Tensor]:
    """Return the mean of each dimension of each layer (L, D), and one over its standard deviation."""
    options = config.text
    assert options.shards is not None
    segments = Segments(Shards.open(options.shards), options.segment_length, config.seed)
    count = min(len(segments), max(1, STATISTICS_PIECES // options.segment_length))
    parts = range(0, count, options.batch_segments)
    texts = [[_reading(segments[n], teacher) for n in range(count)[i : i + options.batch_segments]] for i in parts]
    states = torch.cat([_states(teacher, part).flatten(0, 1) for part in texts])
    return states.mean(0), 1 / states.std(0).clamp_min(1e-3)  # a dimension that never moves must not rule the loss


BLANK = "_"
ADAPTER_FACTS = ("tokens", "segment_length", "batch_segments", "mask_rate", "mask_piece", "learn")
"""Options that decide the weights, besides those of every adapter."""


def adapt_to_text(config: AdaptConfig) -> dict[str, Any]:
    """Train an adapter on running text; returns `training.json`. `ValueError` for what does not fit."""
    encoder, base = open_unmasked(config)
    options = config.text
    assert options.shards is not None
    room = encoder.max_pieces - len(encoder.before)
    if not 2 <= options.segment_length <= room:
        raise ValueError(
            f"{config.lm} reads segments of 2 to {room:,} pieces; change --segment-length {options.segment_length:,}"
        )
    whose = (encoder.tokenizer.get_vocab(), "the LM", "it")
    segments, validation, steps = open_segments(options.shards, options, config.seed, *whose)
    fingerprint, size = segments.shards.fingerprint, options.batch_segments
    stream = SegmentStream(segments, config.seed, steps * size)
    objective = OBJECTIVES[options.learn](config, encoder, base)
    more = objective.facts | {
        "shards_fingerprint": fingerprint,
        "pieces_seen": steps * size * options.segment_length,
    }
    facts = {name: getattr(options, name) for name in ADAPTER_FACTS} | {"shards": fingerprint}
    batches = Batches(steps, lambda step: objective.make([stream[n] for n in range(step * size, (step + 1) * size)]))
    measured = HeldOut(validation, objective.make, options, size) if validation else None
    how: dict[str, Any] = {"describe": lambda: more, "step_size": size * options.segment_length}
    how |= {"facts": facts, "perplexity": objective.perplexity}
    return train_adapter(config, base, encoder.model, None, objective.loss_of, batches, measured, **how)


def hidden_pieces(config: AdaptConfig, encoder: LMEncoder, base: Adaptation) -> TextObjective:
    """Each hidden piece is predicted from the state of the piece before it."""
    lm, tokenizer = encoder.language_model(), encoder.tokenizer
    masking = make_next_masking(tokenizer, config.text, lm.config.get_text_config().vocab_size)
    head: Any = lm.get_output_embeddings()
    logit_finish = find_finish(lm)

    def hide(example: SegmentExample) -> MaskedNext:
        generator = keyed_generator(config.seed, example.epoch, example.index)
        direction = "backward" if encoder.backward else "forward"
        return masked_next(example.pieces, generator, masking, direction, encoder.before)

    def make(examples: list[SegmentExample]) -> dict[str, Tensor]:
        return collate([hide(example) for example in examples])

    def loss_of(input_ids: Tensor, positions: Tensor, targets: Tensor) -> Tensor:
        states = lm.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        return lm_loss(at(states, positions), head, targets, finish=logit_finish)

    facts = {"objective": "masked-next", "mask_piece": tokenizer.convert_ids_to_tokens(masking.mask_id)}
    return TextObjective(make, loss_of, facts, perplexity=True)


def make_next_masking(tokenizer: Any, options: TextAdaptOptions, vocab_size: int) -> Masking:
    """BERT's 80/10/10 at the given rate; `ValueError` for a mask piece that is not in the vocabulary."""
    piece = options.mask_piece or tokenizer.mask_token or BLANK
    identifier = tokenizer.get_vocab().get(piece)
    if identifier is None:
        raise ValueError(f"the LM's vocabulary has no piece {piece!r}; name one of its pieces with --mask-piece")
    special, end = special_pieces(tokenizer, vocab_size), end_of_text_id(tokenizer)
    special[[identifier, end]] = True
    return Masking(mask_id=identifier, end_id=end, special=special, rate=options.mask_rate)


OBJECTIVES: dict[str, Callable[[AdaptConfig, LMEncoder, Adaptation], TextObjective]] = {
    "hidden-pieces": hidden_pieces,
    "second-reading": second_reading,
}


DECIDING_LABELS = ("epochs", "batch_pieces", "context")
"""Options that decide the weights, besides those of every adapter."""


def adapt_to_labels(config: AdaptConfig) -> dict[str, Any]:
    """Train an adapter on labelled sentences; returns `training.json`. `ValueError` for data that do not fit."""
    options = config.labels
    assert options.train is not None
    train = read_examples(Tagger, options.train, config.data)
    dev = read_examples(Tagger, options.dev, config.data) if options.dev else []
    if {tag for sentence in train for tag in sentence.tags or ()} <= {"O"}:
        raise ValueError(f"{data_name(train)}: no word is labelled with an entity, so there is nothing to learn")
    context = options.context if any(sentence.document for sentence in train) else "sentence"
    encoder, base = open_unmasked(config, context=context)
    labelling = make_labelling("linear", train, SequenceOptions())
    rows, tags = encoder.rows(train), tag_ids(labelling, train)
    dev_rows, dev_tags = encoder.rows(dev), tag_ids(labelling, dev)
    lengths, dev_lengths = ([len(row.ids) for row in part_rows] for part_rows in (rows, dev_rows))
    seeds = range(config.seed, config.seed + options.epochs)
    batches = [batch for seed in seeds for batch in make_batches(lengths, options.batch_pieces, seed)]
    dev_batches = make_batches(dev_lengths, options.batch_pieces, seed=0)

    torch.manual_seed(config.seed)
    reader = WordReader(encoder.model, len(labelling.labels))

    def dev_batch(number: int) -> tuple[dict[str, Tensor], int]:
        batch = _batch(dev_rows, dev_batches[number], dev_tags)
        return batch, int((batch["targets"] != IGNORED).sum())

    def loss_of(targets: Tensor, **read: Tensor) -> Tensor:
        total = F.cross_entropy(reader(**read), targets, ignore_index=IGNORED, reduction="sum")
        return total / (targets != IGNORED).sum().clamp_min(1)

    def describe() -> dict[str, Any]:
        scores = _score(reader, labelling, dev_rows, dev, dev_batches).to_dict() if dev_rows else None
        if scores:
            figure = f"entity F1 {scores['f1']:.2f}" if "f1" in scores else f"accuracy {scores['accuracy']:.2f}"
            say(f"the trained head on the development set: {figure}")
        more = {"objective": "labels", "labels": list(labelling.labels), "dev_scores": scores}
        return more | {"notices": dict(+encoder.counts)}

    facts = {name: getattr(options, name) for name in DECIDING_LABELS} | {"train": data_fingerprint(train)}
    measured = Batches(len(dev_batches), dev_batch) if dev_rows else None
    batched = Batches(len(batches), lambda step: _batch(rows, batches[step], tags))
    how = {"facts": facts, "describe": describe, "step_size": options.batch_pieces}
    return train_adapter(config, base, encoder.model, reader.head, loss_of, batched, measured, **how)


def tag_ids(labelling: Labelling, sentences: Sequence[Sentence]) -> Tensor:
    """Return the tags of all words, end to end (W,), as indices of labels; -100 for a tag that is not in the training
    set."""
    ids = {tag: number for number, tag in enumerate(labelling.labels)}
    tags = [tag for s in sentences for tag in labelling.tags(s, labelling.scheme)]  # type: ignore[attr-defined]
    return torch.tensor([ids.get(tag, IGNORED) for tag in tags], dtype=torch.int64)


def _batch(rows: Sequence[InputRow], numbers: Sequence[int], tags: Tensor) -> dict[str, Tensor]:
    """Return the rows of these numbers as tensors, with the tags of their words."""
    chosen = [rows[number] for number in numbers]
    return {**row_tensors(chosen), "targets": tags[torch.from_numpy(np.concatenate([row.words for row in chosen]))]}


@torch.no_grad()
def _score(
    reader: WordReader, labelling: Labelling, rows: Sequence[InputRow], dev: Sequence[Sentence], batches: list
) -> Any:
    """Scores of the best label of each word."""
    reader.eval()
    device = reader.head.weight.device
    total = sum(map(len, dev))
    best, sure = np.zeros(total, np.int64), np.zeros(total, np.float32)
    for batch in batches:
        chosen = [rows[i] for i in batch]
        read = {name: tensor.to(device) for name, tensor in row_tensors(chosen).items()}
        scores, labels = reader(**read).softmax(-1).max(-1)
        words = np.concatenate([row.words for row in chosen])
        best[words], sure[words] = labels.cpu().numpy(), scores.cpu().numpy()
    parts = zip(*(np.split(array, np.cumsum([len(s) for s in dev])[:-1]) for array in (best, sure)), strict=True)
    answers = [labelling.read(part, sentence) for part, sentence in zip(parts, dev, strict=True)]
    return labelling.score(dev, answers, {"data": data_fingerprint(dev), "version": f"boustro {__version__}"})

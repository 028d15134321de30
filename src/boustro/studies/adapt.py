"""boustro adapt: an LM named by its spec loses its mask, and an adapter is trained that makes up for it.

Here and not in `pretrain` or `tasks`, because what a spec names is for the encoders to know; the training is
`pretrain.adapt_text` for running text and `tasks.adapt_labels` for labelled sentences.
What is slow to import is imported when the command runs, so that its help need not wait.
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from boustro.pretrain.config import AdaptConfig, LabelOptions, TextOptions
from boustro.tasks.data import read_labelled
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions

if TYPE_CHECKING:
    from boustro.encoders.lm import LMEncoder
    from boustro.models.adaptation import Adaptation

NO_TEXT, NO_LABELS = TextOptions(), LabelOptions()


def adapt(
    config: AdaptConfig,
    text: TextOptions = NO_TEXT,
    labels: LabelOptions = NO_LABELS,
    data_options: DataOptions = DEFAULT_OPTIONS,
) -> dict[str, Any]:
    """Adapt a causal LM to reading without its mask, by low-rank changes to its matrices (LoRA).

    From --shards it learns to predict hidden pieces of running text (as LLM2Vec does); from --train, to label words
    (as LS-unLLaMA does).

    Raises `ValueError` for an LM, data or options that do not fit, before anything is computed.
    """
    from boustro.models.adaptation import KIND
    from boustro.models.lora import find_peft
    from boustro.pretrain.output import run_output

    if (text.shards is None) == (labels.train is None):
        raise ValueError("give either --shards FOLDER, running text, or --train FILE, labelled sentences")
    if (text.shards is not None and labels != NO_LABELS) or (labels.train is not None and text != NO_TEXT):
        raise ValueError(
            "options of both ways are given: --shards goes with "
            f"{_others(TextOptions, 'shards')}; --train with {_others(LabelOptions, 'train')}"
        )
    find_peft()  # its absence is said before an LM is loaded
    with run_output(config, KIND, config.checkpoint):
        return _adapt(config, text, labels, data_options)


def _adapt(config: AdaptConfig, text: TextOptions, labels: LabelOptions, data_options: DataOptions) -> dict[str, Any]:
    from boustro.pretrain.adapt_text import TextLM, adapt_to_text
    from boustro.tasks.adapt_labels import adapt_to_labels

    if text.shards is not None:
        encoder, base = open_lm(config)
        reader = TextLM(
            lm=encoder.language_model(),
            tokenizer=encoder.tokenizer,
            sentinel=encoder.sentinel,
            window=encoder.max_pieces,
            base=base,
        )
        return adapt_to_text(reader, config, text)
    assert labels.train is not None
    train = read_labelled(labels.train, data_options)
    dev = read_labelled(labels.dev, data_options) if labels.dev else []
    context = labels.context if any(sentence.document for sentence in train) else "sentence"
    encoder, base = open_lm(config, context=context)
    return adapt_to_labels(encoder, base, config, labels, train, dev)


def open_lm(config: AdaptConfig, **options: Any) -> "tuple[LMEncoder, Adaptation]":
    """The LM that `config` names, its mask removed where it is to be, and what the folder says of it.

    Raises `ValueError` for what is not one causal LM, and for blocks that it does not have.
    """
    from boustro.encoders import exact_spec, locate, split_kind, split_spec
    from boustro.encoders.adapted import facts_of
    from boustro.encoders.lm import LMEncoder
    from boustro.encoders.options import ReadingOptions
    from boustro.encoders.unmasked import UnmaskedEncoder
    from boustro.models.adaptation import MASK_KEPT

    names = split_spec(config.lm)
    kind, path = split_kind(names[0])
    if len(names) > 1 or kind not in ("", "backward:"):
        raise ValueError(f"{config.lm}: one causal LM is adapted; name it by itself, and its blocks with --blocks")
    name, revision = locate(path)
    reading = ReadingOptions(**{"layers": "last", "pooling": "exit", "context": "sentence", **options})
    given = {"spec": config.lm, "revision": revision, "direction": "backward" if kind else None}
    if config.blocks == MASK_KEPT:
        encoder = LMEncoder(name, reading, **given)
    else:
        encoder = UnmaskedEncoder(name, reading, blocks=None if config.blocks == "all" else config.blocks, **given)
    return encoder, facts_of(encoder, split_kind(exact_spec(path, encoder.identity()))[1])


def _others(options: type[TextOptions | LabelOptions], first: str) -> str:
    names = [field.name for field in fields(options) if field.name != first]
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)

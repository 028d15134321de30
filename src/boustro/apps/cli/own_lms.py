"""`boustro backward`, `pack`, `fuse`, `elmo`, `adapt`, `seq2seq`, `memory`, `names` and `distill-words`.

torch is imported when a command runs, so that --help is fast.
"""

import sys
from typing import Any

from boustro.errors import count_of
from boustro.lab.adapt.options import (
    AdaptConfig,
    BackwardConfig,
    ElmoConfig,
    FuseConfig,
    MemoryConfig,
    NamesConfig,
    PackConfig,
    Seq2SeqConfig,
    TableConfig,
)
from boustro.options import command_line
from boustro.text.documents import is_stream


def backward(config: BackwardConfig) -> dict[str, Any]:
    """Train a small backward LM for an LM that you already have, from raw text, in the minutes that you give it.

    It has the LM's vocabulary and its embeddings, frozen. Some steps are measured first, and the plan is printed. The
    same command continues a run that was stopped.
    """
    from boustro.lab.adapt.backward import build_backward

    if not config.text:
        raise ValueError("no text given; name at least one file, folder or dataset with --text")
    for name in filter(is_stream, config.text):
        raise ValueError(f"{name}: a stream can be read only once, and this command reads its text twice; give a file")
    return build_backward(config)


def pack(config: PackConfig) -> dict[str, Any]:
    """Write a frozen LM in 4 or 8 bits, its first blocks alone, or the pieces that some text needs, as a folder that is
    an encoder like every other.

    Norms and other vectors stay in 16 bits, and without --texts the vocabulary is whole.
    """
    from boustro.lab.adapt.pack import pack_model

    packed = pack_model(config)
    told = f"; {packed.told}" if packed.coded else ""
    print(f"{config.out}: {packed.change}{told}; {packed.bytes / 1e6:,.1f} MB; as an encoder {packed.spec}")
    return packed._asdict()


def fuse(config: FuseConfig) -> dict[str, Any]:
    """Train a fusion of a forward and a backward LM, which predicts each piece from all others."""
    from boustro.lab.adapt.fuse import train_fusion
    from boustro.lab.pretrain.output import run_output
    from boustro.models.fusion import FUSION_KIND

    with run_output(config, FUSION_KIND):
        return train_fusion(config)


def elmo(config: ElmoConfig) -> dict[str, Any]:
    """Train an ELMo on raw text."""
    from boustro.lab.adapt.elmo import train_and_held_out, train_elmo
    from boustro.lab.pretrain.output import run_output
    from boustro.models.elmo import ELMO

    train, held_out = train_and_held_out(config)
    with run_output(config, ELMO):
        sentences, measured = ([s.words for text in texts for s in text] for texts in (train, held_out))
        return train_elmo(sentences, measured, config)


def adapt(config: AdaptConfig) -> dict[str, Any]:
    """Adapt a causal LM to reading without its causal mask, or to what things are, by low-rank changes to its matrices
    (LoRA).

    Give --shards to train on running text, --train to train on labelled sentences, or raw text and --things.
    """
    from boustro.lab.pretrain.output import run_output
    from boustro.models.lora import ADAPTATION, find_peft

    find_peft()  # raises before an LM is loaded
    with run_output(config, ADAPTATION):
        from boustro.lab.adapt.adapters import adapt_to_labels, adapt_to_text
        from boustro.lab.adapt.terms import adapt_to_things

        ways = {"shards": adapt_to_text, "train": adapt_to_labels, "things": adapt_to_things}
        result = ways[config.way](config)
    print(f"next: {command_line('fit', encoder=config.spec, train='DATA', out='MODEL')}", file=sys.stderr)
    return result


def seq2seq(config: Seq2SeqConfig) -> dict[str, Any]:
    """Fine-tune a masked or a causal LM on pairs of a prompt and a target text, such as articles and summaries."""
    from boustro.lab.adapt.seq2seq import MODEL_KIND, train_seq2seq
    from boustro.lab.pretrain.output import run_output

    with run_output(config, MODEL_KIND):
        return train_seq2seq(config)


def memory(config: MemoryConfig) -> dict[str, Any]:
    """Write the mean vector of every word in raw text, for encoders that remember what a word was elsewhere."""
    from boustro.lab.adapt.memory import write_memory

    if not config.corpus and not config.data:
        raise ValueError("no text given; name at least one file, folder or dataset, or labelled files with --data")
    for name in filter(is_stream, (*config.corpus, *config.data)):
        raise ValueError(f"{name}: a stream can be read only once, and a memory reads its text twice; give a file")
    record = write_memory(config)
    print(f"{config.out}: {record['kept']:,} of {record['different']:,} words; as an encoder memory:{config.out}")
    return record


def names(config: NamesConfig) -> dict[str, Any]:
    """Train a small network that finds names, from labelled files of any types, for encoders and for tagging at once.

    A run that was stopped goes on with the vectors that are in the feature cache.
    """
    from boustro.lab.adapt.names import write_names

    record = write_names(config)
    print(f"{config.out}: {record['names']:,} names of {record['types']:,} types; as an encoder names:{config.out}")
    return record


def distill_words(config: TableConfig) -> dict[str, Any]:
    """Make a table of words from a sentence encoder and raw text, which reads whole texts at the cost of a look-up."""
    from boustro.lab.adapt.table import write_table

    if not config.corpus:
        raise ValueError("no text given; name at least one file, folder or dataset")
    record = write_table(config)
    near = f"; cosine to the texts' own vectors {record['cosines'][-1]:.3f}" if "cosines" in record else ""
    print(f"{config.out}: {count_of(record['words'], 'words')} and parts, as an encoder table:{config.out}{near}")
    return record

"""The folder of a SentenceEncoder: what was fitted, and which encoder it belongs to; never the encoder itself.

config.json              encoder, options, training, and what training recorded
statistics.safetensors   the first component and the arrays of the transform
words.json               how often each word occurs in the texts
head.safetensors         the head's weights, where one was trained
README.md                the model card
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from boustro import __version__
from boustro.embeddings.encoder import SentenceEncoder
from boustro.embeddings.head import EmbeddingHead
from boustro.embeddings.pooling import WordFrequencies
from boustro.encoders.spec import exact_spec
from boustro.features.weights import naming_folder, weights_of
from boustro.heads.options import HiddenOptions
from boustro.heads.transforms import TRANSFORMS
from boustro.store import read_folder, read_json, write_file, write_folder
from boustro.tasks.card import write_short_card
from boustro.tasks.saved import upgrade_reading

KIND = "sentence_encoder"
COMPONENT = "component"  # an array in STATISTICS
STATISTICS, WORDS, HEAD = "statistics.safetensors", "words.json", "head.safetensors"
AnyEncoder = TypeVar("AnyEncoder", bound=SentenceEncoder)


def save_encoder(model: SentenceEncoder, path: str | Path) -> None:
    """Write the folder; atomic."""
    head = model.head
    identity = model.encoder().identity()
    config = {
        "version": __version__,
        "encoder": exact_spec(model.encoder_spec, identity),
        "encoder_identity": identity.to_dict(),
        "options": asdict(model.options),
        "head": head and {"options": asdict(head.options), "streams": head.streams, "scale": head.scale},
        "record": model.record,
    }
    arrays = dict(model.transform.arrays()) if model.transform else {}
    if model.component is not None:
        arrays[COMPONENT] = model.component
    with write_folder(path, KIND) as folder:
        if arrays:
            save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / STATISTICS)
        if model.frequencies is not None:
            counts = dict(model.frequencies.counts.most_common())
            write_file(folder / WORDS, json.dumps(counts, ensure_ascii=False))
        if head is not None:
            save_file({name: t.cpu().contiguous() for name, t in head.state_dict().items()}, folder / HEAD)
        write_file(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
        write_short_card(
            folder,
            config,
            Path(path).resolve().name,
            pipeline="sentence-similarity",
            does=f"Makes a vector of {model.width:,} numbers from a text, for comparison by the cosine.",
            facts=_facts(model),
            cls="SentenceEncoder",
            code=[
                f'vectors = model.encode(["The ferry leaves at seven."])  # an array (1, {model.width})',
                'model.similarity("A ship left.", vectors)  # cosines, -1 to 1',
            ],
        )


def _facts(model: SentenceEncoder) -> dict[str, Any]:
    """What the card says of the training."""
    record, frequencies = model.record, model.frequencies
    spearman = record.get("dev_spearman")
    return {
        "statistics": frequencies and f"of texts with {sum(frequencies.counts.values()):,} words",
        "head": model.head and f"trained on {record['pairs']:,} pairs ({record['learned']}), seed {record['seed']}",
        "Spearman's correlation on the development pairs": None if spearman is None else f"{spearman:.2f}",
    }


def load_encoder_folder(
    cls: type[AnyEncoder], path: str | Path, *, encoder: str | None, device: str | None
) -> AnyEncoder:
    """See `SentenceEncoder.from_pretrained`."""
    path = Path(path)
    with read_folder(path, KIND, verify=True) as manifest:
        saved = read_json(path / "config.json")
        model = cls(saved["encoder"], device=device, **upgrade_reading(saved["options"]))
        arrays = load_arrays(path / STATISTICS) if STATISTICS in manifest["files"] else {}
        model.component = arrays.get(COMPONENT)
        if WORDS in manifest["files"]:
            model.frequencies = WordFrequencies(read_json(path / WORDS))
        if made := saved["head"]:
            streams = tuple((int(layers), int(width)) for layers, width in made["streams"])
            model.head = EmbeddingHead(HiddenOptions.of_saved(made["options"]), streams, made["scale"])
            model.head.load_state_dict(load_file(path / HEAD))
            model.head.to(model.device).eval()
        elif arrays or not model.options.needs_texts:
            model.transform = TRANSFORMS[model.options.transform].from_arrays(arrays)
        model.record = saved["record"]
        model._trained_on = weights_of(saved["encoder_identity"])
    model.encoder_spec = encoder or model.encoder_spec
    with naming_folder(path):
        model.encoder()
    return model

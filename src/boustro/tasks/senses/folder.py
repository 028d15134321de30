"""The folder of a sense tagger: centroids, counts, first senses, and which encoder they belong to.

config.json              options, the exact encoder, the prior, and what training recorded
senses.json              for every lemma and part of speech its senses and their counts; WordNet's first senses
centroids.safetensors    a vector per sense, in the order of senses.json; the arrays of the transform
README.md                the model card
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors.numpy import load_file, save_file

from boustro import __version__
from boustro.features.weights import naming_folder
from boustro.heads.transforms import TRANSFORMS
from boustro.store import read_folder, read_json, write_file, write_folder
from boustro.tasks.card import write_short_card
from boustro.tasks.saved import upgrade_reading
from boustro.tasks.senses.centroids import Centroids

if TYPE_CHECKING:
    from boustro.tasks.senses.tagger import SenseTagger

AnyTagger = TypeVar("AnyTagger", bound="SenseTagger")
KIND = "sense-tagger"
CONFIG, SENSES, VECTORS = "config.json", "senses.json", "centroids.safetensors"


def save_senses(tagger: "SenseTagger", path: str | Path) -> None:
    """Write the folder of a trained tagger; atomic."""
    centroids, transform = tagger.trained()
    config = {
        "version": __version__,
        **tagger.reader.to_dict(),
        "options": asdict(tagger.options),
        "prior": tagger.prior,
        "record": tagger.record,
    }
    first = [[lemma, pos, key] for (lemma, pos), key in tagger.first.items()]
    arrays = {f"transform.{name}": array for name, array in transform.arrays().items()}
    with write_folder(path, KIND) as folder:
        save_file({"centroids": centroids.vectors, **arrays}, folder / VECTORS)
        write_file(folder / SENSES, json.dumps({**centroids.to_dict(), "first": first}, ensure_ascii=False))
        write_file(folder / CONFIG, json.dumps(config, indent=1, ensure_ascii=False))
        write_short_card(
            folder,
            config,
            Path(path).resolve().name,
            pipeline="token-classification",
            does="Says which sense of an inventory a word has in its sentence.",
            facts=_facts(tagger),
            cls="SenseTagger",
            code=['model.evaluate("semeval2007.data.xml")  # precision, recall, F1, coverage'],
        )


def _facts(tagger: "SenseTagger") -> dict[str, Any]:
    """What the card says of the training."""
    record, train = tagger.record, tagger.record["train"]
    held_out = record.get("held_out") or {}
    own = held_out.get("accuracy", {}).get(str(tagger.prior))
    return {
        "occurrences of words with a sense": f"{train['occurrences']:,}, in {train['sentences']:,} sentences",
        "lemmas and senses": f"{record['lemmas']:,} and {record['senses']:,}",
        "prior": f"{tagger.prior:g}",
        "accuracy on documents held out": held_out and f"{own}, most frequent sense {held_out['most_frequent_sense']}",
        "first senses of WordNet": tagger.first and f"{len(tagger.first):,}",
    }


def load_senses(
    cls: type[AnyTagger],
    path: str | Path,
    *,
    encoder: str | None,
    cache: bool | str | Path,
    device: str | None,
) -> AnyTagger:
    """See `SenseTagger.from_pretrained`."""
    path = Path(path)
    with read_folder(path, KIND, verify=True, needs=(CONFIG, SENSES, VECTORS)):
        config, senses = read_json(path / CONFIG), read_json(path / SENSES)
        arrays: dict[str, Any] = load_file(path / VECTORS)
        tagger = cls(encoder or config["encoder"], cache=cache, device=device, **upgrade_reading(config["options"]))
        own = {name.removeprefix("transform."): a for name, a in arrays.items() if name.startswith("transform.")}
        tagger.transform = TRANSFORMS[tagger.options.transform].from_arrays(own)
        tagger.centroids = Centroids.from_dict(senses, np.asarray(arrays["centroids"]))
        tagger.first = {(lemma, pos): key for lemma, pos, key in senses["first"]}
        tagger.prior, tagger.record = config["prior"], config["record"]
        tagger.reader = tagger.reader.of_weights(config["encoder_identity"])
    with naming_folder(path):
        tagger.reader.encoder()
    return tagger

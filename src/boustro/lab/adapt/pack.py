"""A frozen model in fewer bits, its first blocks alone, or fewer pieces: `boustro pack MODEL --out DIR`.

    DIR/packed.safetensors    the weights in few bits (`models.packed`); with --bits 16 an ordinary model.safetensors
    DIR/channels.safetensors  of a Llama or a BERT in 4 bits: how large inputs of products are (`models.products`)
    DIR/tokenizer.json        the model's; with --texts without the pieces that some text does not need
    DIR/config.json           the model's, with as many blocks as are kept; `packed` says what was changed
    DIR/README.md             the same in words; the model's own card is README.source.md
    DIR/...                   tokenizer, licences, notices, the parts of a sentence-transformers folder: copied

The blocks that are kept compute what they did in the whole model. A final norm was learned for the states of the last
block of all; after another block it has no scale (`without_scale`). The head of an LM is left out with its last blocks.
"""

import re
import shutil
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from boustro.encoders.loading import exact_revision, find_file, load_config
from boustro.encoders.sentences import read_modules
from boustro.encoders.spec import locate
from boustro.encoders.transformer import plain_sentences
from boustro.lab.adapt.options import PackConfig
from boustro.models.bert import BLOCK_MAPS
from boustro.models.llama import BLOCK_PARTS
from boustro.models.packed import PACKED_FILE, PLAIN_FILE, StoredWeights, pack_tensors, packed_weights, told_change
from boustro.models.placing import shortened
from boustro.models.pretrained import (
    architecture_kind,
    causal_class,
    describe_architecture,
    final_norm,
    load_pretrained,
)
from boustro.models.products import load_channels, typical_inputs
from boustro.names import CHANNELS_FILE, MODULES
from boustro.store import MANIFEST, Artefact, claim, read_json, write_file, write_folder
from boustro.text.alignment import Aligner
from boustro.text.documents import read_documents
from boustro.text.start import start_pieces
from boustro.text.tokenizers import cut_tokenizer, load_tokenizer
from boustro.text.words import split_text

READ_BY = {"llama": [BLOCK_PARTS[n] for n in (0, 3, 4, 6)], "bert": [BLOCK_MAPS[n] for n in (0, 3, 4, 5)]}
"""Of each product of a block, the first of the maps that read its input."""
POST_NORM = frozenset("bert camembert distilbert electra roberta xlm-roberta".split())
"""Architectures whose last block ends as every other."""
OWN_FILES = ("config.json", MANIFEST, "README.md", "training.json")
WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.gguf")
COPIED_ENDINGS = (".json", ".txt", ".md", ".model", ".tiktoken", ".jinja", "")
SOURCE_CARD = "README.source.md"
VOCABULARIES = {
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json"),
}
MOST_UNKNOWN = 0.5
"""Unknown pieces a word of a text that a vocabulary is cut to."""
LEGAL = ("LICEN[CS]E*", "NOTICE*", "COPYING*")
LICENCE = re.compile(r"^license:[ ]*([^\s#]+)", re.MULTILINE)


class Packed(NamedTuple):
    """Facts of a packed file."""

    spec: str
    """Of the encoder."""
    bytes: int
    change: str
    coded: int
    """Values that are in codes, and the share of them that is exactly what it was."""
    exact: float
    error: float
    """The root mean square of the change, beside that of the values."""
    errors: dict[str, float]
    """That of each matrix."""

    @property
    def told(self) -> str:
        """Say the error of all values, and of the matrix that has most of it."""
        worst = max(self.errors, key=self.errors.__getitem__, default=None)
        most = f", most in {worst}, {self.errors[worst]:.2%}" if worst else ""
        return f"root mean square of the change {self.error:.2%} of that of the values{most}"


def pack_model(config: PackConfig) -> Packed:
    """Write the folder.

    Raises as `encoders.loading.load_config` and `models.pretrained.load_pretrained`, and `ValueError` for a model that
    is no LM, whose weights are quantised, or whose blocks cannot be cut.
    """
    place, revision = locate(config.model)
    path, known = str(place), load_config(place, revision)
    if architecture_kind(known) is None:
        raise ValueError(
            f"{config.model} is {describe_architecture(known)}; name a causal LM, or a masked one such as MiniLM"
        )
    if getattr(known, "quantization_config", None) and not path.endswith(".gguf"):
        raise ValueError(f"{config.model}: its weights are quantised already; pack those that are not")
    tokenizer = load_tokenizer(place, revision)
    cut = _cut(config, tokenizer, path, revision, known) if config.texts else None
    with claim(config.out, "model", config.overwrite):
        made, model = _load(config, path, revision, known)
        channels = _channels(path, model, tokenizer) if config.bits == 4 else {}
        if cut:
            tokenizer, ids, letters = cut
            _renumber(made, model, ids, letters)
        weights = _weights(model)
        tensors, facts = pack_tensors(weights, config.bits, packed_weights(path))
        with write_folder(config.out, "model") as folder:
            file = folder / (PLAIN_FILE if config.bits == 16 else PACKED_FILE)
            save_file(tensors, file, facts)
            if channels:
                save_file(channels, folder / CHANNELS_FILE)
            made.save_pretrained(folder)
            left_out = _copy(_source(path, revision), folder)
            for whole in [*folder.iterdir()] if cut else ():
                if whole.suffix == ".model" or whole.name in VOCABULARIES:
                    whole.unlink()
            if not (folder / "tokenizer_config.json").is_file():
                tokenizer.save_pretrained(folder)
            is_words_alone = architecture_kind(known) == "masked" and not (folder / MODULES).is_file()
            kind = "masked:" if is_words_alone else ""
            packed = _compare(file, weights, told_change(made) or "", f"{kind}{config.out}")
            write_file(folder / "README.md", _card(config, packed, folder, left_out))
    return packed


def _cut(
    config: PackConfig, tokenizer: Any, path: str, revision: str | None, known: Any
) -> tuple[Any, list[int], float]:
    """Return the tokenizer that some text needs, the ids of its pieces in the whole one, and letters a piece of the
    text."""
    if architecture_kind(known) != "masked":
        raise ValueError(
            f"{config.model} is {describe_architecture(known)}, which predicts all its pieces; remove --texts"
        )
    place = Artefact(path)
    modules = read_modules(place, revision) if find_file(place, MODULES, revision) else None
    prompt, aligner, used, counts = modules.prompt if modules else "", Aligner(tokenizer), set[int](), Counter[str]()
    for text in read_documents(config.texts, split="line", option=""):
        for form in {text, text.lower()} if modules and modules.lower else {text}:
            used.update(tokenizer(prompt + form, verbose=False)["input_ids"])
            for read in aligner.align([(s.sentence.words, s.sentence.spaces) for s in split_text(form)]):
                used.update(read.ids.tolist())
                unknown = int((read.ids == tokenizer.unk_token_id).sum())
                counts.update(words=len(read.bounds) - 1, pieces=len(read.ids), unknown=unknown)
        counts["letters"] += len(text)
    where = ", ".join(config.texts)
    if not counts["words"]:
        raise ValueError(f"{where}: no text, so no piece would be left; give some of what will be read")
    if counts["unknown"] > MOST_UNKNOWN * counts["words"]:
        share = counts["unknown"] / counts["words"]
        raise ValueError(
            f"{where}: {share:.0%} of the words have unknown pieces, so {config.model} does not read this language; "
            "give text that it reads, or another model"
        )
    try:
        return *cut_tokenizer(tokenizer, used), round(counts["letters"] / counts["pieces"], 2)
    except ValueError as error:
        raise ValueError(f"{config.model}: {error}; remove --texts") from error


@torch.no_grad()
def _renumber(made: Any, model: Any, ids: list[int], letters: float) -> None:
    """Leave the rows of these pieces, in this order, and let the config name their new ids."""
    parts = (model.get_input_embeddings(), model.get_output_embeddings())
    rows = [part.weight for part in parts if part is not None]
    rows += [part.bias for part in parts if getattr(part, "bias", None) is not None]
    for row in {id(row): row for row in rows}.values():  # some models tie both
        row[: len(ids)] = row[ids]
    model.resize_token_embeddings(len(ids), mean_resizing=False)
    numbers = {old: new for new, old in enumerate(ids)}
    for name, number in made.to_dict().items():
        if name.endswith("_token_id") and isinstance(number, int):
            setattr(made, name, numbers.get(number))
    made.packed |= {"pieces": len(ids), "of_pieces": made.vocab_size, "letters": letters}
    made.vocab_size = len(ids)


def _load(config: PackConfig, path: str, revision: str | None, known: Any) -> tuple[Any, Any]:
    """Return the config of what is packed, and the model, in float32."""
    import transformers

    depth, before = known.get_text_config().num_hidden_layers, getattr(known, "packed", None) or {}
    blocks = config.blocks or depth
    if blocks > depth:
        raise ValueError(f"--blocks {blocks}: {config.model} has {depth} blocks; remove --blocks to keep them all")
    short = shortened(known, blocks)
    if blocks < depth and short is None:
        raise ValueError(
            f"{config.model} is {describe_architecture(known)}, of which it is not known whether its first blocks "
            "compute the same without the others; remove --blocks, which packs all of it"
        )
    is_causal, names = architecture_kind(known) == "causal", getattr(known, "architectures", None) or []
    make: Any = transformers.AutoModel
    if not short:
        named = getattr(transformers, names[0], None) if names else None
        is_model = isinstance(named, type) and issubclass(named, transformers.PreTrainedModel)
        make = named if is_model else causal_class(known) if is_causal else make
    made = short or known
    how = {"config": made, "revision": revision, "dtype": torch.float32, "num_blocks": depth}
    model = load_pretrained(make, path, **how)
    normed = short is not None and known.model_type not in POST_NORM
    if normed:
        without_scale(model, path)
    if short:
        made.architectures = [type(model).__name__]
        made.tie_word_embeddings = False
    vars(made).pop("quantization_config", None)  # of a .gguf file, whose weights are unpacked
    facts = {"bits": config.bits, "blocks": blocks, "of": before.get("of", depth)}
    made.packed = before | facts | ({"norm": "without scale"} if normed else {})
    return made, model


def _weights(model: Any) -> dict[str, Tensor]:
    """Weights by the names that they have in a file."""
    weights = {name: weight for name, weight in model.state_dict().items() if name not in model.all_tied_weights_keys}
    weights = {name: weight.contiguous() for name, weight in weights.items() if "pooler." not in name}
    return {_prefix(model) + name: weight for name, weight in weights.items()}


def _prefix(model: nn.Module) -> str:
    """Return what the names of weights begin with in a file; a causal LM without its head has them as with it."""
    bare: Any = model
    return (
        f"{bare.base_model_prefix}." if architecture_kind(bare.config) == "causal" and bare.base_model is bare else ""
    )


def _channels(path: str, model: nn.Module, tokenizer: Any) -> dict[str, Tensor]:
    """Those that a packed folder has already, else `channels_of`."""
    if not (Path(path) / CHANNELS_FILE).is_file():
        return channels_of(model, tokenizer)
    own = {_prefix(model) + name for name, _ in model.named_parameters()}
    return {name: rows for name, rows in load_channels(path).items() if name in own}


@torch.no_grad()
def channels_of(model: nn.Module, tokenizer: Any) -> dict[str, Tensor]:
    """Return what `models.products` knows of inputs, for a Llama and a BERT, which have products in int8."""
    lm: Any = model
    if lm.config.model_type not in READ_BY:
        return {}
    read_by = [f".{part}" for part in READ_BY[lm.config.model_type]]
    modules = {name: module for name, module in lm.named_modules() if any(map(name.endswith, read_by))}
    backward = getattr(lm.config, "direction", "forward") == "backward"
    is_causal = architecture_kind(lm.config) == "causal"
    start = start_pieces(tokenizer, lm.config, backward=backward) if is_causal else []

    def run() -> None:
        for text in plain_sentences():
            ids = tokenizer(text, add_special_tokens=not is_causal)["input_ids"]
            if ids := [*start, *(ids[::-1] if backward else ids)][: lm.config.max_position_embeddings]:
                lm.eval()(input_ids=torch.tensor([ids]))

    return typical_inputs({f"{_prefix(lm)}{name}.weight": part for name, part in modules.items()}, len(start), run)


@torch.no_grad()
def without_scale(model: nn.Module, path: str) -> None:
    """Set the final norm of a body so that it gives states one length and no more; `ValueError` for other kinds."""
    norm: Any = final_norm(model, path)
    states = torch.randn(8, norm.weight.shape[-1])
    for scale in (1.0, 0.0):  # Gemma adds 1
        for name, parameter in norm.named_parameters():
            parameter.fill_(scale if name == "weight" else 0)
        # what gives any state the length 1 is the norm without its scale
        if (norm(states).square().mean(1).sqrt() - 1).abs().max() < 1e-2:
            return
    raise ValueError(f"{path}: its final norm ({type(norm).__name__}) is not known here; remove --blocks")


def _source(path: str, revision: str | None) -> Path:
    """Return the folder with the model's files: itself, that of a .gguf file, or the one of the Hub's cache."""
    if Path(path).exists():
        return Path(path) if Path(path).is_dir() else Path(path).parent
    from huggingface_hub import snapshot_download

    wanted = [*(f"*{suffix}" for suffix in COPIED_ENDINGS if suffix), *LEGAL]
    return Path(snapshot_download(path, revision=exact_revision(path, revision), allow_patterns=wanted))


def _copy(source: Path, folder: Path) -> list[str]:
    """Copy what belongs to the model besides its weights; returns the names of what is left."""
    modules = read_json(source / MODULES) if (source / MODULES).is_file() else []
    parts = {part["path"] for part in modules if part.get("path")}
    left = []
    for file in sorted(source.iterdir()):
        name = file.name
        if file.is_dir() and name in parts:
            shutil.copytree(file, folder / name, copy_function=shutil.copyfile)
        elif file.is_file() and name not in OWN_FILES and _belongs(name):
            shutil.copyfile(file, folder / name)
        elif name == "README.md":
            shutil.copyfile(file, folder / SOURCE_CARD)
        elif name not in OWN_FILES and not any(fnmatch(name, pattern) for pattern in WEIGHT_FILES):
            left.append(name)
    return left


def _belongs(name: str) -> bool:
    if any(fnmatch(name.upper(), pattern) for pattern in LEGAL):
        return True
    return Path(name).suffix in COPIED_ENDINGS and not name.startswith(".") and not fnmatch(name, "*.index.json")


def _compare(file: Path, weights: Mapping[str, Tensor], change: str, spec: str) -> Packed:
    """Compare what the file gives back with the weights."""
    stored = StoredWeights(file.parent)
    coded, same, lost, squares = 0, 0, {}, {}
    for name in stored.coded:
        given, back = weights[name].float(), stored.read(name)
        coded, same = coded + given.numel(), same + int((given == back).sum())
        lost[name], squares[name] = (float(part.double().square().sum()) for part in (given - back, given))
    errors = {name: (lost[name] / (squares[name] or 1.0)) ** 0.5 for name in lost}
    error = (sum(lost.values()) / (sum(squares.values()) or 1.0)) ** 0.5
    return Packed(spec, file.stat().st_size, change, coded, same / max(coded, 1), error, errors)


def _card(config: PackConfig, packed: Packed, folder: Path, left_out: list[str]) -> str:
    """README.md of the folder."""
    card = folder / SOURCE_CARD
    named = LICENCE.search(card.read_text("utf-8", "replace")) if card.is_file() else None
    legal = [file.name for file in sorted(folder.iterdir()) if any(fnmatch(file.name.upper(), p) for p in LEGAL)]
    licence = f"its card names the licence {named[1]}" if named else ""
    terms = f"its terms are in {', '.join(legal)}" if legal else ""
    said = "; ".join(filter(None, (licence, terms)))
    values = f"{packed.coded:,} values in codes, {packed.exact:.1%} of them exactly what they were"
    name = Path(config.model).resolve().name if Path(config.model).exists() else config.model
    rows = {
        "made from": name,
        "changed": packed.change,
        "in codes": f"{values}; {packed.told}",
        "bytes of the weights": f"{packed.bytes:,}",
        "not copied": ", ".join(left_out) or "nothing but weights",
        "licence": said or f"that of {name}, whose folder has no text of it",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    matrices = "\n".join(f"| {name} | {error:.2%} |" for name, error in packed.errors.items())
    matrices = f"\n| matrix | change |\n|---|---:|\n{matrices}\n" if matrices else ""
    head = f"---\nlicense: {named[1]}\n---\n" if named else ""
    whole = "" if config.texts else " The vocabulary is whole."
    return f"""{head}# {name}, packed

A changed copy of {name}, made by `boustro pack`.{whole}

| | |
|---|---|
{table}
{matrices}"""

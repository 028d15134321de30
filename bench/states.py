"""F1 of a tagger from states of llama.cpp, at several quantisations, beside its F1 from states of transformers.

    PYTHONPATH=src python bench/states.py --lm FOLDER --gguf Q8=q8.gguf Q4=q4.gguf --train train.conll --dev dev.conll

The heads learn from the last layer in transformers (float32, single sentences). llama.cpp gives that layer after its
final norm, as embeddings without pooling; it needs llama-cpp-python. The pieces are those of `boustro fit`, so nothing
but the states differs. `--quantise Q8=OUT` makes a file first, by llama.cpp's own quantiser.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import tyro

from boustro import Tagger
from boustro.encoders.outside import forward_lm
from boustro.tasks.data import read_data

TYPES = {"Q8": "LLAMA_FTYPE_MOSTLY_Q8_0", "Q4": "LLAMA_FTYPE_MOSTLY_Q4_0"}


def main(
    lm: str,
    train: str,
    dev: str,
    gguf: tuple[str, ...] = (),
    quantise: tuple[str, ...] = (),
    sentences: tuple[int, int] = (400, 200),
    seeds: tuple[int, ...] = (1, 2, 3),
) -> None:
    """Print the F1 of heads over the states of each program, and how many answers stay.

    Args:
        lm: The LM, in transformers.
        train: Labelled sentences that the heads learn.
        dev: Those that they are scored on.
        gguf: NAME=FILE, the same LM for llama.cpp.
        quantise: Q8=OUT or Q4=OUT, from the first of these files.
        sentences: How many of the training and of the development set.
        seeds: Of the heads.
    """
    files = dict(pair.split("=", 1) for pair in gguf)
    for name, out in (pair.split("=", 1) for pair in quantise):
        write_quantised(next(iter(files.values())), out, TYPES[name])
        files[name] = out
    learned, asked = (
        [replace(s, document="") for s in read_data(path)[:most]]
        for path, most in zip((train, dev), sentences, strict=True)
    )
    options: dict[str, Any] = {"layers": "last", "context": "sentence", "dtype": "float32"}
    taggers = [Tagger(lm, "mlp", **options).fit(learned, asked, seed=seed) for seed in seeds]
    reader = forward_lm(taggers[0].encoder())
    pieces = [reader.pieces(s.words, s.spaces) for s in asked]
    base = np.concatenate([streams[0] for streams in reader.read(asked)])
    vectors = {"transformers": base}
    for name, file in files.items():
        placed, begin = [], len(reader.before)
        for states, own_pieces in zip(
            llama_states(file, [[*reader.before, *p.ids] for p in pieces]), pieces, strict=True
        ):
            bounds = own_pieces.bounds + begin
            placed.append(reader.place_at(states[:, None], bounds[:-1], bounds[1:]))
        vectors[name] = np.concatenate(placed)
    print(json.dumps({"train words": sum(map(len, learned)), "dev words": len(base), "lm": lm}))
    for name, some in vectors.items():
        scores, same = [], []
        for tagger in taggers:
            answers, plain = answer(tagger, asked, some), answer(tagger, asked, base)
            scores.append(tagger.fitted.score(asked, answers).value)
            same.append(np.mean([a.tags == b.tags for a, b in zip(answers, plain, strict=True)]))
        rest = np.square(some.astype(float) - base).sum() / np.square(base - base.mean(0, dtype=float)).sum()
        row = {"states": name, "f1": [round(s, 2) for s in scores], "mean": round(float(np.mean(scores)), 2)}
        print(
            json.dumps(
                row | {"sentences as transformers": round(float(np.mean(same)), 4), "variance off": round(rest, 4)}
            )
        )


def answer(tagger: Any, dev: Sequence[Any], vectors: np.ndarray) -> list[Any]:
    """The answers of a tagger with these vectors of its LM."""
    plan = replace(tagger.plan, reader=tagger.plan.reader.with_vectors(vectors))
    return tagger.sharing(plan=plan, _fitted=replace(tagger.fitted, plan=plan)).answer(dev)


def llama_states(file: str, rows: list[list[int]]) -> list[torch.Tensor]:
    """The last layer (P, D) of each row of pieces, by llama.cpp."""
    import llama_cpp

    how = {"embedding": True, "pooling_type": llama_cpp.LLAMA_POOLING_TYPE_NONE, "verbose": False}
    llm: Any = llama_cpp.Llama(file, n_ctx=2048, n_batch=2048, n_ubatch=2048, n_threads=1, n_threads_batch=1, **how)
    layers = []
    for ids in rows:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(llm.ctx), True)
        llm._batch.set_batch(batch=ids, n_past=0, logits_all=True)
        assert llama_cpp.llama_decode(llm.ctx, llm._batch.batch) == 0
        got = (llama_cpp.llama_get_embeddings_ith(llm.ctx, n) for n in range(len(ids)))
        layers.append(torch.stack([torch.tensor(np.ctypeslib.as_array(p, (llm.n_embd(),)).copy()) for p in got]))
    return layers


def write_quantised(file: str, out: str, kind: str) -> None:
    """A GGUF file at another precision; one that is quantised is quantised once more."""
    import ctypes

    import llama_cpp

    how = llama_cpp.llama_model_quantize_default_params()
    how.ftype, how.nthread, how.allow_requantize = getattr(llama_cpp, kind), 2, True
    assert llama_cpp.llama_model_quantize(file.encode(), out.encode(), ctypes.byref(how)) == 0


if __name__ == "__main__":
    tyro.cli(main)

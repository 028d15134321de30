"""Exported folders run here without torch: onnxruntime, tokenizers and numpy are all that is imported.

    from boustro.apps.runtime import load
    tagger = load("ner-onnx")                       # a folder that `boustro export` wrote
    tagger.predict("Ada Brandt flew to Port Lisse.")

What `load` gives is the task's own class, such as `boustro.Tagger`, with the same `predict`; only what computes vectors
and scores is another. Trained folders are opened too, with torch, so that whatever takes a folder calls `open_model`.
"""

from boustro.apps.runtime.opening import load, open_model

__all__ = ["load", "open_model"]

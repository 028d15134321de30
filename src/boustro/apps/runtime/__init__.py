"""Exported folders run here without torch: onnxruntime, tokenizers and numpy are all that is imported.

    from boustro.runtime import load
    tagger = load("ner-onnx")                       # a folder that `boustro export` wrote
    tagger.predict("Ada Brandt flew to Port Lisse.")

What `load` gives is the task's own class, such as `boustro.Tagger`, with the same `predict`; only what computes vectors
and scores is another. Trained folders are opened too, with torch, and folders of the Hugging Face Hub: this is
`boustro.load`, which whatever takes a folder calls.
"""

from boustro.apps.runtime.opening import load

__all__ = ["load"]

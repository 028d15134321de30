"""A module of sentence-transformers: its users' code runs over a Boustro encoder.

    made = boustro.SentenceEncoder("starter", head="statistics").fit(texts)
    model = SentenceTransformer(modules=[BoustroModule(made)])
    model.encode(["Ada left.", "It rained."], normalize_embeddings=True)
    model.save_pretrained("vectors"); SentenceTransformer("vectors", trust_remote_code=True)

The vectors are those of `SentenceEncoder.encode`. They are computed without gradients: modules after this one can be
trained, this one cannot. A saved model contains a copy of the sentence encoder's folder, not the LMs, which it names.
sentence-transformers asks for `trust_remote_code=True` wherever a module is not its own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

try:
    from sentence_transformers.base.modules import InputModule
except ImportError as error:
    raise ImportError(
        "BoustroModule needs sentence-transformers 6 or newer; install it with: "
        "pip install 'boustro[sentence-transformers]'"
    ) from error

from boustro.tasks.embed.task import SentenceEncoder

FOLDER = "sentence_encoder"


class BoustroModule(InputModule):
    """The first module of a `SentenceTransformer`: texts in, `sentence_embedding` out.

    Args:
        encoder: A fitted `SentenceEncoder`, or the folder of one.
    """

    save_in_root = False

    def __init__(self, encoder: SentenceEncoder | str | Path) -> None:
        super().__init__()
        self.encoder = encoder if isinstance(encoder, SentenceEncoder) else SentenceEncoder.from_pretrained(encoder)

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **options: Any) -> dict[str, Tensor]:
        """Return the embeddings of texts, (texts, width); `ValueError`, with the place, for what is not a string."""
        texts = self._prepend_prompt(list(inputs), prompt) if prompt else inputs
        return {"sentence_embedding": torch.from_numpy(self.encoder.encode(texts, show_progress_bar=False))}

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """The features as they are: `preprocess` has computed the embeddings."""
        return features

    def get_embedding_dimension(self) -> int:
        """Return the width of an embedding."""
        return self.encoder.width

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Write the sentence encoder's folder into `output_path`."""
        self.encoder.save_pretrained(Path(output_path) / FOLDER)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> Self:
        """Open a saved module, of a folder or of the Hub; the options are those of sentence-transformers."""
        known = ("token", "cache_folder", "revision", "local_files_only")
        given = {name: value for name, value in options.items() if name in known}
        folder = cls.load_dir_path(model_name_or_path, f"{subfolder}/{FOLDER}" if subfolder else FOLDER, **given)
        if folder is None:
            raise FileNotFoundError(f"{model_name_or_path}: no folder {FOLDER} of a sentence encoder in {subfolder}")
        return cls(folder)

"""A tokenizer of tokenizer.json with what `text.alignment` asks of one of transformers.

What transformers knows besides the file, such as which piece stands for the unknown, is in the export's config.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

ROLES = ("unk_token", "eos_token", "sep_token")


class PieceTokenizer:
    """See the module.

    Args:
        path: tokenizer.json.
        special: Special pieces and their ids.
        roles: The piece of each of `ROLES`, or `None`.
    """

    is_fast = True

    def __init__(self, path: Path, special: Mapping[str, int], roles: Mapping[str, str | None]) -> None:
        self.backend_tokenizer = Tokenizer.from_file(str(path))
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        self.backend_tokenizer.encode_special_tokens = True  # "<s>" in a text is three characters
        self.all_special_tokens, self.all_special_ids = list(special), list(special.values())
        self.unk_token = roles["unk_token"]
        self.unk_token_id, self.eos_token_id, self.sep_token_id = (self._id(roles[role]) for role in ROLES)

    def _id(self, piece: str | None) -> int | None:
        return None if piece is None else self.backend_tokenizer.token_to_id(piece)

    def __call__(self, texts: Sequence[str], **_: Any) -> dict[str, list[list[int]]]:
        """The ids of texts, without special pieces."""
        found = self.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return {"input_ids": [one.ids for one in found]}

    def tokenize(self, text: str) -> list[str]:
        """The pieces of a text."""
        return self.backend_tokenizer.encode(text, add_special_tokens=False).tokens

    def get_vocab(self) -> dict[str, int]:
        """Piece → id."""
        return self.backend_tokenizer.get_vocab()


def tokenizer_facts(tokenizer: Any) -> dict[str, Any]:
    """What `PieceTokenizer` needs besides the file, of a tokenizer of transformers."""
    special = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    return {"special": special, "roles": {role: getattr(tokenizer, role) for role in ROLES}}

"""The token map of a tokenizer.json: which token string has which id, added and special tokens included.

Read directly, not through the tokenizers library, whose errors cannot be told apart from its bugs and which also
builds the merge tables that nobody needs here. Format: tokenizers' tokenizer.json; `model.vocab` is a map (BPE,
WordPiece, WordLevel) or a list of [token, score] (Unigram); `added_tokens` is a list of {"id", "content", ...}.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from models.disk import read_json_object

LARGEST_ID = 1 << 24


def read_vocabulary(path: Path) -> Mapping[str, int]:
    """Token string -> id of the tokenizer.json at `path`. Raises ModelError: missing, damaged, of an unknown form."""
    content = read_json_object(path)
    model = content.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(listed, list):
        listed = {item[0]: number for number, item in enumerate(listed) if isinstance(item, list) and item}
    if not isinstance(listed, dict):
        raise _damaged(path, "has no vocabulary")
    added = content.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise _damaged(path, "has added tokens of an unknown form")
    vocabulary = dict(listed)
    vocabulary.update((token.get("content"), token.get("id")) for token in added)
    for token, number in vocabulary.items():
        if type(token) is not str or type(number) is not int or not 0 <= number < LARGEST_ID:
            raise _damaged(path, f"gives the token {str(token)[:40]!r} no usable id")
    if not vocabulary:
        raise _damaged(path, "has an empty vocabulary")
    return MappingProxyType(vocabulary)


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"{path}: {what}; the file is damaged or of an unknown kind, download it again")

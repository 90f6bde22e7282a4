"""The bytes that each token of a tokenizer stands for, read from tokenizer.json.

Two ways to write bytes as token strings are in use: byte-level BPE has a printable character for each of the 256 bytes
(openai/gpt-2, `src/encoder.py`, `bytes_to_unicode`); SentencePiece has plain text with U+2581 for a space, and `<0xAB>`
for a byte that no token has (tokenizers' decoders `Replace` and `ByteFallback`). Which it is, the decoder says.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from engine.errors import ModelError
from models.durable_files import read_json_object
from models.token_map import LARGEST_BYTES, read_vocabulary, vocabulary_size

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def read_token_bytes(folder: Path) -> list[bytes]:
    """Returns the bytes of each id of the tokenizer in `folder`, empty for ids without a token. Large tokenizers take a
    quarter of a second, so the latest are remembered.

    Raises ModelError: missing, damaged, or a tokenizer that writes its tokens in another way.
    """
    path = folder / "tokenizer.json"
    return list(_read(path, path.stat().st_mtime_ns if path.is_file() else 0))


@lru_cache(maxsize=8)
def _read(path: Path, _time_ns: int) -> tuple[bytes, ...]:
    content, vocabulary = read_json_object(path, LARGEST_BYTES), read_vocabulary(path)
    kinds = _decoder_kinds(content.get("decoder"))
    if "ByteLevel" not in kinds and not {"Replace", "Metaspace", "ByteFallback"} & kinds:
        raise ModelError(
            f"{path}: its tokens cannot be read as bytes (decoder {', '.join(sorted(kinds)) or 'none'}); "
            "choose a drafter of the target's own family"
        )
    whole = _contents(content)
    texts = [b""] * vocabulary_size(vocabulary)
    read = _of_byte_level if "ByteLevel" in kinds else _of_sentence_piece
    for token, number in vocabulary.items():
        is_whole = token in whole and not _BYTE.fullmatch(token)
        texts[number] = token.encode() if is_whole else read(token)
    return tuple(texts)


def _decoder_kinds(decoder: object) -> set[str]:
    """Returns the types of a decoder and of those within it."""
    if not isinstance(decoder, Mapping):
        return set()
    inner = decoder.get("decoders")
    parts = [_decoder_kinds(part) for part in inner] if isinstance(inner, list) else []
    return {str(decoder.get("type"))}.union(*parts)


def _contents(content: Mapping[str, object]) -> set[str]:
    """Returns the added tokens, which stand in a text as they are."""
    added = content.get("added_tokens")
    return (
        {str(token.get("content")) for token in added if isinstance(token, dict)} if isinstance(added, list) else set()
    )


def _byte_of_character() -> dict[str, int]:
    """Returns the byte for each character of byte-level BPE: printable ones stand for themselves, the others follow
    from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_of_character()


def _of_byte_level(token: str) -> bytes:
    if all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token)
    return token.encode()


def _of_sentence_piece(token: str) -> bytes:
    found = _BYTE.fullmatch(token)
    return bytes([int(found[1], 16)]) if found else token.replace("▁", " ").encode()

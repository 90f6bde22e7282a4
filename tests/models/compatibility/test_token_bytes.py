"""The bytes of each token, against what the tokenizers library makes of it."""

import json
from pathlib import Path

import pytest

from engine.errors import ModelError
from models.token_bytes import read_token_bytes
from tests.toys.tokenizers import families, write_model

TEXT = "Héllo wörld, 123 naïve\n\tline — «é» 日本"


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_the_bytes_of_an_encoded_text_are_the_text(family, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    texts = read_token_bytes(write_model(tmp_path, family))
    ids = family.tokenizer.encode(TEXT, add_special_tokens=False).ids
    assert b"".join(texts[number] for number in ids).decode().strip() == TEXT
    assert len(texts) >= family.tokenizer.get_vocab_size()


def test_a_tokenizer_of_another_make_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path, families()[0])
    content = json.loads((folder / "tokenizer.json").read_text())
    content["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"cannot be read as bytes \(decoder WordPiece\); choose"):
        read_token_bytes(folder)

"""A GGUF file becomes an ordinary MLX model folder, whole or not at all (models.convert.making)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from models.convert.making import MANIFEST, Source, check_space, make_folder
from models.convert.progress import Progress, Tell, say_nothing
from models.disk import write_file, write_json
from models.folder import check_folder
from models.gguf import GgufFile, paths_of, read_gguf
from models.gguf.affine import DTYPES, all_finite, store
from models.gguf.families import Shape, make_config, parts, read_shape
from models.gguf.tensors import Part, Storage, Wish, entries_of, pieces_of, storage_of, values_of
from models.gguf.tokenizer import (
    make_tokenizer,
    make_tokenizer_config,
    read_chat_template,
    read_special_ids,
    read_tokens,
)
from models.safetensors_file import Piece, write_entries

__all__ = ["MANIFEST", "import_gguf"]


def import_gguf(
    source: Path, folder: Path, wish: Wish | None = None, tell: Tell = say_nothing, replace: bool = True
) -> Path:
    """Make the MLX model folder `folder` from the GGUF file `source`, or reuse it if it is there and whole.

    replace: whether a folder made of something else, or otherwise, may go. Returns `folder`. Raises ModelError: the
    source is missing, damaged or of a kind not imported; `folder` is something else's; another import does not end;
    the disk refuses.
    """
    wish = Wish() if wish is None else wish
    options = {"bits": wish.bits, "group": wish.group, "dtype": wish.dtype}
    origin = Source(source.name, paths_of(source), options)  # by name: nothing is read where the folder is there
    make_folder(folder, origin, lambda work: _fill(source, wish, work, folder, tell), replace)
    return folder


def _fill(source: Path, wish: Wish, work: Path, folder: Path, tell: Tell) -> None:
    """All files of the model folder, config.json last."""
    gguf = read_gguf(source)
    shape = read_shape(gguf)
    pieces = parts(gguf, shape)
    config = make_config(gguf, shape) | _special_ids(gguf, shape.vocabulary)
    dtype = _dtype(gguf, shape, wish, pieces)
    stored = {part.base: storage_of(gguf.tensors[part.name], wish, dtype) for part in pieces}
    entries = [entry for part in pieces for entry in entries_of(part, stored[part.base])]
    total_bytes = sum(entry.size_bytes for entry in entries)
    check_space(folder, total_bytes)
    tell(Progress("tokenizer", 0, total_bytes))
    write_file(work / "tokenizer.json", make_tokenizer(gguf).to_str().encode())
    write_json(work / "tokenizer_config.json", make_tokenizer_config(gguf))
    template = read_chat_template(gguf)
    if template is not None:
        write_file(work / "chat_template.jinja", template.encode())
    write_entries(work / "model.safetensors", entries, _told(gguf, pieces, stored, total_bytes, tell))
    write_json(work / "config.json", config | {"torch_dtype": DTYPES[dtype]} | _quantization(stored))
    check_folder(work)


def _told(
    gguf: GgufFile, pieces: list[Part], stored: dict[str, Storage], total_bytes: int, tell: Tell
) -> Iterator[Piece]:
    done_bytes = 0
    for part in pieces:
        for piece in pieces_of(gguf, part, stored[part.base]):
            yield piece
            done_bytes += piece.array.nbytes
            tell(Progress("weights", done_bytes, total_bytes))


def _special_ids(gguf: GgufFile, rows: int) -> dict[str, object]:
    """The special ids for config.json; the vocabulary must fit the `rows` of the embedding (it may be padded)."""
    tokens = len(read_tokens(gguf).tokens)
    if tokens > rows:
        raise gguf.unfit(f"{tokens} tokens and an embedding of {rows} rows", "the file is damaged, download it again")
    special = read_special_ids(gguf)
    ends = special.ends[0] if len(special.ends) == 1 else list(special.ends)
    named = {"bos_token_id": special.bos, "eos_token_id": ends or None, "pad_token_id": special.padding}
    return {key: value for key, value in named.items() if value is not None}


def _dtype(gguf: GgufFile, shape: Shape, wish: Wish, pieces: list[Part]) -> str:
    """The folder's dtype, as safetensors calls it: what was wished for; else what the file has, F16 where it has
    several, but BF16 where activations or vectors leave the range of F16."""
    for name, called in DTYPES.items():
        if called == wish.dtype:
            return name
    matrices = {gguf.tensors[part.name].type.name for part in pieces if len(part.shape) > 1}
    if matrices == {"F32"} and wish.bits is None:
        return "F32"
    if shape.family.wide_range or "BF16" in matrices:
        return "BF16"
    vectors = [part for part in pieces if len(part.shape) == 1]
    fit = (all_finite(store(values_of(gguf.tensors[v.name], gguf.rows(v.name, 0, 1)), "F16"), "F16") for v in vectors)
    return "F16" if all(fit) else "BF16"


def _quantization(stored: dict[str, Storage]) -> dict[str, object]:
    """mlx-lm's "quantization": the commonest width for all, an entry for each part of another width."""
    widths = {base: (how.group, how.bits) for base, how in stored.items() if how.bits is not None}
    if not widths:
        return {}
    common = Counter(widths.values()).most_common(1)[0][0]
    others = {base: {"group_size": g, "bits": b} for base, (g, b) in widths.items() if (g, b) != common}
    return {"quantization": {"group_size": common[0], "bits": common[1], **others}}

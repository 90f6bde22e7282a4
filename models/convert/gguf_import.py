"""Converts a GGUF file to an ordinary MLX model folder, which appears whole or not at all."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from models.convert.atomic_folder import (
    FolderSource,
    ImportProgress,
    OnProgress,
    build_folder,
    check_space,
    ignore_progress,
)
from models.durable_files import write_file, write_json
from models.gguf.affine_groups import DTYPES, all_finite, store
from models.gguf.families import Shape, make_config, parts, read_shape
from models.gguf.gguf_reader import GgufFile, paths_of, read_gguf
from models.gguf.gguf_tokenizer import (
    make_tokenizer,
    make_tokenizer_config,
    read_chat_template,
    read_special_ids,
    read_tokens,
)
from models.gguf.tensor_storage import Part, Storage, entries_of, pieces_of, storage_of, values_of
from models.model_folder import check_folder
from models.safetensors_file import Piece, write_entries
from models.storage_options import StorageOptions


def import_gguf(
    source: Path,
    folder: Path,
    options: StorageOptions | None = None,
    on_progress: OnProgress = ignore_progress,
    replace: bool = True,
) -> Path:
    """Makes the MLX model folder `folder` from the GGUF file `source`, or reuses it if it is current.

    replace: whether a folder that was made otherwise may be replaced. Returns `folder`. Raises ModelError: the source
    is missing, damaged or of a family that is not imported; `folder` was not made by an import; another import does
    not end; the disk refuses.
    """
    options = options or StorageOptions()
    origin = FolderSource(source.name, paths_of(source), asdict(options))
    build_folder(folder, origin, lambda work: _fill(source, options, work, folder, on_progress), replace)
    return folder


def _fill(source: Path, options: StorageOptions, work: Path, folder: Path, on_progress: OnProgress) -> None:
    """Writes all files of the model folder, config.json last."""
    gguf = read_gguf(source)
    shape = read_shape(gguf)
    pieces = parts(gguf, shape)
    config = make_config(gguf, shape) | _special_ids(gguf, shape.vocabulary)
    dtype = _dtype(gguf, shape, options, pieces)
    stored = {part.base: storage_of(gguf.tensors[part.name], options, dtype) for part in pieces}
    entries = [entry for part in pieces for entry in entries_of(part, stored[part.base])]
    total_bytes = sum(entry.size_bytes for entry in entries)
    check_space(folder, total_bytes)
    on_progress(ImportProgress("tokenizer", 0, total_bytes))
    write_file(work / "tokenizer.json", make_tokenizer(gguf).to_str().encode())
    write_json(work / "tokenizer_config.json", make_tokenizer_config(gguf))
    template = read_chat_template(gguf)
    if template is not None:
        write_file(work / "chat_template.jinja", template.encode())
    write_entries(work / "model.safetensors", entries, _reported(gguf, pieces, stored, total_bytes, on_progress))
    write_json(work / "config.json", config | {"torch_dtype": DTYPES[dtype]} | _quantization(stored))
    check_folder(work)


def _reported(
    gguf: GgufFile, pieces: list[Part], stored: dict[str, Storage], total_bytes: int, on_progress: OnProgress
) -> Iterator[Piece]:
    done_bytes = 0
    for part in pieces:
        for piece in pieces_of(gguf, part, stored[part.base]):
            yield piece
            done_bytes += piece.array.nbytes
            on_progress(ImportProgress("weights", done_bytes, total_bytes))


def _special_ids(gguf: GgufFile, rows: int) -> dict[str, object]:
    """Returns the special ids for config.json. Raises ModelError for more tokens than the embedding has `rows`."""
    tokens = len(read_tokens(gguf).tokens)
    if tokens > rows:
        raise gguf.unfit(f"{tokens} tokens and an embedding of {rows} rows", "the file is damaged, download it again")
    special = read_special_ids(gguf)
    ends = special.ends[0] if len(special.ends) == 1 else list(special.ends)
    named = {"bos_token_id": special.bos, "eos_token_id": ends or None, "pad_token_id": special.padding}
    return {key: value for key, value in named.items() if value is not None}


def _dtype(gguf: GgufFile, shape: Shape, options: StorageOptions, pieces: list[Part]) -> str:
    """Returns the folder's dtype, as safetensors calls it: the requested one; else the file's own, F16 where it has
    several, but BF16 where activations or vectors leave the range of F16."""
    for name, called in DTYPES.items():
        if called == options.dtype:
            return name
    matrices = {gguf.tensors[part.name].type.name for part in pieces if len(part.shape) > 1}
    if matrices == {"F32"} and options.bits is None:
        return "F32"
    if shape.family.wide_range or "BF16" in matrices:
        return "BF16"
    vectors = [part for part in pieces if len(part.shape) == 1]
    fit = (all_finite(store(values_of(gguf.tensors[v.name], gguf.rows(v.name, 0, 1)), "F16"), "F16") for v in vectors)
    return "F16" if all(fit) else "BF16"


def _quantization(stored: dict[str, Storage]) -> dict[str, object]:
    """Returns mlx-lm's "quantization": the most common width for all, and an entry for each part of another width."""
    widths = {base: (how.group, how.bits) for base, how in stored.items() if how.bits is not None}
    if not widths:
        return {}
    common = Counter(widths.values()).most_common(1)[0][0]
    others = {base: {"group_size": g, "bits": b} for base, (g, b) in widths.items() if (g, b) != common}
    return {"quantization": {"group_size": common[0], "bits": common[1], **others}}

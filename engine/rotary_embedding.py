"""Rotary embeddings as transformers computes them (5.24, `modeling_rope_utils.py`) where mlx-lm 0.32.2 does not.

Targets and heads share them: YaRN with `truncate` or `attention_factor`, and LongRoPE, whose frequencies depend on how
long a text is as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import mlx.core as mx

from engine.backend.mlx_lm_imports import KVCache, SuScaledRoPE, YarnRoPE, initialize_rope

Scaling = Mapping[str, Any]
UNBOUNDED = 2**31


def rotary_embedding(dims: int, base: float, traditional: bool, scaling: Scaling | None, max_length: int | None) -> Any:
    """Returns a module that rotates the first `dims` numbers of heads: called as (x, offset) with x (batch, heads, n,
    width).

    scaling: as `models.model_config.scaling_of` returns it. max_length: the declared context, in tokens. Raises
    KeyError, TypeError or ValueError for a scaling that is incomplete or unknown.
    """
    rope = initialize_rope(dims, base, traditional, scaling, max_length)
    correct_frequencies(rope, base, scaling or {})
    return rope


def correct_frequencies(rope: Any, base: float, scaling: Scaling) -> None:
    """Gives a rotary module that mlx-lm made the frequencies that transformers computes from the same configuration."""
    factor = scaling.get("attention_factor")
    if isinstance(rope, YarnRoPE) and (scaling.get("truncate") is False or factor is not None):
        rope._freqs = yarn_wavelengths(rope.dims, base, scaling)
        rope.mscale = rope.mscale if factor is None else float(factor)
    elif isinstance(rope, SuScaledRoPE):
        _make_longrope(rope, base, scaling)


def yarn_wavelengths(dims: int, base: float, scaling: Scaling) -> mx.array:
    """Returns the wavelengths of YaRN (arXiv 2309.00071) over 2 pi, (dims / 2,). `truncate`: whether the bounds of
    the ramp are rounded to whole dimensions, which gpt-oss does not."""
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]

    def dimension(rotations: float) -> float:
        return dims * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(scaling.get("beta_fast") or 32), dimension(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    ramp = mx.clip((mx.arange(dims // 2, dtype=mx.float32) - low) / max(high - low, 0.001), 0, 1)
    whole = base ** (mx.arange(0, dims, 2, dtype=mx.float32) / dims)
    wavelengths: mx.array = 1 / (ramp / (factor * whole) + (1 - ramp) / whole)
    return wavelengths


class LongRoPE(SuScaledRoPE):  # type: ignore[misc]
    """LongRoPE (arXiv 2402.13753): one set of frequencies for texts of up to `original_max_position_embeddings` tokens,
    another for all tokens of a longer text. It starts with the first."""

    _sets: tuple[tuple[mx.array, float], tuple[mx.array, float]]
    is_long: bool

    def switch(self, is_long: bool) -> None:
        """Rotates by the frequencies for long texts from here on, or by those for short ones."""
        self.is_long = is_long
        self._freqs, self._scale = self._sets[is_long]

    def turned(self, keys: mx.array) -> mx.array:
        """Returns keys (batch, heads, n, width) of positions 0 to n - 1 as they are rotated now, of keys that the other
        set rotated."""
        before, scale = self._sets[not self.is_long]
        turn = 1 / (1 / self._freqs - 1 / before)
        scaled = keys.at[..., : self.dim].multiply(self._scale / scale)
        rotated: mx.array = mx.fast.rope(
            scaled, self.dim, traditional=False, base=None, scale=1.0, offset=0, freqs=turn
        )
        return rotated


def _make_longrope(rope: Any, base: float, scaling: Scaling) -> None:
    """Makes a LongRoPE of mlx-lm's module, which has the frequencies for long texts alone."""
    powers = base ** (mx.arange(0, rope.dim, 2, dtype=mx.float32) / rope.dim)
    usual = rope._scale if scaling.get("long_mscale") is None else 1.0  # both are given, or neither
    if scaling.get("factor") is not None:
        usual = _longrope_scale(scaling["factor"], rope.original_max_position_embeddings)
    if scaling.get("attention_factor") is not None:
        usual = float(scaling["attention_factor"])

    def frequencies(length: str) -> tuple[mx.array, float]:
        scale = scaling.get(f"{length}_mscale")
        factors = mx.array(scaling[f"{length}_factor"], dtype=mx.float32)
        return factors * powers, usual if scale is None else float(scale)

    rope.__class__ = LongRoPE
    rope._sets = (frequencies("short"), frequencies("long"))
    rope.switch(False)


def _longrope_scale(factor: float, original: int) -> float:
    return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0


class RotationByLength:
    """Which frequencies the LongRoPE modules of a network rotate by in one reply: those of short texts or of long ones.

    Keys that were rotated by the one set are of no use with the other. So what was read of a text is read again once
    the text grows past `threshold` tokens, as transformers does (`Phi3ForCausalLM.prepare_inputs_for_generation`).
    modules: of the network, which replies of other lengths may share; `apply` comes before each pass. is_long: whether
    it is rotated as for a long text. threshold: None for a network whose rotation never depends on the length.
    """

    def __init__(self, modules: Iterable[Any] = ()) -> None:
        self.is_long = False
        self._modules = [module for module in modules if isinstance(module, LongRoPE)]
        lengths = [module.original_max_position_embeddings for module in self._modules]
        self.threshold: int | None = min(lengths, default=None)

    def for_another_reply(self) -> RotationByLength:
        """Returns the rotation of another reply by the same modules."""
        return RotationByLength(self._modules)

    def fits(self, length: int) -> bool:
        """Returns whether a text of `length` tokens is rotated as now."""
        return self.threshold is None or self.is_long == (length > self.threshold)

    def tokens_left(self, length: int) -> int:
        """Returns how many tokens may follow `length` tokens until the rotation changes."""
        return UNBOUNDED if self.threshold is None or length > self.threshold else self.threshold - length

    def switch(self, is_long: bool) -> None:
        """Rotates as for long texts from here on, or as for short ones. The caller empties the caches."""
        self.is_long = is_long

    def apply(self) -> None:
        """Has the modules rotate for this reply."""
        for module in self._modules:
            module.switch(self.is_long)

    def follow(self, length: int, caches: Iterable[KVCache]) -> None:
        """Rotates as for a text of `length` tokens from here on, and turns the keys in `caches`, whose rows are at
        positions 0, 1 and so on. For heads: what they read are the target's states, not their own."""
        fits = self.fits(length)
        if not fits:
            self.switch(not self.is_long)
        self.apply()
        for cache in [] if fits else caches:
            if cache.keys is not None:
                cache.keys = self._modules[0].turned(cache.keys)

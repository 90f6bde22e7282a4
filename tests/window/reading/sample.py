"""A reply with everything in it, and replies as long as wished."""

from __future__ import annotations

import random
import re

from app.window.reading import Span
from engine.events import Origin

SAMPLE = r"""# Speculative decoding

A small model **drafts** a few tokens, the large one *checks* them all in one pass. The reply is ***exactly*** what the
large model would have written alone, `token` for `token`; see [the paper](https://arxiv.org/abs/2211.17192 "2023").

## How a round goes

1. The drafter proposes *k* tokens.
2. The target verifies them in **one** pass:
   - accepted tokens stay,
   - the first wrong one is ~~kept~~ corrected.
3. Everything is committed.

- [x] tests pass
- [ ] write the page

```python
from dataclasses import dataclass

@dataclass(frozen=True)
class Round:
    '''One draft, one verify pass.'''
    tokens: tuple[int, ...]

    def accepted(self, p: float, q: float) -> bool:
        # min(1, p/q)
        return random() < min(1.0, p / q) and len(self.tokens) > 0
```

> Quotes have a bar.
>
> > And nest.

| Model | Speed | Accepted |
|:------|------:|:--------:|
| SmolLM2 | 41.2 | 78 % |
| Qwen3 **8B** | 12.9 | 64 % |

---

The law is $p(x) = \frac{e^{x}}{2}$ and costs \$5.

$$
\min\left(1, \frac{p(x)}{q(x)}\right) \leq 1
$$

![A cat](https://example.com/cat.png) and <b>no html</b> &amp; entities. Prices: $5 and $10.
"""

_SAID = "the model drafts a few tokens and checks them all at once so that replies arrive sooner than they would"
_WORDS = _SAID.split(" ")


def long_reply(characters: int, seed: int = 0) -> str:
    """Typical Markdown of about that length: prose mostly, with a list, code or a table here and there."""
    chance = random.Random(seed)
    parts: list[str] = []
    while sum(map(len, parts)) < characters:
        parts.append(chance.choice([_prose, _prose, _prose, _items, _code, _table])(chance))
    return "".join(parts)[:characters]


def _sentence(chance: random.Random, words: int = 14) -> str:
    said = [chance.choice(_WORDS) for _ in range(words)]
    said[words // 2] = chance.choice(["**{}**", "*{}*", "`{}`", "{}"]).format(said[words // 2])
    return " ".join(said).capitalize() + ". "


def _prose(chance: random.Random) -> str:
    return "".join(_sentence(chance) for _ in range(5)).strip() + "\n\n"


def _items(chance: random.Random) -> str:
    return f"## {_sentence(chance, 4)}\n\n" + "".join(f"{i}. {_sentence(chance)}\n" for i in range(1, 6)) + "\n"


def _code(chance: random.Random) -> str:
    lines = "".join(f"    {chance.choice(_WORDS)} = compute({i}, other='x')  # why\n" for i in range(8))
    return f"```python\ndef run():\n{lines}```\n\n"


def _table(chance: random.Random) -> str:
    rows = "".join(f"| {chance.choice(_WORDS)} | {i} | {chance.choice(_WORDS)} |\n" for i in range(5))
    return f"| a | b | c |\n|---|--:|---|\n{rows}\n"


def tokens(source: str, seed: int = 0) -> list[Span]:
    """`source` cut as tokenizers cut: words with the space before them, long ones in parts."""
    chance = random.Random(seed)
    origins: list[Origin] = ["accepted", "accepted", "accepted", "corrected", "bonus"]
    spans: list[Span] = []
    for found in re.finditer(r"\s*\w{1,5}|\s*[^\w\s]{1,3}|\s+", source):
        spans.append(Span(found.start(), found.end(), chance.choice(origins), len(spans)))
    return spans

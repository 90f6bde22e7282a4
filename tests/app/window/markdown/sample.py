"""A reply with everything in it, and its tokens."""

from __future__ import annotations

import random
import re

from app.window.markdown import Span
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


def tokens(source: str, seed: int = 0) -> list[Span]:
    """`source` cut as tokenizers cut: words with the space before them, long ones in parts."""
    chance = random.Random(seed)
    origins: list[Origin] = ["accepted", "accepted", "accepted", "corrected", "bonus"]
    spans: list[Span] = []
    for found in re.finditer(r"\s*\w{1,5}|\s*[^\w\s]{1,3}|\s+", source):
        spans.append(Span(found.start(), found.end(), chance.choice(origins), len(spans)))
    return spans

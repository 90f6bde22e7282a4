"""A reply with everything in it."""

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

"""What is asked and answered in pictures of the window. Made up."""

TITLES = (
    *("Why the sky is blue", "Binary search in Python", "Counting to thirty", "A letter to the landlord"),
    *("Names for a sailing boat", "What a drafter is", "Three days in Lisbon with children", "Regex for dates"),
    *("Bread without kneading", "Rayleigh and Mie", "Questions for an interview", "A toast for Anna"),
)
SKY = "Why is the sky blue?"
SEARCH = "Write binary search in Python, and say what it costs."
MARKDOWN = """Binary search halves a **sorted** list until the value is found or nothing is left.

```python
def find(values: list[int], wanted: int) -> int | None:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < len(values) and values[low] == wanted else None
```

### What it costs

| list | comparisons | one by one |
| --- | ---: | ---: |
| 1,000 | 10 | 1,000 |
| 1,000,000 | 20 | 1,000,000 |

Each step halves what is left, so it takes about $\\log_2 n$ of them.
"""
FORMULAS = r"""It writes a function as a sum of powers, $\frac{f^{(n)}(a)}{n!}(x-a)^n$ each:

$$f(x) = \sum_{n=0}^{\infty} \frac{f^{(n)}(a)}{n!}(x-a)^n = f(a) + f'(a)(x-a) + \frac{f''(a)}{2!}(x-a)^2 + \cdots$$

For the exponential function around 0 all derivatives are 1:

$$e^x = 1 + x + \frac{x^2}{2!} + \frac{x^3}{3!} + \frac{x^4}{4!} + \frac{x^5}{5!} + \frac{x^6}{6!} + \frac{x^7}{7!}
+ \frac{x^8}{8!} + \frac{x^9}{9!} + \frac{x^{10}}{10!} + \frac{x^{11}}{11!} + \frac{x^{12}}{12!}
+ \frac{x^{13}}{13!} + \cdots
\approx \sum_{n=0}^{N} \frac{x^n}{n!} + \frac{e^{\xi} x^{N+1}}{(N+1)!} \quad \text{where } 0 < \xi < x$$

The last part is what the sum is wrong by, for a $\xi$ between 0 and $x$.
"""
SUNSET = (
    "At sunset the light comes through much more air. Most of the blue has been scattered out of it on the way, and "
    "what is left is **orange and red**."
)
VIOLET = (
    "Violet is scattered even more than blue, but:\n\n- the Sun sends less of it,\n- the upper air absorbs some,\n"
    "- our eyes see it less well than blue."
)
MARS = (
    "On Mars it is the other way round. Fine dust makes the day sky *butterscotch*, and lets blue through around the "
    "setting Sun."
)
SENTENCE = (
    "Air scatters short waves of light more than long ones, so blue reaches us from every side by day, and red is what "
    "is left of the light that had the longest way."
)
TURNS = (
    ("And at sunset?", SUNSET),
    ("Why is it not violet, then?", VIOLET),
    ("On Mars too?", MARS),
    ("Say all of it in one sentence.", SENTENCE),
)

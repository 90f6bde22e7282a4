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

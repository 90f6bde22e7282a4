"""A race as one web page that replays it."""

from app.race import race_text
from app.race.race_document import RaceDocument
from app.replay_page import Lane, replay_page


def race_page(document: RaceDocument) -> bytes:
    """Returns the pair of runs that stands for a race as HTML."""
    found, greedy = document.results, document.sampling.temperature == 0
    steps = ["passes of the target" if one.side.server is None else "arrivals" for one in document.sides]
    lanes = [
        Lane(name, race_text.details(one, greedy), document.run(side, found.shown).rounds, steps[side])
        for side, (name, one) in enumerate(zip(race_text.names(document.sides), document.sides, strict=True))
    ]
    what, spread = ("decode", found.decode) if document.has_server else ("wall-clock", found.total)
    speedup = race_text.speedup(spread and spread.shown)
    result = f"{race_text.winner(document)}: {speedup} {what} speed-up in {race_text.shown_pair(document)}."
    result = f"{result} {race_text.noise(document)}".rstrip()
    about = f"{race_text.about(document, 1.0)} {race_text.made_with(document)}"
    return replay_page(document.prompt, lanes, result, about).encode()

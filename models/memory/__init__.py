"""Will it fit: what a pair takes of memory, said before anything is loaded, against what this machine can give.

footprint   bytes by what holds them, from the files and the shapes of a network that is never evaluated
room        what the machine has
pair        both, from a target and its drafters
verdict     good, tight or refused, with the number, and what would make it fit
"""

from models.memory.footprint import Footprint, Share
from models.memory.heads import share_of_head
from models.memory.network import Measured, measure
from models.memory.pair import footprints
from models.memory.room import Room
from models.memory.verdict import KV_BITS, TIGHT, Footprints, Verdict, judge, largest_context

__all__ = [
    "KV_BITS",
    "TIGHT",
    "Footprint",
    "Footprints",
    "Measured",
    "Room",
    "Share",
    "Verdict",
    "footprints",
    "judge",
    "largest_context",
    "measure",
    "share_of_head",
]

"""May this drafter serve this target, and which of those that are here is the best?

tokens    the token maps, compared id by id
verdict   the answer for one pair: yes or no, and why
judging   a verdict on two folders of any kind, before anything is loaded
choosing  the best of several for a target

Judging and choosing are imported where they are asked for: they load MLX.
"""

from models.pairing.tokens import Difference, Pairing, check_pair, differences
from models.pairing.verdict import Verdict

__all__ = ["Difference", "Pairing", "Verdict", "check_pair", "differences"]

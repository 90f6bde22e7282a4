"""The catalogue: targets and drafters that people run on Apple Silicon, and which drafter is known for which target.

entries   what an entry says
reading   models/catalogue.toml to a `Catalogue`; every fault with its line
search    entries by words, kind and size of machine
fits      whether weights of a size fit a machine: a bound, where nothing has been downloaded yet
standing  asks the hub whether every entry still exists
"""

from models.catalogue.entries import Catalogue, Drafter, Entry, Measured, Target
from models.catalogue.reading import read_catalogue

__all__ = ["Catalogue", "Drafter", "Entry", "Measured", "Target", "read_catalogue"]

"""The catalogue: targets and drafters that people run on Apple Silicon, and the drafters known for each target.

entries     the fields of an entry
parser      reads models/catalogue.toml and reports each fault with its line
search      finds entries by words, kind and memory of a Mac
mac_memory  estimates whether weights of a given size fit a Mac
hub_check   asks the hub whether every entry still exists
"""

from models.catalogue.entries import Catalogue, Drafter, Entry, Measured, Target
from models.catalogue.parser import read_catalogue

__all__ = ["Catalogue", "Drafter", "Entry", "Measured", "Target", "read_catalogue"]

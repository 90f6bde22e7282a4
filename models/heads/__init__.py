"""Folders of heads that read a target's hidden states: EAGLE-3 and Medusa, in the layouts that others write and read.

kind_of tells them from ordinary models; load_* checks a folder against its target before MLX maps a file; save_*
writes what other programs load too.
"""

from models.heads.eagle3 import load_eagle3, save_eagle3
from models.heads.fit_to import made_for
from models.heads.kinds import kind_of, tree_tau
from models.heads.medusa import RankPath, load_medusa, save_medusa

__all__ = ["RankPath", "kind_of", "load_eagle3", "load_medusa", "made_for", "save_eagle3", "save_medusa", "tree_tau"]

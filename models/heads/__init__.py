"""Folders of heads that read a target's hidden states: EAGLE-3 and Medusa, in the layouts that others write and read.

kind_of tells them from ordinary models; load_* checks a folder against its target before MLX maps a file, check_*
does so before the target is loaded; save_* writes what other programs load too.
"""

from models.heads.eagle3 import check_eagle3, load_eagle3, save_eagle3
from models.heads.fit_to import Shape, is_made_for, made_for, shape_in
from models.heads.kinds import acceptance, kind_of, tree_tau
from models.heads.medusa import RankPath, check_medusa, load_medusa, save_medusa

__all__ = [
    "RankPath",
    "Shape",
    "acceptance",
    "check_eagle3",
    "check_medusa",
    "is_made_for",
    "kind_of",
    "load_eagle3",
    "load_medusa",
    "made_for",
    "save_eagle3",
    "save_medusa",
    "shape_in",
    "tree_tau",
]

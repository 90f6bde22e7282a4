"""Folders of MLP speculators: the published names load, tied or not, and each fault is named."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.mlp_speculator import MlpSpeculator
from models.drafters import kind_of
from models.drafters.mlp_speculator import FILES
from models.loader import Loaded
from models.parameters import flat_parameters
from tests.engine.replies import plain_reply, reply
from tests.models.drafters.head_folders import config, write_mlp_speculator
from tests.toys.heads import random_mlp_speculator

TIED = {"tied": True, "scale_input": True}


@pytest.mark.parametrize(("form", "copies"), [({}, False), ({"inner_size": 32}, False), (TIED, False), (TIED, True)])
def test_what_is_published_loads(form: dict[str, Any], copies: bool, head_target: Loaded, tmp_path: Path) -> None:
    path = write_mlp_speculator(tmp_path / "speculator", copies, **form)
    if form.get("inner_size") == 32:  # as wide as the target's state, which the configs say by 0
        config(inner_dim=0)(path)
    assert kind_of(path).name == "mlp-speculator"
    drafter = FILES.load(path, head_target, False).drafter
    wanted, state = random_mlp_speculator(**form), mx.random.normal((2, 32), key=mx.random.key(1))
    assert isinstance(drafter, MlpSpeculator) and drafter.network.config == wanted.config
    networks = drafter.network, wanted
    mine, theirs = (n.logits(n.advance(n.scaled(state), mx.array([3, 4]), 0), 0) for n in networks)
    assert np.allclose(np.array(mine), np.array(theirs), atol=1e-6)
    if not copies:
        assert FILES.footprint(path, 4)(100).weights == sum(value.nbytes for value in flat_parameters(wanted).values())


def test_it_drafts_for_a_target_and_the_text_stays_the_targets(mlp_folder: Path, head_target: Loaded) -> None:
    drafter = FILES.load(mlp_folder, head_target, False).drafter
    target = head_target.model
    assert reply(target, drafter, 3, tokens=20)[0] == plain_reply(head_target.network, tokens=20)

"""A name means one folder, and a name that means none says what to do."""

from pathlib import Path

import pytest

from engine.errors import ModelError
from models.local.locations import ModelLocations, find_model
from tests.models.hub.test_hostile import BAD_REPOS
from tests.models.hub.tiny import NAME
from tests.models.local.model_placement import write_folder, write_in_hub


def refusal_of(name: str, places: ModelLocations) -> str:
    with pytest.raises(ModelError) as caught:
        find_model(name, places)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_path_that_exists_goes_before_any_name(places: ModelLocations, tmp_path: Path) -> None:
    write_in_hub(places.hub)
    assert find_model(str(tmp_path), places) == tmp_path


def test_a_path_stays_a_path(places: ModelLocations) -> None:
    for name in ("/nowhere/x", "./x", "../x", "~/x"):
        assert find_model(name, places) == Path(name)


def test_names_of_all_places(places: ModelLocations) -> None:
    hub = write_in_hub(places.hub)
    studio = write_folder(places.lm_studio[0] / "someone" / "Tiny")
    own = write_folder(places.own / "My-Import")
    assert find_model(NAME, places) == hub
    assert find_model("someone/Tiny", places) == studio
    assert find_model("My-Import", places) == own


def test_a_whole_model_goes_before_a_partial_one(places: ModelLocations) -> None:
    (write_in_hub(places.hub) / "config.json").unlink()
    studio = write_folder(places.lm_studio[0] / NAME)
    assert find_model(NAME, places) == studio


def test_main_goes_before_older_revisions_which_can_be_named(places: ModelLocations) -> None:
    old = write_in_hub(places.hub, main=False)
    new = write_in_hub(places.hub, config=b" ")
    assert find_model(NAME, places) == new
    assert find_model(f"{NAME}@{old.name[:8]}", places) == old
    assert "is not on this machine" in refusal_of(f"{NAME}@{'0' * 8}", places)
    for nonsense in ("", "main", "../../..", "0" * 6, "*" * 8):
        assert "not an existing folder or a valid model name" in refusal_of(f"{NAME}@{nonsense}", places)


def test_what_is_not_here_says_how_to_get_it(places: ModelLocations) -> None:
    assert refusal_of("mlx-community/Foo", places) == (
        "mlx-community/Foo is not on this machine: `redline models pull mlx-community/Foo` fetches it"
    )
    write_in_hub(places.hub)
    assert refusal_of("tiny-org/Tinny-4bit", places).endswith(f"fetches it; did you mean {NAME}?")
    assert "`redline models list` shows the installed models" in refusal_of("nonsense", places)


def test_what_is_partly_here_says_how_to_go_on(places: ModelLocations) -> None:
    (write_in_hub(places.hub) / "model-00002-of-00003.safetensors").unlink()
    reason = refusal_of(NAME, places)
    assert f"{NAME} is incomplete (1 of its weight files" in reason and f"`redline models pull {NAME}`" in reason


def test_a_name_that_none_can_have_is_refused(places: ModelLocations) -> None:
    for name in BAD_REPOS:
        if name and not name.startswith((".", "/", "~")):
            assert "not an existing folder or a valid model name" in refusal_of(name, places)


def test_the_owner_may_be_left_out_where_only_one_model_is_called_so(places: ModelLocations) -> None:
    folder, short = write_in_hub(places.hub), NAME.rpartition("/")[2]
    assert find_model(short, places) == folder
    write_in_hub(places.hub, f"other/{short}")
    assert f"may be other/{short} or {NAME}: give the full name" in refusal_of(short, places)

"""Wrong edits of downloads, of what counts as present, and of what deleting takes away."""

from tests.mutants.mutant import Mutant

_HUB, _HERE = "models/hub/", "models/installed/"
_LINE, _DAMAGE = (f"tests/models/hub/test_{name}.py::" for name in ("line", "damage"))
_PULLED, _HOSTILE, _SENT = (f"tests/models/hub/test_{name}.py::" for name in ("pull", "hostile", "sent"))
_TOLD, _LISTED = "tests/models/hub/test_tally.py::", "tests/models/installed/test_inventory.py::"
_REMOVED = "tests/models/installed/test_removal.py::"
_PROTOCOL, _LOGIN = "tests/app/models/test_protocol.py::", "tests/app/models/test_login.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a file taken for the hub's by its size",
        _HUB + "digest.py",
        "self.count == self._file.size_bytes and self._hash.hexdigest() == self._file.digest",
        "self.count == self._file.size_bytes",
        (_DAMAGE + "test_a_wrong_byte_is_found",),
    ),
    Mutant(
        "a damaged leftover gone on with for ever",
        _HUB + "transfer.py",
        "if not self._digest.agrees and resumed:",
        "if False:",
        (_DAMAGE + "test_a_damaged_leftover_is_fetched_anew",),
    ),
    Mutant(
        "what is found damaged left in its place",
        _HUB + "crew.py",
        "                    damaged.unlink()\n",
        "                    damaged.exists()\n",
        (_DAMAGE + "test_what_is_found_damaged_is_no_model_until_it_is_mended",),
    ),
    Mutant(
        "the whole file appended to its half",
        _HUB + "transfer.py",
        "            if self._digest.count and not self._continues(response):\n                self._begin_anew(out)\n",
        "",
        (_LINE + "test_a_server_without_ranges_is_put_up_with",),
    ),
    Mutant(
        "a snapshot made link by link",
        _HUB + "cache.py",
        "at = snapshot if snapshot.exists() else draft",
        "at = snapshot",
        ("tests/models/hub/test_killed_pull.py::test_a_crash_while_the_snapshot_is_made_shows_nothing_half",),
    ),
    Mutant(
        "a name that leaves its folder let through",
        _HUB + "names.py",
        'if any(part in ("", ".", "..") for part in parts) or',
        "if",
        (_HOSTILE + "test_a_listing_with_one_file_that_leaves_is_refused_whole",),
    ),
    Mutant(
        "the hub may say where the model goes",
        _HUB + "listing.py",
        "if is_repo(said) and said.casefold() == repo.casefold() else repo",
        "if is_repo(said) else repo",
        (_HOSTILE + "test_the_hub_cannot_rename_the_folder",),
    ),
    Mutant(
        "Python fetched along",
        _HUB + "allowed.py",
        '    "*.json",\n',
        '    "*.json",\n    "*.py",\n',
        (_HOSTILE + "test_only_data_is_wanted",),
    ),
    Mutant(
        "a token of another program sent",
        _HUB + "hub.py",
        "self.token if self.token is not None else False",
        "self.token",
        (_SENT + "test_nothing_is_sent_that_nobody_asked_for",),
    ),
    Mutant(
        "a token sent in the open",
        _HUB + "hub.py",
        'parts.scheme == "http" and parts.hostname not in _LOOPBACK',
        "False",
        (_SENT + "test_a_token_is_never_sent_in_the_open_nor_shown",),
    ),
    Mutant(
        "one file's progress hides another's",
        _HUB + "tally.py",
        'self._said_s.get(file.digest, float("-inf"))',
        'max(self._said_s.values(), default=float("-inf"))',
        (_TOLD + "test_each_file_is_told_ten_times_a_second_and_its_end_always",),
    ),
    Mutant(
        "blobs of another revision thrown away",
        _HUB + "discard.py",
        "if file.digest not in linked]",
        "]",
        (_PULLED + "test_throwing_away_leaves_what_is_whole",),
    ),
    Mutant(
        "a model without one of its shards called whole",
        _HERE + "whole.py",
        "missing = sorted(_announced(folder, names, shards) - shards)",
        "missing = sorted(_announced(folder, names, shards) - shards - _announced(folder, names, shards))",
        (_LISTED + "test_a_partial_model_is_never_whole",),
    ),
    Mutant(
        "links deep in a model folder followed",
        "models/folder.py",
        'elif not name.startswith(".") and (path / name).is_dir():',
        "elif False:",
        (_LISTED + "test_a_partial_model_is_never_whole",),
    ),
    Mutant(
        "deleting wherever a path leads",
        _HERE + "removal.py",
        "        _check_inside(model, places)\n",
        "",
        (_REMOVED + "test_what_lies_elsewhere_is_never_deleted",),
    ),
    Mutant(
        "SIGTERM ends a child without a word",
        "app/models/pull.py",
        "before = signal.signal(signal.SIGTERM, interrupt)",
        "before = signal.getsignal(signal.SIGTERM)",
        (_PROTOCOL + "test_a_child_pauses_goes_on_and_ends_with_its_reader",),
    ),
    Mutant(
        "a token believed to be kept",
        "app/models/tokens.py",
        "    if not kept:\n",
        "    if False:\n",
        (_LOGIN + "test_without_a_keychain_models_still_come_and_login_says_what_to_do",),
    ),
)

"""Wrong edits of the store."""

from tests.mutants.mutant import Mutant

_STORE, _TESTS = "app/store/", "tests/store/"
_TREE, _REPLIES = _TESTS + "test_tree.py::", _TESTS + "test_replies.py::"
_KEPT, _FOUND = _TESTS + "test_conversations.py::", _TESTS + "test_search.py::"
_DAMAGED, _FAULTS = _TESTS + "test_damage.py::", _TESTS + "test_faults.py::"
_MIGRATED, _EXCHANGED = _TESTS + "test_migrations.py::", _TESTS + "test_exchange.py::"
_NOWHERE = (_KEPT + "test_purged_text_is_nowhere_in_the_files",)
_FULL = (_FAULTS + "test_a_full_disk_costs_nothing_that_was_there_and_a_later_append_catches_up",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "deleted text stays on its page", _STORE + "database.py", "secure_delete = ON", "secure_delete = OFF", _NOWHERE
    ),
    Mutant(
        "deleted text stays in the log",
        _STORE + "conversations.py",
        "wal_checkpoint (TRUNCATE)",
        "wal_checkpoint (PASSIVE)",
        _NOWHERE,
    ),
    Mutant(
        "deleted text stays in the index",
        _STORE + "conversations.py",
        "        self._index.forget()\n",
        "",
        _NOWHERE,
    ),
    Mutant(
        "what could not be written is dropped",
        _STORE + "replies.py",
        "        live.unwritten.extend(told)\n",
        "        live.unwritten[:] = told\n",
        _FULL,
    ),
    Mutant(
        "rounds that were written are written again",
        _STORE + "replies.py",
        "            live.unwritten.clear()\n",
        "",
        (_REPLIES + "test_a_streaming_reply_reads_as_far_as_it_is_here_and_elsewhere",),
    ),
    Mutant(
        "what was held back stays when a reply goes on",
        _STORE + "replies.py",
        "note = '', tail = '' WHERE",
        "note = '' WHERE",
        (_REPLIES + "test_a_reply_goes_on_where_it_was_without_what_it_had_held_back",),
    ),
    Mutant(
        "new rounds behind damaged ones",
        _STORE + "replies.py",
        '            return joined or b""\n',
        "            return join(None, chunks)\n",
        (_REPLIES + "test_damaged_rounds_are_said_and_leave_the_text",),
    ),
    Mutant(
        "a second process marks a streaming reply as cut",
        _STORE + "opening.py",
        "    except Timeout:\n        return False\n",
        "    except Timeout:\n        return True\n",
        (_REPLIES + "test_another_process_leaves_a_streaming_reply_alone",),
    ),
    Mutant(
        "selecting shows a version but not the way to it",
        _STORE + "messages.py",
        "            for child, parent in self._database.rows(_UP, message):\n",
        "            for child, parent in self._database.rows(_UP, message)[:1]:\n",
        (_TREE + "test_selecting_a_message_deep_in_a_hidden_way_shows_it",),
    ),
    Mutant(
        "deleted conversations are found",
        _STORE + "index.py",
        ", 'deleted_s IS NULL',",
        ",",
        (_FOUND + "test_deleted_conversations_are_not_found_until_they_are_back",),
    ),
    Mutant(
        "messages that wait for the index are not found",
        _STORE + "index.py",
        "sorted({*indexed, *waiting}, reverse=True)",
        "sorted(indexed, reverse=True)",
        (_FOUND + "test_a_long_text_is_found_before_and_after_it_is_indexed",),
    ),
    Mutant(
        "what the index proposes is not compared",
        _STORE + "index.py",
        'wanted = ["instr(passage.folded, ?) > 0"] * len(terms)',
        'wanted = ["instr(passage.folded, ?) >= 0"] * len(terms)',
        (_FOUND + "test_every_query_finds_exactly_the_messages_that_contain_it",),
    ),
    Mutant(
        "a damaged index that asks for too much memory stands in the way",
        _STORE + "index.py",
        "(*DAMAGED, sqlite3.SQLITE_NOMEM)",
        "DAMAGED",
        (_DAMAGED + "test_a_damaged_index_stands_in_nobodys_way_and_is_made_anew",),
    ),
    Mutant(
        "accents count",
        _STORE + "folding.py",
        "if unicodedata.combining(c) in _LETTERS",
        "if True",
        (_FOUND + "test_what_people_type_finds_what_they_mean",),
    ),
    Mutant(
        "a damaged file overwrites one that was set aside",
        _STORE + "aside.py",
        "        if not any(_with(name, beside).exists() for beside in _BESIDE):\n            return name\n",
        "        return name\n",
        (_DAMAGED + "test_nothing_that_was_set_aside_is_ever_overwritten",),
    ),
    Mutant(
        "a file cut short is not noticed",
        _STORE + "checks.py",
        "pages * page_bytes > size_bytes",
        "pages * page_bytes > 2 * size_bytes",
        (_DAMAGED + "test_of_a_file_cut_short_what_is_left_is_saved",),
    ),
    Mutant(
        "lost commits of a log are not said",
        _STORE + "opening.py",
        "    if log.whole and log.commit <= max(known, 0):\n",
        "    if log.whole:\n",
        (_FAULTS + "test_a_damaged_log_is_set_aside_and_said",),
    ),
    Mutant(
        "SQLite deletes a log without its database",
        _STORE + "opening.py",
        "        notices += _set_stray_log_aside(path)\n",
        "",
        (_FAULTS + "test_a_log_without_its_database_is_set_aside",),
    ),
    Mutant(
        "a newer file is opened",
        _STORE + "checks.py",
        "    if version > VERSION:\n",
        "    if version > VERSION + 1:\n",
        (_MIGRATED + "test_a_newer_version_is_refused_and_untouched",),
    ),
    Mutant(
        "half a migration stays",
        _STORE + "schema.py",
        '                connection.execute("ROLLBACK")\n',
        '                connection.execute("COMMIT")\n',
        (_MIGRATED + "test_a_migration_that_fails_halfway_leaves_the_old_version",),
    ),
    Mutant(
        "an import forgets which version is shown",
        _STORE + "exchange.py",
        "        shown |= {parent: child for parent, child in asked if child is not None}\n",
        "",
        (_EXCHANGED + "test_the_versions_that_were_shown_are_shown_again",),
    ),
    Mutant(
        "a title cut behind a word ends with a blank",
        "app/store/rows.py",
        "[:200].rstrip()",
        "[:200]",
        ("tests/store/test_conversations.py::test_a_title_that_is_cut_between_two_words_can_be_imported_again",),
    ),
)

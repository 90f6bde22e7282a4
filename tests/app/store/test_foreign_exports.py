"""Conversations of other programs come in with their branches, thoughts and times, or are refused with the reason."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from app.store import Store, StoreError
from app.store.import_files import read_texts
from app.store.records import ConversationRecord


def gpt(role: str, text: str, parent: str | None, *children: str, **message: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    said = {"author": {"role": role}, "content": content, "create_time": 1.7e9, "recipient": "all", **message}
    return {"message": said, "parent": parent, "children": list(children)}


CHATGPT = [
    {
        "title": "Birds",
        "create_time": 1.7e9,
        "update_time": 1.7e9 + 60,
        "current_node": "r2",
        "mapping": {
            "r2": gpt("assistant", "Fish, mostly.", "q1"),
            "root": {"message": None, "parent": None, "children": ["sys"]},
            "sys": gpt("system", "", "root", "q1"),
            "q1": gpt("user", "What does a heron eat?", "sys", "think", "r2"),
            "think": gpt(
                "assistant", "", "q1", "call", content={"content_type": "thoughts", "thoughts": [{"content": "Hm."}]}
            ),
            "call": gpt("assistant", "search(heron)", "think", "tool", recipient="browser"),
            "tool": gpt("tool", "results", "call", "r1"),
            "r1": gpt("assistant", "Fish.", "tool", "q2", "q3"),
            "q2": gpt("user", "Sure?", "r1"),
            "q3": gpt("user", "Only?", "r1"),
        },
    },
    {"title": "Empty", "mapping": {}},
]


def webui(role: str, content: str, parent: str | None, *children: str) -> dict[str, Any]:
    return {"role": role, "content": content, "parentId": parent, "childrenIds": list(children), "timestamp": 1.7e9}


THOUGHT = (
    '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n'
    "> Hm.\n> Yes.\n</details>\n"
)
WEBUI = [
    {
        "title": "Birds",
        "updated_at": 1_700_000_060_000,
        "chat": {
            "history": {
                "currentId": "b",
                "messages": {
                    "q": webui("user", "What does a heron eat?", None, "a", "b"),
                    "a": webui("assistant", f"{THOUGHT}Fish.", "q"),
                    "b": webui("assistant", "Fish, mostly.", "q"),
                },
            }
        },
    }
]


def step(text: str, **style: str) -> dict[str, Any]:
    return {"type": "contentBlock", "content": [{"type": "text", "text": text}], **({"style": style} if style else {})}


STUDIO = {
    "name": "Birds",
    "createdAt": 1_700_000_060_000,
    "systemPrompt": "Be brief.",
    "messages": [
        {"versions": [{"role": "user", "content": [{"type": "text", "text": "What does a heron eat?"}]}]},
        {
            "versions": [
                {"role": "assistant", "steps": [step("Hm.", type="thinking"), step("Fish.")]},
                {"role": "assistant", "steps": [step("Fish, mostly.")]},
            ],
            "currentlySelected": 1,
        },
    ],
}


def imported(store: Store, export: object) -> list[ConversationRecord]:
    return store.import_all([json.dumps(export)])


@pytest.mark.parametrize(("export", "thought"), [(CHATGPT, "Hm."), (WEBUI, "Hm.\nYes."), (STUDIO, "Hm.")])
def test_branches_thoughts_and_times_come_along(store: Store, export: object, thought: str) -> None:
    (record,) = imported(store, export)
    assert (record.title, record.updated_s) == ("Birds", 1.7e9 + 60)
    assert record.settings.system == ("Be brief." if export is STUDIO else "")
    question, reply = store.path(record.id)
    assert (question.text, reply.text, reply.thought) == ("What does a heron eat?", "Fish, mostly.", "")
    other = store.message(next(one for one in reply.siblings if one != reply.id))
    assert (other.text, other.thought, reply.versions) == ("Fish.", thought, 2)
    assert [hit.message for hit in store.search("mostly")] == [reply.id]


def test_questions_after_one_reply_are_versions_below_it_and_tools_are_within_it(store: Store) -> None:
    (record,) = imported(store, CHATGPT)
    first = min(store.path(record.id)[1].siblings)
    store.select(first)
    path = store.path(record.id)
    assert [one.text for one in path] == ["What does a heron eat?", "Fish.", "Sure?"]
    assert path[-1].versions == 2 and path[1].id == first


def test_messages_of_the_assistant_in_a_row_are_one_reply_and_one_without_a_question_has_an_empty_one(
    store: Store,
) -> None:
    nodes = {"a": gpt("assistant", "Hello.", None, "b"), "b": gpt("assistant", "How are you?", "a", "c")}
    nodes |= {"c": gpt("user", "Well.", "b")}
    (record,) = imported(store, [{"title": "", "mapping": nodes, "current_node": "c"}])
    assert [one.text for one in store.path(record.id)] == ["", "Hello.\n\nHow are you?", "Well."]


@pytest.mark.parametrize(
    ("said", "text", "thought"),
    [
        ("<think>\nHm.\n</think>\n\nFish.", "Fish.", "Hm."),
        ("\n<Thinking>Hm.</thinking>Fish. <think>no</think>", "Fish. <think>no</think>", "Hm."),
        ("<think>\n\n</think>\n\nFish.", "Fish.", ""),
        ("<think>Hm. Fish", "", "Hm. Fish"),
        ("Say <think> aloud.\n<think>no</think>", "Say <think> aloud.\n<think>no</think>", ""),
        (f"{THOUGHT}<think>Sure.</think>Fish.", "Fish.", "Hm.\nYes.\n\nSure."),
    ],
)
def test_a_thought_in_tags_where_a_reply_begins_is_told_from_the_answer(
    store: Store, said: str, text: str, thought: str
) -> None:
    nodes = {"q": webui("user", said, None, "a"), "a": webui("assistant", said, "q")}
    (record,) = imported(store, [{"title": "", "chat": {"history": {"currentId": "a", "messages": nodes}}}])
    question, reply = store.path(record.id)
    assert (question.text, reply.text, reply.thought) == (said, text, thought)


RING = {"a": gpt("user", "x", "b", "b"), "b": gpt("assistant", "y", "a", "a")}


@pytest.mark.parametrize(
    ("export", "why"),
    [
        ({"messages": [{"role": "user", "content": "hi"}]}, "cannot be imported"),
        ([{"mapping": RING, "current_node": "a"}], "in a circle"),
        ([{"mapping": {"a": {"message": {"content": 5}}}}], "cannot be imported"),
        ([CHATGPT[0], {"mapping": 3}], "cannot be imported"),
        ([CHATGPT[0], 7], "cannot be imported"),
        ([{"title": "Empty", "mapping": {}}], "no message"),
        ([], "not an export"),
        ({"a": 1}, "not an export"),
    ],
)
def test_what_is_broken_or_unknown_changes_nothing_and_says_why(store: Store, export: object, why: str) -> None:
    with pytest.raises(StoreError, match=why):
        imported(store, export)
    assert store.conversations() == []


def test_hostile_texts_are_refused_or_read_within_bounds(store: Store) -> None:
    with pytest.raises(StoreError):
        store.import_all(["[" * 100_000])
    chain = {str(n): gpt("assistant" if n % 2 else "user", "x", str(n - 1), str(n + 1)) for n in range(1_000)}
    (record,) = imported(
        store, [{"title": "\ud800 long\n" * 500, "mapping": chain, "current_node": "no", "create_time": 1e18}]
    )
    assert record.created_s == 1e9
    assert len(record.title) <= 200 and len(store.path(record.id)) == 1_000


ESCAPED = (
    '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n'
    "&gt; if a &lt; b\n&gt; then c\n</details>\n"
    '<details type="tool_calls" done="true" name="f" arguments="{&quot;a&quot;: 1}">\n<summary>Done</summary>\n'
    "</details>\nYes."
)


def test_escaped_thoughts_are_read_and_calls_of_tools_are_left_out(store: Store) -> None:
    messages = {"q": webui("user", "a < b?", None, "r"), "r": webui("assistant", ESCAPED, "q")}
    (record,) = imported(store, [{"title": "", "chat": {"history": {"currentId": "r", "messages": messages}}}])
    reply = store.path(record.id)[1]
    assert (reply.text, reply.thought) == ("Yes.", "if a < b\nthen c")


def test_a_message_without_content_takes_no_other_one_with_it(store: Store) -> None:
    nodes = {"q": gpt("user", "Hi", None, "r"), "r": gpt("assistant", "Hello.", "q")}
    nodes |= {"x": gpt("tool", "", "r", content=None), "y": {"message": {"author": None}, "parent": "r"}}
    nodes["z"] = gpt("user", "", "r", content={"content_type": "model_editable_context", "text": {"a": 1}})
    (record,) = imported(store, [{"title": "", "mapping": nodes, "current_node": "r"}])
    assert [one.text for one in store.path(record.id)][:2] == ["Hi", "Hello."]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_with_a_damaged_file_is_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("conversations.json", json.dumps([n * 7919 % 1013 for n in range(3000)]))
    data = bytearray(path.read_bytes())
    data[80:300] = bytes(byte ^ 0xFF for byte in data[80:300])
    path.write_bytes(data)
    with pytest.raises(StoreError, match="could not be read"):
        read_texts(path)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.json").write_text(json.dumps(CHATGPT), encoding="utf-8-sig")
    assert len(store.import_all(read_texts(tmp_path / "a.json"))) == 1


def zipped(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_an_archive_is_read_whole_and_a_bomb_is_not(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = json.dumps(CHATGPT)
    path = zipped(
        tmp_path / "a.zip", **{"conversations-000.json": part, "x__conversations-001.json": part, "b.html": "x"}
    )
    assert len(store.import_all(read_texts(path))) == 2
    with pytest.raises(StoreError, match=r"no conversations\.json"):
        read_texts(zipped(tmp_path / "b.zip", **{"user.json": "{}"}))
    monkeypatch.setattr("app.store.import_files.LARGEST_BYTES", 10_000)
    with pytest.raises(StoreError, match="larger than"):
        read_texts(zipped(tmp_path / "c.zip", **{"conversations.json": " " * 1_000_000}))
    broken = bytearray(path.read_bytes())
    broken[40:60] = bytes(20)
    (tmp_path / "d.zip").write_bytes(broken)
    with pytest.raises(StoreError, match="could not be read"):
        read_texts(tmp_path / "d.zip")

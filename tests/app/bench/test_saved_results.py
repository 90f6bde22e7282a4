"""A benchmark that was cut off goes on where it was, and only with what it began with."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.bench import benchmark
from app.bench.bench_document import digest
from app.bench.prompt_file import Question
from app.bench.saved_results import SavedResults
from app.cli.main import main
from app.inference.measured_reply import Reply
from engine.errors import UsageError
from engine.settings import SamplingSettings
from tests.app.bench.bench_runs import ENVIRONMENT, document_of, row
from tests.app.bench.test_bench_files import fill_the_disk
from tests.app.command import Redline

PROMPTS = [{"question_id": i, "category": "sky", "turns": [f"is it {i} o'clock?", "and then?"]} for i in range(4)]
COLD = SamplingSettings()


def write_prompts(folder: Path) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, PROMPTS)))
    return path


def words_for(prompts: Path, target: Path) -> list[str]:
    out = prompts.with_name("out.json")
    options = ["--drafter", "lookup", "--max-tokens", "4", "--draft-length", "2", "--repeats", "2"]
    return ["bench", str(prompts), "--target", str(target), *options, "--json", str(out)]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return write_prompts(tmp_path)


@pytest.fixture
def words(toy_folder: Path, prompts: Path) -> list[str]:
    return words_for(prompts, toy_folder)


@pytest.fixture(scope="module")
def document(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Of the first prompt."""
    prompts = write_prompts(tmp_path_factory.mktemp("finished"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.inference.learnt_rounds.cache_dir", lambda root=None: root or prompts.parent / "cache")
        assert main([*words_for(prompts, toy_folder), "--limit", "1"]) == 0
    return prompts.with_name("out.json").read_bytes()


@pytest.fixture
def finished(document: bytes, words: list[str], prompts: Path) -> list[str]:
    """The words to go on with that document."""
    prompts.with_name("out.json").write_bytes(document)
    return [*words, "--limit", "1", "--resume"]


def read(prompts: Path) -> Any:
    return json.loads(prompts.with_name("out.json").read_text())


def test_what_was_cut_off_goes_on_and_what_was_measured_stays(
    words: list[str], prompts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original, orders = benchmark.Benchmark._replies, list[list[str]]()

    def killed_at_the_fourth(self: Any, *asked_for: Any) -> dict[str, Reply]:
        if len(orders) == 3:
            raise MemoryError  # as good as a kill: nothing after it is run
        orders.append(list(found := original(self, *asked_for)))
        return found

    monkeypatch.setattr(benchmark.Benchmark, "_replies", killed_at_the_fourth)
    with pytest.raises(MemoryError):
        main(words)
    cut = read(prompts)
    assert cut["interrupted"]
    assert [(run["question_id"], run["repeat"], run["drafter"]) for run in cut["runs"]] == [
        *((0, 0, "none"), (0, 0, "lookup"), (0, 1, "none"), (0, 1, "lookup"))
    ]
    monkeypatch.setattr(benchmark.Benchmark, "_replies", original)
    assert main([*words, "--resume"]) == 0
    whole = read(prompts)
    assert not whole["interrupted"]
    assert whole["runs"][:4] == cut["runs"]
    found = [(run["question_id"], run["repeat"], run["drafter"]) for run in whole["runs"]]
    assert len(found) == len(set(found)) == 4 * 2 * 2
    assert {row["runs"] for row in whole["summary"]} == {8}
    assert "continuing after 4 replies" in capsys.readouterr().err


def test_a_whole_document_is_not_measured_again(
    finished: list[str], prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(prompts)
    monkeypatch.setattr(benchmark.Benchmark, "_replies", lambda *_: pytest.fail("measured again"))
    assert main(finished) == 0
    assert read(prompts) == before


@pytest.mark.slow
def test_the_order_goes_on_rotating(words: list[str], prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, orders = benchmark.Benchmark._replies, list[str]()

    def noted(self: Any, *asked_for: Any) -> dict[str, Reply]:
        found = original(self, *asked_for)
        orders.append(next(iter(found)))
        return found

    monkeypatch.setattr(benchmark.Benchmark, "_replies", noted)
    words[words.index("--repeats") + 1] = "1"
    assert main([*words, "--limit", "1"]) == 0
    assert main([*words, "--limit", "3", "--resume"]) == 0
    assert orders == ["none", "lookup", "none"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--max-tokens", "5"], "max_tokens was 4 and is 5 now"),
        (["--context", "64"], "context was None and is 64 now"),
        (["--drafter", "none"], None),  # no contestant more
        (["--random"], "the document has none, lookup, and these options give"),
    ],
)
def test_it_goes_on_only_as_it_began(
    changed: list[str], message: str | None, finished: list[str], redline: Redline
) -> None:
    done = redline(*finished, *changed)
    assert done.code == (2 if message else 0) and (not message or message in done.complaint)


def test_other_prompts_under_the_same_number_are_refused(finished: list[str], prompts: Path, redline: Redline) -> None:
    prompts.write_text(json.dumps(PROMPTS[0] | {"turns": ["something else"]}))
    done = redline(*finished)
    assert done.code == 2 and "question 0 has changed" in done.complaint


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_while_stops_nothing(
    words: list[str], prompts: Path, monkeypatch: pytest.MonkeyPatch, redline: Redline
) -> None:
    with monkeypatch.context() as full:
        fill_the_disk(full)
        done = redline(*words, "--limit", "2")
    assert done.code == 1 and "4 of 4 replies are identical" in done.out
    assert done.err.count("No space left on device") == 3
    assert not prompts.with_name("out.json").exists()


# --- by themselves ---------------------------------------------------------------------------------------------------


def _results(turns: int | None = 1, repeats: int = 1) -> SavedResults:
    return SavedResults(None, ENVIRONMENT, ["none", "lookup 2"], turns, repeats)


def _rows(**changes: Any) -> list[Any]:
    return [
        row(name, length, 7, 1.0, prompt_digest=digest("d"), **changes)
        for name, length in (("none", None), ("lookup", 2))
    ]


@pytest.mark.parametrize(
    ("results", "question", "stays"),
    [
        (_results(), Question(7, "qa", ("d", "e")), True),
        (_results(turns=None), Question(7, "qa", ("d", "e")), False),
        (_results(repeats=2), Question(7, "qa", ("d",)), False),
        (_results(), Question(8, "qa", ("d",)), True),
    ],
    ids=["whole", "a turn is missing", "a repeat is missing", "not asked now"],
)
def test_a_conversation_of_which_something_is_missing_is_measured_anew(
    results: SavedResults, question: Question, stays: bool
) -> None:
    rows = _rows()
    results.resume(document_of(rows), [question], [COLD])
    assert results.rows == (rows if stays else [])
    assert results.done(question, COLD) == (stays and question.id == 7)
    assert results.replies_each == stays


def test_another_seed_is_refused_where_it_shapes_the_text() -> None:
    warm = SamplingSettings(temperature=1.0, seed=5, acceptance="coupled")
    rows = _rows(temperature=1.0, seed=4, acceptance_rule="coupled")
    with pytest.raises(UsageError, match="seed 4 and coupled acceptance at temperature 1"):
        _results().resume(document_of(rows), [Question(7, "qa", ("d",))], [warm])
    rows = _rows(temperature=1.0, seed=5, acceptance_rule="rejection")
    with pytest.raises(UsageError, match="seed 5 and rejection acceptance"):
        _results().resume(document_of(rows), [Question(7, "qa", ("d",))], [warm])
    _results().resume(document_of(_rows(seed=4)), [Question(7, "qa", ("d",))], [SamplingSettings(seed=5)])


@pytest.mark.slow
def test_other_weights_under_the_same_name_are_not_gone_on_with(
    words: list[str], toy_drafter_folder: Path, tmp_path: Path, redline: Redline
) -> None:
    drafter = shutil.copytree(toy_drafter_folder, tmp_path / "mine")
    words = [*words, "--drafter", str(drafter), "--limit", "1"]
    assert redline(*words).code == 0
    weights = next(drafter.glob("*.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    done = redline(*words, "--resume")
    assert done.code == 2 and "cannot resume: weights was" in done.complaint

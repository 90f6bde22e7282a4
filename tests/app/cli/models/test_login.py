"""The hub's token: asked for unseen, shown to the hub, kept in the keychain, and nowhere to be read."""

import io
from collections.abc import Callable
from typing import NoReturn

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeychain
from keyring.backends.null import Keyring as Forgetful
from keyring.errors import KeyringLocked

from app.inference.hub_token import SERVICE, forget_token, keep_token, read_token
from engine.errors import HubError, UsageError
from tests.app.cli.models.conftest import Keychain
from tests.app.command import Redline
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import TOKEN, Loopback
from tests.models.hub.tiny import NAME

HUB = "https://hub.example"


@pytest.fixture
def run(models: Redline) -> Callable[..., tuple[int, str]]:
    """Returns the exit code and everything that was said: never the token."""

    def run(*words: str) -> tuple[int, str]:
        done = models(*words)
        assert TOKEN not in done.out + done.err
        return done.code, done.out + done.err

    return run


Run = Callable[..., tuple[int, str]]


def give(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))


def test_log_in_pull_what_is_gated_and_log_out(
    run: Run, server: Loopback, repo: Repo, keychain: Keychain, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.private = True
    code, said = run("pull", NAME)
    assert code == 1 and "if it is private, run `redline models login` first" in said
    give(TOKEN, monkeypatch)
    code, said = run("login", "--token-stdin")
    assert code == 0 and said == (
        f"Logged in to {server.endpoint} as tester. The token is in the keychain (test keychain).\n"
    )
    assert keychain.kept == {(SERVICE, server.endpoint): TOKEN}
    assert run("pull", NAME)[0] == 0
    assert run("logout") == (0, f"Deleted the token for {server.endpoint}.\n")
    assert run("logout") == (0, f"There was no saved token for {server.endpoint}.\n")
    assert keychain.kept == {}


def test_a_terminal_asks_without_showing(
    run: Run, server: Loopback, keychain: Keychain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: f" {TOKEN} " if "not shown" in prompt else "")
    assert run("login")[0] == 0 and len(keychain.kept) == 1


def test_what_the_hub_does_not_know_is_not_kept(
    run: Run, server: Loopback, keychain: Keychain, monkeypatch: pytest.MonkeyPatch
) -> None:
    give("hf_wrong", monkeypatch)
    code, said = run("login", "--token-stdin")
    assert code == 1 and "the hub does not accept this token; create a new one" in said and "hf_wrong" not in said
    for nonsense in ("", "two words", "h\u00e9", "x" * 600):
        give(nonsense, monkeypatch)
        code, said = run("login", "--token-stdin")
        assert code == 2 and "that is not a token" in said and (not nonsense or nonsense not in said)
    assert keychain.kept == {}


def test_nobody_to_ask_is_told_how_to_give_the_token(
    run: Run, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    give("", monkeypatch)
    code, said = run("login")
    assert code == 2 and "use --token-stdin" in said


def test_each_hub_has_its_own_token_and_the_environment_goes_before(
    keychain: Keychain, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_token(HUB, TOKEN)
    assert read_token(HUB) == TOKEN and read_token("https://mirror.example") is None
    monkeypatch.setenv("HF_TOKEN", " hf_other ")
    assert read_token(HUB) == "hf_other"
    monkeypatch.setenv("HF_TOKEN", "two words")
    with pytest.raises(UsageError, match="that is not a token"):
        read_token(HUB)


@pytest.mark.parametrize("keychain_of_this_machine", [NoKeychain, Forgetful])
def test_without_a_keychain_models_still_come_and_login_says_what_to_do(
    run: Run,
    server: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    keychain_of_this_machine: type[NoKeychain],
) -> None:
    keyring.set_keyring(keychain_of_this_machine())
    assert run("pull", NAME)[0] == 0
    give(TOKEN, monkeypatch)
    code, said = run("login", "--token-stdin")
    assert code == 1 and "no keychain on this machine accepts the token" in said and "as HF_TOKEN" in said


def test_a_locked_keychain_is_no_traceback(keychain: Keychain, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: str) -> NoReturn:
        raise KeyringLocked

    monkeypatch.setattr(keychain, "get_password", locked)
    assert read_token(HUB) is None
    for change in (lambda: keep_token(HUB, TOKEN), lambda: forget_token(HUB)):
        with pytest.raises(HubError, match="unlock or set one up"):
            change()

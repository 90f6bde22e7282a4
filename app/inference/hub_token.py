"""The hub's token, in the keychain of this machine and nowhere else. It is never printed, logged or put in an error.

One entry for each endpoint, so that a mirror named by HF_ENDPOINT is never given the token of huggingface.co. HF_TOKEN
in the environment goes before the keychain, as everywhere. The plain-text file of `hf auth login` is not read.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import HubError, UsageError

SERVICE = "Redline"
VARIABLE = "HF_TOKEN"
_LONGEST = 512


def read_token(endpoint: str) -> str | None:
    """Returns the token for this endpoint; None where there is none, or no keychain to ask."""
    value = os.environ.get(VARIABLE, "").strip()
    if value:
        return check_token(value)
    try:
        with _keychain() as keyring:
            return keyring.get_password(SERVICE, endpoint)  # type: ignore[no-any-return]
    except HubError:  # locked, or none on this machine: public models need no token
        return None


def keep_token(endpoint: str, token: str) -> None:
    """Puts the token into the keychain. Raises HubError where there is none, with what to do instead."""
    with _keychain() as keyring:
        keyring.set_password(SERVICE, endpoint, check_token(token))
        if keyring.get_password(SERVICE, endpoint) != token:
            raise RuntimeError("some back ends take everything and keep nothing")


def forget_token(endpoint: str) -> bool:
    """Deletes the token; returns whether there was one. Raises HubError where there is no keychain."""
    with _keychain() as keyring:
        found = keyring.get_password(SERVICE, endpoint) is not None
        if found:
            keyring.delete_password(SERVICE, endpoint)
        return found


def keychain_name() -> str:
    """Returns the name of the keychain to show, "" where there is none."""
    from keyring.backends.fail import Keyring as Fail
    from keyring.backends.null import Keyring as Null

    with _keychain() as keyring:
        found = keyring.get_keyring()
        return "" if isinstance(found, Fail | Null) else str(found.name)


def check_token(token: str) -> str:
    """Returns the token. Raises UsageError for what cannot be one, without repeating it."""
    if not token or len(token) > _LONGEST or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            "that is not a token: a token is one word that begins with hf_; create one on the hub under "
            "Settings > Access Tokens"
        )
    return token


@contextmanager
def _keychain() -> Iterator[Any]:
    """Gives the keyring module. Raises HubError with what to do where the machine has no keychain that works."""
    import keyring
    from keyring.errors import KeyringError

    try:
        yield keyring
    except (KeyringError, RuntimeError) as error:
        to_do = f"unlock or set one up (GNOME Keyring, KWallet), or give the token for one command as {VARIABLE}"
        raise HubError(f"no keychain on this machine accepts the token; {to_do}", "token") from error

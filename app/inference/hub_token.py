"""The hub's token, in the keychain of this machine and nowhere else. It is never printed, logged or put in an error.

One entry for each endpoint, so that a mirror named by HF_ENDPOINT is never given the token of huggingface.co. HF_TOKEN
in the environment goes before the keychain, as everywhere. The plain-text file of `hf auth login` is not read.
"""

from __future__ import annotations

import os

from engine.errors import HubError, UsageError

SERVICE = "Redline"
VARIABLE = "HF_TOKEN"
_LONGEST = 512


def read_token(endpoint: str) -> str | None:
    """The token for this endpoint; None where there is none, or no keychain to ask."""
    import keyring
    from keyring.errors import KeyringError

    value = os.environ.get(VARIABLE, "").strip()
    if value:
        return check_token(value)
    try:
        return keyring.get_password(SERVICE, endpoint)
    except (KeyringError, RuntimeError):  # locked, or none on this machine: public models need no token
        return None


def keep_token(endpoint: str, token: str) -> None:
    """Put the token into the keychain. Raises HubError where there is none, with what to do instead."""
    import keyring
    from keyring.errors import KeyringError

    try:
        keyring.set_password(SERVICE, endpoint, check_token(token))
        kept = keyring.get_password(SERVICE, endpoint) == token  # some back ends take everything and keep nothing
    except (KeyringError, RuntimeError) as error:
        raise _no_keychain() from error
    if not kept:
        raise _no_keychain()


def forget_token(endpoint: str) -> bool:
    """Delete it; whether there was one. Raises HubError where there is no keychain."""
    import keyring
    from keyring.errors import KeyringError

    try:
        if keyring.get_password(SERVICE, endpoint) is None:
            return False
        keyring.delete_password(SERVICE, endpoint)
    except (KeyringError, RuntimeError) as error:
        raise _no_keychain() from error
    return True


def keychain_name() -> str:
    """What keeps the token, for people; "" where nothing can."""
    import keyring
    from keyring.backends.fail import Keyring as Fail
    from keyring.backends.null import Keyring as Null

    found = keyring.get_keyring()
    return "" if isinstance(found, Fail | Null) else str(found.name)


def check_token(token: str) -> str:
    """Raises UsageError for what cannot be one, without repeating it."""
    if not token or len(token) > _LONGEST or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            "that is no token: it is one word, hf_ and letters; make one at the hub, Settings, Access Tokens"
        )
    return token


def _no_keychain() -> HubError:
    to_do = f"unlock or set one up (GNOME Keyring, KWallet), or give the token for one command as {VARIABLE}"
    return HubError(f"no keychain on this machine takes the token; {to_do}", "token")

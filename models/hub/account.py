"""The account of a token, from GET /api/whoami-v2; huggingface_hub's own call has no timeout."""

from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import get_session, hf_raise_for_status

from engine.errors import HubError
from models.hub.client import HTTP_ERRORS, Hub
from models.hub.repo_names import shown


def account_name(hub: Hub) -> str:
    """Returns the name of the account of the token. Raises HubError if the token is unknown or the hub cannot
    be reached."""
    try:
        address, silence_s = f"{hub.endpoint}/api/whoami-v2", hub.patience.silence_s
        answer = get_session().get(address, headers=hub.headers, timeout=silence_s)
        hf_raise_for_status(answer)
        name = answer.json()["name"]
    except HTTP_ERRORS as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
            raise HubError("the hub does not accept this token; create a new one on the hub", "token") from None
        raise hub.explain(error, "the account", "") from error
    except (KeyError, TypeError, ValueError) as error:
        raise hub.explain(error, "the account", "") from error
    return str(name) if str(name).isprintable() else shown(name)

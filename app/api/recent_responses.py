"""What /v1/responses remembers of recent responses, so that requests may refer to them by their ids.

OpenAI's clients refer to items of earlier responses, or to a whole response, wherever they did not say `store: false`.
Responses are kept in memory alone and end with the server; the one that was made or continued longest ago goes first.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec

from app.api.access import LONGEST_BODY
from app.api.api_errors import ApiError
from app.api.request_schema import ResponseItem, ResponsesRequest

MOST_BYTES, MOST_RESPONSES = 32 * 1024 * 1024, 256


class RecentResponses:
    """The items of recent responses: those of the request, and those of the reply."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._kept: OrderedDict[str, tuple[Sequence[ResponseItem], list[dict[str, Any]], int]] = OrderedDict()

    def keep(self, response: str, given: Sequence[ResponseItem], output: list[dict[str, Any]]) -> None:
        """Remembers a response that is complete, unless it is larger than all may be together."""
        size = len(msgspec.json.encode(given)) + len(msgspec.json.encode(output))
        if size > self._most_bytes:
            return
        self._kept[response] = (given, output, size)
        self._bytes += size
        while self._bytes > self._most_bytes or len(self._kept) > MOST_RESPONSES:
            _, (_, _, freed) = self._kept.popitem(last=False)
            self._bytes -= freed

    def items(self, body: ResponsesRequest) -> tuple[ResponseItem, ...]:
        """Returns the items of the conversation of a request, references resolved. Raises ApiError for those that are
        not known any more, and for more than a request may hold."""
        before: tuple[ResponseItem, ...] = ()
        if (response := body.previous_response_id) is not None:
            if response not in self._kept:
                raise _forgotten("previous_response_id", response)
            self._kept.move_to_end(response)
            given, output, _ = self._kept[response]
            before = (*given, *msgspec.convert(output, tuple[ResponseItem, ...]))
        if isinstance(body.input, str):
            return (*before, ResponseItem(role="user", content=body.input))
        size, items = len(msgspec.json.encode(before)), list(before)
        for item in body.input:
            items.append(self._resolved(item))
            size += len(msgspec.json.encode(items[-1])) if item.type == "item_reference" else 0
            if size > LONGEST_BODY:
                message = f"the items that are referred to have more than {LONGEST_BODY} bytes together"
                raise ApiError(413, "request_too_large", message, "input")
        return tuple(items)

    def _resolved(self, item: ResponseItem) -> ResponseItem:
        if item.type != "item_reference":
            return item
        for given, output, _ in reversed(self._kept.values()):
            for one in output:
                if one["id"] == item.id:
                    return msgspec.convert(one, ResponseItem)
            for earlier in given:
                if earlier.id is not None and earlier.id == item.id:
                    return earlier
        raise _forgotten("input", item.id or "")


def _forgotten(param: str, name: str) -> ApiError:
    message = f"{param}: nothing is known of {name[:60]!r} any more: send the whole conversation"
    return ApiError(400, "previous_response_not_found", message, param)

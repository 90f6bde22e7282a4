"""The lines that `redline models pull NAME --json` prints, for whoever runs it as a child: the window does.

On standard output, one event a line, UTF-8, flushed as it happens; each is a JSON object whose `type` is the name of a
record of `models.hub.download_events`, which says what its fields mean. Nothing else is ever printed there. On
standard error, a failure is repeated in words. Standard input is not read.

    line        when                                                                exit code
    Resolving   always the first line: the list of files is requested from the hub
    Waiting     nothing came; it is tried again in `wait_s` seconds
    Planned     the hub has answered and there is room: files, bytes, what is here
    DownloadProgress  at most ten times a second for each file, and at least once a second in all
    Verifying   bytes that are here are read again; then progress goes on
    Fetched     a file is here, whole
    Done        the last: the model is here                                         0
    Paused      the last: the child was asked to end                                130
    Failed      the last: `reason` is for programs, `message` for people            1, of a wrong name 2
    Discarded   the only one of --discard                                           0

    pause       SIGINT or SIGTERM: Paused comes within about a second. SIGKILL does no harm either, it only says nothing
    resume      run the same command again: Planned says how much is here
    cancel      pause, wait for the child's end, then `redline models pull NAME --discard --json`
    no reader   a child whose standard output is closed pauses at its next line: once bytes come, within a second or two

What came is kept, whatever ended the child. A second child for the same model ends with Failed, reason "busy". New
fields and new types of line may come; those that are here stay as they are.
"""

import msgspec

from app.protocol import MalformedError as MalformedError
from app.protocol import decode_line
from models.hub.download_events import *  # noqa: F403  its records are these messages
from models.hub.download_events import AnyDownloadEvent, DownloadEvent

_decoder: msgspec.json.Decoder[AnyDownloadEvent] = msgspec.json.Decoder(AnyDownloadEvent)


def to_line(event: DownloadEvent) -> str:
    """Returns an event as a line, without its end."""
    return msgspec.json.encode(event).decode()


def read_line(line: bytes | str) -> AnyDownloadEvent:
    """Returns the event in a line. Raises MalformedError for what is no event."""
    return decode_line(line, _decoder)

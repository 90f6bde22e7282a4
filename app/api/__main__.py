"""The API as a process of the window: `python -m app.api --port N --key-file FILE`.

The window is its host: requests go out on standard output, answers come in on standard input (app/protocol/api_messages
says which), and the end of the input ends it. The models are the window's, which says what is loaded.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app import protocol
from app.api.access import AccessRules
from app.api.host_client import HostClient
from app.api.key_file import read_or_make_key
from app.api.loopback_server import open_socket, serve_engine
from app.api.reply_stream import Engine
from app.command_line import OK, USAGE, Parser, notify
from app.host.server import take_streams
from app.protocol.api_messages import Listening
from app.safe_text import guard_streams
from engine.errors import UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the input ends; returns the exit code. Raises SystemExit for wrong arguments."""
    guard_streams()
    parser = Parser(prog="python -m app.api", description="Serves the models of Redline's window to other programs.")
    parser.add_argument("--port", type=int, required=True, metavar="N", help="port of loopback; 0: any that is free")
    parser.add_argument("--key-file", type=Path, required=True, metavar="FILE", help="file with the key")
    args = parser.parse_args(argv)
    answers, requests = take_streams()
    try:
        asyncio.run(_serve(args.port, read_or_make_key(args.key_file), answers, requests))
    except UsageError as error:
        notify(str(error))
        return USAGE
    return OK


async def _serve(port: int, key: str, answers: int, requests: int) -> None:
    """answers, requests: descriptors of the window's lines and of those for it. Raises UsageError."""
    with open_socket(port) as listener:
        writer = await _writer(requests)
        client = HostClient(await _reader(answers), writer)
        reading = asyncio.create_task(client.run())
        ended, loaded = (asyncio.create_task(event.wait()) for event in (client.ended, client.has_loaded))
        await asyncio.wait((ended, loaded), return_when=asyncio.FIRST_COMPLETED)
        if client.loaded is not None:
            listener.listen()
            writer.write(protocol.encode_line(Listening(id=0, port=listener.getsockname()[1])))
            await serve_engine(Engine(client), listener, AccessRules(key))
        for task in (reading, ended, loaded):
            task.cancel()


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=protocol.LONGEST_LINE + 1)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0))
    return reader


async def _writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    made = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(fd, "wb", buffering=0)
    )
    return asyncio.StreamWriter(*made, None, loop)


if __name__ == "__main__":
    sys.exit(main())

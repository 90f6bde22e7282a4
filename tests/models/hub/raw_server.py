"""A server on loopback that answers each request with the bytes of a script, as slowly and as wrongly as it likes."""

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Script = Callable[[str], Iterable[bytes | float]]  # from the path to bytes to send and the longest pauses in seconds
SILENCE = float("inf")  # a pause until the server is closed


class RawServer:
    """Serves by the script until it is closed. heads: of the requests, in the order in which they came."""

    def __init__(self, script: Script, certificate: Path | None = None) -> None:
        self.script, self.heads = script, list[str]()
        self._closed = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._context = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        scheme = "http" if certificate is None else "https"
        self.endpoint = f"{scheme}://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(65536)
                if not piece:
                    return
                head += piece
            self.heads.append(head.decode("latin-1"))
            for part in self.script(self.heads[-1].split(" ")[1]):
                if isinstance(part, float):
                    self._closed.wait(None if part == SILENCE else part)
                else:
                    connection.sendall(part)
            connection.close()

    def close(self) -> None:
        self._closed.set()
        self._socket.close()


@contextlib.contextmanager
def raw_server(script: Script, certificate: Path | None = None) -> Iterator[RawServer]:
    """A server until the end of the block."""
    server = RawServer(script, certificate)
    try:
        yield server
    finally:
        server.close()


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; an underscore in the name of a header stands for a hyphen. Content-Length is right, or given."""
    fields = {"Content-Length": str(len(body)), "Connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def dripped(data: bytes, pause_s: float) -> Iterator[bytes | float]:
    """One byte at a time, and for ever."""
    while True:
        for byte in data:
            yield bytes([byte])
            yield pause_s


def write_certificate(path: Path) -> Path:
    """Writes a certificate for 127.0.0.1 and its key, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    today = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(today).not_valid_after(today + datetime.timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = made.add_extension(address, critical=True).sign(key, hashes.SHA256())
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*plain) + signed.public_bytes(serialization.Encoding.PEM))
    return path

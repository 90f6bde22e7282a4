"""The file that names the machines which share a target: that of `mlx.launch`, rank 0, this machine, first.

    {"hosts": [{"ssh": "localhost", "ips": ["10.0.0.1"]}, {"ssh": "studio.local", "ips": ["10.0.0.2"]}]}

A machine may have a "command", which starts `redline` there.
"""

import ipaddress
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import UsageError

HERE = ("localhost", "127.0.0.1")
COMMAND = ("redline",)
PORT = 32323  # of rank 0 in the ring, the next ones for the others: as in mlx.launch


@dataclass(frozen=True)
class Host:
    """A machine. ssh: its name for ssh, or "localhost". ip: its address in the ring, "ip" or "ip:port"."""

    ssh: str
    ip: str
    command: tuple[str, ...] = COMMAND

    @property
    def is_here(self) -> bool:
        return self.ssh in HERE


def read_hosts(path: Path | None) -> tuple[Host, ...]:
    """Returns the machines that a file names, none without a file. Raises UsageError for an invalid file."""
    if path is None:
        return ()
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        listed = value["hosts"] if isinstance(value, dict) else value
        hosts = tuple(_host(entry) for entry in listed)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{path} is not a list of machines ({error}): `redline cluster` writes one") from None
    if len(hosts) < 2:
        raise UsageError(f"{path} names {len(hosts)} machines: sharing a target takes at least 2")
    loopback = [host.ssh for host in hosts if host.ip.startswith("127.")]
    if loopback and not all(host.is_here for host in hosts):
        raise UsageError(f"{path} has an address of {loopback[0]} that others cannot reach: see ifconfig")
    return hosts


def _host(entry: dict[str, Any]) -> Host:
    """Raises various errors for an invalid entry. ssh would take a name that begins with a dash for an option, and MLX
    finds no port after an address of IPv6."""
    ssh, ip = entry["ssh"], entry["ips"][0]
    if not isinstance(ssh, str) or not ssh or ssh.startswith("-"):
        raise ValueError(f"{ssh!r} is not a valid machine name")
    ipaddress.IPv4Address(ip.rpartition(":")[0] if ip.count(":") == 1 else ip)
    return Host(ssh, ip, tuple(map(str, entry.get("command", COMMAND))))


def find_hosts(names: Sequence[str]) -> tuple[Host, ...]:
    """Returns machines by their names, with the addresses that the network knows. Raises UsageError for an unknown
    one."""
    hosts = []
    for name in names:
        try:
            hosts.append(Host(name, socket.gethostbyname(name.rpartition("@")[2])))
        except OSError as error:
            raise UsageError(f"{name} is not known on this network ({error}): use another name or address") from None
    others = [host for host in hosts if not host.is_here]
    return tuple(replace(host, ip=own_address(others[0].ip)) if others and host.is_here else host for host in hosts)


def own_address(other: str) -> str:
    """Returns the address under which the machine at `other` reaches this one; nothing is sent. Raises UsageError."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((other, PORT))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UsageError(f"{other} cannot be reached ({error}): check the network") from None


def write_hosts(path: Path, hosts: Sequence[Host]) -> None:
    """Writes the file. Raises UsageError where it cannot be written."""
    entries = [{"ssh": host.ssh, "ips": [host.ip], "command": list(host.command)} for host in hosts]
    try:
        path.write_text(json.dumps({"hosts": entries}, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): choose another file") from error

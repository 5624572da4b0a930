"""Ports of servers that a test starts as programs: they listen long after their port was chosen."""

import random
import socket

PORTS = range(10_000, 32_000)
"""Below the ports that a system gives to servers and connections without one of their own (Linux: from 32768 on): those
of the other tests would take a port before its server listens, and would be asked in its place."""


def free_port() -> int:
    """Return a port of the loopback that is not open, and that no other test is given by chance."""
    while is_open(port := random.SystemRandom().choice(PORTS)):
        pass
    return port


def is_open(port: int) -> bool:
    """Return whether a server listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

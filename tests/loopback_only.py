"""Run a script as on a machine without a network: `python tests/loopback_only.py script.py`."""

import runpy
import socket
import sys

LOOPBACK = {"127.0.0.1", "::1", "localhost", "", None}


def no_network() -> None:
    """Allow connections to the loopback only: other names are unknown, other addresses unreachable."""
    connect = socket.socket.connect
    connect_ex = socket.socket.connect_ex
    look_up = socket.getaddrinfo

    def is_outside(one, address):
        return one.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOOPBACK

    def guarded_connect(self, address):
        if is_outside(self, address):
            raise OSError(101, "Network is unreachable")
        return connect(self, address)

    def guarded_connect_ex(self, address):
        return 101 if is_outside(self, address) else connect_ex(self, address)

    def guarded_look_up(host, *args, **kwargs):
        if host not in LOOPBACK:
            raise socket.gaierror(socket.EAI_NONAME, "no network here")
        return look_up(host, *args, **kwargs)

    socket.socket.connect = guarded_connect
    socket.socket.connect_ex = guarded_connect_ex
    socket.getaddrinfo = guarded_look_up


if __name__ == "__main__":
    no_network()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")

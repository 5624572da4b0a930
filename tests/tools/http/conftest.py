"""Names and addresses that a test invents, see `internet`."""

from internet import allowed, certificate, internet, server, tls_server

__all__ = ["allowed", "certificate", "internet", "server", "tls_server"]

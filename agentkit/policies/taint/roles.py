"""Roles of parameters: which of them say where something goes."""

import re

_WORDS = """
    account address attendees bcc bucket cc channel chat contact database dest destination directory dir domain
    email emails endpoint file filename folder host iban invitees link members owner participants path paths phone
    receiver recipient recipients repo repository room server table target to uri url urls user username users
    wallet webhook website
"""
DESTINATION_WORDS = frozenset(_WORDS.split())
"""Words of parameter names for recipients, addresses, paths and accounts."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names_destination(where: str) -> bool:
    """Return whether a place in the arguments, such as `mail.to[0]` or `recipientEmail`, is named as a destination."""
    name = re.sub(r"\[\d+\]", "", where).rpartition(".")[2]
    return any(word.lower() in DESTINATION_WORDS for word in _WORD.findall(name))

"""No secret is known in a test, but for those that it hides itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentkit.core import masking


@contextmanager
def secrets_unknown() -> Iterator[None]:
    """Forget the secrets that others hid, and those of the test afterwards."""
    hidden = {*masking.HIDDEN_VALUES}
    forget_secrets()
    yield
    forget_secrets()
    masking.HIDDEN_VALUES.update(hidden)


def forget_secrets() -> None:
    """Forget the values that were hidden, and those of settings, also of settings that are still there."""
    masking.HIDDEN_VALUES.clear()
    masking._LAST_HELD.clear()
    masking._HELD.clear()

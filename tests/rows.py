"""One test over many rows: as cheap as a loop, and a failure names its row."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def for_each(name: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test once for each row, as its argument `name`, all in one case; report every row that fails."""
    rows = list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def over_rows(**arguments: Any) -> None:
            failures = []
            for row in rows:
                try:
                    test(**{name: row}, **arguments)
                except Exception as error:
                    failures.append((row, error))
            if failures:
                listed = "\n".join(f"{row}: {type(error).__name__}: {error}" for row, error in failures[:10])
                raise AssertionError(f"{len(failures)} of {len(rows)} rows fail:\n{listed}") from failures[0][1]

        signature = inspect.signature(test)
        kept = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        over_rows.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return over_rows

    return decorate

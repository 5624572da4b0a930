"""The text of a PDF, for pages from the web and for files."""

import io
import logging
import time

from agentkit import ToolError
from agentkit.tools import run_within

MAX_PDF_PAGES = 500
_SILENT = logging.NullHandler()
"""Keeps the warnings of pypdf from the terminal of a program that has not set up logging."""


def is_pdf(content: bytes) -> bool:
    """Return whether a content begins as a PDF does."""
    return content.startswith(b"%PDF-")


def read_pdf(content: bytes, shown: str, seconds: float, tool: str) -> str:
    """Return the text of a PDF, each page after its number.

    Args:
        content: The PDF.
        shown: Its address or path, for errors.
        seconds: The time limit.
        tool: The tool that reads it, for the error about a missing package.

    Raises:
        ToolError: It has a password, is damaged, or takes too long.
        ImportError: pypdf is not installed.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import FileNotDecryptedError
    except ImportError:
        raise ImportError(f"{tool} needs the package pypdf for a PDF: pip install pypdf") from None
    logging.getLogger("pypdf").addHandler(_SILENT)
    end = time.monotonic() + seconds

    def read() -> str:
        pages = PdfReader(io.BytesIO(content)).pages
        texts = []
        for number, sheet in enumerate(pages, 1):
            if number > MAX_PDF_PAGES or time.monotonic() > end:
                texts.append(f"[Pages {number} to {len(pages)} were not read]")
                break
            if text := sheet.extract_text().strip():
                texts.append(f"[Page {number} of {len(pages)}]\n\n{text}")
        return "\n\n".join(texts)

    try:
        return run_within(seconds, read)
    except TimeoutError:
        raise ToolError(f"{shown}: the PDF could not be read in {seconds:g} seconds.") from None
    except FileNotDecryptedError:
        raise ToolError(f"{shown} is a PDF with a password.") from None
    except Exception as error:  # pypdf raises what a damaged file makes it raise
        raise ToolError(f"{shown} is not a readable PDF ({type(error).__name__}).") from error

"""Small valid files: a picture, a PDF and a sound."""

import struct
import zlib


def png(width: int = 4, height: int = 4, color: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(color) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


PNG = png()
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
WAV = b"RIFF" + struct.pack("<I", 40) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
WAV += b"data" + struct.pack("<I", 4) + b"\0\0\1\1"
MP3 = b"ID3\x04" + bytes(40)


def make_pdf(*texts: str) -> str:
    """Return a PDF with a page for each text."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(texts)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(texts)}/Kids[{kids}]>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, text in enumerate(texts):
        content = f"BT /F 12 Tf 20 700 Td ({text}) Tj ET"
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>/Contents {5 + 2 * number} 0 R>>"
        )
        objects.append(f"<</Length {len(content)}>>stream\n{content}\nendstream")
    body = "%PDF-1.4\n"
    offsets = []
    for number, text in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj{text}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(body)}\n%%EOF"

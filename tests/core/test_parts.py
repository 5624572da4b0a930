"""Images, documents and audio as values: what they are made of, how they are shown, and what is refused."""

import base64

import pytest
from files import MP3, PDF, PNG, WAV

from agentkit import Audio, DefinitionError, Document, Image
from agentkit.core.parts import describe_part, read_file, read_query, shorten_data
from agentkit.engine.history.size import bound_tokens, count_characters


@pytest.mark.parametrize(
    ("cls", "data", "name", "shown"),
    [
        (Image, PNG, "a.png", f"[image/png a.png, {len(PNG)} bytes]"),
        (Document, PDF, "a.pdf", f"[application/pdf a.pdf, {len(PDF)} bytes]"),
        (Audio, WAV, "a.wav", f"[audio/wav a.wav, {len(WAV)} bytes]"),
        (Audio, MP3, "a.mp3", f"[audio/mp3 a.mp3, {len(MP3)} bytes]"),
    ],
    ids=["png", "pdf", "wav", "mp3"],
)
def test_a_file_is_recognised_by_its_content(tmp_path, cls, data, name, shown):
    (tmp_path / name).write_bytes(data)
    part = cls.from_path(tmp_path / name)
    assert part == cls.from_bytes(data, name=name) == read_file(tmp_path / name)
    assert (part.data, repr(part)) == (data, f"<{cls.__name__} {shown}>")
    assert describe_part(part.as_part(), name) == shown
    assert base64.b64encode(data).decode() in str(part.as_part())


@pytest.mark.parametrize(("cls", "data"), [(Image, PNG), (Document, PDF), (Audio, WAV), (Audio, MP3)])
def test_the_type_of_bytes_alone_is_detected(cls, data):
    assert cls(data) == cls.from_bytes(data)


def test_an_address_is_left_to_the_provider():
    image = Image.from_url("https://example.com/a.png")
    assert image.as_part() == {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert repr(image) == "<Image [image https://example.com/a.png]>"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Image.from_bytes(PDF), "expected PNG, JPEG, GIF or WebP, got application/pdf. Use Document."),
        (lambda: Document.from_bytes(WAV), "expected PDF, got audio/wav. Use Audio."),
        (
            lambda: Image.from_bytes("aGk="),
            "Image.from_bytes: expected bytes, got str. For base64: base64.b64decode(text)",
        ),
        (lambda: Audio.from_bytes(b"text"), "expected WAV or MP3, got 4 bytes of another type."),
        (lambda: Image(PDF), "Image: expected PNG, JPEG, GIF or WebP, got application/pdf. Use Document."),
        (lambda: Document(b"text"), "Document: expected PDF, got 4 bytes of another type."),
        (lambda: Image(), "Image: expected PNG, JPEG, GIF or WebP, got 0 bytes of another type."),
        (lambda: Image(b"", "image/png"), "Image: expected PNG, JPEG, GIF or WebP, got 0 bytes of another type."),
        (lambda: Image("a.png"), "Image: expected bytes, got str. Use Image.from_path for a file"),
        (lambda: Image("a.png", "image/png"), "Image: expected bytes, got str. Use Image.from_path for a file"),
        (lambda: Image.from_url("a.png"), "expected an http(s) URL. Use Image.from_path for a file."),
        (lambda: read_query(["What?", Image.from_bytes(PNG), PNG]), r"query[2]: expected a text or a part, got bytes."),
    ],
    ids=[
        "pdf as image",
        "sound as document",
        "base64 as image",
        "text as sound",
        "pdf made an image",
        "text made a document",
        "nothing made an image",
        "nothing made a picture of a type",
        "path made an image",
        "path made an image of a type",
        "path as url",
        "bytes in a query",
    ],
)
def test_what_is_refused_is_named(make, error):
    with pytest.raises(DefinitionError) as caught:
        make()
    assert error in str(caught.value)


def test_a_file_of_another_type_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(DefinitionError, match="expected one of PNG, JPEG, GIF, WebP, PDF, WAV, MP3"):
        read_file(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError):
        Image.from_path(tmp_path / "none.png")


def test_data_is_not_counted_as_text():
    big = Image.from_bytes(PNG + bytes(3_000_000))
    sizes = {}
    for part in (big, Document.from_bytes(PDF + bytes(3_000_000)), Audio.from_bytes(WAV + bytes(3_000_000))):
        message = {"role": "user", "content": [{"type": "text", "text": "hi"}, part.as_part()]}
        sizes[type(part).__name__] = count_characters(message)
        assert bound_tokens(message) < 3_100_000
    assert sizes["Image"] < 5_000
    assert 100_000 < sizes["Document"] < 1_000_000  # some 60 pages
    assert 10_000 < sizes["Audio"] < 100_000  # three minutes


def test_data_is_left_out_of_logs():
    text = f"bad image data:image/png;base64,{base64.b64encode(bytes(9_000)).decode()} in messages[1]"
    assert shorten_data(text) == "bad image data:image/png;base64,(12,000 characters of data) in messages[1]"
    assert shorten_data("a/path/of/words " * 100) == "a/path/of/words " * 100

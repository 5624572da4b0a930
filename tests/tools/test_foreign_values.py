"""What the model reads of values from other libraries; each test uses the real library, where it is installed."""

import base64
import io
import json
import random
import tracemalloc
from pathlib import Path

import pytest

from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.results.jsonable import MAX_IMAGE_BYTES, to_json_data
from agentkit.tools.results.result_text import MAX_IMAGES, render_result, render_text

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40


def image_of(value):
    """The text of a value that has one image, and the image's address."""
    rendered = render_result(value)
    (part,) = rendered.images
    assert part["image_url"]["url"].startswith("data:image/png;base64,")
    return rendered.text


class TestImages:
    def test_a_buffer_with_an_image_is_seen_and_one_with_text_is_read(self):
        assert image_of(io.BytesIO(PNG)) == "[image/png, 48 bytes]"
        assert render_text(io.BytesIO(b"hello")) == "hello"
        assert json.loads(image_of({"chart": io.BytesIO(PNG)})) == {"chart": "[image/png, 48 bytes]"}

    def test_a_path_of_an_image_shows_the_image_and_any_other_path_its_text(self, tmp_path):
        path = tmp_path / "chart.PNG"
        path.write_bytes(PNG)
        assert json.loads(image_of(path)) == {"path": str(path), "image": "[image/png, 48 bytes]"}
        assert render_text(Path("missing.png")) == "missing.png"
        (tmp_path / "notes.txt").write_text("secret")
        assert render_text(tmp_path / "notes.txt") == str(tmp_path / "notes.txt")
        assert to_json_data(path) == str(path), "only what the model reads opens files"

    @pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "CMYK", "F", "1"])
    def test_a_pillow_image_of_any_mode_is_seen(self, mode):
        image = pytest.importorskip("PIL.Image").new(mode, (8, 6))
        assert image_of(image).startswith("[image/png, ")

    @pytest.mark.parametrize(("side", "kept"), [(1500, 1500), (4200, 2100)])
    def test_a_pillow_image_above_the_limit_of_models_is_seen_smaller(self, side, kept):
        pillow = pytest.importorskip("PIL.Image")
        noise = pillow.frombytes("RGBA", (side, side), random.Random(1).randbytes(side * side * 4))
        (part,) = render_result(noise).images
        content = base64.b64decode(part["image_url"]["url"].partition("data:image/jpeg;base64,")[2])
        assert len(content) <= MAX_IMAGE_BYTES
        assert pillow.open(io.BytesIO(content)).size == (kept, kept)

    def test_many_images_stay_within_the_limit(self):
        image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
        assert len(render_result([image] * (MAX_IMAGES + 3)).images) == MAX_IMAGES

    def test_a_matplotlib_figure_and_its_axes_are_seen(self):
        figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(1, 1))
        axes = figure.subplots()
        axes.plot([1, 2])
        assert image_of(figure).startswith("[image/png, ")
        assert image_of(axes).startswith("[image/png, ")


class TestDatabases:
    @pytest.fixture
    def database(self):
        sql = pytest.importorskip("sqlalchemy")
        orm = pytest.importorskip("sqlalchemy.orm")

        class Base(orm.DeclarativeBase):
            pass

        class User(Base):
            __tablename__ = "users"
            id = orm.mapped_column(sql.Integer, primary_key=True)
            name = orm.mapped_column(sql.String)

        engine = sql.create_engine("sqlite://")
        Base.metadata.create_all(engine)
        with orm.Session(engine) as session:
            session.add_all([User(id=1, name="Ada"), User(id=2, name="Bob")])
            session.commit()
            yield sql, User, session

    ROWS = ({"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"})

    def test_rows_are_objects_and_a_result_is_its_rows(self, database):
        sql, user, session = database
        query = sql.select(user.id, user.name)
        assert json.loads(render_text(session.execute(query).all())) == [*self.ROWS]
        assert json.loads(render_text(session.execute(query).first())) == self.ROWS[0]
        assert json.loads(render_text(session.execute(query))) == [*self.ROWS]
        assert json.loads(render_text(row for row in session.execute(query))) == [*self.ROWS]
        assert json.loads(render_text(session.execute(query).mappings().all())) == [*self.ROWS]

    def test_mapped_objects_show_their_columns_also_when_they_are_detached(self, database):
        sql, user, session = database
        found = session.scalars(sql.select(user)).all()
        assert json.loads(render_text(found)) == [*self.ROWS]
        session.expunge_all()
        assert json.loads(render_text(found[0])) == self.ROWS[0]


class TestFrames:
    def test_polars_frames_are_rows_and_series_are_lists(self):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame({"city": ["Rome", None], "degrees": [21.5, float("nan")]})
        rows = [{"city": "Rome", "degrees": 21.5}, {"city": None, "degrees": "NaN"}]
        assert json.loads(render_text(frame)) == rows
        assert json.loads(render_text(frame.lazy())) == rows
        assert json.loads(render_text(frame["city"])) == ["Rome", None]

    def test_a_long_frame_has_the_number_of_missing_rows(self):
        polars = pytest.importorskip("polars")
        assert json.loads(render_text(polars.DataFrame({"n": range(100_005)})))[-1] == "... 5 more"


@pytest.mark.integration
class TestFramesOfPandas:
    def test_they_are_rows_with_their_index_and_series_are_lists(self):
        pandas = pytest.importorskip("pandas")
        times = pandas.to_datetime(["2026-01-02", None])
        frame = pandas.DataFrame({"city": ["Rome", None], "degrees": [21.5, float("nan")], "at": times})
        first = {"city": "Rome", "degrees": 21.5, "at": "2026-01-02T00:00:00"}
        assert json.loads(render_text(frame)) == [first, {"city": None, "degrees": None, "at": None}]
        named = frame.set_index("city")[["degrees"]].head(1)
        assert json.loads(render_text(named)) == [{"city": "Rome", "degrees": 21.5}]
        assert json.loads(render_text(frame["degrees"].head(1))) == [21.5]
        assert json.loads(render_text(named["degrees"])) == {"Rome": 21.5}

    def test_one_of_a_tool_is_a_table_in_notebooks_and_reports(self):
        pandas = pytest.importorskip("pandas")

        def measure() -> pandas.DataFrame:
            """Measure."""
            return pandas.DataFrame({"city": ["Rome", "Oslo"], "degrees": [21.5, 3.0]})

        result = JsonAgent(measure, model=ScriptedModel(call("measure"), answer("done"))).run("x")
        for page in (result._repr_html_(), result.to_html()):
            assert "<tr><th>city</th><th>degrees</th></tr><tr><td>Rome</td><td>21.5</td></tr>" in page


class TestResponses:
    @pytest.mark.parametrize(
        ("kind", "body", "expected"),
        [
            (
                "application/json; charset=utf-8",
                b'{"a": 1}',
                {"status": 200, "type": "application/json", "json": {"a": 1}},
            ),
            ("application/json", b"oops", {"status": 200, "type": "application/json", "text": "oops"}),
            ("text/html", b"<p>hi</p>", {"status": 200, "type": "text/html", "text": "<p>hi</p>"}),
            ("image/png", PNG, {"status": 200, "type": "image/png", "image": "[image/png, 48 bytes]"}),
        ],
    )
    @pytest.mark.parametrize("library", ["httpx", "requests"])
    def test_a_response_shows_status_type_and_body(self, library, kind, body, expected):
        module = pytest.importorskip(library)
        if library == "httpx":
            response = module.Response(200, headers={"content-type": kind}, content=body)
        else:
            response = module.Response()
            response.status_code = 200
            response._content = body
            response.encoding = "utf-8"
            response.headers["Content-Type"] = kind
        assert json.loads(render_text(response)) == expected

    def test_a_stream_that_was_not_read_is_marked(self):
        httpx = pytest.importorskip("httpx")
        response = httpx.Response(404, headers={"content-type": "text/plain"}, stream=httpx.ByteStream(b"x"))
        assert json.loads(render_text(response))["text"] == "<not read: ResponseNotRead>"


class TestObjects:
    def test_attrs_objects_are_data_and_their_own_text_counts(self):
        attrs = pytest.importorskip("attrs")

        @attrs.define
        class Point:
            x: int
            y: list[int]

        @attrs.define
        class Named:
            name: str

            def __str__(self) -> str:
                return f"<{self.name}>"

        assert json.loads(render_text([Point(1, [2])])) == [{"x": 1, "y": [2]}]
        assert render_text(Named("Ada")) == "<Ada>"

    def test_msgspec_structs_are_data(self):
        msgspec = pytest.importorskip("msgspec")
        point = msgspec.defstruct("Point", [("x", int), ("inner", object)])
        assert json.loads(render_text(point(1, point(2, None)))) == {"x": 1, "inner": {"x": 2, "inner": None}}

    def test_an_object_whose_attribute_fails_shows_the_others(self):
        attrs = pytest.importorskip("attrs")

        @attrs.define(slots=False)
        class Broken:
            x: int = 1
            y: int = 2

        broken = Broken()
        del broken.y
        assert json.loads(render_text(broken)) == {"x": 1}


def test_an_endless_generator_of_rows_is_bounded():
    def rows():
        while True:
            yield {"n": 1}

    tracemalloc.start()
    shown = json.loads(render_text(rows()))
    assert len(shown) == 10_001
    assert shown[-1] == "... (only the first 10,000 items were taken)"
    tracemalloc.stop()

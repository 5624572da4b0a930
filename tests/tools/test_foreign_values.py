"""What the model reads of values from other libraries; each test uses the real library, where it is installed."""

import base64
import io
import json
import random
import tracemalloc
from pathlib import Path

import pytest

from agentkit import Image, JsonAgent, ToolRegistry
from agentkit.sessions.journal.run_info import outcome_of, value_of
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.results.jsonable import MAX_IMAGE_BYTES, to_json_data
from agentkit.tools.results.result_text import MAX_IMAGES, render_result, render_text
from agentkit.tools.results.tables import Table, format_table, parse_table

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

    @pytest.mark.integration
    def test_a_matplotlib_figure_and_its_axes_are_seen(self):
        figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(1, 1))
        axes = figure.subplots()
        axes.plot([1, 2])
        assert image_of(figure).startswith("[image/png, ")
        assert image_of(axes).startswith("[image/png, ")

    def test_a_figure_of_plotly_is_its_data_and_its_layout(self):
        figure = pytest.importorskip("plotly.graph_objects").Figure({"data": [{"type": "bar", "y": [42.5, 21]}]})
        figure.update_layout(title="Sales")
        figure.add_scatter(y=[*range(10_000)])

        def draw():
            """Draw a chart."""
            return figure

        drawn = JsonAgent(draw, model=ScriptedModel(call("draw"), answer("done"))).run("Draw.").calls[0]
        assert drawn.value is figure
        assert "'y': [42.5, 21]" in drawn.content
        assert "'title': {'text': 'Sales'}" in drawn.content
        assert len(drawn.content) < 1_000

    def test_any_figure_that_saves_itself_is_seen_and_shown_in_notebooks(self):
        class Grid:
            def savefig(self, file, format):
                assert format == "png"
                file.write(PNG)

        def draw():
            """Draw a chart."""
            return {"title": "sales", "chart": Grid()}

        assert image_of(Grid()) == "[image/png, 48 bytes]"
        assert to_json_data(Grid()) == "<Grid>", "only what the model reads is drawn"
        result = JsonAgent(draw, model=ScriptedModel(call("draw"), answer("done"))).run("Draw.")
        source = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        for page in (result._repr_html_(), result.to_html()):
            assert f'src="{source}"' in page


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
        engine.dispose()

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


class Rows:
    """A data frame with the methods of Polars that are used."""

    def __init__(self, columns, dtypes, rows):
        self._content = columns, dtypes, rows

    columns = property(lambda self: self._content[0])
    dtypes = property(lambda self: self._content[1])
    shape = property(lambda self: (len(self._content[2]), len(self.columns)))

    def head(self, n=5):
        return Rows(self.columns, self.dtypes, self._content[2][:n])

    def iter_rows(self):
        return iter(self._content[2])


CITIES = Rows(["city", "degrees"], ["String", "Float64"], [("Rome", 21.5), (None, float("nan")), ("a | b", 3.0)])
CITIES_TEXT = 'city (String) | degrees (Float64)\nRome | 21.5\nNULL | NaN\n"a | b" | 3.0\n[3 rows]'


def measure():
    """Measure."""
    return CITIES


class TestFrames:
    def test_a_frame_is_a_table_with_types_and_the_number_of_rows(self):
        assert render_text(CITIES) == CITIES_TEXT
        assert render_text(Rows(["a"], ["Int64"], [])) == "a (Int64)\n[0 rows]"
        assert render_text(Rows([], [], [])) == "[no columns]\n[0 rows]"

    def test_a_frame_in_other_data_is_a_table_too_and_rows_of_dicts_stay_json(self):
        assert json.loads(render_text({"found": CITIES, "n": 3})) == {"found": CITIES_TEXT, "n": 3}
        assert render_text([{"a": 1}, {"a": 2}]) == '[{"a":1},{"a":2}]'

    def test_a_program_gets_its_rows_as_objects(self):
        assert to_json_data(CITIES)[0] == {"city": "Rome", "degrees": 21.5}

    def test_a_long_frame_is_its_first_rows_and_the_number_of_all(self):
        shown = render_text(Rows(["n"], ["Int64"], [(number,) for number in range(100_000)]))
        assert shown.startswith("n (Int64)\n0\n1\n")
        assert shown.endswith("\n499\n[the first 500 of 100,000 rows]")
        wide = render_text(Rows(["text"], ["String"], [("x" * 1_000,)] * 100))
        assert wide.endswith("\n[the first 31 of 100 rows]")
        assert f"\n{'x' * 500}...\n" in wide
        assert len(wide) < 16_100

    def test_a_wide_frame_is_its_first_columns(self):
        shown = render_text(Rows([f"c{n}" for n in range(1_000)], ["Int64"] * 1_000, [tuple(range(1_000))] * 2))
        assert shown.count(" | ") == 3 * 99
        assert shown.endswith("\n[2 rows; the first 100 of 1,000 columns]")

    def test_images_in_cells_are_seen(self):
        rendered = render_result(Rows(["chart"], ["Object"], [(PNG,)]))
        assert rendered.text == "chart (Object)\n[image/png, 48 bytes]\n[1 row]"
        assert len(rendered.images) == 1

    def test_the_text_of_a_table_is_half_as_long_as_json(self):
        rows = [(number, f"customer {number}", number * 1.5) for number in range(200)]
        frame = Rows(["order_number", "customer_name", "total_in_euros"], ["Int64", "String", "Float64"], rows)
        assert len(render_text(frame)) < len(json.dumps(to_json_data(frame), separators=(",", ":"))) / 2

    def test_one_in_a_query_is_a_table(self):
        model = ScriptedModel(answer("Rome"), answer("Rome"))
        agent = JsonAgent(measure, model=model)
        agent.run(["Where is it warm?", CITIES])
        assert model.requests[0].messages[-1]["content"] == f"Where is it warm?\n\n{CITIES_TEXT}"
        agent.run([CITIES, "And here?", Image.from_bytes(PNG)])
        parts = model.requests[1].messages[-1]["content"]
        assert [part.get("text") for part in parts] == [CITIES_TEXT, "And here?", None]

    def test_one_of_a_tool_is_a_table_in_notebooks_and_reports(self):
        result = JsonAgent(measure, model=ScriptedModel(call("measure"), answer("done"))).run("x")
        assert result.calls[0].content == CITIES_TEXT
        head = "<tr><th>city (String)</th><th>degrees (Float64)</th></tr><tr><td>Rome</td><td>21.5</td></tr>"
        for page in (result._repr_html_(), result.to_html()):
            assert head in page
            assert "<td>a | b</td>" in page

    def test_a_resumed_run_has_the_rows_of_a_finished_call(self):
        def measure():
            """Measure."""
            return {"found": CITIES}

        shown = ToolRegistry(measure).execute("measure")
        outcome = json.loads(json.dumps(outcome_of(shown)))
        stored = value_of(outcome)
        assert stored.value["found"][0] == {"city": "Rome", "degrees": 21.5}
        assert stored.rendered.text == shown.content


@pytest.mark.parametrize(
    "rows",
    [
        [("x", "y")],
        [("", "NULL"), ("a | b", '"q"'), ("[1", "{")],
        [('["a | b"]', "two\nlines"), ("é", '"a" b')],
        [],
    ],
)
def test_a_table_is_parsed_as_it_was_written(rows):
    table = Table(["a", "b | c"], ["", ""], rows, len(rows))
    assert parse_table(format_table(table)) == Table(["a", "b | c"], ["", ""], [list(row) for row in rows], len(rows))


@pytest.mark.parametrize(
    "text", ["", "a", "a\n[2 rows]", "a | b\nc\n[1 row]", "a\nb\n[one row]", "[1]", "a\nb\n[1 row"]
)
def test_another_text_is_no_table(text):
    assert parse_table(text) is None


class TestFramesOfPolars:
    def test_they_are_tables_and_series_are_lists(self):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame({"city": ["Rome", None], "degrees": [21.5, float("nan")]})
        shown = "city (String) | degrees (Float64)\nRome | 21.5\nNULL | NaN\n[2 rows]"
        assert render_text(frame) == shown
        assert render_text(frame.lazy()) == shown
        assert to_json_data(frame.lazy()) == [{"city": "Rome", "degrees": 21.5}, {"city": None, "degrees": "NaN"}]
        assert json.loads(render_text(frame["city"])) == ["Rome", None]

    def test_a_long_frame_has_the_number_of_missing_rows(self):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame({"n": range(100_005)})
        assert to_json_data(frame)[-1] == "... 5 more"
        assert render_text(frame).endswith("[the first 500 of 100,005 rows]")
        assert render_text(frame.lazy()).endswith("[the first 500 rows]")


@pytest.mark.integration
class TestFramesOfPandas:
    def test_they_are_tables_with_their_index_and_series_are_lists(self):
        pandas = pytest.importorskip("pandas")
        times = pandas.to_datetime(["2026-01-02", None]).astype("datetime64[s]")
        frame = pandas.DataFrame({"city": ["Rome", None], "degrees": [21.5, float("nan")], "at": times}).astype(
            {"city": object}
        )
        head = "city (object) | degrees (float64) | at (datetime64[s])"
        assert render_text(frame) == f"{head}\nRome | 21.5 | 2026-01-02T00:00:00\nNULL | NULL | NULL\n[2 rows]"
        first = {"city": "Rome", "degrees": 21.5, "at": "2026-01-02T00:00:00"}
        assert to_json_data(frame) == [first, {"city": None, "degrees": None, "at": None}]
        named = frame[["degrees"]].set_axis(pandas.Index([7, 8], name="id")).head(1)
        assert render_text(named) == "id (int64) | degrees (float64)\n7 | 21.5\n[1 row]"
        assert json.loads(render_text(frame["degrees"].head(1))) == [21.5]
        assert json.loads(render_text(named["degrees"])) == {"7": 21.5}

    def test_equal_names_and_levels_of_columns_are_kept(self):
        pandas = pytest.importorskip("pandas")
        twice = pandas.DataFrame([[1, 2]], columns=["a", "a"], index=pandas.Index([7], name="a"))
        assert render_text(twice) == "a (int64) | a (int64) | a (int64)\n7 | 1 | 2\n[1 row]"
        sums = pandas.DataFrame({"city": ["Rome", "Rome"], "n": [1, 2]}).groupby("city").agg({"n": ["sum", "max"]})
        assert render_text(sums).endswith(" | n.sum (int64) | n.max (int64)\nRome | 3 | 2\n[1 row]")

    def test_those_of_a_generator_are_tables(self):
        pandas = pytest.importorskip("pandas")
        frames = (pandas.DataFrame({"n": [n]}) for n in (1, 2))
        assert json.loads(render_text(frames)) == ["n (int64)\n1\n[1 row]", "n (int64)\n2\n[1 row]"]


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

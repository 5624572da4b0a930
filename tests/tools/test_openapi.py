"""Tools made of OpenAPI documents: schemas, requests, errors, and what a document or a model cannot make them do."""

import json
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner
from timing import takes_at_most

from agentkit import DefinitionError, JsonAgent, JsonTool, ToolRegistry
from agentkit.cli import main
from agentkit.core.messages import remove_delimiters
from agentkit.http import settings
from agentkit.testing import ScriptedModel, answer, call

PETSTORE = {  # after "petstore-expanded" of the OpenAPI initiative
    "openapi": "3.0.0",
    "info": {"version": "1.0.0", "title": "Swagger Petstore"},
    "servers": [{"url": "https://petstore.swagger.io/v2"}],
    "components": {
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        "parameters": {
            "Limit": {
                "name": "limit",
                "in": "query",
                "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            }
        },
        "schemas": {
            "Pet": {
                "allOf": [
                    {"$ref": "#/components/schemas/NewPet"},
                    {"required": ["id"], "properties": {"id": {"type": "integer"}}},
                ]
            },
            "NewPet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "example": "Rex"},
                    "tag": {"type": "string", "nullable": True},
                    "friend": {"$ref": "#/components/schemas/NewPet"},
                    "made": {"type": "string", "readOnly": True},
                },
            },
        },
    },
    "paths": {
        "/pets": {
            "get": {
                "operationId": "findPets",
                "tags": ["pets"],
                "summary": "Find pets",
                "description": "Returns all pets.",
                "parameters": [
                    {
                        "name": "tags",
                        "in": "query",
                        "style": "form",
                        "description": "tags to filter by",
                        "example": "dog",
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {"$ref": "#/components/parameters/Limit"},
                ],
            },
            "post": {
                "operationId": "addPet",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"$ref": "#/components/schemas/NewPet"},
                            "example": {"name": "Rex"},
                        }
                    },
                },
            },
        },
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "find pet by id"},
            "delete": {"deprecated": True, "summary": "Delete a pet"},
            "put": {
                "operationId": "putPet",
                "parameters": [
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {"oneOf": [{"$ref": "#/components/schemas/Pet"}, {"type": "null"}]}
                        }
                    }
                },
            },
        },
        "/search": {
            "get": {
                "operationId": "search",
                "parameters": [
                    {
                        "name": "filter",
                        "in": "query",
                        "style": "deepObject",
                        "explode": True,
                        "schema": {"type": "object"},
                    },
                    {
                        "name": "ids",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "integer"}},
                    },
                    {"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                    {"name": "sid", "in": "cookie", "schema": {"type": "string"}},
                ],
            }
        },
    },
}
SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "Old", "version": "1"},
    "host": "api.example.com",
    "basePath": "/v1",
    "schemes": ["http", "https"],
    "paths": {
        "/users": {
            "post": {
                "operationId": "createUser",
                "parameters": [
                    {"in": "body", "name": "user", "required": True, "schema": {"$ref": "#/definitions/User"}}
                ],
            },
            "get": {
                "operationId": "listUsers",
                "parameters": [{"in": "query", "name": "sort", "type": "string", "enum": ["asc", "desc"]}],
            },
        },
        "/login": {
            "post": {
                "operationId": "login",
                "parameters": [{"in": "formData", "name": "user", "type": "string", "required": True}],
            }
        },
    },
    "definitions": {"User": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
WEBHOOK = {  # OpenAPI 3.1: JSON Schema as it is, no operation ids
    "openapi": "3.1.0",
    "info": {"title": "New", "version": "1"},
    "servers": [{"url": "https://{host}/api", "variables": {"host": {"default": "new.example.com"}}}],
    "paths": {
        "/a/{b}": {
            "get": {
                "parameters": [
                    {"name": "b", "in": "path", "required": True, "schema": {"type": ["string", "null"], "const": "x"}}
                ]
            }
        }
    },
}


@contextmanager
def server(respond):
    """A server on loopback; `respond(request)` returns status, headers and body. Yields its address and the requests."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def _serve(self):
            length = int(self.headers.get("Content-Length") or 0)
            parts = urlsplit(self.path)
            request = {
                "method": self.command,
                "path": parts.path,
                "query": parse_qs(parts.query),
                "headers": dict(self.headers),
                "body": self.rfile.read(length).decode(),
            }
            seen.append(request)
            status, headers, body = respond(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_QUERY = do_COPY = _serve

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/v2", seen
    finally:
        running.shutdown()
        running.server_close()


def echo(request):
    return 200, {"Content-Type": "application/json"}, json.dumps({"ok": request["path"]}).encode()


# Definitions


def test_each_operation_is_a_tool_with_effect_name_and_description():
    tools = ToolRegistry.from_openapi(PETSTORE)
    assert {name: tool.effect for name, tool in tools.items()} == {
        "findPets": "read",
        "addPet": "write",
        "find_pet_by_id": "read",
        "delete_pets_id": "write",
        "putPet": "write",
        "search": "read",
    }
    assert tools["findPets"].description == "Find pets\n\nReturns all pets."
    assert tools["delete_pets_id"].description == "Delete a pet\n\nDeprecated."
    assert tools["addPet"].description == 'Example of the body: {"name": "Rex"}'
    assert tools["search"].description == "GET /search"


def test_parameters_and_body_are_one_schema_in_json_schema():
    tools = ToolRegistry.from_openapi(PETSTORE)
    assert tools["findPets"].parameters["properties"] == {
        "tags": {"type": "array", "items": {"type": "string"}, "description": "tags to filter by\nExample: dog"},
        "limit": {"type": "integer", "exclusiveMinimum": 0},
    }
    add = tools["addPet"].parameters
    assert add["required"] == ["name"]
    assert add["properties"]["name"] == {"type": "string", "examples": ["Rex"]}
    assert add["properties"]["tag"] == {"type": ["string", "null"]}
    assert add["properties"]["friend"] == {"$ref": "#/$defs/NewPet"}
    assert add["$defs"]["NewPet"]["properties"]["friend"] == {"$ref": "#/$defs/NewPet"}
    assert "made" not in add["properties"]
    put = tools["putPet"].parameters
    assert list(put["properties"]) == ["id", "X-Trace", "body"]
    assert put["required"] == ["id"]


@pytest.mark.parametrize("format", ["openai", "openai_strict", "anthropic", "gemini", "responses", "mcp"])
@pytest.mark.parametrize("document", [PETSTORE, SWAGGER, WEBHOOK], ids=["3.0", "2.0", "3.1"])
def test_every_dialect_has_the_tools(document, format):
    assert all(isinstance(tool.schema(format), dict) for tool in ToolRegistry.from_openapi(document).values())


def test_what_stands_beside_a_reference_counts_since_openapi_3_1():
    colour = {"type": "string", "enum": ["red", "blue"]}
    schema = {"$ref": "#/components/schemas/Colour", "default": "red", "description": "of the paint"}
    get = {"parameters": [{"name": "colour", "in": "query", "schema": schema}]}
    rest = {
        "servers": PETSTORE["servers"],
        "paths": {"/a": {"get": get}},
        "components": {"schemas": {"Colour": colour}},
    }
    found = {}
    for version in ("3.1.1", "3.0.4"):
        (tool,) = ToolRegistry.from_openapi({"openapi": version, **rest}).values()
        found[version] = tool.parameters["properties"]["colour"]
    assert found["3.1.1"] == {"$ref": "#/$defs/Colour", "default": "red", "description": "of the paint"}
    assert found["3.0.4"] == {"$ref": "#/$defs/Colour"}, "OpenAPI 3.0: such an object cannot be extended"


def test_an_extension_among_the_paths_is_no_path():
    assert list(ToolRegistry.from_openapi({**PETSTORE, "paths": {"x-paths": {"get": {}}, "/a": {"get": {}}}})) == [
        "get_a"
    ]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ([], "/a must be an object, got []"),
        ({"get": "x"}, "GET /a must be an object, got 'x'"),
        ({"parameters": {"name": "a"}}, "parameters of GET /a must be a list, got {'name': 'a'}"),
        ({"get": {"parameters": ["a"]}}, "each of the parameters of GET /a must be an object, got 'a'"),
        ({"get": {"requestBody": {"content": []}}}, "content of the body of GET /a must be an object, got []"),
        ({"get": {"servers": [1]}}, "a server must be an object, got 1"),
    ],
)
def test_a_document_with_a_value_of_another_type_is_refused_with_its_place(path, message):
    path = path if isinstance(path, list) else {"get": {}, **path}
    with pytest.raises(DefinitionError, match=rf"^the OpenAPI document: {re.escape(message)}. Mend it"):
        ToolRegistry.from_openapi({**PETSTORE, "paths": {"/a": path}})["get_a"].schema("openai")


def test_swagger_2_and_openapi_3_1_are_read():
    tools = ToolRegistry.from_openapi(SWAGGER)
    assert tools["createUser"].parameters["required"] == ["name"]
    assert tools["listUsers"].parameters["properties"]["sort"] == {"type": "string", "enum": ["asc", "desc"]}
    assert tools["login"].parameters["properties"]["user"] == {"type": "string"}
    (tool,) = ToolRegistry.from_openapi(WEBHOOK).values()
    assert tool.name == "get_a_b"
    assert tool.parameters["properties"]["b"] == {"type": ["string", "null"], "const": "x"}


@pytest.mark.parametrize("include", [["addPet"], ["pets", "addPet"], "findPets", ["GET /pets"], ["find pet by id"]])
def test_include_chooses_by_name_id_tag_and_path(include):
    names = list(ToolRegistry.from_openapi(PETSTORE, include=include))
    assert names == {
        "addPet": ["addPet"],
        "pets": ["findPets", "addPet"],
        "GET /pets": ["findPets"],
        "find pet by id": ["find_pet_by_id"],
    }.get(include[0], ["findPets"])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "not an OpenAPI document: expected openapi 3.0 to 3.2, or swagger 2.0, got 'no version'"),
        ({"openapi": "4.0.0", "paths": {}}, "got '4.0.0'"),
        ("https://shop.example/openapi.json", "^https://shop.example/openapi.json: expected .*httpx.get(address"),
        ('{"openapi": "3.1.0"}', '^{"openapi": "3.1.0"}: expected an OpenAPI document as a dict'),
        ({"openapi": "3.1.0", "paths": {"/a": {"get": {}}}}, "Pass base_url='https://"),
        ({**PETSTORE, "paths": {"/a": {"$ref": "#/nowhere"}}}, "'#/nowhere' leads nowhere"),
        ("/nonexistent/api.json", "cannot be read"),
    ],
)
def test_a_value_that_is_not_a_usable_document_is_refused_with_the_reason(document, message):
    with pytest.raises(DefinitionError, match=message.replace("(", r"\(")):
        ToolRegistry.from_openapi(document)


def test_an_unknown_entry_of_include_names_the_nearest():
    with pytest.raises(DefinitionError, match="Did you mean 'addPet'"):
        ToolRegistry.from_openapi(PETSTORE, include=["addPets"])


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_document_is_read_from_a_file_and_listed_by_the_command(tmp_path, suffix):
    path = tmp_path / f"api.{suffix}"
    path.write_text(json.dumps(PETSTORE) if suffix == "json" else pytest.importorskip("yaml").safe_dump(PETSTORE))
    assert list(ToolRegistry.from_openapi(path)) == list(ToolRegistry.from_openapi(PETSTORE))
    shown = CliRunner().invoke(main, ["tools", "--openapi", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "findPets(tags?, limit?)\n    Find pets" in shown.output
    path.write_text("[1]")
    refused = CliRunner().invoke(main, ["tools", "--openapi", str(path)])
    assert refused.exit_code == 2
    assert "expected an object, got list" in refused.output


def test_a_thousand_operations_are_ready_in_about_a_second():
    paths = {
        f"/items{n}/{{id}}": {
            "get": {"operationId": f"get{n}", "parameters": PETSTORE["paths"]["/pets/{id}"]["parameters"]}
        }
        for n in range(1_000)
    }
    with takes_at_most(150):
        tools = ToolRegistry.from_openapi({**PETSTORE, "paths": paths})
    assert len(tools) == 1_000


# Requests


def test_arguments_go_to_path_query_header_cookie_and_body():
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi(PETSTORE, base_url=url)
        assert tools["find_pet_by_id"].call({"id": "a/b c"}) == {"ok": "/v2/pets/a%2Fb%20c"}
        tools["findPets"].call({"tags": ["a", "b&c"], "limit": 3})
        tools["addPet"].call({"name": "Rex", "tag": None})
        tools["putPet"].call({"id": "1", "X-Trace": "t", "body": {"name": "R", "id": 1}})
        tools["search"].call({"filter": {"a": 1}, "ids": [1, 2], "q": {"x": True}, "sid": "s s"})
    found, added, put, search = seen[1:]
    assert found["query"] == {"tags": ["a", "b&c"], "limit": ["3"]}
    assert added["body"] == '{"name": "Rex", "tag": null}'
    assert added["headers"]["Content-Type"] == "application/json"
    assert put["headers"]["X-Trace"] == "t"
    assert json.loads(put["body"]) == {"name": "R", "id": 1}
    assert search["query"] == {"filter[a]": ["1"], "ids": ["1,2"], "q": ['{"x": true}']}
    assert search["headers"]["Cookie"] == "sid=s%20s"


def test_a_form_is_written_as_a_form():
    with server(echo) as (url, seen):
        ToolRegistry.from_openapi(SWAGGER, base_url=url)["login"].call({"user": "a&b"})
    assert seen[0]["body"] == "user=a%26b"
    assert seen[0]["headers"]["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ("k", "X-Key", "k"),
        (("u", "p"), "Authorization", "Basic dTpw"),
        ({"Authorization": "Bearer t"}, "Authorization", "Bearer t"),
        (lambda: {"X-Own": "o"}, "X-Own", "o"),
    ],
)
def test_each_form_of_auth_reaches_the_server_and_not_the_model(auth, header, value):
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi(PETSTORE, base_url=url, auth=auth)
        tools["findPets"].call({})
    assert seen[0]["headers"][header] == value
    assert "Authorization" not in tools["putPet"].parameters["properties"]


def test_a_token_without_a_scheme_is_a_bearer_token():
    with server(echo) as (url, seen):
        ToolRegistry.from_openapi(SWAGGER, base_url=url, auth="t")["listUsers"].call({})
    assert seen[0]["headers"]["Authorization"] == "Bearer t"


def test_an_error_status_is_a_failed_call_with_the_body(world):
    with server(lambda _: (404, {"Content-Type": "application/json"}, b'{"detail": "no such pet"}')) as (url, _):
        tools = ToolRegistry.from_openapi(PETSTORE, base_url=url, include=["find_pet_by_id"])
        agent = JsonAgent(tools, model=ScriptedModel(call("find_pet_by_id", id="7"), answer("none")))
        result = world.run(agent, "go")
    assert result.calls[0].error is not None
    assert remove_delimiters(result.calls[0].content) == '404 Not Found: {"detail": "no such pet"}'


@pytest.mark.parametrize(
    ("status", "kind", "body", "value"),
    [
        (200, "text/plain; charset=latin-1", b"\xe4", "ä"),
        (204, "", b"", {"status": 204}),
        (200, "application/json", b"oops", "oops"),
        (200, "image/png", b"\x89PNG", b"\x89PNG"),
    ],
)
def test_answers_are_data_text_or_bytes(status, kind, body, value):
    with server(lambda _: (status, {"Content-Type": kind} if kind else {}, body)) as (url, _):
        assert ToolRegistry.from_openapi(PETSTORE, base_url=url)["findPets"].call({}) == value


@pytest.mark.parametrize("charset", ["punycode", "idna", "base64", "nonsense"])
def test_an_unknown_charset_is_read_as_utf_8_at_once(charset):
    kind = f"text/plain; charset={charset}"
    body = ("é" + "-" + "a" * 400_000).encode()
    with server(lambda _: (200, {"Content-Type": kind}, body)) as (url, _), takes_at_most(300):
        assert ToolRegistry.from_openapi(PETSTORE, base_url=url)["findPets"].call({}) == body.decode()


# What neither a document nor a model can do


def test_a_document_cannot_send_requests_into_the_own_network():
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi({**PETSTORE, "servers": [{"url": url}]})
        assert "is not on the public internet" in tools.execute("findPets").content
    assert seen == []


@pytest.fixture
def limits():
    yield settings
    settings(seconds=None, idle_seconds=None)


@pytest.mark.parametrize("value", ["..", ".", ""])
def test_a_path_argument_cannot_leave_its_segment(value):
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi(PETSTORE, base_url=url)
        assert "is not allowed in a path" in tools.execute("find_pet_by_id", json.dumps({"id": value})).content
        assert tools.execute("find_pet_by_id", json.dumps({"id": "../admin?x=1#y@evil"})).error is None
    assert [request["path"] for request in seen] == ["/v2/pets/..%2Fadmin%3Fx%3D1%23y%40evil"]


def test_a_header_argument_cannot_add_a_header():
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi(PETSTORE, base_url=url)
        content = tools.execute("putPet", json.dumps({"id": "1", "X-Trace": "a\r\nX-Evil: 1"})).content
    assert "cannot hold line breaks" in content
    assert seen == []


def test_a_redirect_to_another_address_is_not_followed_and_takes_no_credentials():
    with server(echo) as (other, elsewhere), server(lambda _: (302, {"Location": other}, b"")) as (url, _):
        tools = ToolRegistry.from_openapi(PETSTORE, base_url=url, auth="secret")
        assert "redirected to another address" in tools.execute("findPets").content
        assert "redirected to another address" in tools.execute("addPet", '{"name": "x"}').content
    assert elsewhere == []


def test_a_redirect_on_the_same_address_is_followed_for_get():
    def respond(request):
        return (302, {"Location": "/v2/new"}, b"") if request["path"] == "/v2/pets" else echo(request)

    with server(respond) as (url, _):
        assert ToolRegistry.from_openapi(PETSTORE, base_url=url)["findPets"].call({}) == {"ok": "/v2/new"}


def test_one_time_limit_covers_all_redirects(limits):
    def respond(request):
        time.sleep(0.2)
        return 302, {"Location": "/v2/again"}, b""

    limits(seconds=0.5)
    with server(respond) as (url, seen):
        content = ToolRegistry.from_openapi(PETSTORE, base_url=url).execute("findPets").content
    assert "127.0.0.1 took longer than 0.5 seconds" in content
    assert len(seen) <= 3


def test_a_server_that_sends_nothing_is_reported_with_the_time_that_it_had(limits):
    def respond(request):
        time.sleep(1)
        return echo(request)

    limits(idle_seconds=0.2)
    with server(respond) as (url, _):
        content = ToolRegistry.from_openapi(PETSTORE, base_url=url).execute("findPets").content
    assert "127.0.0.1 sent nothing for 0.2 seconds" in content


def test_references_that_end_alike_are_distinguished():
    """Bundlers write references to the first use of a schema: `#/paths/~1a/post/requestBody/.../schema`."""
    paths = {
        f"/{name}": {
            "post": {
                "operationId": name,
                "requestBody": {"content": {"text/json": {"schema": {"type": "array", "items": {"type": kind}}}}},
            }
        }
        for name, kind in (("one", "string"), ("two", "integer"))
    }
    place = "#/paths/~1{}/post/requestBody/content/text~1json/schema"
    both = {
        "type": "object",
        "properties": {name: {"$ref": place.format(name)} for name in ("one", "two")},
        "additionalProperties": False,
    }
    paths["/both"] = {"post": {"operationId": "both", "requestBody": {"content": {"text/json": {"schema": both}}}}}
    tool = ToolRegistry.from_openapi({**PETSTORE, "paths": paths}, include=["both"])["both"]
    kinds = {name: schema["items"]["type"] for name, schema in tool.schema()["properties"].items()}
    assert kinds == {"one": "string", "two": "integer"}


def test_a_body_of_any_media_type_is_json_of_its_schema():
    """Generators write `*/*` where a service names no type."""
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    body = {"required": True, "content": {"*/*": {"schema": schema}}}
    paths = {"/resize": {"post": {"operationId": "resize", "requestBody": body}}}
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi({**PETSTORE, "paths": paths}, base_url=url)
        assert tools["resize"].schema()["properties"] == {"size": {"type": "integer"}}
        tools.execute("resize", '{"size": 3}')
    assert [(sent["body"], sent["headers"]["Content-Type"]) for sent in seen] == [('{"size": 3}', "application/json")]


def test_invalid_arguments_send_nothing():
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi(PETSTORE, base_url=url)
        assert tools.execute("findPets", '{"limit": 0}').error.name == "ValidationError"
        assert tools.execute("addPet", '{"nam": "x", "other": 1}').error.name == "ValidationError"
    assert seen == []


def test_settings_for_all_tools_take_precedence():
    tools = ToolRegistry.from_openapi(PETSTORE, trust="untrusted", effect="danger", timeout=3)
    assert {(tool.trust, tool.effect, tool.timeout) for tool in tools.values()} == {("untrusted", "danger", 3)}
    assert isinstance(tools["addPet"].renamed("x"), JsonTool)


# Documents as others write them


def document(*operations, version="3.1.0", **root):
    """A document with operations `(method, path, content)`."""
    paths: dict = {}
    for method, path, content in operations:
        paths.setdefault(path, {})[method] = content
    key = "swagger" if version == "2.0" else "openapi"
    return {key: version, "info": {"title": "T", "version": "1"}, "paths": paths, **root}


def send(source, arguments, name=None):
    """Call a tool of a document, and return the request that a server gets."""
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi(source, base_url=url)
        tool = tools[name] if name else next(iter(tools.values()))
        result = tools.execute(tool.name, json.dumps(arguments))
    assert result.error is None, result.content
    (request,) = seen
    return request


def test_an_operation_is_sent_to_its_own_server():
    source = document(
        ("get", "/a", {"operationId": "a"}),
        ("post", "/a", {"operationId": "b", "servers": [{"url": "http://127.0.0.2"}]}),
        servers=[{"url": "http://127.0.0.1"}],
    )
    source["paths"]["/c"] = {"servers": [{"url": "http://127.0.0.3"}], "get": {"operationId": "c"}}
    tools = ToolRegistry.from_openapi(source)
    for name, host in (("a", "127.0.0.1"), ("b", "127.0.0.2"), ("c", "127.0.0.3")):
        assert host in tools.execute(name).content  # which refuses the address
    assert send(source, {}, "b")["path"] == "/v2/a"  # the address that the developer names is for all


@pytest.mark.parametrize(
    ("collection", "query"),
    [(None, "1,2"), ("csv", "1,2"), ("ssv", "1 2"), ("pipes", "1|2"), ("tsv", "1\t2"), ("multi", None)],
)
def test_an_array_of_swagger_2_is_written_as_its_collection_format_says(collection, query):
    entry = {"name": "ids", "in": "query", "type": "array", "items": {"type": "integer"}}
    entry |= {"collectionFormat": collection} if collection else {}
    request = send(document(("get", "/a", {"parameters": [entry]}), version="2.0"), {"ids": [1, 2]})
    assert request["query"] == {"ids": [query] if query else ["1", "2"]}


@pytest.mark.parametrize(
    ("style", "explode", "value", "path"),
    [
        (None, None, [1, "a,b"], "/v2/x/1,a%2Cb/y"),
        (None, True, {"r": 1, "g": "a=b"}, "/v2/x/r=1,g=a=b/y"),
        (None, None, {"r": 1}, "/v2/x/r,1/y"),
        ("label", None, [1, 2], "/v2/x/.1,2/y"),
        ("label", True, [1, 2], "/v2/x/.1.2/y"),
        ("matrix", None, 5, "/v2/x/;v=5/y"),
        ("matrix", True, [1, 2], "/v2/x/;v=1;v=2/y"),
        ("matrix", True, {"r": 1, "g": 2}, "/v2/x/;r=1;g=2/y"),
    ],
)
def test_a_path_is_written_in_its_style(style, explode, value, path):
    entry = {"name": "v", "in": "path", "required": True, "schema": {}}
    entry |= {"style": style} if style else {}
    entry |= {"explode": explode} if explode is not None else {}
    assert send(document(("get", "/x/{v}/y", {"parameters": [entry]})), {"v": value})["path"] == path


def test_objects_and_null_in_a_query_and_in_a_header():
    parameters = [
        {"name": "created", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
        {"name": "size", "in": "query", "explode": False, "schema": {"type": "object"}},
        {"name": "sort", "in": "query", "schema": {"type": "object"}},
        {"name": "page", "in": "query", "schema": {"type": ["integer", "null"]}},
        {"name": "X-Ids", "in": "header", "schema": {"type": "array", "items": {"type": "integer"}}},
        {"name": "X-No", "in": "header", "schema": {"type": ["string", "null"]}},
    ]
    given = {
        "created": {"gte": 1, "in": {"zone": "UTC"}},
        "size": {"w": 1, "h": 2},
        "sort": {"by": "age"},
        "page": None,
        "X-Ids": [1, 2],
        "X-No": None,
    }
    request = send(document(("get", "/a", {"parameters": parameters})), given)
    expected = {"created[gte]": ["1"], "created[in][zone]": ["UTC"], "size": ["w,1,h,2"], "by": ["age"]}
    assert request["query"] == expected
    assert request["headers"]["X-Ids"] == "1,2"
    assert "X-No" not in request["headers"]


def test_a_header_that_the_request_cannot_hold_is_refused_not_changed():
    entry = {"name": "X-Name", "in": "header", "schema": {"type": "string"}}
    with server(echo) as (url, seen):
        tools = ToolRegistry.from_openapi(document(("get", "/a", {"parameters": [entry]})), base_url=url)
        assert "ASCII characters only, got '名'" in tools.execute("get_a", '{"X-Name": "名"}').content
    assert seen == []


def form(properties, encoding=None, kind="application/x-www-form-urlencoded", **body):
    content = {"schema": {"type": "object", "properties": properties}, **({"encoding": encoding} if encoding else {})}
    return document(("post", "/a", {"requestBody": {"content": {kind: content}, **body}}))


def test_a_form_repeats_arrays_and_writes_objects_as_its_encoding_says():
    texts = {"type": "array", "items": {"type": "string"}}
    things = {"type": "object"}
    properties = {"media": texts, "few": texts, "meta": things, "data": things, "items": {"type": "array"}, "no": {}}
    encoding = {
        "few": {"explode": False},
        "meta": {"style": "deepObject"},
        "items": {"style": "deepObject"},
        "data": {"contentType": "application/json"},
    }
    given = {"media": ["a", "b"], "few": ["a", "b"], "meta": {"k": "v"}, "data": {"k": 1}, "items": [{"price": 2}]}
    request = send(form(properties, encoding), {**given, "no": None})
    assert parse_qs(request["body"]) == {
        "media": ["a", "b"],
        "few": ["a,b"],
        "meta[k]": ["v"],
        "data": ['{"k": 1}'],
        "items[0][price]": ["2"],
    }


def test_a_required_body_is_sent_when_no_field_is_given():
    assert send(form({"a": {}}, kind="application/json", required=True), {})["body"] == "{}"
    assert "Content-Type" not in send(form({"a": {}}, kind="application/json"), {})["headers"]


@pytest.mark.parametrize("version", ["2.0", "3.0.3", "3.1.0"])
def test_a_file_is_uploaded_to_a_server_of_fastapi(version):
    fastapi = pytest.importorskip("fastapi")
    pytest.importorskip("python_multipart")
    app = fastapi.FastAPI()

    async def upload(request: fastapi.Request) -> dict:
        async with request.form() as found:
            files = [entry for entry in found.getlist("file") if hasattr(entry, "filename")]
            texts = {name: found.getlist(name) for name in found if name != "file"}
            return {"files": [[file.filename, (await file.read()).decode()] for file in files], "texts": texts}

    upload.__annotations__ = {"request": fastapi.Request, "return": dict}
    app.post("/upload")(upload)
    parts = {"file": {"type": "string", "format": "binary"}, "tags": {"type": "array"}, "meta": {"type": "object"}}
    if version == "2.0":
        entries = [{"in": "formData", "name": "file", "type": "file"}]
        entries += [{"in": "formData", "name": "tags", "type": "array", "collectionFormat": "multi"}]
        entries += [{"in": "formData", "name": "meta", "type": "string"}]
        source = document(("post", "/upload", {"parameters": entries}), version=version)
        given: object = '{"a": 1}'
    else:
        if version == "3.1.0":
            parts["file"] = {"contentMediaType": "application/octet-stream"}
        content = {"multipart/form-data": {"schema": {"type": "object", "properties": parts}}}
        source = document(("post", "/upload", {"requestBody": {"content": content}}), version=version)
        given = {"a": 1}
    with server(lambda request: ask_asgi(app, request)) as (url, _):
        tool = next(iter(ToolRegistry.from_openapi(source, base_url=url.removesuffix("/v2")).values()))
        value = tool.call({"file": "naïve\r\n--x", "tags": ["a", "b"], "meta": given})
    assert value == {"files": [["file", "naïve\r\n--x"]], "texts": {"tags": ["a", "b"], "meta": ['{"a": 1}']}}


def test_a_path_parameter_that_the_document_forgot_is_one_all_the_same():
    assert send(document(("get", "/users/{id}", {})), {"id": "7"})["path"] == "/v2/users/7"


def test_empty_entries_of_yaml_and_texts_that_are_references_are_no_obstacle():
    content = {"parameters": None, "tags": None, "description": {"$ref": "a.md"}, "operationId": "a"}
    assert ToolRegistry.from_openapi(document(("get", "/a", content)), base_url="http://a.example")["a"].description


def test_what_only_answers_have_is_not_asked_for():
    pet = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}},
    }
    body = {"content": {"application/json": {"schema": {"type": "array", "items": pet}}}}
    (tool,) = ToolRegistry.from_openapi(document(("post", "/a", {"requestBody": body})), base_url="http://x").values()
    assert tool.parameters["properties"]["body"]["items"] == {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}},
    }


def test_properties_named_as_keywords_stay_and_recursive_references_are_any_value():
    schema = {
        "$recursiveAnchor": True,
        "type": "object",
        "properties": {
            "example": {"type": "string"},
            "$id": {"type": "integer"},
            "default": {"nullable": True, "type": "string"},
            "filters": {"type": "array", "items": {"$recursiveRef": "#"}},
        },
    }
    source = document(("post", "/a", {"requestBody": {"content": {"application/json": {"schema": schema}}}}))
    (tool,) = ToolRegistry.from_openapi(source, base_url="http://x.example").values()
    assert tool.parameters["properties"] == {
        "example": {"type": "string"},
        "$id": {"type": "integer"},
        "default": {"type": ["string", "null"]},
        "filters": {"type": "array", "items": {}},
    }


def test_a_token_goes_where_the_document_demands_it_and_never_in_the_place_of_a_password():
    schemes = {
        "other": {"type": "apiKey", "in": "header", "name": "X-Other"},
        "main": {"type": "http", "scheme": "bearer"},
        "old": {"type": "http", "scheme": "basic"},
    }
    components = {"components": {"securitySchemes": schemes}}
    with server(echo) as (url, seen):
        source = document(("get", "/a", {}), security=[{"old": []}, {"main": []}], **components)
        ToolRegistry.from_openapi(source, base_url=url, auth="t")["get_a"].call({})
    assert seen[0]["headers"]["Authorization"] == "Bearer t"
    components["components"]["securitySchemes"] = {"old": schemes["old"]}
    with pytest.raises(DefinitionError, match=r"Give auth=\(user, password\)"):
        ToolRegistry.from_openapi(document(**components), base_url="http://x.example", auth="t")


def test_openapi_3_2_has_queries_with_a_body_and_other_methods():
    whole = {"in": "querystring", "name": "all", "content": {"application/x-www-form-urlencoded": {"schema": {}}}}
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"q": {"type": "string"}}}}}}
    source = document(
        ("query", "/a", {"operationId": "find", "requestBody": body}),
        ("get", "/a", {"operationId": "read", "parameters": [whole]}),
        ("additionalOperations", "/a", {"COPY": {"operationId": "copy"}}),
        version="3.2.0",
    )
    tools = ToolRegistry.from_openapi(source, base_url="http://x.example")
    assert {name: tool.effect for name, tool in tools.items()} == {"find": "read", "read": "read", "copy": "write"}
    sent = send(source, {"q": "tea"}, "find")
    assert (sent["method"], sent["body"]) == ("QUERY", '{"q": "tea"}')
    assert send(source, {"all": {"a": 1, "b": ["x", "y"]}}, "read")["query"] == {"a": ["1"], "b": ['["x", "y"]']}
    assert send(source, {}, "copy")["method"] == "COPY"


FILES = {
    "api.yaml": """
openapi: 3.0.3
servers: [{url: "https://api.example"}]
paths:
  /countries/{code}:
    get:
      $ref: 'resources/countries/read.yml'
components:
  schemas:
    Day: {type: string, format: date, enum: [2026-01-02]}
""",
    "resources/countries/read.yml": """
operationId: readCountry
parameters:
  - $ref: '../../shared/parameters.yml#/code'
  - {name: day, in: query, schema: {$ref: '../../api.yaml#/components/schemas/Day'}}
  - $ref: '#/x-own/1'
x-own: [0, {name: live, in: query, schema: {type: boolean, default: false}}]
""",
    "shared/parameters.yml": """
code:
  name: code
  in: path
  required: true
  schema: {type: string, enum: [NO, SE, on, 12:30, 0o7]}
""",
}


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("yaml")
    for name, text in FILES.items():
        (tmp_path / "api" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "api" / name).write_text(text)
    return tmp_path / "api"


def test_a_document_of_several_files_is_read_as_yaml_1_2(folder):
    (tool,) = ToolRegistry.from_openapi(folder / "api.yaml").values()
    schema = tool.schema()["properties"]
    assert schema["code"]["enum"] == ["NO", "SE", "on", "12:30", 7]
    assert schema["day"]["enum"] == ["2026-01-02"]
    assert schema["live"] == {"type": "boolean", "default": False}


@pytest.mark.parametrize("reference", ["../secret.yml#/a", "/etc/hosts", "https://x.example/a.yml"])
def test_a_reference_out_of_the_folder_is_refused(folder, reference):
    (folder.parent / "secret.yml").write_text("a: {operationId: a}")
    path = folder / "api.yaml"
    path.write_text(FILES["api.yaml"].replace("resources/countries/read.yml", reference))
    with pytest.raises(DefinitionError, match="leads out of the document and its folder"):
        ToolRegistry.from_openapi(path)


def test_dates_of_a_loaded_document_are_texts():
    import datetime

    schema = {"type": "string", "example": datetime.date(2026, 1, 2), "enum": [datetime.date(2026, 1, 2)]}
    source = document(("get", "/a", {"parameters": [{"name": "day", "in": "query", "schema": schema}]}))
    assert send(source, {"day": "2026-01-02"})["query"] == {"day": ["2026-01-02"]}


# A FastAPI app


def test_a_fastapi_app_is_called_through_its_own_document():
    fastapi = pytest.importorskip("fastapi")
    from pydantic import BaseModel

    class Item(BaseModel):
        name: str
        price: float = 1.5

    app = fastapi.FastAPI()

    @app.get("/items/{number}")
    def read_item(number: int, q: str | None = None) -> dict:
        """Read an item."""
        return {"number": number, "q": q}

    @app.post("/items")
    def add_item(item: Item) -> Item:
        """Add an item."""
        return item

    read_item.__annotations__, add_item.__annotations__  # noqa: B018
    with server(lambda request: ask_asgi(app, request)) as (url, _):
        tools = ToolRegistry.from_openapi(app.openapi(), base_url=url.removesuffix("/v2"))
        assert [tool.description for tool in tools.values()] == [
            "Read Item\n\nRead an item.",
            "Add Item\n\nAdd an item.",
        ]
        read, add = tools.values()
        assert read.call({"number": 3, "q": "a b"}) == {"number": 3, "q": "a b"}
        assert add.call({"name": "pen"}) == {"name": "pen", "price": 1.5}
        assert tools.execute(read.name, '{"number": "x"}').error.name == "ValidationError"


def ask_asgi(app, request):
    """Answer a request by an ASGI app."""
    import asyncio
    from urllib.parse import unquote, urlencode

    sent = []

    async def receive():
        return {"type": "http.request", "body": request["body"].encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request["method"],
        "scheme": "http",
        "path": unquote(request["path"]),
        "raw_path": request["path"].encode(),
        "root_path": "",
        "query_string": urlencode(request["query"], doseq=True).encode(),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "headers": [(name.lower().encode(), value.encode()) for name, value in request["headers"].items()],
    }
    asyncio.run(app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"] if name != b"content-length"}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])

"""A server over standard input and output whose behaviour a test chooses: `python scripted_server.py KIND`."""

import json
import os
import sys
import time


def send(message: dict) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: dict, result: dict) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def notify(method: str, params: dict | None = None) -> None:
    send({"jsonrpc": "2.0", "method": method, "params": params or {}})


def text(value: str) -> dict:
    return {"content": [{"type": "text", "text": value}]}


def tool(name: str, properties: dict | None = None, **more) -> dict:
    schema = {"type": "object", "properties": properties or {}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


class Scripted:
    """The handshake era: answers requests one by one; a subclass changes what it does."""

    tools = [tool("echo", {"text": {"type": "string"}}), tool("env"), tool("add", {"a": {"type": "integer"}})]
    capabilities = {"tools": {"listChanged": True}}

    def run(self) -> None:
        for line in sys.stdin:
            self.receive(json.loads(line))

    def receive(self, request: dict) -> None:
        self.note(request)
        method = request.get("method", "").replace("/", "_")
        if "id" in request and method:
            handle = getattr(self, method, None)
            if handle is None:
                error = {"code": -32601, "message": "Method not found"}
                send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            else:
                handle(request)

    def note(self, request: dict) -> None:
        """Append what arrives to the file of the test."""
        if path := os.environ.get("NOTES"):
            with open(path, "a") as file:
                file.write(json.dumps(request) + "\n")

    def initialize(self, request: dict) -> None:
        answer(
            request,
            {
                "protocolVersion": "2025-11-25",
                "capabilities": self.capabilities,
                "serverInfo": {"name": "scripted", "version": "1"},
            },
        )

    def tools_list(self, request: dict) -> None:
        answer(request, {"tools": self.tools})

    def tools_call(self, request: dict) -> None:
        params = request["params"]
        answer(request, self.call(params["name"], params.get("arguments") or {}, request))

    def call(self, name: str, arguments: dict, request: dict) -> dict:
        if name == "env":
            return text(" ".join(sorted(os.environ)))
        if name == "add":
            return text(str(arguments["a"] + 1))
        return text(arguments.get("text", ""))


class Dies(Scripted):
    """Ends in the middle of a call of `die`."""

    tools = [*Scripted.tools, tool("die")]

    def call(self, name, arguments, request):
        if name == "die":
            os._exit(3)
        return super().call(name, arguments, request)


class Old(Scripted):
    """Ends at a request that it does not know, as servers of the first versions of the SDK do."""

    def receive(self, request):
        if request.get("method") == "server/discover":
            os._exit(3)
        super().receive(request)


class Hangs(Scripted):
    """Never answers `hang`, and does not end by itself."""

    tools = [*Scripted.tools, tool("hang")]

    def tools_call(self, request):
        if request["params"]["name"] != "hang":
            super().tools_call(request)

    def run(self):
        super().run()
        time.sleep(60)  # the input has ended: it must be killed


class Silent(Scripted):
    """Never answers anything."""

    def run(self):
        for line in sys.stdin:
            self.note(json.loads(line))


class Garbage(Scripted):
    """Prints lines that are no messages or no text, and answers to calls that no client made."""

    def tools_call(self, request):
        print("this is no JSON")
        print('{"jsonrpc": "1.0"}')
        print('["a list"]', flush=True)
        os.write(1, b"this is no UTF-8: \xff\n")
        send({"jsonrpc": "2.0", "id": 987654, "result": {}})
        send({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "?"}})
        super().tools_call(request)


class Twice(Scripted):
    """Answers each call twice, the second time with something else."""

    def tools_call(self, request):
        super().tools_call(request)
        answer(request, text("the second answer"))


class Late(Scripted):
    """Answers `slow` when the call is cancelled."""

    tools = [*Scripted.tools, tool("slow")]

    def receive(self, request):
        super().receive(request)
        if request.get("method") == "notifications/cancelled":
            answer(self.slow, text("late"))

    def tools_call(self, request):
        if request["params"]["name"] == "slow":
            self.slow = request
        else:
            super().tools_call(request)


class Changes(Scripted):
    """Has other tools after a call of `change`."""

    tools = [*Scripted.tools, tool("change")]

    def call(self, name, arguments, request):
        if name == "change":
            self.tools = [tool("fresh"), tool("change")]
            notify("notifications/tools/list_changed")
            return text("changed")
        return text(name)


class Floods(Scripted):
    """Sends thousands of notifications and a long text in a call."""

    def call(self, name, arguments, request):
        token = request["params"].get("_meta", {}).get("progressToken")
        for number in range(3_000):
            notify("notifications/progress", {"progressToken": token, "progress": number})
            notify("notifications/message", {"level": "info", "data": "x" * 100})
        for _ in range(20):
            notify("notifications/tools/list_changed")
        sys.stderr.write("noise " * 100_000)
        sys.stderr.flush()
        return text("y" * 2_000_000)


class Reports(Scripted):
    """Reports progress and writes to its log."""

    def call(self, name, arguments, request):
        token = request["params"]["_meta"]["progressToken"]
        notify("notifications/progress", {"progressToken": token, "progress": 1, "total": 2, "message": "half"})
        notify("notifications/message", {"level": "warning", "data": "low on ink", "logger": "printer"})
        notify("notifications/message", {"level": "info", "data": {"pages": 3, "color": True}})
        return text(json.dumps(request["params"]["_meta"]))


class Pages(Scripted):
    """Lists its tools one by one."""

    tools = [
        tool("a.b"),
        tool("a/b"),
        tool("c"),
        tool("bad", inputSchema={"type": "object", "properties": {"x": {"type": "text"}}}),
    ]

    def tools_list(self, request):
        at = int((request.get("params") or {}).get("cursor") or 0)
        rest = {"nextCursor": str(at + 1)} if at + 1 < len(self.tools) else {}
        answer(request, {"tools": [self.tools[at]], **rest})

    def call(self, name, arguments, request):
        return text(f"called {name}")


IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Kinds(Scripted):
    """Returns every kind of content, and has resources and prompts."""

    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    hints = {
        "reads": {"readOnlyHint": True},
        "deletes": {"destructiveHint": True},
        "sets": {"idempotentHint": True, "destructiveHint": False},
    }
    tools = [
        tool("structured", outputSchema=number),
        tool("wrapped"),
        tool("both"),
        tool("as_task", execution={"taskSupport": "required"}),
        tool("of_the_page", _meta={"ui": {"resourceUri": "ui://page", "visibility": ["app"]}}),
        tool("of_both", _meta={"ui": {"visibility": ["model", "app"]}}),
        tool("of_none", _meta={"ui": {"visibility": []}}),
        tool("of_text", _meta={"ui": "app"}),
        tool("wrong", outputSchema=number),
        tool("media"),
        tool("repeated_media"),
        tool("linked"),
        tool("fails"),
        tool("invalid"),
        *(tool(name, annotations=hint) for name, hint in hints.items()),
    ]
    capabilities = {"tools": {}, "resources": {}, "prompts": {}}

    def call(self, name, arguments, request):
        if name == "structured":
            return {**text('{"n": 1}'), "structuredContent": {"n": 1}}
        if name == "wrapped":
            return {**text("one\ntwo"), "structuredContent": {"content": "one\ntwo"}}
        if name == "both":
            return {**text("one"), "structuredContent": {"title": "one", "n": 1}}
        if name == "wrong":
            return {**text("-"), "structuredContent": {"n": "one"}}
        if name == "media":
            blocks = [
                {"type": "text", "text": "look:"},
                {"type": "image", "data": IMAGE, "mimeType": "image/png"},
                {"type": "audio", "data": "UklGRgAA", "mimeType": "audio/wav"},
            ]
            return {"content": blocks}
        if name == "repeated_media":
            blocks = [{"type": "image", "data": IMAGE, "mimeType": "image/png"}]
            return {"content": blocks, "structuredContent": {"content": blocks}}
        if name == "linked":
            blocks = [
                {"type": "resource_link", "uri": "memo://1", "name": "memo", "description": "A memo."},
                {"type": "resource", "resource": {"uri": "memo://2", "text": "inline"}},
            ]
            return {"content": blocks}
        if name == "invalid":
            return {"content": "no list"}
        return {**text("no such city"), "isError": True} if name == "fails" else text(name)

    def resources_list(self, request):
        answer(request, {"resources": [{"uri": "memo://1", "name": "memo", "description": "A memo."}]})

    def resources_read(self, request):
        uri = request["params"]["uri"]
        answer(request, {"contents": [{"uri": uri, "text": f"the text of {uri}"}]})

    def prompts_list(self, request):
        answer(request, {"prompts": [{"name": "greet"}]})

    def prompts_get(self, request):
        who = request["params"]["arguments"]["who"]
        message = {"role": "user", "content": {"type": "text", "text": f"Greet {who}."}}
        answer(request, {"messages": [message]})


class Modern(Scripted):
    """The stateless era: no handshake; `book` asks for a date, then for a payment at an address."""

    tools = [tool("book", {"room": {"type": "string"}}), tool("model"), tool("later"), tool("echo")]
    form = {"type": "object", "properties": {"date": {"type": "string"}}, "required": ["date"]}

    def server_discover(self, request):
        versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        answer(request, {**versions, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})

    def tools_list(self, request):
        answer(request, {"tools": self.tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})

    def tools_call(self, request):
        params = request["params"]
        result = getattr(self, params["name"])(params, params.get("requestState"))
        answer(request, {"resultType": "complete", **result})

    def ask(self, state: str, key: str, **params) -> dict:
        requests = {key: {"method": "elicitation/create", "params": params}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    def book(self, params, state):
        room = params["arguments"]["room"]
        given = params.get("inputResponses") or {}
        if state is None:
            return self.ask(f"asked {room}", "when", mode="form", message="Which day?", requestedSchema=self.form)
        if "when" in given:
            text_of_state = f"{state} {given['when']['content']['date']}"
            return self.ask(text_of_state, "pay", mode="url", message="Please pay.", url="https://pay.example.com/1")
        self.note({"method": "booked"})
        return text(f"{state} {given['pay']['action']}")

    def model(self, params, state):
        if given := params.get("inputResponses"):
            return text(f"{state} {given['a']['content']['text']}")
        messages = [{"role": "user", "content": {"type": "text", "text": "?"}}]
        request = {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 9}}
        return {"resultType": "input_required", "inputRequests": {"a": request}, "requestState": "s"}

    def later(self, params, state):
        rounds = int(state or 0) + 1
        return (
            text(f"{rounds} rounds") if rounds == 3 else {"resultType": "input_required", "requestState": str(rounds)}
        )

    def echo(self, params, state):
        return text(json.dumps(params["_meta"]))


class Forgets(Modern):
    """Refuses the first of the states that it gets back, or all, as a replica with a key of its own does."""

    refusals = 1

    def tools_call(self, request):
        if request["params"].get("requestState") is None or not self.refusals:
            super().tools_call(request)
            return
        self.refusals -= 1
        error = {"code": -32602, "message": "Invalid or expired requestState"}
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})


class ForgetsAll(Forgets):
    refusals = 1_000


class Asks(Scripted):
    """The handshake era: asks in the middle of a call, and waits for the answer."""

    tools = [tool("book")]
    properties = {"date": {"type": "string"}, "guests": {"type": "integer", "default": 2}}

    def call(self, name, arguments, request):
        schema = {"type": "object", "properties": self.properties, "required": ["date"]}
        params = {"mode": "form", "message": "Which day?", "requestedSchema": schema}
        send({"jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": params})
        return text(json.dumps(json.loads(sys.stdin.readline())["result"]))


class WantsVisit(Scripted):
    """The handshake era: refuses two calls of `pay` until a person has opened an address; `broken` names none."""

    tools = [tool("pay"), tool("broken")]
    refusals = 2

    def tools_call(self, request):
        if not self.refusals:
            answer(request, text("paid"))
            return
        is_broken = request["params"]["name"] == "broken"
        self.refusals -= not is_broken
        page = {"mode": "url", "message": "Log in.", "url": "https://pay.example.com/1", "elicitationId": "1"}
        data = {"elicitations": [{"url": 1} if is_broken else page]}
        error = {"code": -32042, "message": "This request requires authorization.", "data": data}
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})


class Samples(Scripted):
    """The handshake era: asks the client's model, or for its folders, in the middle of a call."""

    tools = [tool("think", {"times": {"type": "integer"}, "uses_tools": {"type": "boolean"}}), tool("look")]

    def call(self, name, arguments, request):
        content = {"type": "text", "text": "How deep?"}
        if arguments.get("uses_tools"):
            content = {"type": "tool_result", "toolUseId": "1", "content": [content]}
        params = {"messages": [{"role": "user", "content": content}], "systemPrompt": "Be brief.", "maxTokens": 9}
        method = "sampling/createMessage" if name == "think" else "roots/list"
        found = []
        for number in range(arguments.get("times", 1)):
            send({"jsonrpc": "2.0", "id": number, "method": method, "params": params if name == "think" else {}})
            reply = json.loads(sys.stdin.readline())
            found.append(reply.get("result") or reply["error"]["message"])
        return text(json.dumps(found))


class AsksOneOfTwo(Asks):
    """The handshake era: `book` asks only while `wait` is open, too; both end when the answer is there."""

    tools = [tool("book"), tool("wait")]

    def __init__(self):
        self.opened = {}

    def receive(self, request):
        if request.get("id") == "question":
            answer(self.opened["book"], text(json.dumps(request["result"])))
            answer(self.opened["wait"], text("waited"))
        else:
            super().receive(request)

    def tools_call(self, request):
        self.opened[request["params"]["name"]] = request
        if len(self.opened) == 2:
            notify("notifications/message", {"level": "warning", "data": "the card of Ada"})
            schema = {"type": "object", "properties": self.properties, "required": ["date"]}
            params = {"mode": "form", "message": "Which day?", "requestedSchema": schema}
            send({"jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": params})


class Fails(Scripted):
    """Ends at once, with a reason on standard error."""

    def run(self):
        sys.stderr.write("no configuration file\n")
        sys.exit(1)


if __name__ == "__main__":
    globals()[sys.argv[1]]().run()

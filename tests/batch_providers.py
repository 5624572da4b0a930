"""The batches of other providers on the loopback: their requests in place of OpenAI's, the same account behind them.

Azure has OpenAI's under another path.  Mistral has jobs, xAI counters in place of a state and pages of results.  Vertex
keeps the lines in a bucket of Google and Bedrock in one of S3; both take the bodies of their own requests.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
import respx
from batch_server import BatchServer, serving

ARN = "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/"
MODELS = {
    "openai": "openai/gpt-4o-mini",
    "azure": "azure/gpt-4o-mini",
    "hosted_vllm": "hosted_vllm/own",
    "litellm_proxy": "litellm_proxy/own",
    "mistral": "mistral/mistral-small-latest",
    "xai": "xai/grok-4.3",
    "vertex_ai": "vertex_ai/gemini-2.5-flash",
    "bedrock": "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
}
CREATION = {
    "azure": "POST /openai/batches",
    "mistral": "POST /v1/batch",
    "vertex_ai": "POST us-central1-aiplatform",
    "bedrock": "POST bedrock",
}
"""The requests that create a batch, where they are not "POST /v1/batches"."""
LISTS = {
    "GET /v1/batches",
    "GET /openai/batches",
    "GET /v1/batch",
    "GET us-central1-aiplatform",
    "GET /model-invocation-jobs",
}
"""The requests that list batches; some ask for the state of one as well."""
JOBS = "projects/p/locations/us-central1/batchPredictionJobs"


@contextmanager
def provider_of(name: str, server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Serve the batches of a provider; yields the model and the account for an agent."""
    make = {"azure": Azure, "mistral": Mistral, "xai": XAI, "vertex_ai": Vertex, "bedrock": Bedrock}.get(name, Same)(
        server
    )
    server.route = make.route
    with serving(server) as address:
        base = address.removesuffix("/v1")
        with respx.mock(assert_all_called=False) as mocked:
            mocked.route(host="127.0.0.1").pass_through()
            mocked.route().mock(side_effect=make.answer)
            yield make.account(base, monkeypatch)


class Same:
    """OpenAI's own, also those of Azure and of servers in this form."""

    def __init__(self, server: BatchServer) -> None:
        self.server = server
        self.openai = server.route

    def account(self, base: str, _: pytest.MonkeyPatch) -> dict[str, Any]:
        return {"api_key": "none", "api_base": f"{base}/v1"}

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Any, body: bytes) -> Any:
        return self.openai(method, path, query, headers, body)

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer a request that would leave this machine."""
        url = urlsplit(str(request.url))
        what = f"{request.method} {url.netloc.partition('.')[0]}"
        self.server.asked(what)
        fault = self.server.take_fault(what)
        if fault == "drop before":
            raise httpx.ReadError("dropped", request=request)
        if isinstance(fault, int):
            return httpx.Response(fault, json={"error": {"message": "a fault"}})
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        found = self.route(request.method, url.path, query, request.headers, request.content)
        if fault == "drop after":
            raise httpx.ReadError("dropped", request=request)
        return httpx.Response(200, content=found) if isinstance(found, bytes) else httpx.Response(200, json=found)


class Azure(Same):
    def account(self, base: str, _: pytest.MonkeyPatch) -> dict[str, Any]:
        return {"api_key": "none", "api_base": base, "api_version": "2025-04-01-preview"}


class Mistral(Same):
    """ "POST /v1/batch/jobs" with the files and the model of a job."""

    STATES = {"validating": "QUEUED", "in_progress": "RUNNING", "completed": "SUCCESS", "expired": "TIMEOUT_EXCEEDED"}

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Any, body: bytes) -> Any:
        match method, path.strip("/").split("/")[1:]:
            case "POST", ["batch", "jobs"]:
                wanted = json.loads(body)
                assert wanted["model"] == "mistral-small-latest"
                same = {"endpoint": wanted["endpoint"], "metadata": wanted["metadata"], "completion_window": "24h"}
                return self._job(self.server.create_batch({"input_file_id": wanted["input_files"][0], **same}))
            case "GET", ["batch", "jobs"]:
                size = int(query["page_size"])
                newest = list(reversed(self.server.batches.values()))
                begin = int(query["page"]) * size
                return {"object": "list", "total": len(newest), "data": [*map(self._job, newest[begin:][:size])]}
            case "GET", ["batch", "jobs", name]:
                return self._job(self.server.poll(name))
        return super().route(method, path, query, headers, body)

    def _job(self, batch: dict[str, Any]) -> dict[str, Any]:
        counts = batch["request_counts"]
        return {
            "id": batch["id"],
            "object": "batch",
            "input_files": [batch["input_file_id"]],
            "endpoint": batch["endpoint"],
            "metadata": batch["metadata"],
            "status": self.STATES[batch["status"]],
            "created_at": 1,
            "total_requests": counts["total"],
            "completed_requests": counts["completed"] + counts["failed"],
            "succeeded_requests": counts["completed"],
            "failed_requests": counts["failed"],
            "output_file": batch["output_file_id"],
            "error_file": batch["error_file_id"],
            "errors": [],
        }


class XAI(Same):
    """A batch has counters; its results are pages of their own."""

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Any, body: bytes) -> Any:
        match method, path.strip("/").split("/")[1:]:
            case "POST", ["batches"]:
                wanted = json.loads(body)
                file = wanted["input_file_id"]
                (url,) = {json.loads(line)["url"] for line in self.server.files[file].splitlines()}
                same = {"input_file_id": file, "endpoint": url, "completion_window": "24h"}
                return self._batch(self.server.create_batch({**same, "metadata": {"name": wanted["name"]}}))
            case "GET", ["batches"]:
                page = self.server.list_batches(query.get("pagination_token"), int(query["limit"]))
                more = {"pagination_token": page["data"][-1]["id"]} if page["has_more"] else {}
                return {"batches": [*map(self._batch, page["data"])], **more}
            case "GET", ["batches", name]:
                return self._batch(self.server.poll(name))
            case "GET", ["batches", name, "results"]:
                return self._results(self.server.batches[name])
        return super().route(method, path, query, headers, body)

    def _batch(self, batch: dict[str, Any]) -> dict[str, Any]:
        counts = batch["request_counts"]
        pending = counts["total"] - counts["completed"] - counts["failed"]
        state = {"num_requests": counts["total"], "num_pending": pending}
        state |= {"num_success": counts["completed"], "num_error": counts["failed"], "num_cancelled": 0}
        own = {"batch_id": batch["id"], "name": batch["metadata"]["name"], "input_file_id": batch["input_file_id"]}
        return {**own, "create_time": "2026-11-01", "state": state}

    def _results(self, batch: dict[str, Any]) -> dict[str, Any]:
        results = []
        for key in ("output_file_id", "error_file_id"):
            for row in map(json.loads, self.server.files.get(batch[key], b"").splitlines()):
                response = row["response"]
                if response and response["status_code"] == 200:
                    result: dict[str, Any] = {"response": {"chat_get_completion": response["body"]}}
                else:
                    result = {"error": {"code": response["status_code"] if response else 503, "message": "no"}}
                results.append({"batch_request_id": row["custom_id"], "batch_result": result})
        return {"results": results, "pagination_token": None}


class Native(Same):
    """A provider that takes the bodies of its own requests; behind it they are those of OpenAI."""

    def create(self, file: str) -> dict[str, Any]:
        """Create a batch of a file of native lines."""
        lines = [self.read_line(json.loads(line)) for line in self.server.files[file].splitlines()]
        name = f"{file}.openai"
        self.server.files[name] = "\n".join(map(json.dumps, lines)).encode()
        wanted = {"input_file_id": name, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        return self.server.create_batch(wanted)

    def read_line(self, line: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def results(self, batch: dict[str, Any]) -> bytes:
        """Return the file of native results of a batch."""
        file = batch["input_file_id"].removesuffix(".openai")
        lines = {
            self.read_line(line)["custom_id"]: line for line in map(json.loads, self.server.files[file].splitlines())
        }
        rows = []
        for key in ("output_file_id", "error_file_id"):
            for row in map(json.loads, self.server.files.get(batch[key], b"").splitlines()):
                response = row["response"]
                status = response["status_code"] if response else 503
                rows.append(self.write_row(lines[row["custom_id"]], status, response and response["body"]))
        return "\n".join(map(json.dumps, rows)).encode()

    def write_row(self, line: dict[str, Any], status: int, body: Any) -> dict[str, Any]:
        raise NotImplementedError


def line_of(name: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = {"model": "native", "messages": messages}
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}


class Vertex(Native):
    """batchPredictionJobs over files of a bucket: "status" and "response" stand beside the "request" of a line."""

    STATES = {"validating": "PENDING", "in_progress": "RUNNING", "completed": "SUCCEEDED", "expired": "SUCCEEDED"}

    def account(self, base: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        from agentkit.models.litellm.importing import load_litellm

        crypto = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
        pytest.importorskip("google.oauth2.service_account")
        from cryptography.hazmat.primitives import serialization as to

        key = crypto.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption()).decode()
        own = {"type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": pem}
        own |= {"client_email": "a@p.iam.gserviceaccount.com", "client_id": "1", "token_uri": f"{base}/token"}
        monkeypatch.setattr(load_litellm(), "user_url_validation", False)  # it looks the host up
        monkeypatch.setenv("GCS_BUCKET_NAME", "bucket")
        return {"vertex_project": "p", "vertex_location": "us-central1", "vertex_credentials": json.dumps(own)}

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Any, body: bytes) -> Any:
        if path == "/token":
            return {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}
        assert headers["Authorization"] == "Bearer token"
        if path.startswith("/upload/storage/v1/b/bucket/o"):
            file = f"gs://bucket/{query['name']}"
            self.server.files[file] = body
            when = "2026-11-01T00:00:00.000Z"
            return {"id": f"bucket/{query['name']}/1", "name": query["name"], "size": "1", "timeCreated": when}
        if path.startswith("/storage/v1/b/bucket/o/"):
            folder = unquote(path).removeprefix("/storage/v1/b/bucket/o/").removesuffix("/predictions.jsonl")
            return self.results(self.server.batches[folder.rpartition("/")[2]])
        match method, path.removeprefix(f"/v1/{JOBS}").strip("/").split("/"):
            case "POST", [""]:
                wanted = json.loads(body)
                assert wanted["model"] == "publishers/google/models/gemini-2.5-flash"
                assert wanted["inputConfig"]["instancesFormat"] == "jsonl"
                return self._job(self.create(wanted["inputConfig"]["gcsSource"]["uris"][0]))
            case "GET", [""]:
                page = self.server.list_batches(query.get("pageToken"), int(query["pageSize"]))
                more = {"nextPageToken": page["data"][-1]["id"]} if page["has_more"] else {}
                return {"batchPredictionJobs": [*map(self._job, page["data"])], **more}
            case "GET", [name]:
                return self._job(self.server.poll(name))
        raise AssertionError(f"{method} {path}")

    def _job(self, batch: dict[str, Any]) -> dict[str, Any]:
        file = batch["input_file_id"].removesuffix(".openai")
        state = f"JOB_STATE_{self.STATES[batch['status']]}"
        job = {"name": f"{JOBS}/{batch['id']}", "state": state, "createTime": "2026-11-01T00:00:00.000000Z"}
        job["inputConfig"] = {"instancesFormat": "jsonl", "gcsSource": {"uris": [file]}}
        folder = f"{file.rpartition('/')[0]}/{batch['id']}"
        return job | ({"outputInfo": {"gcsOutputDirectory": folder}} if state.endswith("SUCCEEDED") else {})

    def read_line(self, line: dict[str, Any]) -> dict[str, Any]:
        messages = []
        for content in line["request"]["contents"]:
            for part in content["parts"]:
                if "function_response" in part:
                    (found,) = part["function_response"]["response"].values()
                    messages.append({"role": "tool", "content": found})
                else:
                    messages.append({"role": content["role"], "content": part.get("text")})
        return line_of(line["request"]["labels"]["agentkit"], messages)

    def write_row(self, line: dict[str, Any], status: int, body: Any) -> dict[str, Any]:
        row = {**line, "processed_time": "2026-11-01T00:00:00.000000+00:00"}
        if status != 200:
            error = {"error": {"code": status, "message": "no", "status": "FAILED"}}
            return {**row, "status": f"Failed: {json.dumps(error)}", "response": {}}
        (call,) = body["choices"][0]["message"]["tool_calls"]
        called = {"name": call["function"]["name"], "args": json.loads(call["function"]["arguments"])}
        content = {"role": "model", "parts": [{"functionCall": called}]}
        usage = {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}
        candidate = {"content": content, "finishReason": "STOP"}
        reply = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}
        return {**row, "status": "", "response": reply}


class Bedrock(Native):
    """Jobs over files of S3: "modelOutput" or "error" stands beside the "modelInput" of a record."""

    STATES = {"validating": "Submitted", "in_progress": "InProgress", "completed": "Completed", "expired": "Completed"}

    def account(self, base: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK", base)
        monkeypatch.setenv("AWS_S3_BUCKET_NAME", "bucket")
        monkeypatch.setenv("AWS_BATCH_ROLE_ARN", "arn:aws:iam::123456789012:role/batches")
        return {"aws_region_name": "us-east-1", "aws_access_key_id": "id", "aws_secret_access_key": "secret"}

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Any, body: bytes) -> Any:
        assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=id/")
        path = unquote(path)
        if path.startswith("/bucket/litellm-batch-outputs/"):
            job, file = path.rsplit("/", 2)[1:]
            found = self.results(self.server.batches[job])
            assert file == f"{self.server.batches[job]['input_file_id'].removesuffix('.openai').rpartition('/')[2]}.out"
            return found
        if path.startswith("/bucket/"):
            self.server.files[f"s3:/{path}"] = body
            return b""
        if path == "/model-invocation-job":
            wanted = json.loads(body)
            assert wanted["modelId"] == "us.anthropic.claude-haiku-4-5-20251001-v1:0"
            assert wanted["roleArn"].endswith("role/batches")
            batch = self.create(wanted["inputDataConfig"]["s3InputDataConfig"]["s3Uri"])
            batch["output"] = wanted["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
            return {"jobArn": f"{ARN}{batch['id']}"}
        if path == "/model-invocation-jobs":
            page = self.server.list_batches(query.get("nextToken"), int(query["maxResults"]))
            more = {"nextToken": page["data"][-1]["id"]} if page["has_more"] else {}
            return {"invocationJobSummaries": [*map(self._job, page["data"])], **more}
        return self._job(self.server.poll(path.removeprefix(f"/model-invocation-job/{ARN}")))

    def _job(self, batch: dict[str, Any]) -> dict[str, Any]:
        file = batch["input_file_id"].removesuffix(".openai")
        return {
            "jobArn": f"{ARN}{batch['id']}",
            "jobName": "job",
            "modelId": "model",
            "roleArn": "role",
            "status": self.STATES[batch["status"]],
            "submitTime": "2026-11-01T00:00:00Z",
            "inputDataConfig": {"s3InputDataConfig": {"s3Uri": file}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": batch["output"]}},
        }

    def read_line(self, line: dict[str, Any]) -> dict[str, Any]:
        assert line["modelInput"]["anthropic_version"] == "bedrock-2023-05-31"
        messages = []
        for message in line["modelInput"]["messages"]:
            for block in message["content"]:
                if block["type"] == "tool_result":
                    content = block["content"]
                    text = content if isinstance(content, str) else content[0]["text"]
                    messages.append({"role": "tool", "content": text})
                else:
                    messages.append({"role": message["role"], "content": block.get("text")})
        return line_of(line["recordId"], messages)

    def write_row(self, line: dict[str, Any], status: int, body: Any) -> dict[str, Any]:
        if status != 200:
            return {**line, "error": {"errorCode": status, "errorMessage": "no"}}
        (call,) = body["choices"][0]["message"]["tool_calls"]
        used = {"type": "tool_use", "id": f"toolu_{call['id']}", "name": call["function"]["name"]}
        used["input"] = json.loads(call["function"]["arguments"])
        reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [used]}
        reply |= {"stop_reason": "tool_use", "usage": {"input_tokens": 1000, "output_tokens": 100}}
        return {**line, "modelOutput": reply}

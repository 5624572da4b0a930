"""The files of the providers' batches: the line of a request, the row of its result, and the list of all batches.

Most providers take OpenAI's lines, and litellm turns what the others of these return into OpenAI's rows.  Vertex and
Bedrock take the bodies of their own live requests, and return those of their live replies.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from inspect import signature
from typing import Any, TypeAlias, get_args

from ...core.masking import mask
from ...core.values import frozen

BATCH_LINES = 50_000
"""Lines of one batch: OpenAI takes 50,000, Azure 100,000."""
METADATA_KEY = "agentkit"
"""The key of a batch's metadata, and of a line's label at Vertex, with our own id."""
EXPIRED = "batch_expired"
_STATUS_BY_CODE = {EXPIRED: 503, "batch_failed": 400, "batch_cancelled": 400}
_PAGE = 100
_SECONDS = 60.0
Answer: TypeAlias = tuple[int, bytes]
"""The status and the body of a result."""
Page: TypeAlias = tuple[Sequence[Mapping[str, Any]], str | None]
"""Batches with `id`, `metadata` and `input_file_id`, and where the next page begins."""


def _write_openai_line(name: str, endpoint: str, body: Any) -> Mapping[str, Any]:
    return {"custom_id": name, "method": "POST", "url": endpoint, "body": body}


def _read_openai_row(row: Mapping[str, Any]) -> tuple[str, Answer]:
    name = str(row.get("custom_id"))
    if response := row.get("response"):
        return name, (int(response.get("status_code") or 200), _encode(response.get("body") or {}))
    return name, read_error(row.get("error") or {"message": "the line has neither a response nor an error"})


def _write_vertex_line(name: str, _: str, body: Any) -> Mapping[str, Any]:
    return {"request": {**body, "labels": {**body.get("labels", {}), METADATA_KEY: name}}}


def _read_vertex_row(row: Mapping[str, Any]) -> tuple[str, Answer]:
    name = str(row.get("request", {}).get("labels", {}).get(METADATA_KEY))
    if status := str(row.get("status") or ""):  # 'Bad Request: {"error": {"code": 400, ...}}'
        return name, read_error({"code": _find_code(status), "message": status})
    return name, (200, _encode(row.get("response") or {}))


def _find_code(text: str) -> int | None:
    """Return the status in a text that ends with the JSON body of an error."""
    try:
        return int(json.loads(text[text.index("{") :])["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return None


def _write_bedrock_line(name: str, _: str, body: Any) -> Mapping[str, Any]:
    return {"recordId": name, "modelInput": body}


def _read_bedrock_row(row: Mapping[str, Any]) -> tuple[str, Answer]:
    name = str(row.get("recordId"))
    if error := row.get("error"):
        return name, read_error({"code": error.get("errorCode"), "message": error.get("errorMessage")})
    return name, (200, _encode(row.get("modelOutput") or {}))


def read_error(error: Mapping[str, Any]) -> Answer:
    """Return the answer of a line that failed; what a batch did not do can be repeated."""
    code = str(error.get("code"))
    is_status = code.isdigit() and 400 <= int(code) < 600
    status = int(code) if is_status else _STATUS_BY_CODE.get(code, 500)
    return status, _encode({"error": {**error, "message": mask(str(error.get("message") or error))}})


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def _list_by_litellm(litellm: Any, how: Mapping[str, Any], after: str | None) -> Page:
    page = as_dict(litellm.list_batches(after=after, limit=_PAGE, **how))
    found = [as_dict(entry) for entry in page.get("data") or ()]
    if not found or not page.get("has_more"):
        return found, None
    return found, str(page.get("next_page_token") or found[-1]["id"])


def _list_mistral(litellm: Any, how: Mapping[str, Any], after: str | None) -> Page:
    """Return a page of the batches of Mistral, which litellm cannot list."""
    config = litellm.utils.ProviderConfigManager.get_provider_batches_config(
        model=how["model"], provider=litellm.LlmProviders.MISTRAL
    )
    key = how.get("api_key")
    url = config.get_complete_batch_url(how.get("api_base"), key, how["model"], {}, {}, {})
    headers = config.validate_environment({}, how["model"], [], {}, {}, api_key=key)
    asked = {"page": int(after or 0), "page_size": _PAGE}
    response = import_module("httpx").get(url, headers=headers, params=asked, timeout=_SECONDS)
    response.raise_for_status()
    found = [
        {
            "id": job["id"],
            "metadata": job.get("metadata"),
            "input_file_id": next(iter(job.get("input_files") or ()), ""),
        }
        for job in response.json().get("data") or ()
    ]
    return found, str(asked["page"] + 1) if len(found) == _PAGE else None


def _list_bedrock(litellm: Any, how: Mapping[str, Any], after: str | None) -> Page:
    """Return a page of the jobs of Bedrock, which litellm cannot list."""
    config = litellm.utils.ProviderConfigManager.get_provider_batches_config(
        model=how["model"], provider=litellm.LlmProviders.BEDROCK
    )
    url = config.get_complete_batch_url(None, None, how["model"], {}, {**how}, {})
    region = url.split(".")[1]
    parameters = import_module("litellm.types.llms.bedrock").AwsAuthParams.model_validate(how)
    credentials = config.resolve_credentials(parameters, region)
    client = import_module("boto3").client(
        "bedrock",
        region_name=region,
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        aws_session_token=credentials.token,
    )
    more = {"nextToken": after} if after else {}
    page = client.list_model_invocation_jobs(maxResults=_PAGE, sortBy="CreationTime", sortOrder="Descending", **more)
    found = [
        {"id": job["jobArn"], "input_file_id": job["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]}
        for job in page.get("invocationJobSummaries") or ()
    ]
    return found, page.get("nextToken")


@frozen
class BatchForm:
    """How the files of a provider's batches are written and read.

    Attributes:
        write: Returns the line of a request: of its name, its endpoint and its body.
        read: Returns the name of the request that a row of results belongs to, and the answer.
        list_page: Returns a page of the account's batches: of litellm, the arguments of its functions, and the place.
        media_type: The type of the file.
        options: Further arguments of `litellm.create_file`.
        metadata: The key of the metadata that has our own id.
        path: The end of the path of a live request that can be a line; empty if all can.
        route: What stands between the provider and the model in the name of the live route.
    """

    write: Callable[[str, str, Any], Mapping[str, Any]] = _write_openai_line
    read: Callable[[Mapping[str, Any]], tuple[str, Answer]] = _read_openai_row
    list_page: Callable[[Any, Mapping[str, Any], str | None], Page] = _list_by_litellm
    media_type: str = "application/jsonl"
    options: Mapping[str, Any] = field(default_factory=dict)
    metadata: str = METADATA_KEY
    path: str = ""
    route: str = ""


_OPENAI = BatchForm()
_FORMS = {
    "mistral": BatchForm(list_page=_list_mistral),
    "xai": BatchForm(metadata="name"),  # the one entry that litellm sends
    "vertex_ai": BatchForm(
        write=_write_vertex_line, read=_read_vertex_row, options={"passthrough": True}, path=":generateContent"
    ),
    "bedrock": BatchForm(
        write=_write_bedrock_line,
        read=_read_bedrock_row,
        list_page=_list_bedrock,
        media_type="application/x-bedrock-records",  # litellm would transform what it knows as lines of OpenAI
        path="/invoke",
        route="invoke/",
    ),
}


def batch_form(provider: str) -> BatchForm:
    """Return the form of a provider's batches."""
    return _FORMS.get(provider, _OPENAI)


def list_batch_providers(litellm: Any) -> list[str]:
    """Return the providers whose batches litellm can create."""
    return sorted(get_args(signature(litellm.create_batch).parameters["custom_llm_provider"].annotation))


def as_dict(value: Any) -> Mapping[str, Any]:
    """Return an object of litellm, or a mapping, as a mapping."""
    return value if isinstance(value, Mapping) else value.model_dump()

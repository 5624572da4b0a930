"""pydantic's JSON Schema generator, with the texts of types added and without keywords that do not help a model."""

import inspect
import json
from enum import Enum
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, core_schema

from .annotations import is_annotated, refuse_injected_fields, texts_of
from .enum_values import add_keywords
from .walk import JsonSchema


class PlainJsonSchema(GenerateJsonSchema):
    """Plain JSON Schema (draft 2020-12) without titles and without defaults that JSON cannot represent."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own attribute

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's name
        return False

    def encode_default(self, dft: Any) -> Any:
        if dft is None or type(dft) in (str, int, bool):  # pydantic would build a serializer for each default
            return dft
        value = super().encode_default(dft)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PydanticSerializationError(str(error)) from error
        return value

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _add_texts(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _add_texts(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        result = super().typed_dict_schema(schema)
        cls = schema.get("cls")
        return _add_texts(result, cls) if cls else result

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """Return pydantic's array form, with the field's name in the description of each place."""
        result = super().named_tuple_schema(schema)
        texts = texts_of(schema["cls"])
        if texts.description:
            result["description"] = texts.description
        for entry, place in zip(schema["fields"], result.get("prefixItems", ()), strict=False):
            text = place.get("description") or texts.fields.get(entry["name"], {}).get("description")
            place["description"] = f"{entry['name']}: {text}" if text else entry["name"]
        return result

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Describe an enum by its members' texts; pydantic would put the bare docstring in their place."""
        result = super().generate_inner(schema)
        if schema["type"] == "enum":
            place = self.get_schema_from_definitions(result["$ref"]) if "$ref" in result else result
            if place is not None:
                place.pop("description", None)
                place |= _describe_enum(schema["cls"])
        return result


def _describe_enum(cls: type[Enum]) -> JsonSchema:
    texts = texts_of(cls)
    meanings = [
        f"{member.value}: {texts.fields[name]['description']}"
        for name, member in cls.__members__.items()
        if "description" in texts.fields.get(name, {})
    ]
    description = ". ".join(filter(None, [texts.description.rstrip("."), "; ".join(meanings)]))
    return {"description": description} if description else {}


def _add_texts(schema: JsonSchema, cls: type) -> JsonSchema:
    """Return `schema` with the descriptions of `cls` and of its fields."""
    if "properties" not in schema:
        return schema
    refuse_injected_fields(cls)
    texts = texts_of(cls)
    if schema.get("description") == inspect.cleandoc(cls.__doc__ or ""):  # with its sections about the fields
        del schema["description"]
    if texts.description:
        schema["description"] = texts.description
    aliases = {
        field.validation_alias if isinstance(field.validation_alias, str) else field.alias or name: name
        for name, field in getattr(cls, "model_fields", {}).items()
    }
    for key, place in schema["properties"].items():
        name = aliases.get(key, key)
        if is_annotated(cls, name):
            add_keywords(place, texts.fields[name])
        elif name in texts.fields:
            place.setdefault("description", texts.fields[name]["description"])
    return schema

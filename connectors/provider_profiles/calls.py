"""A model's own call object read, and the tool-result message that goes back to the model."""

from __future__ import annotations

import json
from dataclasses import dataclass

from connectors.provider_profiles.rules import Format
from mcphub.core.errors import FieldProblem, InvalidInputError
from mcphub.core.types import JSONObject, JSONValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """What a model wants to be called; `id` is empty where the provider gives none."""

    id: str
    public_name: str
    arguments: JSONObject


def read_call(wanted: Format, body: JSONObject) -> ModelCall:
    """Read the call object of one provider. Raises InvalidInputError with the wrong path."""
    match wanted:
        case Format.OPENAI:
            inner = _object(body.get("function"), "/function")
            return _call(body.get("id"), inner, ("/function/name", "/function/arguments"))
        case Format.OPENAI_RESPONSES:
            return _call(body.get("call_id"), body, ("/name", "/arguments"))
        case Format.ANTHROPIC:
            inner = {**body, "arguments": body.get("input")}
            return _call(body.get("id"), inner, ("/name", "/input"))
        case Format.GEMINI | Format.GEMINI_OPENAPI:
            root = "/functionCall" if "functionCall" in body else ""  # a whole part, or its inside
            inner = _object(body["functionCall"], root) if root else body
            inner = {**inner, "arguments": inner.get("args")}
            return _call(inner.get("id"), inner, (f"{root}/name", f"{root}/args"))
        case Format.MCP | Format.JSON_SCHEMA:
            return _call(body.get("id"), body, ("/name", "/arguments"))


def result_message(wanted: Format, call: ModelCall, result: JSONObject) -> JSONObject:
    """Return the message that answers `call` with an MCP CallToolResult."""
    is_error = result.get("isError") is True
    match wanted:
        case Format.OPENAI:
            return {"role": "tool", "tool_call_id": call.id, "content": as_text(result)}
        case Format.OPENAI_RESPONSES:
            return {
                "type": "function_call_output",
                "call_id": call.id,
                "output": as_text(result),
            }
        case Format.ANTHROPIC:
            block: JSONObject = {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": _anthropic_content(result),
                "is_error": is_error,
            }
            return {"role": "user", "content": [block]}
        case Format.GEMINI | Format.GEMINI_OPENAPI:
            answer: JSONObject = {
                "name": call.public_name,
                "response": {"error" if is_error else "output": _gemini_output(result)},
            }
            part: JSONObject = {**answer, "id": call.id} if call.id else answer
            return {"role": "user", "parts": [{"functionResponse": part}]}
        case Format.MCP | Format.JSON_SCHEMA:
            return result


def as_text(result: JSONObject) -> str:
    """Return a result as text; what is no text is named, never dropped silently."""
    lines = [_block_text(block) for block in _blocks(result)]
    if not lines and "structuredContent" in result:
        return json.dumps(result["structuredContent"], ensure_ascii=False)
    return "\n".join(lines)


def _call(call_id: JSONValue, body: JSONObject, paths: tuple[str, str]) -> ModelCall:
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise _wrong(paths[0], "The name of the tool is missing.")
    return ModelCall(
        id=call_id if isinstance(call_id, str) else "",
        public_name=name,
        arguments=_arguments(body.get("arguments"), paths[1]),
    )


def _arguments(value: JSONValue, path: str) -> JSONObject:
    """Models give an object, JSON text of one, or nothing at all for a tool without arguments."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as exc:
            raise _wrong(path, "The arguments are no JSON text.") from exc
    return _object(value, path)


def _object(value: JSONValue, path: str) -> JSONObject:
    if not isinstance(value, dict):
        raise _wrong(path, "This has to be an object.")
    return value


def _wrong(path: str, message: str) -> InvalidInputError:
    return InvalidInputError(problems=[FieldProblem(path=path, message=message)])


def _blocks(result: JSONObject) -> list[JSONObject]:
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict)]


def _block_text(block: JSONObject) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind, "mimeType": str(mime), "data": str(content)}:
            return f"[{kind} {mime}, {len(content) * 3 // 4} bytes]"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": str(uri)}}:
            return f"[resource {uri}]"
        case {"type": "resource_link", "uri": str(uri)}:
            return f"[resource {uri}]"
        case _:
            return json.dumps(block, ensure_ascii=False)


def _anthropic_content(result: JSONObject) -> JSONValue:
    blocks = _blocks(result)
    if not blocks:
        return [{"type": "text", "text": as_text(result)}]
    return [_anthropic_block(block) for block in blocks]


def _anthropic_block(block: JSONObject) -> JSONObject:
    if block.get("type") == "image":
        source: JSONObject = {
            "type": "base64",
            "media_type": block.get("mimeType"),
            "data": block.get("data"),
        }
        return {"type": "image", "source": source}
    return {"type": "text", "text": _block_text(block)}


def _gemini_output(result: JSONObject) -> JSONValue:
    return result["structuredContent"] if "structuredContent" in result else as_text(result)

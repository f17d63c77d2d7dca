"""How providers say that they do not take a thinking level: status and body, in their wording and their envelope.

Wordings as quoted in public issues: earendil-works/pi#9455 (Gemini), #9535 (Vertex), openai/codex#6647 and
BerriAI/litellm#39983 (OpenAI), earendil-works/pi#1745 (Groq), vllm-project/vllm#52738 (vLLM).
"""

from collections.abc import Sequence
from typing import Any

from gateway.demo.scripts import Levels
from gateway.words import DialectName, Level

Refusal = tuple[int, dict[str, Any]]


def refuse(levels: Levels, dialect: DialectName, level: Level) -> Refusal:
    """Status and body of the error for a level that is not taken."""
    takes = ["none" if step == "off" else step for step in levels.takes]
    said = "none" if level == "off" else level
    match levels.wording:
        case "gemini":
            named = f"Thinking level {said.upper()} is not supported for this model."
            return _google(f"{named} Please retry with other thinking level.")
        case "vertex":
            return _google(f"Thinking level is unsupported: THINKING_LEVEL_{said.upper()}")
        case "openai":
            return _openai(dialect, said, takes)
        case "anthropic":
            listed = ", ".join(sorted(takes))
            message = f"This model does not support effort level '{said}'. Supported levels: {listed}."
            error = {"type": "invalid_request_error", "message": message}
            return 400, {"type": "error", "error": error, "request_id": "req_demo"}
        case "groq":
            message = f"`reasoning_effort` must be one of {_listed(takes, '`', 'or')}"
            return 400, {"error": {"message": message, "type": "invalid_request_error"}}
        case "vllm":
            message = f"Unexpected reasoning effort {said}. Supported types are {_listed(takes[::-1], '', 'and')}."
            return 500, {"error": {"message": message, "type": "InternalServerError", "param": None, "code": 500}}


def _google(message: str) -> Refusal:
    return 400, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def _openai(dialect: DialectName, said: str, takes: Sequence[str]) -> Refusal:
    """Chat quotes the field first, Responses the value."""
    if dialect == "responses":
        field, what = "reasoning.effort", f"'{said}' is not supported with this model."
    else:
        field, what = "reasoning_effort", f"'reasoning_effort' does not support '{said}' with this model."
    message = f"Unsupported value: {what} Supported values are: {_listed(takes, chr(39), 'and')}."
    error = {"message": message, "type": "invalid_request_error", "param": field, "code": "unsupported_value"}
    return 400, {"error": error}


def _listed(words: Sequence[str], quote: str, last: str) -> str:
    *head, tail = [f"{quote}{word}{quote}" for word in words] or [""]
    return f"{', '.join(head)}, {last} {tail}" if head else tail

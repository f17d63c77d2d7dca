"""What one chunk of a chat answer says, in the words of the vendors and their cousins. The table stands in chat.py."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from gateway.deltas import Content, Delta, Finish, Reasoning, ToolCall, Usage
from gateway.dialects.base import FINISH_WORDS, UNFINISHED, count, failure
from gateway.dialects.reading import ANSWER_ONLY

MOST_DIGITS: Final = 9
"""Of a choice's number."""


class Said(Struct):
    """`delta` of a chunk, `message` of a whole answer."""

    content: Any = None
    reasoning_content: Any = None  # llama.cpp, SGLang, DeepSeek
    reasoning: Any = None  # vLLM, Ollama, OpenRouter
    reasoning_details: Any = None  # OpenRouter, often beside `reasoning`
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None
    audio: Any = None


class Choice(Struct):
    """One entry of `choices`."""

    index: Any = 0
    delta: Said | None = None
    message: Said | None = None
    finish_reason: Any = None
    stop_reason: Any = UNSET  # vLLM: the caller's string, a token id, or null
    matched_stop: Any = UNSET  # SGLang: likewise

    @property
    def place(self) -> int:
        """Its number, some write it as text or with a fraction; 0 where what stands there is none."""
        index = self.index
        if isinstance(index, float) and index.is_integer():
            return int(index)
        digits = isinstance(index, str) and index.isascii() and index.isdigit() and len(index) <= MOST_DIGITS
        return int(index) if digits or type(index) is int else 0


class Chunk(Struct):
    """The fields of a chunk or of a whole answer that a rule looks at; all others are skipped unread."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    x_groq: Any = None
    timings: Any = None
    error_type: Any = None  # DeepInfra
    error_message: Any = None
    code: Any = None  # DashScope, in an event named error

    @property
    def failed(self) -> bool:
        """It tells an error, whatever it says besides."""
        return bool(self.error or self.error_message or self.object == "error")


def deltas_of(chunk: Chunk, data: bytes, *, named_error: bool = False) -> list[Delta]:
    """All that a chunk, or a whole answer, says. `data` is its JSON; `named_error`: so its event is called."""
    deltas: list[Delta] = []
    usage = _usage(chunk)
    for choice in chunk.choices or ():
        # The count of a whole answer is no running one: the text is in it.
        _read_choice(choice, _running(chunk, usage) if choice.delta is not None else None, deltas)
    if chunk.failed or (named_error and chunk.choices is None):
        error, beside = chunk.error or chunk.error_message, {"type": chunk.error_type, "code": chunk.code}
        deltas.append(failure(error if isinstance(error, dict) else beside, data))
    if usage is not None:
        deltas.append(usage)
    return deltas


def one_piece(chunk: Chunk) -> Sequence[Delta] | None:
    """What a chunk says that is one piece of the first choice and nothing else, as nearly all are; None for others."""
    choices = chunk.choices
    if not choices or len(choices) > 1 or chunk.usage is not None or chunk.error is not None:
        return None
    choice = choices[0]
    said = choice.delta
    if said is None or choice.finish_reason is not None or choice.index or chunk.x_groq is not None:
        return None
    if said.tool_calls is not None or said.function_call is not None or said.reasoning_details is not None:
        return None
    text = said.content
    if type(text) is str and text:
        return ANSWER_ONLY if said.reasoning_content is None and said.reasoning is None else None
    thought = said.reasoning_content or said.reasoning
    if text or not thought or type(thought) is not str or said.refusal or said.audio or chunk.timings is not None:
        return None
    return (Reasoning(thought),)


def finished(choice: Choice) -> bool:
    """A finish word is there."""
    return isinstance(choice.finish_reason, str) and choice.finish_reason not in UNFINISHED


def only_reasoning(said: Said) -> str:
    """The reasoning of a message that holds nothing else; "" for every other one."""
    return "" if _visible(said) or said.tool_calls or said.function_call else _reasoning(said)


def _read_choice(choice: Choice, running: int | None, deltas: list[Delta]) -> None:
    index = choice.place
    said = choice.delta or choice.message
    if said is not None:
        text = _reasoning(said)
        if text:
            deltas.append(Reasoning(text, running, index))
        if _visible(said):
            deltas.append(Content(index))
        if said.tool_calls or said.function_call:
            deltas.append(ToolCall(index))
    if finished(choice):
        word: str = choice.finish_reason
        deltas.append(Finish(word, FINISH_WORDS.get(word, "other"), _evidence(choice), index))


def _visible(said: Said) -> bool:
    content = said.content
    if isinstance(content, list):  # Mistral: parts, some of which are thinking
        return any(
            isinstance(p, dict) and p.get("type") != "thinking" and any(p.get(k) for k in p if k != "type")
            for p in content
        )
    return bool(content) or bool(said.refusal) or bool(said.audio)


def _reasoning(said: Said) -> str:
    """The reasoning of one message, told once: the same text may stand in up to three fields."""
    for value in (said.reasoning_content, said.reasoning):
        if isinstance(value, str) and value:
            return value
    if isinstance(said.reasoning_details, list):
        return "".join(_texts(said.reasoning_details))
    return "".join(_thinking(said.content)) if isinstance(said.content, list) else ""


def _texts(details: list[Any]) -> Iterator[str]:
    """`reasoning.text` and `reasoning.summary`; `reasoning.encrypted` is no text."""
    for detail in details:
        if isinstance(detail, dict) and detail.get("type") != "reasoning.encrypted":
            text = detail.get("text") or detail.get("summary")
            if isinstance(text, str):
                yield text


def _thinking(parts: list[Any]) -> Iterator[str]:
    """Mistral's parts of type thinking: text, or parts again."""
    for part in parts:
        inner = part.get("thinking") if isinstance(part, dict) and part.get("type") == "thinking" else None
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, list):
            yield from _texts(inner)


def _evidence(choice: Choice) -> bool | None:
    """Whose stop it was: a string is the caller's own, a token id or null the model's."""
    for value in (choice.stop_reason, choice.matched_stop):
        if value is not UNSET:
            return isinstance(value, str)
    return None


def _running(chunk: Chunk, usage: Usage | None) -> int | None:
    """The exact count of tokens so far where the chunk gives one: llama.cpp's timings, a running usage."""
    if isinstance(chunk.timings, dict):
        return count(chunk.timings.get("predicted_n"))
    return usage.output if usage is not None else None


def _usage(chunk: Chunk) -> Usage | None:
    said = chunk.usage
    if said is None and isinstance(chunk.x_groq, dict):
        said = chunk.x_groq.get("usage")
    if not isinstance(said, dict):
        return None
    output, prompt = count(said.get("completion_tokens")), count(said.get("prompt_tokens"))
    details, prompts = said.get("completion_tokens_details"), said.get("prompt_tokens_details")
    reasoning = count(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    if reasoning is None:
        reasoning = count(said.get("reasoning_tokens"))  # SGLang
    # xAI alone counts reasoning beside the completion: then and only then the three add up to the total.
    if (
        output is not None
        and prompt is not None
        and reasoning
        and said.get("total_tokens") == prompt + output + reasoning
    ):
        output += reasoning
    cached = (
        count(prompts.get("cached_tokens")) if isinstance(prompts, dict) else count(said.get("prompt_cache_hit_tokens"))
    )
    # llama.cpp sends one usage event per choice, with the timings of that choice beside it.
    part = not chunk.choices and isinstance(chunk.timings, dict)
    return Usage(output, prompt, reasoning, cached, part)

"""What the scripted server does, by the model a request names: the closed table SCRIPTS, one row a behaviour."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from gateway.words import DIALECTS, DialectName, Level, Reason

Cap = Literal["ignored", "kept", "filled"]
"""`kept`: it stops at the caller's cap and says `length`; `filled`: it uses the cap to the token, by a clean stop."""
UsageRides = Literal["after", "late", "with_finish", "never"]
"""When the usage of a chat stream comes: in a frame of its own, that frame late, on the finish frame, not at all."""
Control = Literal["obeys", "ignores", "refuses", "hangs", "too_late"]
"""What a call of llama.cpp's control path does: `ignores` says success and thinks on, `hangs` never answers in time,
`too_late` refuses because the thinking has ended by itself meanwhile."""
Wording = Literal["gemini", "vertex", "openai", "anthropic", "groq", "vllm"]
"""In whose words a thinking level is refused."""

ENDLESS: Final = 1_000_000
CHAT: Final[tuple[DialectName, ...]] = ("chat",)


class Fault(Struct, frozen=True, kw_only=True):
    """Something that goes wrong. `said`: as a status, in the body of a 200, as a page for people, by a cut."""

    said: Literal["status", "in_200", "html", "cut"] = "status"
    status: int = 500
    message: str = "The server had an error while processing the request."
    retry_after: int | None = None
    after: int = 8
    """Tokens of a stream that come before an error in a 200 and before a cut."""


class Levels(Struct, frozen=True, kw_only=True):
    """Which thinking levels are taken; the rest is refused, with a status or as the first event of a 200 stream."""

    wording: Wording
    takes: tuple[Level, ...] = ("low", "medium", "high")
    adapter: Level | None = None
    """What an adapter further on puts in where the caller sent none."""
    in_200: bool = False


class Script(Struct, frozen=True, kw_only=True):
    """One behaviour. Counts are tokens; a streamed token is a frame of its own."""

    says: str
    hidden: int = 0
    """Thought, and counted in the usage, but never shown."""
    thinks: int = 0
    """Thought aloud."""
    text: int = 16
    tool: bool = False
    cap: Cap = "ignored"
    ends: Reason = "stop"
    """The finish reason said; `missing`: none is."""
    word: str | None = None
    """A finish word of its own in place of the dialect's."""
    evidence: bool = False
    """It says what ended the turn, as vLLM does: the caller's stop sequence or nothing."""
    usage: UsageRides = "after"
    late: float = 0.0
    """Seconds that late usage lets wait."""
    control: Control = "obeys"
    fault: Fault | None = None
    levels: Levels | None = None
    dialects: tuple[DialectName, ...] = DIALECTS
    """Where it makes sense; the server plays it in any."""


def _overrun(says: str, **more: object) -> Script:
    """105 tokens, whatever the cap: 89 of hidden thinking, 16 of text."""
    return Script(says=f"105 tokens whatever the cap, {says}", **({"hidden": 89} | more))  # type: ignore[arg-type]


def _thinker(says: str, *, thinks: int = ENDLESS, control: Control = "obeys") -> Script:
    """Thinks aloud, on a server that has a control path."""
    return Script(says=says, thinks=thinks, control=control, cap="kept", dialects=CHAT)


def _refuses(says: str, wording: Wording, *dialects: DialectName, **more: object) -> Script:
    """Refuses levels in somebody's words."""
    levels = Levels(wording=wording, **more)  # type: ignore[arg-type]
    return Script(says=f"refuses thinking levels {says}", levels=levels, thinks=12, cap="kept", dialects=dialects)


SCRIPTS: Final[Mapping[str, Script]] = {
    # ---- the output cap
    "demo-honest": Script(says="a short answer, well under any cap", thinks=8, text=24, cap="kept"),
    "demo-honest-length": Script(says="would write 600 tokens; the cap cuts it, and it says so", text=600, cap="kept"),
    "demo-at-cap": Script(says="uses the cap to the last token, told as a clean stop", hidden=20, cap="filled"),
    "demo-overrun": _overrun("told as a clean stop"),
    "demo-overrun-aloud": _overrun("its thinking shown, told as a clean stop", hidden=0, thinks=89),
    "demo-overrun-tool": _overrun("with a tool call, told as a clean stop", tool=True),
    "demo-overrun-filter": _overrun("stopped by a content filter", ends="content_filter"),
    "demo-overrun-stop-string": _overrun(
        "stopped by the caller's own stop sequence", evidence=True, dialects=("chat", "messages")
    ),
    "demo-overrun-unproven": _overrun(
        "perhaps by the caller's stop sequence, it does not say", dialects=("chat", "gemini")
    ),
    "demo-overrun-choices": _overrun("for each of several choices", dialects=("chat", "gemini")),
    "demo-overrun-mapped": _overrun("told in a word the operator has mapped", word="eos", dialects=CHAT),
    "demo-tool": Script(says="calls a tool, and says so", tool=True, text=4, cap="kept", ends="tool_calls"),
    "demo-filter": Script(says="stopped early by a content filter", text=4, ends="content_filter"),
    "demo-odd-word": Script(
        says="ends with a word nobody knows", word="tired", dialects=("chat", "messages", "gemini")
    ),
    "demo-no-word": Script(says="ends without any finish word", ends="missing"),
    # ---- usage, on which the cap is judged
    "demo-usage-late": _overrun("the usage half a second late", usage="late", late=0.5, dialects=CHAT),
    "demo-usage-too-late": _overrun("the usage three seconds late", usage="late", late=3.0, dialects=CHAT),
    "demo-usage-on-finish": _overrun("the usage on the finish frame", usage="with_finish", dialects=CHAT),
    "demo-usage-never": _overrun("without any usage", usage="never", dialects=("chat", "responses", "gemini")),
    # ---- the thinking cap; llama.cpp's control path ends the thinking of a chat stream
    "demo-thinker": _thinker("thinks without end until it is told to answer"),
    "demo-thinker-brief": _thinker("thinks 12 tokens and answers", thinks=12),
    "demo-stubborn": _thinker("agrees to end its thinking, and thinks on", control="ignores"),
    "demo-defiant": _thinker("refuses to end its thinking", control="refuses"),
    "demo-deaf": _thinker("never answers the call to end its thinking", control="hangs"),
    "demo-moot": _thinker("answers by itself just when it is told to", thinks=64, control="too_late"),
    "demo-dropped": Script(
        says="thinks without end; nobody can end it",
        thinks=ENDLESS,
        cap="kept",
        dialects=("responses", "messages", "gemini"),
    ),
    "demo-watched": Script(says="thinks 200 tokens; nobody can end it", thinks=200, text=24),
    "demo-reasoning-only": Script(says="thinks, and answers nothing", thinks=32, text=0),
    # ---- thinking levels
    "demo-level": _refuses("as Gemini does", "gemini", "gemini", "chat"),
    "demo-level-vertex": _refuses("as Vertex does", "vertex", "gemini"),
    "demo-level-adapter": _refuses("that an adapter put in", "vertex", "gemini", "chat", adapter="minimal"),
    "demo-level-openai": _refuses("as OpenAI does", "openai", "chat", "responses"),
    "demo-level-anthropic": _refuses(
        "as Anthropic does", "anthropic", "messages", takes=("low", "medium", "high", "max")
    ),
    "demo-level-groq": _refuses("as Groq does", "groq", "chat"),
    "demo-level-vllm": _refuses("as vLLM does, with a 500", "vllm", "chat", takes=("low", "medium", "xhigh")),
    "demo-level-in-200": _refuses("in the first event of a 200 stream", "openai", "chat", in_200=True),
    "demo-level-stuck": _refuses("all of them", "gemini", "gemini", "chat", takes=()),
    # ---- errors
    "demo-invalid": Script(says="400", fault=Fault(status=400, message="The request is not valid.")),
    "demo-busy": Script(
        says="429 with Retry-After", fault=Fault(status=429, message="Too many requests.", retry_after=7)
    ),
    "demo-broken": Script(says="500", fault=Fault()),
    "demo-down": Script(says="503", fault=Fault(status=503, message="The model is overloaded.")),
    "demo-html": Script(says="a 502 page for people", fault=Fault(said="html", status=502)),
    "demo-error-in-200": Script(says="an error inside a 200", fault=Fault(said="in_200", message="Overloaded")),
    "demo-cut": Script(says="the connection breaks in the middle", fault=Fault(said="cut")),
}
"""The models the server has."""

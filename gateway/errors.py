"""The errors of the gateway's own.

ThinkcapError
|- SettingsError             the start is refused: exit 2, file and key path said
|  `- SettingsErrors         everything that is wrong with one file, a line each
`- CallError                 one call, answered in the shape of its dialect
   |- BadRequest             400 bad_request
   |- UnsupportedLevel       400 unsupported_reasoning_effort
   |- Unauthorized           401 unauthorized
   |- NotFound               404 not_found
   |- RequestTimeout         408 request_timeout
   |- BodyTooLarge           413 body_too_large
   |- ThinkingOverrun        502 thinking_overrun
   |- Overloaded             503 overloaded
   |- Draining               503 draining
   `- UpstreamError          its `fault` is the label of thinkcap_upstream_errors_total
      |- UpstreamUnreachable 502 upstream_unreachable     faults connect, tls
      |- UpstreamBroken      502 upstream_protocol_error  faults reset, protocol
      `- UpstreamTimeout     504 upstream_timeout         fault timeout
"""

from collections.abc import Sequence
from typing import ClassVar

from gateway.words import Outcome, UpstreamFault


class ThinkcapError(Exception):
    """Anything Thinkcap raises on purpose."""


class SettingsError(ThinkcapError):
    """A setting that stops the start. `path` is the key path (`upstreams.google.kind`), "" for the file as a whole."""

    def __init__(self, path: str, problem: str, *, allowed: str = "", file: str = "") -> None:
        """Say where, what is wrong, and what is allowed."""
        self.path, self.problem, self.allowed, self.file = path, problem, allowed, file
        super().__init__(str(self))

    def __str__(self) -> str:
        """One line: file, key path, problem, what is allowed."""
        where = ": ".join(part for part in (self.file, self.path) if part)
        return f"{where}: {self.problem}" + (f" (allowed: {self.allowed})" if self.allowed else "")


class SettingsErrors(SettingsError):
    """All that is wrong with one file. `problems` has one or more; `path`, `problem`, `allowed` are the first one's."""

    def __init__(self, problems: Sequence[SettingsError]) -> None:
        """Take the problems in the order they are to be said."""
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.path, first.problem, allowed=first.allowed, file=first.file)

    def __str__(self) -> str:
        """One line per problem."""
        return "\n".join(str(problem) for problem in self.problems)


class CallError(ThinkcapError):
    """One call cannot be answered by an upstream. The message is for the caller and names the field."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    outcome: ClassVar[Outcome] = "refused"
    retry_after: ClassVar[int | None] = None

    def __init__(self, message: str) -> None:
        """Take the message for the caller."""
        self.message = message
        super().__init__(message)


class BadRequest(CallError):
    """The request is not what the dialect says."""

    status, code = 400, "bad_request"


class UnsupportedLevel(CallError):
    """The setting `undeclared_level = "refuse"` forbids the level; deliberate, so never re-issued."""

    status, code = 400, "unsupported_reasoning_effort"


class Unauthorized(CallError):
    """No gateway key, or one nobody knows."""

    status, code = 401, "unauthorized"


class NotFound(CallError):
    """No such path, or no upstream speaks its dialect."""

    status, code = 404, "not_found"


class RequestTimeout(CallError):
    """The caller stopped sending in the middle of its request."""

    status, code = 408, "request_timeout"


class BodyTooLarge(CallError):
    """Above `server.max_body_bytes`."""

    status, code = 413, "body_too_large"


class ThinkingOverrun(CallError):
    """The model did not stop thinking: the call was given up."""

    status, code, outcome = 502, "thinking_overrun", "thinking_overrun"


class Overloaded(CallError):
    """Above `server.max_inflight`."""

    status, code, outcome, retry_after = 503, "overloaded", "overloaded", 1


class Draining(CallError):
    """The process is about to end."""

    status, code, outcome, retry_after = 503, "draining", "overloaded", 1


class InternalError(CallError):
    """A fault of the gateway's own that nobody foresaw."""

    status, code, outcome = 500, "internal_error", "refused"


class UpstreamError(CallError):
    """The upstream could not be reached, broke off, or was silent too long."""

    outcome: ClassVar[Outcome] = "upstream_error"

    def __init__(self, message: str, fault: UpstreamFault) -> None:
        """Take the message for the caller and the label for the counter."""
        super().__init__(message)
        self.fault: UpstreamFault = fault


class UpstreamUnreachable(UpstreamError):
    """No connection."""

    status, code = 502, "upstream_unreachable"


class UpstreamBroken(UpstreamError):
    """The connection broke, or what came over it was no HTTP, no gzip, no event."""

    status, code = 502, "upstream_protocol_error"


class UpstreamTimeout(UpstreamError):
    """A time limit of the upstream's settings passed."""

    status, code, outcome = 504, "upstream_timeout", "timeout"

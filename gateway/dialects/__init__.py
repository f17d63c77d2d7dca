"""The dialects: each a table of facts on top, then a few methods; no state, no I/O. One line here registers one."""

from typing import Final

from gateway.dialects.base import Dialect
from gateway.dialects.chat import Chat
from gateway.dialects.gemini import Gemini
from gateway.dialects.messages import Messages
from gateway.dialects.responses import Responses
from gateway.words import DialectName

DIALECTS: Final[dict[DialectName, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        Chat(),
        Responses(),
        Messages(),
        Gemini(),
    )
}

"""Reads any provider's error as the refusal of a thinking level, or as none.

By structure, not by sentence: which field is blamed, which level is named, which levels are offered, and what was sent.

    text blames another field, code or combination        no refusal (the near misses)
    level sent, and it alone is named                     refusal of it
    level sent, none named, level field and a list        refusal of it
    level sent, the template's own sentence names another refusal of the one sent (an adapter rewrote it)
    none sent, one level and a level field named          refusal of the one named
    what would be refused stands in the list              no refusal
    no list, and the sentence says more than "refused"    no refusal (`in batch mode`: a condition)

A refusal that is missed costs nothing but the retry; a false one would change what nobody refused. So doubt means no.
"""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from gateway.calls import Sent
from gateway.deltas import Refusal
from gateway.rules.envelopes import LIMIT, Said, open_envelope
from gateway.rules.wordings import (
    DELIBERATE,
    FIELD,
    GENERIC,
    IDENTIFIER,
    LEVEL_IN_PROSE,
    MODEL,
    MODES,
    NAMED,
    NOISE,
    OFF,
    OFFER,
    OTHER_CODE,
    OTHER_FAULT,
    OTHER_MODE,
    PLAIN_WORDS,
    QUOTED,
    REFUSES,
    TEMPLATE,
    anonymous,
    plain,
)
from gateway.words import LADDER, Level, level_of

_STATUSES: Final = frozenset((200, 400, 422, 500))
_MOST_TEXT, _PATTERN_TEXT = 12_288, 1_024
_FIELD: Final = re.compile(FIELD, re.IGNORECASE | re.ASCII)
_SENTENCE: Final = re.compile(r"(?<=[.;!?]) +|\u2029")
_BETWEEN_TEXTS: Final = "\u2029"
_MARK: Final = "\u00a7"
"""Stands in a text where a list of levels was."""
_ANAPHORA: Final = re.compile(r"(?:it|this|that) ", re.IGNORECASE)
_TOKEN: Final = re.compile(r"\w+(?:\.\w+)*", re.ASCII)
_GAP: Final = re.compile(r"[\s,|/'\[\](){}<>:=&\\、\uff0c或和-]{0,24}")
_CLOSING: Final = re.compile(r"[')\]>]{0,4}")
_WORD: Final = re.compile(r"[\w/@-]+(?:\.[\w/@-]+)*")
_CLAUSE: Final = re.compile(r"[:,(] |- ")
_AFTER_MODEL: Final = re.compile(r"(?<=\bmodel )[\w./:@-]{1,80}")
_LEVEL_FIELDS: Final = frozenset((
    "effort", "reasoningeffort", "thinkinglevel", "thinkingbudget", "thinkingconfig", "reasoning", "thinking", "think",
    "enablethinking", "reasoningstrength",
))  # fmt: skip
_NO_FIELDS: Final = frozenset(("validation_error", "body", "none", "null", "unknown", "request"))
_HISTORY: Final = ("messages", "input", "contents")
_WILDCARDS: Final = 2


def read_refusal(status: int, body: bytes, sent: Sent, extra: tuple[re.Pattern[str], ...] = ()) -> Refusal | None:
    """What the upstream refused; None when this error is about anything else.

    `status` is the answer's own; for an error event of a stream it is 200 and `body` the event's data. `sent` is what
    the very body says that was refused. `extra` are the operator's patterns: they win over every doubt but the code of
    a deliberate refusal.
    """
    if status not in _STATUSES or len(body) > LIMIT:
        return None
    said = open_envelope(body)
    if DELIBERATE in said.codes or (status == 200 and not said.is_error):  # noqa: PLR2004 - an error inside a good answer
        return None
    by_operator = _by_operator(said, sent, extra) if extra and status != 500 else None  # noqa: PLR2004 - see TEMPLATE
    return by_operator or _by_wording(status, said, sent)


def _by_operator(said: Said, sent: Sent, extra: tuple[re.Pattern[str], ...]) -> Refusal | None:
    raw = "\n".join(said.strings)[:_PATTERN_TEXT]
    text = plain(raw)
    for pattern in extra:
        found = pattern.search(raw) or pattern.search(text)
        if found is None:
            continue
        if not pattern.groups:
            return Refusal(level=sent.levels[0] if sent.levels else None, first_declared=True)
        level = level_of(found[1] or "")
        if level is not None and (level in sent.levels or not sent.levels):
            _, listed, _ = _take_lists(text)
            return Refusal(level=level, listed=tuple(step for step in listed if step != level) or None)
    return None


class _Reading(Struct, frozen=True):
    """The text of an error as the rule looks at it."""

    named: frozenset[Level]
    listed: tuple[Level, ...]
    field: str | None
    refuses: bool
    """A sentence that names the level, or the field, refuses; the list is an obligation."""
    is_plain: bool
    """A sentence refuses the level and says nothing else: without a list there must be one."""
    prose: bool
    """It offers levels or speaks of a level, in plain words: enough where no field is named."""
    template: bool


def _by_wording(status: int, said: Said, sent: Sent) -> Refusal | None:
    reading = _read(status, said, sent.model)
    if reading is None:
        return None
    level = _refused(reading, sent)
    if level is None:
        return None
    if level in reading.listed and not reading.template:
        return None  # whatever is wrong, it is not this level
    listed = tuple(step for step in reading.listed if step != level)
    return Refusal(level=level, listed=listed or None, field=reading.field)


def _refused(reading: _Reading, sent: Sent) -> Level | None:
    """Condition 3: the level that was refused, as far as what was sent bears it out."""
    if not reading.refuses or not (reading.listed or reading.is_plain):
        return None
    if not sent.levels:
        return next(iter(reading.named)) if len(reading.named) == 1 and reading.field else None
    if len(reading.named) > 1:
        return None
    for level in reading.named & frozenset(sent.levels):
        return level if reading.field or (reading.prose and level not in sent.elsewhere) else None
    if reading.template and reading.named and sent.levels[0] in _above(next(iter(reading.named))):
        return sent.levels[0]  # an adapter had clamped it
    return sent.levels[0] if not reading.named and reading.field and reading.listed else None


def _above(level: Level) -> tuple[Level, ...]:
    return LADDER[LADDER.index(level) + 1 :]


def _read(status: int, said: Said, model: str) -> _Reading | None:
    """The reading of an error that may be about a level; None when it is about something else."""
    texts = [anonymous(plain(part), model) for part in said.texts]
    text = _BETWEEN_TEXTS.join(texts)
    template = TEMPLATE.search(text)
    if not text or "\0" in text or len(text) > _MOST_TEXT:
        return None
    if status in (200, 500) and not template and any(_other_status(code) for code in said.codes):
        return None
    if status == 500 and not template:  # noqa: PLR2004 - the one sentence that counts there
        return None
    blamed = _blamed(said)
    if blamed is None or any(OTHER_CODE.search(code) for code in said.codes):
        return None
    if not all(isinstance(value, str) and level_of(value) for value in said.inputs):
        return None  # the word sent is no level at all
    if len(texts) > 1 and any(_complains_of_another(part) for part in texts):
        return None
    bare, listed, sound = _take_lists(MODEL.sub("a model", text))
    if not sound or OTHER_FAULT.search(bare) or _names_another(bare):
        return None
    return _weigh(text, bare, listed, said, blamed)


def _complains_of_another(text: str) -> bool:
    """Whether a text refuses something without any word of levels; a mere headline refuses nothing."""
    about_levels = _FIELD.search(text) or NAMED.search(text) or OFF.search(text)
    return not about_levels and REFUSES.search(text) is not None and not GENERIC.search(text)


def _weigh(text: str, bare: str, listed: tuple[Level, ...], said: Said, blamed: str) -> _Reading:
    """Which sentence names what. `bare` is the text with a mark where each list was."""
    sentences, template = _SENTENCE.split(bare), TEMPLATE.search(text) is not None
    prose = (bool(listed) and not OTHER_MODE.search(text)) or LEVEL_IN_PROSE.search(bare) is not None
    named = {level for value in said.inputs if isinstance(value, str) and (level := level_of(value))}
    field, refuses, is_plain = blamed, False, False
    for sentence, following in zip(sentences, [*sentences[1:], ""], strict=True):
        here = set(_named(sentence))
        spoken = _FIELD.search(sentence) or OFF.search(sentence)
        named |= here
        prose = prose and (not here or _all_plain(sentence))
        field = field or (spoken[0].strip("' ") if spoken else "")
        if here or spoken or blamed:
            near = f"{sentence} {following}" if _MARK in following or _ANAPHORA.match(following) else sentence
            refuses = refuses or REFUSES.search(near) is not None
        is_plain = is_plain or _is_plain(sentence)
    return _Reading(frozenset(named), listed, field or None, refuses, is_plain, prose, template)


def _is_plain(text: str) -> bool:
    """Whether a sentence says that a level is refused, and from there on nothing that is not part of saying so."""
    if OFF.search(text):
        return True
    refuses, level = REFUSES.search(text), NAMED.search(text)
    if refuses is None or level is None:
        return False
    subject = _CLAUSE.split(text[: min(refuses.start(), level.start())])[-1] if refuses.start() < level.start() else ""
    return _all_plain(subject + text[min(refuses.start(), level.start()) :])


def _all_plain(text: str) -> bool:
    return all(_says_nothing_new(word) for word in _WORD.findall(_AFTER_MODEL.sub(" ", text)))


def _says_nothing_new(word: str) -> bool:
    lower = word.lower()
    is_name = any(sign.isdigit() for sign in lower)  # a model's: gpt-5.1
    known = all(step in PLAIN_WORDS or step in NOISE or level_of(step) is not None for step in lower.split("."))
    return is_name or known or level_of(lower) is not None or not word.isascii()


def _named(text: str) -> Iterator[Level]:
    """The levels a sentence names outside its lists; `off` also by what it says (`cannot be disabled`)."""
    words = (found[found.lastindex or 0] for found in NAMED.finditer(text))
    yield from (level for word in words if (level := level_of(word)) is not None)
    if OFF.search(text):
        yield "off"


def _take_lists(text: str) -> tuple[str, tuple[Level, ...], bool]:
    """The text with a mark for every list of levels, the levels offered, and whether all lists agree."""
    lists: list[frozenset[Level]] = []
    parts: list[str] = []
    done = 0
    offer = OFFER.search(text)
    while offer is not None:
        end, levels = _list_at(text, offer.end())
        following = OFFER.search(text, end if levels else offer.end())
        if levels:
            lists.append(levels)
            parts += (text[done : offer.end()], f" {_MARK} ")
            done = end
        offer = following
    parts.append(text[done:])
    ladder = tuple(level for level in LADDER if lists and level in lists[0])
    return "".join(parts), ladder, len(set(lists)) < 2  # noqa: PLR2004 - no two that differ


def _list_at(text: str, start: int) -> tuple[int, frozenset[Level]]:
    """The list that begins here, up to the first word that is no value. A single bare word is none."""
    at, end, levels, marked = start, start, set[Level](), False
    for _ in range(32):
        gap = _GAP.match(text, at)
        token = _TOKEN.match(text, gap.end() if gap else at)
        if gap is None or token is None:
            break
        word = token[0].lower().rpartition(".")[2]
        level = level_of(word)
        if level is None and word not in MODES and word not in ("and", "or", "either"):
            break
        at = token.end()
        if level is not None:
            levels.add(level)
            marked = marked or any(sign in gap[0] for sign in "'[:")
            end = at
        elif word in MODES:
            end = at
    closing = _CLOSING.match(text, end)
    return (closing.end() if closing else end, frozenset(levels)) if marked or len(levels) > 1 else (start, frozenset())


def _blamed(said: Said) -> str | None:
    """The level field the error blames; "" when it blames none, None when it blames another one."""
    level_field = ""
    for field in said.fields:
        steps = [step for step in re.split(r"[.\[\]/*]+", field.lower()) if step not in ("", "body", "value", "str")]
        if not steps or field.lower() in _NO_FIELDS:
            continue
        last = steps[-1].replace("_", "")
        if last in ("type", "enabled", "level") and len(steps) > 1:
            last = steps[-2]
        if last not in _LEVEL_FIELDS or (steps[0] in _HISTORY and last != "effort"):
            return None
        level_field = level_field or field
    return level_field


def _other_status(code: str) -> bool:
    """A status told inside a good answer that is no refusal of the request."""
    return code.isascii() and code.isdigit() and len(code) == 3 and code not in ("200", "400", "422")  # noqa: PLR2004


def _names_another(text: str) -> bool:
    """Whether a field is named that has to do with no level, or a quoted word that is neither field nor level."""
    found = [match[1].lower() for match in IDENTIFIER.finditer(text)]
    found += [match[1].lower() for match in QUOTED.finditer(text) if not any(sign.isdigit() for sign in match[1])]
    return "level" in found or any(
        step not in NOISE and level_of(step) is None for name in found for step in name.split(".")
    )

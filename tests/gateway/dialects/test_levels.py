"""Where thinking levels sit: read from every place of every dialect, rewritten there and nowhere else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls import NO_LEVEL_SENT, Sent
from gateway.dialects.levels import level_in, read_level, read_sent, write_level
from gateway.dialects.places import FIELDS, SWITCHES, Path
from gateway.words import DIALECTS, LADDER, DialectName, Level

GEMINI = '{"generationConfig": {"thinkingConfig": {%s}}}'

PLACES: list[tuple[str, DialectName, str, Level, str]] = [
    ("OpenAI", "chat", '{"reasoning_effort": "minimal"}', "minimal", '{"reasoning_effort": "low"}'),
    ("none is off", "chat", '{"reasoning_effort":"none"}', "off", '{"reasoning_effort":"low"}'),
    ("LiteLLM's object", "chat", '{"reasoning_effort":{"effort":"max","summary":"auto"}}', "max",
     '{"reasoning_effort":{"effort":"low","summary":"auto"}}'),
    ("OpenRouter", "chat", '{"reasoning":{"effort":"xhigh","exclude":true}}', "xhigh",
     '{"reasoning":{"effort":"low","exclude":true}}'),
    ("OpenRouter off", "chat", '{"reasoning":{"enabled":false}}', "off", '{"reasoning":{"enabled":true,"effort":"low"}}'),
    ("template argument", "chat", '{"chat_template_kwargs":{"reasoning_effort":"high","x":1.0}}', "high",
     '{"chat_template_kwargs":{"reasoning_effort":"low","x":1.0}}'),
    ("template off", "chat", '{"chat_template_kwargs":{"enable_thinking":false}}', "off",
     '{"chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"low"}'),
    ("the other template off", "chat", '{"chat_template_kwargs":{"thinking":false}}', "off",
     '{"chat_template_kwargs":{"thinking":true},"reasoning_effort":"low"}'),
    ("DashScope off", "chat", '{"enable_thinking":false}', "off", '{"enable_thinking":true,"reasoning_effort":"low"}'),
    ("Z.ai and DeepSeek off", "chat", '{"thinking":{"type":"disabled"},"n":1}', "off",
     '{"thinking":{"type":"enabled"},"n":1,"reasoning_effort":"low"}'),
    ("DeepSeek with a level", "chat", '{"thinking":{"type":"enabled"},"reasoning_effort":"max"}', "max",
     '{"thinking":{"type":"enabled"},"reasoning_effort":"low"}'),
    ("Ollama", "chat", '{"think":"max"}', "max", '{"think":"low"}'),
    ("Ollama off", "chat", '{"think":false}', "off", '{"think":"low"}'),
    ("Google by OpenAI's SDK", "chat", '{"google":{"thinking_config":{"thinking_level":"minimal"}}}', "minimal",
     '{"google":{"thinking_config":{"thinking_level":"low"}}}'),
    ("Google in extra_body, capitals", "chat", '{"extra_body":{"google":{"thinking_config":{"thinking_level":"MINIMAL"}}}}',
     "minimal", '{"extra_body":{"google":{"thinking_config":{"thinking_level":"LOW"}}}}'),
    ("Google's budget 0", "chat", '{"google":{"thinking_config":{"include_thoughts":true,"thinking_budget":0}}}', "off",
     '{"google":{"thinking_config":{"include_thoughts":true,"thinking_level":"low"}}}'),
    ("two places", "chat", '{"reasoning_effort":"minimal","chat_template_kwargs":{"reasoning_effort":"minimal","note":"minimal"}}',
     "minimal", '{"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"low","note":"minimal"}}'),
    ("responses", "responses", '{"reasoning":{"effort":"minimal","summary":"auto"},"text":{"verbosity":"high"}}', "minimal",
     '{"reasoning":{"effort":"low","summary":"auto"},"text":{"verbosity":"high"}}'),
    ("the last configuration update", "responses",
     ('{"reasoning":{"effort":"high"},"input":[{"type":"configuration_update","reasoning":{"effort":"max"}},"text",'
      '{"role":"user","content":"effort"},{"type":"configuration_update","reasoning":{"effort":"none"}}]}'), "off",
     ('{"reasoning":{"effort":"low"},"input":[{"type":"configuration_update","reasoning":{"effort":"low"}},"text",'
      '{"role":"user","content":"effort"},{"type":"configuration_update","reasoning":{"effort":"low"}}]}')),
    ("messages", "messages", '{"max_tokens":9,"output_config":{"effort":"xhigh","format":null}}', "xhigh",
     '{"max_tokens":9,"output_config":{"effort":"low","format":null}}'),
    ("messages off", "messages", '{"thinking":{"type":"disabled"},"max_tokens":9}', "off",
     '{"max_tokens":9,"output_config":{"effort":"low"}}'),
    ("between tools", "messages", '{"max_tokens":9,"thinking":{"type":"between_tools"}}', "off",
     '{"max_tokens":9,"output_config":{"effort":"low"}}'),
    ("a system message", "messages",
     ('{"output_config":{"effort":"high"},"messages":[{"role":"user","output_config":{"effort":"max"},"content":"a"},'
      '{"role":"system","content":[],"output_config":{"effort":"xhigh"}}]}'), "xhigh",
     ('{"output_config":{"effort":"low"},"messages":[{"role":"user","output_config":{"effort":"max"},"content":"a"},'
      '{"role":"system","content":[],"output_config":{"effort":"low"}}]}')),
    ("Gemini", "gemini", GEMINI % '"thinkingLevel": "MINIMAL"', "minimal", GEMINI % '"thinkingLevel": "LOW"'),
    ("Gemini in small letters", "gemini", GEMINI % '"thinkingLevel": "minimal"', "minimal", GEMINI % '"thinkingLevel": "low"'),
    ("Gemini, first letter large", "gemini", GEMINI % '"thinkingLevel": "Minimal"', "minimal", GEMINI % '"thinkingLevel": "Low"'),
    ("Vertex", "gemini", GEMINI % '"thinkingLevel": "THINKING_LEVEL_MINIMAL"', "minimal",
     GEMINI % '"thinkingLevel": "THINKING_LEVEL_LOW"'),
    ("snake case", "gemini", '{"generation_config":{"thinking_config":{"thinking_level":"HIGH"}}}', "high",
     '{"generation_config":{"thinking_config":{"thinking_level":"LOW"}}}'),
    ("Gemini budget 0", "gemini", '{"generationConfig":{"thinkingConfig":{"thinkingBudget":0,"includeThoughts":true}}}', "off",
     '{"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"LOW"}}}'),
    ("snake case budget 0", "gemini", '{"generation_config":{"thinking_config":{"thinking_budget":0}}}', "off",
     '{"generation_config":{"thinking_config":{"thinking_level":"LOW"}}}'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "body", "level", "written"), [pytest.param(*row[1:], id=f"{row[1]}: {row[0]}") for row in PLACES]
)
def test_a_place_is_read_and_rewritten(dialect: DialectName, body: str, level: Level, written: str) -> None:
    """The level is read, and `low` written, in the spelling of the place; every other byte stays."""
    assert read_level(dialect, body.encode()) == level
    assert read_sent(dialect, body.encode()).levels[0] == level
    assert write_level(dialect, body.encode(), "low").decode() == written
    assert read_sent(dialect, written.encode()).levels == ("low",)


@pytest.mark.parametrize(
    ("dialect", "body", "written"),
    [
        pytest.param("chat", '{ "n" : 1 }', '{ "n" : 1,"reasoning_effort":"low" }', id="chat"),
        pytest.param("chat", '{"reasoning_effort":null}', '{"reasoning_effort":"low"}', id="chat with a null"),
        pytest.param("chat", '{"reasoning_effort":"auto"}', '{"reasoning_effort":"low"}', id="chat with a mode"),
        pytest.param("responses", '{"input":"a"}', '{"input":"a","reasoning":{"effort":"low"}}', id="responses"),
        pytest.param("responses", '{"reasoning":{"summary":"auto"}}', '{"reasoning":{"summary":"auto","effort":"low"}}', id="beside a summary"),
        pytest.param("messages", '{"max_tokens":9}', '{"max_tokens":9,"output_config":{"effort":"low"}}', id="messages"),
        pytest.param("messages", '{"thinking":{"type":"adaptive"}}', '{"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}', id="adaptive"),
        pytest.param("gemini", '{"contents":[]}', '{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}}', id="gemini"),
        pytest.param("gemini", '{"generation_config":{"top_k":1}}', '{"generation_config":{"top_k":1,"thinking_config":{"thinking_level":"LOW"}}}', id="gemini in snake case"),
        pytest.param("gemini", GEMINI % '"includeThoughts":true', GEMINI % '"includeThoughts":true,"thinkingLevel":"LOW"', id="gemini with a configuration"),
        pytest.param("gemini", GEMINI % '"thinkingBudget":512', GEMINI % '"thinkingLevel":"LOW"', id="never beside a budget"),
    ],
)  # fmt: skip
def test_where_no_place_carries_a_level_the_primary_field_is_added(
    dialect: DialectName, body: str, written: str
) -> None:
    """Condition 3: the reported case, in every dialect."""
    assert read_level(dialect, body.encode()) is None
    assert write_level(dialect, body.encode(), "low").decode() == written


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        pytest.param("chat", {"reasoning_effort": "default"}, id="Groq's mode"),
        pytest.param("chat", {"reasoning_effort": "ultra"}, id="an unknown word"),
        pytest.param("chat", {"reasoning_effort": "__proto__"}, id="a hostile word"),
        pytest.param("chat", {"reasoning_effort": 3}, id="a number"),
        pytest.param("chat", {"reasoning_effort": ""}, id="nothing"),
        pytest.param("chat", {"enable_thinking": 0}, id="zero is not false"),
        pytest.param("chat", {"enable_thinking": True}, id="thinking on"),
        pytest.param("chat", {"thinking": {"type": "enabled"}}, id="thinking enabled"),
        pytest.param("chat", {"thinking": "disabled"}, id="no object"),
        pytest.param("chat", {"messages": [{"reasoning_effort": "low"}]}, id="inside the conversation"),
        pytest.param("chat", {"text": {"verbosity": "low"}}, id="another setting"),
        pytest.param("responses", {"input": [{"type": "message", "reasoning": {"effort": "low"}}]}, id="another item"),
        pytest.param("messages", {"thinking": {"type": "enabled", "budget_tokens": 2048}}, id="a budget"),
        pytest.param("messages", {"messages": [{"role": "user", "output_config": {"effort": "low"}}]}, id="a user's"),
        pytest.param("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}, id="dynamic"),
        pytest.param("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": False}}}, id="false is not 0"),
        pytest.param("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}}},
                     id="unspecified"),
        pytest.param("gemini", {"generationConfig": []}, id="a list"),
    ],
)  # fmt: skip
def test_what_is_no_level_is_none(dialect: DialectName, body: dict[str, Any]) -> None:
    """Modes, budgets, unknown words and words of the conversation are no level sent."""
    assert read_level(dialect, json.dumps(body).encode()) is None
    assert read_sent(dialect, json.dumps(body).encode()).levels == ()


EVERYWHERE = [
    *((dialect, path, "high", "high") for dialect, paths in FIELDS.items() for path in paths),
    *((dialect, one.path, one.off, "off") for dialect, switches in SWITCHES.items() for one in switches),
]


@pytest.mark.parametrize(
    ("dialect", "path", "value", "level"),
    [pytest.param(*row, id=f"{row[0]} {'.'.join(map(str, row[1]))} {row[2]}") for row in EVERYWHERE],
)
def test_no_field_is_overlooked(dialect: DialectName, path: Path, value: object, level: Level) -> None:
    """Whether there is a level at all is found out by searching for a few bytes, and each field has some of them."""
    body = value
    for step in reversed(path):
        body = {step: body}
    assert level_in(dialect, json.dumps(body).encode()) == level


def test_words_of_other_settings_are_told() -> None:
    """`low` as a verbosity makes a refusal of `low` doubtful; the conversation and tools do not."""
    body = {
        "reasoning": {"effort": "minimal", "summary": "high"},
        "text": {"verbosity": "low"},
        "input": [{"content": "max"}],
        "tools": [{"enum": ["xhigh"]}],
    }
    assert read_sent("responses", json.dumps(body).encode()) == Sent(
        levels=("minimal",), elsewhere=frozenset({"low", "high"})
    )
    assert read_sent("responses", b'{"reasoning":{"effort":"minimal"}}') == Sent(levels=("minimal",))


def test_several_levels_are_told_in_order() -> None:
    """The one that counts first."""
    body = b'{"output_config":{"effort":"low"},"thinking":{"type":"disabled"}}'
    assert read_sent("messages", body).levels == ("low", "off")


def test_an_effort_beside_disabled_thinking_is_replaced_alone() -> None:
    """Thinking is turned on only where `off` is what was refused."""
    body = b'{"output_config":{"effort":"max"},"thinking":{"type":"disabled"}}'
    alone = b'{"output_config":{"effort":"low"},"thinking":{"type":"disabled"}}'
    assert write_level("messages", body, "low") == alone
    assert write_level("messages", body, "low", refused="max") == alone
    assert write_level("messages", body, "low", refused="off") == b'{"output_config":{"effort":"low"}}'


def test_the_rest_of_the_body_survives() -> None:
    """Numbers as they are spelt, order, spaces, unknown fields, escapes."""
    body = '{ "z": 1.0e+2,"big": 12345678901234567890123 ,"reasoning_effort"\n: "minimal", "s":"\\u00e9\\/ minimal" }'
    assert write_level("chat", body.encode(), "high").decode() == body.replace('"minimal",', '"high",')


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b'"x"', b"[" * 100_000],
    ids=["nothing", "a list", "cut", "no text", "text", "deep"],
)
def test_what_is_no_request_carries_nothing(dialect: DialectName, body: bytes) -> None:
    """Reading is total."""
    assert read_level(dialect, body) is None
    assert read_sent(dialect, body) == NO_LEVEL_SENT


def test_a_way_that_is_barred_leaves_the_body_as_it_is() -> None:
    """Where a parent is no object there is nowhere to write."""
    body = b'{"generationConfig":[]}'
    assert write_level("gemini", body, "low") == body


KEYS = """
reasoning_effort reasoning effort thinking type enabled output_config generationConfig thinkingConfig thinkingBudget
thinkingLevel messages input role think
"""
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["low", "none", "disabled", "MAX", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4),
    max_leaves=20,
)


@given(
    body=st.dictionaries(
        st.sampled_from(["reasoning_effort", "reasoning", "thinking", "output_config", "generationConfig"]), json_values
    ),
    dialect=st.sampled_from(DIALECTS),
    level=st.sampled_from(LADDER[1:]),
)
def test_what_was_written_is_read_again(body: dict[str, Any], dialect: DialectName, level: Level) -> None:
    """Whatever the body, afterwards it carries the level, and at most the `off` it had beside it, or it is as it was."""
    text = json.dumps(body).encode()
    written = write_level(dialect, text, level)
    if written != text:
        assert read_sent(dialect, written).levels in ((level,), (level, "off"))

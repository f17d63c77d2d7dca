"""Settings: what they hold, what follows from them, and what does not fit together."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Literal

import msgspec
import pytest

from gateway.config import TRAITS, Secret, ThinkingSettings, Upstream, default_settings, parse_settings
from gateway.config.reading import Reader, Table
from gateway.config.values import Levels, Pattern, Port
from gateway.errors import SettingsError, SettingsErrors
from gateway.words import DIALECTS, UPSTREAM_KINDS, DialectName, Method, UpstreamKind

UP = '[upstreams.up]\nurl = "http://127.0.0.1:1"\ndialects = ["chat"]\n'
"""The least that is a settings file; further lines go into the upstream's table or start another."""


def problems_of(text: str, environ: Mapping[str, str] | None = None) -> list[SettingsError]:
    """What is said to be wrong with a text that must not pass."""
    with pytest.raises(SettingsErrors) as caught:
        parse_settings(text, environ or {}, file="t.toml")
    return list(caught.value.problems)


def test_any_raw_word_can_be_mapped() -> None:
    """Raw words are the provider's, `other` and `stop` among them."""
    settings = parse_settings(UP + 'finish_reasons = { stop = "length", other = "stop", "a b" = "tool_calls" }', {})
    assert settings.upstreams["up"].finish_reasons == {"stop": "length", "other": "stop", "a b": "tool_calls"}


def test_a_key_comes_from_the_variable_that_is_named() -> None:
    """The variable's value is the upstream's key; spaces around it are none of it."""
    settings = parse_settings(UP + "api_key_env = 'UP_KEY'", {"UP_KEY": " s3cret\n"})
    key = settings.upstreams["up"].api_key
    assert key is not None
    assert key.reveal() == "s3cret"


def test_a_key_comes_from_the_file_that_is_named() -> None:
    """The file's text is the upstream's key; the line end is none of it."""
    asked = []

    def read(path: str) -> str:
        asked.append(path)
        return "s3cret\n"

    key = parse_settings(UP + "api_key_file = 'key.txt'", {}, read_file=read).upstreams["up"].api_key
    assert key is not None
    assert (key.reveal(), asked) == ("s3cret", ["key.txt"])


def test_without_either_there_is_no_key() -> None:
    """An upstream with no key of its own passes on the callers' credentials."""
    assert parse_settings(UP, {}).upstreams["up"].api_key is None


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        pytest.param({}, "the variable UP_KEY is empty or not there", id="not there"),
        pytest.param({"UP_KEY": " "}, "the variable UP_KEY is empty", id="empty"),
        pytest.param({"UP_KEY": "hunter2\r\nx-evil: 1"}, "the variable UP_KEY holds no credential", id="two lines"),
        pytest.param({"UP_KEY": "hunter2\N{BULLET}"}, "the variable UP_KEY holds no credential", id="beyond ASCII"),
    ],
)
def test_a_variable_without_a_usable_key_stops_the_start(environ: dict[str, str], says: str) -> None:
    """The name of the variable is said, what was in it is not."""
    (problem,) = problems_of(UP + "api_key_env = 'UP_KEY'", environ)
    assert problem.path == "upstreams.up.api_key_env"
    assert says in str(problem)
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        pytest.param(
            FileNotFoundError(2, "No such file or directory"),
            "the file cannot be read: No such file",
            id="no such file",
        ),
        pytest.param(UnicodeDecodeError("utf-8", b"hunter2\xff", 7, 8, "bad"), "it is no UTF-8 text", id="no text"),
    ],
)
def test_a_secret_file_that_cannot_be_read_stops_the_start(raised: Exception, says: str) -> None:
    """The path and the system's reason are said."""

    def read(_path: str) -> str:
        raise raised

    with pytest.raises(SettingsErrors) as caught:
        parse_settings(UP + "api_key_file = 'key.txt'", {}, read_file=read)
    assert caught.value.path == "upstreams.up.api_key_file"
    assert all(word in str(caught.value) for word in says.split("|"))
    assert "hunter2" not in str(caught.value)


def test_a_variable_whose_name_may_be_a_key_is_not_said() -> None:
    """Variables are in capitals; what is not may have been pasted in the wrong place."""
    (problem,) = problems_of(UP + "api_key_env = 'AIzaHunter2'")
    assert problem.path == "upstreams.up.api_key_env"
    assert problem.problem.startswith("the variable is empty or not there")
    assert "Hunter2" not in str(problem)


def test_a_secret_file_needs_somebody_who_reads_files() -> None:
    """Settings from a text alone cannot name files."""
    (problem,) = problems_of(UP + "api_key_file = 'key.txt'")
    assert (problem.path, problem.problem) == ("upstreams.up.api_key_file", "files cannot be read here")


def test_a_key_cannot_come_from_two_places() -> None:
    """Variable and file side by side are refused: nobody could say which is meant."""
    (problem,) = problems_of(UP + "api_key_env = 'K'\napi_key_file = 'k'", {"K": "x"})
    assert problem.path == "upstreams.up.api_key_file"


def test_a_secret_is_never_shown() -> None:
    """Neither printing nor formatting nor serialising the settings gives the key away."""
    settings = parse_settings(UP + "api_key_env = 'UP_KEY'", {"UP_KEY": "s3cret"})
    secret = settings.upstreams["up"].api_key
    assert "s3cret" not in f"{settings!r} {secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        msgspec.json.encode(settings)
    assert Secret("s3cret").reveal() == "s3cret"


def test_upstreams_and_models_keep_the_order_of_the_file() -> None:
    """The first upstream that speaks a dialect takes unlisted models, so order means something."""
    block = '[upstreams.{0}]\nurl = "http://{0}/"\ndialects = ["chat"]\n[models.{0}{0}]\nupstream = "a"\n'
    text = "".join(block.format(name) for name in "bca")
    settings = parse_settings(text, {})
    assert list(settings.upstreams) == ["b", "c", "a"]
    assert [model.name for model in settings.models.values()] == list(settings.models) == ["bb", "cc", "aa"]
    assert [(up.name, up.url) for up in settings.upstreams.values()] == [(n, f"http://{n}") for n in "bca"]


def test_levels_are_kept_in_the_order_of_the_ladder() -> None:
    """However they were written; none is another word for off; an empty list declares that there are none."""
    text = (
        UP + '[models]\nm = { upstream = "up", levels = ["high", "none", "low"] }\nn = { upstream = "up", levels = [] }'
    )
    models = parse_settings(text, {}).models
    assert models["m"].levels == ("off", "low", "high")
    assert models["n"].levels == ()


def test_patterns_are_compiled() -> None:
    """A good pattern is ready for use; a ceiling takes none for off like any level."""
    text = UP + '[level_fallback]\nextra_patterns = ["dial (\\\\w+) jammed"]\nceiling = { compaction = "none" }'
    fallback = parse_settings(text, {}).level_fallback
    assert [pattern.findall("the dial low jammed") for pattern in fallback.extra_patterns] == [["low"]]
    assert fallback.ceiling == {"compaction": "off"}


def test_the_fingerprint_is_that_of_the_text() -> None:
    """thinkcap_settings_info tells which text a process runs with."""
    assert parse_settings(UP, {}).sha256 == sha256(UP.encode()).hexdigest()


def test_every_configured_purpose_is_known_once() -> None:
    """Purposes are labels: conversation, those in scope, those with a ceiling, those that are recognised."""
    text = """
        purposes = [{ purpose = "a", path = "/x" }, { purpose = "d", model = "m" }]
        [level_fallback]
        purposes = ["b", "a"]
        ceiling = { c = "low" }
    """
    assert parse_settings(text + UP, {}).purpose_names == ("conversation", "b", "a", "c", "d")


@pytest.mark.parametrize(
    ("model", "cap", "overrun"),
    [
        pytest.param("none-set", 100, 10, id="a model that says nothing has the default"),
        pytest.param("not-listed", 100, 10, id="a model that is not listed has the default"),
        pytest.param("own-cap", 5, 10, id="a model's own cap wins"),
        pytest.param("own-grace", 100, 0, id="a model's own grace wins, zero too"),
        pytest.param("uncapped", 0, 10, id="zero takes a model out of the default cap"),
    ],
)
def test_a_models_thinking_cap_is_its_own_or_the_default(model: str, cap: int, overrun: int) -> None:
    """Cap and grace fall back to [thinking], each for itself."""
    text = UP + "[thinking]\ncap = 100\noverrun = 10\n" + "".join(
        f'[models.{name}]\nupstream = "up"\n{line}\n'
        for name, line in [
            ("none-set", ""),
            ("own-cap", "thinking_cap = 5"),
            ("own-grace", "thinking_overrun = 0"),
            ("uncapped", "thinking_cap = 0"),
        ]
    )  # fmt: skip
    assert parse_settings(text, {}).thinking_of(model) == ThinkingSettings(cap=cap, overrun=overrun)


def test_every_kind_has_traits() -> None:
    """The table of traits leaves no kind out, and all of them take a question for usage."""
    assert tuple(TRAITS) == UPSTREAM_KINDS
    assert all(traits.ask_usage for traits in TRAITS.values())
    assert [kind for kind, traits in TRAITS.items() if traits.enforces_cap] == ["llama.cpp"]
    assert [kind for kind, traits in TRAITS.items() if traits.per_frame] == ["llama.cpp", "vllm", "sglang"]


def upstream(kind: UpstreamKind, method: Method | None = None) -> Upstream:
    """An upstream of this kind that speaks everything."""
    return Upstream(name="up", url="http://a", kind=kind, dialects=DIALECTS, thinking_method=method)


@pytest.mark.parametrize(
    ("kind", "dialect", "methods"),
    [
        pytest.param("llama.cpp", "chat", ("control", "budget"), id="llama.cpp chat ends thinking or takes a budget"),
        pytest.param("llama.cpp", "messages", ("budget",), id="llama.cpp messages takes a budget"),
        pytest.param("llama.cpp", "responses", ("watch",), id="llama.cpp responses can only be watched"),
        pytest.param("vllm", "chat", ("budget",), id="vLLM takes a budget"),
        pytest.param("sglang", "messages", ("budget",), id="SGLang takes a budget in every dialect"),
        pytest.param("openai", "responses", ("watch",), id="OpenAI can only be watched"),
        pytest.param("generic", "chat", ("watch",), id="of a generic upstream nothing is known"),
    ],
)
def test_how_a_cap_acts_follows_from_kind_and_dialect(
    kind: UpstreamKind, dialect: DialectName, methods: tuple[Method, ...]
) -> None:
    """The methods of the kind's table, in order; a method that was set is the only one."""
    assert upstream(kind).thinking_methods(dialect) == methods
    assert upstream(kind, "give_up").thinking_methods(dialect) == ("give_up",)


def test_a_trait_that_was_set_wins_over_its_kind() -> None:
    """The fields keep what was set; the traits say what is in force."""
    own = parse_settings(UP + 'kind = "llama.cpp"\nenforces_cap = false\nask_usage = false', {}).upstreams["up"]
    assert (own.traits.ask_usage, own.traits.enforces_cap, own.traits.per_frame) == (False, False, True)
    by_kind = parse_settings(UP + 'kind = "llama.cpp"', {}).upstreams["up"]
    assert (by_kind.ask_usage, by_kind.traits.ask_usage, by_kind.traits.enforces_cap) == (None, True, True)


def test_without_a_file_every_dialect_goes_to_its_vendor() -> None:
    """The built-in settings cover all four dialects, hold no key and let everyone in."""
    settings = default_settings({"OPENAI_API_KEY": "not-used"})
    hosts = {dialect: up.url for up in settings.upstreams.values() for dialect in up.dialects}
    assert hosts == {
        "chat": "https://api.openai.com",
        "responses": "https://api.openai.com",
        "messages": "https://api.anthropic.com",
        "gemini": "https://generativelanguage.googleapis.com",
    }
    assert all(up.api_key is None for up in settings.upstreams.values())
    assert settings.keys == ()


class Demanding(Table, frozen=True, kw_only=True):
    """A table in which everything is required."""

    word: Literal["a", "b"]
    pattern: Pattern
    levels: Levels
    port: Port
    inner: ThinkingSettings


def test_what_is_missing_is_described_in_the_words_of_toml() -> None:
    """Whatever a missing setting becomes in the end, the message says what one would write."""
    reader = Reader("")
    reader.table(Demanding, {})
    assert [(problem.path, problem.allowed) for problem in reader.problems] == [
        ("word", "a b"),
        ("pattern", "a string"),
        ("levels", "an array"),
        ("port", "an integer of at least 0 and at most 65535"),
        ("inner", "a table"),
    ]

"""What must not be written in the settings: each mistake is said with its key path, all at once, no secret echoed."""

import pytest

from gateway.config import parse_settings
from gateway.errors import SettingsError, SettingsErrors

UP = '[upstreams.up]\nurl = "http://127.0.0.1:1"\ndialects = ["chat"]\n'
"""The least that is a settings file; further lines go into the upstream's table or start another."""
BARE = "[upstreams.up]\nurl = 'http://a'\n"
MODEL = UP + "[models.m]\nupstream = 'up'\n"
FALLBACK = UP + "[level_fallback]\n"
CEILING = UP + "[level_fallback.ceiling]\n"
PURPOSE = UP + "[[purposes]]\npurpose = 'a'\n"
SHA = f"sha256 = '{0:064}'\n"
KEY = "[[keys]]\nname = 'a'\n"

NOT_TOML = {
    "an equals sign is missing": ("[server]\nport 80", "is no TOML|(at line 2, column 6)"),
    "arrays are nested beyond reason": ("a = " + "[" * 9000, "is no TOML"),
}
SHAPE = {
    "the file is empty": ("", "upstreams", "is missing (allowed: a table)"),
    "the table of upstreams is empty": ("[upstreams]", "upstreams", "is empty: name at least one"),
    "upstreams are a number": ("upstreams = 3", "upstreams", "expected a table, got an integer"),
    "an upstream is a number": ("[upstreams]\nup = 3", "upstreams.up", "expected a table, got an integer"),
    "a table is misspelt": (UP + "[sever]", "sever", "unknown setting 'sever'; did you mean 'server'?"),
    "a table nobody knows": (UP + "[zzz]", "zzz", "unknown setting 'zzz' (allowed: upstreams models"),
    "a key with a quote and a line end": (UP + '"a\\"b\\nc" = 1', 'upstreams.up."a\\"b\\nc"', "unknown setting"),
    "a key is misspelt": (UP + "[output_cap]\nhold_second = 2.0", "output_cap.hold_second", "'hold_seconds'?"),
    "a table is written as an array": (UP + "[[server]]", "server", "expected a table, got an array"),
    "an array is written as a table": (UP + "[keys]", "keys", "expected an array, got a table"),
    "one for true": (UP + "ask_usage = 1", "upstreams.up.ask_usage", "expected a boolean, got 1"),
    "a host that is a date": (UP + "[server]\nhost = 1979-05-27", "server.host", "got a date or time"),
    "an empty host": (UP + "[server]\nhost = ''", "server.host", "1 to 256 characters"),
    "traces that are just on": (UP + "[telemetry]\ntraces = 'on'", "telemetry.traces", "(allowed: off otlp)"),
}
NUMBERS = {
    "a quoted port": ("port = '80'", "server.port", "of at least 0 and at most 65535, got a string"),
    "a port too high": ("port = 65536", "server.port", "at most 65535, got 65536"),
    "a port below zero": ("port = -1", "server.port", "of at least 0|, got -1"),
    "a fraction of a port": ("port = 8.0", "server.port", "expected an integer|, got 8.0"),
    "a port that is true": ("port = true", "server.port", "expected an integer|, got a boolean"),
    "room for no call": ("max_inflight = 0", "server.max_inflight", "of at least 1"),
    "a body of no bytes": ("max_body_bytes = 0", "server.max_body_bytes", "of at least 1"),
    "a time that is no number": ("drain_seconds = nan", "server.drain_seconds", "got nan"),
    "a time without end": ("drain_seconds = inf", "server.drain_seconds", "at most 86400"),
    "a negative time": ("keepalive_seconds = -0.5", "server.keepalive_seconds", "of at least 0"),
    "a finish frame held too long": ("[output_cap]\nhold_seconds = 60.5", "output_cap.hold_seconds", "at most 60"),
    "a negative thinking cap": ("[thinking]\ncap = -1", "thinking.cap", "of at least 0"),
    "a negative grace": ("[thinking]\noverrun = -1", "thinking.overrun", "of at least 0"),
    "more retries than levels": ("[level_fallback]\nmax_retries = 7", "level_fallback.max_retries", "at most 6"),
}
UPSTREAMS = {
    "an upstream without url": ("[upstreams.up]\ndialects = ['chat']", "url", "is missing"),
    "no word on dialects": (BARE, "dialects", "is missing"),
    "it speaks nothing": (BARE + "dialects = []", "dialects", "is empty: name at least one"),
    "it speaks chat twice": (BARE + "dialects = ['chat', 'chat']", "dialects", "'chat' stands there twice"),
    "a dialect is misspelt": (
        BARE + "dialects = ['chat', 'mesages']",
        "dialects[1]",
        "unknown word 'mesages'; did you mean 'messages'? (allowed: chat responses messages gemini)",
    ),
    "a kind is misspelt": (UP + "kind = 'gemni'", "kind", "did you mean 'gemini'?|llama.cpp vllm sglang"),
    "a method is unknown": (UP + "thinking_method = 'x'", "thinking_method", "(allowed: control budget give_up watch)"),
    "a time limit of zero": (UP + "idle_timeout = 0", "idle_timeout", "expected a number above 0"),
    "a negative time limit": (UP + "control_timeout = -2.5", "control_timeout", "got -2.5"),
    "no connection at all": (UP + "max_connections = 0", "max_connections", "of at least 1"),
    "a slash too many": (UP + "version_path = '/v1/'", "version_path", "no slash at the end"),
    "a finish word is mapped to one that cannot be": (
        UP + "finish_reasons = { eos = 'other' }",
        "finish_reasons.eos",
        "unknown word 'other'|(allowed: stop length tool_calls content_filter error)",
    ),
}
NAMES = {
    "an upstream called other": ("[upstreams.other]\nurl = 'http://a'\ndialects = ['chat']", "upstreams.other"),
    "a space in an upstream's name": ("[upstreams.'a b']\nurl = 'http://a'\ndialects = ['chat']", 'upstreams."a b"'),
    "a model called other": (UP + "[models.other]\nupstream = 'up'", "models.other"),
    "a model called nothing": (UP + "[models.'']\nupstream = 'up'", 'models.""'),
    "a purpose in capitals": (FALLBACK + "purposes = ['a', 'B']", "level_fallback.purposes[1]"),
    "a purpose called other": (UP + "[[purposes]]\npurpose = 'other'\nmodel = 'm'", "purposes[0].purpose"),
    "a ceiling for what is no purpose": (CEILING + "'a b' = 'low'", 'level_fallback.ceiling."a b"'),
    "a key's name with a quote": (UP + "[[keys]]\nname = 'a\"'\n" + SHA, "keys[0].name"),
}
MODELS = {
    "an unknown upstream": (
        UP + "[models.m]\nupstream = 'upp'",
        "models.m.upstream",
        "unknown upstream 'upp'; did you mean 'up'? (allowed: up)",
    ),
    "a model without an upstream": (UP + "[models.m]", "models.m.upstream", "is missing"),
    "a level is misspelt": (
        UP + "[models.'m 1.5']\nupstream = 'up'\nlevels = ['low', 'hihg']",
        'models."m 1.5".levels[1]',
        "did you mean 'high'? (allowed: off minimal low medium high xhigh max)",
    ),
    "off twice, in two words": (MODEL + "levels = ['off', 'none']", "models.m.levels", "'off' stands there twice"),
    "one bare level": (MODEL + "levels = 'low'", "models.m.levels", "expected an array, got a string"),
    "an unknown way with undeclared levels": (
        MODEL + "undeclared_level = 'deny'",
        "models.m.undeclared_level",
        "(allowed: forward refuse)",
    ),
}
LEVELS = {
    "an unknown direction": (FALLBACK + "direction = 'left'", "level_fallback.direction", "(allowed: up down)"),
    "a purpose twice": (FALLBACK + "purposes = ['a', 'b', 'a']", "level_fallback.purposes", "'a' stands there twice"),
    "a ceiling above all levels": (CEILING + "compaction = 'top'", "level_fallback.ceiling.compaction", "xhigh max)"),
    "a pattern with an open bracket": (
        FALLBACK + "extra_patterns = ['good', 'dial (jammed']",
        "level_fallback.extra_patterns[1]",
        "pattern 'dial (jammed': |at position 5",
    ),
    "a pattern that could match for ever": (
        FALLBACK + "extra_patterns = ['(a+)+']",
        "level_fallback.extra_patterns[0]",
        "pattern '(a+)+': ",
    ),
    "a pattern that repeats beyond reason": (
        FALLBACK + "extra_patterns = ['a{99999999999}']",
        "level_fallback.extra_patterns[0]",
        "pattern 'a{99999999999}': ",
    ),
}
PURPOSES = {
    "a recogniser without a purpose": (UP + "[[purposes]]\nmodel = 'm'", "purposes[0].purpose", "is missing"),
    "a recogniser without a condition": (
        PURPOSE + "model = 'm'\n[[purposes]]\npurpose = 'b'",
        "purposes[1]",
        "recognises no call (allowed: any of model, path, header",
    ),
    "a header with a space in its name": (
        PURPOSE + "header = { name = 'x y', equals = '1' }",
        "purposes[0].header.name",
        "a header's name",
    ),
    "a header without a value": (PURPOSE + "header = { name = 'x' }", "purposes[0].header.equals", "is missing"),
    "a path without a slash": (PURPOSE + "path = 'v1'", "purposes[0].path", "begins with /"),
}
KEYS = {
    "a key without its hash": (UP + KEY, "keys[0].sha256", "is missing"),
    "a key without a name": (UP + "[[keys]]\n" + SHA, "keys[0].name", "is missing"),
    "two keys of one name": (UP + (KEY + SHA) * 2, "keys[1].name", "'a' stands there twice"),
}
BAD = {
    **{name: (text, "", says) for name, (text, says) in NOT_TOML.items()},
    **SHAPE,
    **{name: (f"{UP}[server]\n{text}", path, says) for name, (text, path, says) in NUMBERS.items()},
    **{name: (text, f"upstreams.up.{path}", says) for name, (text, path, says) in UPSTREAMS.items()},
    **{
        name: (text, path, "label|'other'" if "other" in path + text else "form")
        for name, (text, path) in NAMES.items()
    },
    **MODELS,
    **LEVELS,
    **PURPOSES,
    **KEYS,
}
SECRETIVE = {
    "a key inline": (
        UP + "api_key = 'hunter2'",
        "upstreams.up.api_key",
        "no secrets in the settings|api_key_env|api_key_file",
    ),
    "a token inline": (UP + "token = 'hunter2'", "upstreams.up.token", "no secrets in the settings"),
    "the key for the variable's name": (UP + "api_key_env = 'sk-hunter2'", "upstreams.up.api_key_env", "not its value"),
    "a gateway key beside its hash": (
        UP + KEY + SHA + "key = 'hunter2'",
        "keys[0].key",
        "the key itself is not written down",
    ),
    "a gateway key for its hash": (UP + KEY + "sha256 = 'hunter2'", "keys[0].sha256", "64 hex digits"),
}
URLS = {
    "credentials in the url": ("https://me:hunter2@a.example", "credentials|api_key_env"),
    "a name in the url": ("https://hunter2@a.example", "credentials"),
    "a query in the url": ("https://a.example/v1?key=hunter2", "query"),
    "an empty query": ("https://a.example/v1?", "query"),
    "a fragment in the url": ("https://a.example#hunter2", "fragment"),
    "another scheme": ("ftp://a.example/hunter2", "http or https"),
    "no scheme": ("a.example/hunter2", "http or https"),
    "no host": ("http:///hunter2", "http or https"),
    "a port that is no number": ("http://a.example:hunter2", "is no URL"),
    "a port too high for a url": ("http://a.example:70000/hunter2", "is no URL"),
    "port zero": ("http://a.example:0/hunter2", "http or https"),
    "an address torn": ("http://[::1/hunter2", "is no URL"),
    "a space in the url": ("http://a.example/hunter2 b", "http or https"),
    "a letter beyond ASCII": ("http://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example/hunter2", "http or https"),
}


def problems_of(text: str) -> list[SettingsError]:
    """What is said to be wrong with a text that must not pass."""
    with pytest.raises(SettingsErrors) as caught:
        parse_settings(text, {}, file="t.toml")
    return list(caught.value.problems)


@pytest.mark.parametrize(("text", "path", "says"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_with_its_key_path(text: str, path: str, says: str) -> None:
    """Each mistake stops the start with file, exact key path, what is wrong and what is allowed."""
    (problem,) = problems_of(text)
    assert problem.path == path
    assert str(problem).startswith(f"t.toml: {path}: " if path else "t.toml: ")
    assert [words for words in says.split("|") if words not in str(problem)] == []


@pytest.mark.parametrize(("text", "path", "says"), SECRETIVE.values(), ids=SECRETIVE)
def test_what_may_be_a_secret_is_never_echoed(text: str, path: str, says: str) -> None:
    """A value in a place where people put secrets stops the start without being repeated."""
    (problem,) = problems_of(text)
    assert problem.path == path
    assert [words for words in says.split("|") if words not in str(problem)] == []
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize(("url", "says"), URLS.values(), ids=URLS)
def test_a_url_that_will_not_do_is_refused_and_not_echoed(url: str, says: str) -> None:
    """An upstream's url is scheme, host, port and path; anything else may hold a credential."""
    (problem,) = problems_of(f"[upstreams.up]\ndialects = ['chat']\nurl = '{url}'")
    assert problem.path == "upstreams.up.url"
    assert [words for words in says.split("|") if words not in str(problem)] == []
    assert "hunter2" not in str(problem)


def test_everything_wrong_is_said_at_once_in_the_order_of_the_file() -> None:
    """Six mistakes are six lines, so that one run of check is enough."""
    text = "[server]\nprot = 1\nport = 'x'\n" + UP + "kind = 'z'\n[models.m]\nlevels = ['lo', 3]\n"
    assert [problem.path for problem in problems_of(text)] == [
        "server.prot",
        "server.port",
        "upstreams.up.kind",
        "models.m.levels[0]",
        "models.m.levels[1]",
        "models.m.upstream",
    ]


def test_the_error_is_a_settings_error_with_a_line_per_problem() -> None:
    """Whoever catches SettingsError sees the first problem's parts and prints all of them."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(UP + "a = 1\nb = 2", {}, file="t.toml")
    assert caught.value.path == "upstreams.up.a"
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["upstreams.up.a", "upstreams.up.b"]


@pytest.mark.parametrize(
    ("dialect", "reason"),
    [
        pytest.param("messages", "error", id="messages has no word for error"),
        pytest.param("gemini", "tool_calls", id="gemini has no word for tool calls"),
        pytest.param("responses", "tool_calls", id="responses has no word for tool calls"),
    ],
)
def test_a_map_to_what_a_dialect_cannot_say_is_refused(dialect: str, reason: str) -> None:
    """One dialect of the upstream that has no word for the reason is enough."""
    (problem,) = problems_of(f"{BARE}dialects = ['chat', '{dialect}']\nfinish_reasons = {{ 'a b' = '{reason}' }}")
    assert problem.path == 'upstreams.up.finish_reasons."a b"'
    assert f"{dialect} has no finish word for '{reason}'" in str(problem)

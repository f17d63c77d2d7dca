"""How providers word a refused thinking level, and what only looks like it: tables, with their source beside them.

Everything here is applied to text that `plain` has made: one kind of quote, no contractions, no addresses, single
spaces. All repeats are bounded or free of overlap, so a hostile text costs time in proportion to its length.
"""

import re
from typing import Final

from gateway.words import level_of


def _words(*alternatives: str) -> re.Pattern[str]:
    """One pattern of alternatives, in any case; word ends are those of ASCII: a word ends where Chinese begins."""
    return re.compile("|".join(alternatives), re.IGNORECASE | re.ASCII)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


LEVEL: Final = r"(?:thinking_level_)?(?:none|off|disabled?|false|minimal|low|medium|xhigh|high|max)(?![\w-])"
"""A step of the ladder in any provider's spelling (Vertex: THINKING_LEVEL_MINIMAL)."""

FIELD: Final = (
    r"(?:reasoning|thinking)[ _.-]{0,2}(?:effort|level|strength)s?(?![\w])|reasoning_?effort|output_config\.effort"
    r"|(?<![\w.-])efforts?(?![\w-])|thinking[ _]?budget(?![\w])|(?<![\w.])budget(?= 0\b)|(?<![\w.-])think value"
    r"|enable_thinking|(?<![\w-])thinking\.type(?![.\w])|reasoning\.enabled|\binvalid thinking\b"
)
"""What thinking levels are called, as a field or in prose."""

NAMED: Final = _words(
    # field, then level: `reasoning_effort='medium'`, `effort level xhigh`, `thinking_level MEDIUM`
    rf"(?:{FIELD})[ ']{{0,3}}(?:(?:parameter|value|level|setting|set|to|of|is|was|got|received|given|requested|does not"
    rf"|not|support|supports|accept|unsupported|invalid|unknown|variant|input)[ ':=(]{{1,3}}|[:=(] ?){{0,5}}'?"
    rf"(?<![\w.-])({LEVEL})",
    # level, then field: `xhigh is not a valid reasoning effort`, `MINIMAL for thinking level`
    rf"(?<![\w.-])({LEVEL})'?(?: is not)?(?: an?)?(?: supported| valid| allowed| available| accepted)?"
    rf"(?: value| option| setting)?(?: for| of| in| as)?(?: the)? '?(?:{FIELD})",
    # a level in quotes, with Vertex's prefix, or in capitals
    rf"'({LEVEL})'",
    rf"(?<![\w-])(thinking_level_(?:{LEVEL}))",
    r"(?<![\w.-])(?-i:(MINIMAL|LOW|MEDIUM|HIGH|XHIGH|MAX)(?![\w-]))",
)
"""Where a text names a level. A bare word (`demand is high`) names none."""

LEVEL_IN_PROSE: Final = _words(r"\blevels?\b")
"""Too common a word to be a field (`log level`), but with the level sent beside it enough (CLIProxyAPI)."""

OFF: Final = _words(
    r"\b(?:reasoning|thinking)\b[^.;]{0,40}\b(?:cannot|may not|must not) be (?:disabled|(?:turned|switched) off)",
    r"\b(?:reasoning|thinking) is (?:mandatory|always (?:on|enabled|active))",  # OpenRouter
    r"\bonly (?:works|runs|operates) in thinking mode",  # Gemini: `Budget 0 is invalid.`
    r"\balways (?:engages in thinking|thinks|reasons)\b",  # Z.ai
    r"\bbudget (?:of )?'?0'? is (?:not |invalid)",
    r"\bnot support (?:setting )?'?thinking[ _]?budget'?(?: to| of| ?=)? ?'?0\b",  # Vertex
    r"\bthinking[^.;]{0,24}\bonly (?:type ?[=:] ?)?'?enabled'? is (?:allowed|supported)",  # Moonshot K2.7
    r"\bnot support (?:disabling|turning off|switching off) (?:thinking|reasoning)",
    r"\bthinking\.type\.disabled'? is not (?:supported|allowed)",
    r"\benable_thinking\b[^.;]{0,24}(?:must be|only supports) '?true",
)
"""Ways to refuse `off` without any word of the ladder."""

REFUSES: Final = _words(
    r"\bnot (?:be )?(?:an? )?(?:support|accept|allow|available|valid|permitted|offer|take|recogni|one of|known)",
    r"\b(?:unsupported|invalid|illegal|unknown|unexpected|unrecogni[sz]ed|disallowed|rejected|refused|mandatory)\b",
    r"\b(?:must|should|can only|has to|may only) be\b|\bexpected (?:one of\b|')|\bcannot be\b|\balways\b",
    r"\bonly (?:works|supports|accepts|takes|allows)\b|\bonly\b[^.;]{0,80}\b(?:supported|allowed|accepted|valid)\b",
    r"不支持|无效|仅支持|只支持|必须|不能",
)
"""That something is refused at all."""

OFFER: Final = _words(
    r"\b(?:supported|allowed|valid|accepted|available|possible|permitted|supports|accepts|allows|takes)"
    r"(?: (?:reasoning|thinking|effort|only|the|following))*"
    r"(?: (?:values?|levels?|types?|options?|efforts?|modes?|choices|settings?|variants?))?(?: (?:are|is|include))?\b",
    r"\b(?:must|should|can only|has to|may only) be(?: (?:set to|one of|either|any of|in|among))?(?: the following)?\b",
    r"\bone of\b|\bexpected(?: one of)?\b|\b(?:use|try|choose|pick)(?: one of| from| either)?\b|\bonly\b",
    r"\be\.g\.|\bsuch as\b|\bfor example\b|(?:仅|只)?支持|必须是|可选值",
)
"""What goes before a list of values. Sources: the refusals in tests/gateway/rules/rejections.jsonl."""

OTHER_FAULT: Final = _words(
    # a combination: the level is fine, its neighbour is not
    r"\bwh(?:en|ile)\b|\bunless\b|\bboth\b|\bonly one of\b|\bcombin|\bconflict|\bincompatible\b|\bnot compatible\b",
    r"\btogether\b|\balongside\b|\bexclusive\b|\bsimultaneous|\bat the same time\b|\bcannot be used\b|\brequired?s?\b",
    r"\bwithout\b|\bregions?\b|\bin (?:us|eu|ap|sa|ca|me|af|asia|europe)-[a-z]{2,16}-?\d|同时|组合|冲突|关闭时",
    # something else, at this level
    rf"\bnot (?:be )?(?:supported|available|allowed|accepted|permitted|valid) (?:with|for|at|in|on|under)"
    rf"(?: the)? '?(?:{FIELD})[ ':=(]{{1,3}}(?:(?:of|set to|is|level|value)[ ':=]{{1,3}})?'?{LEVEL}",
    r"\b(?:unsupported|invalid|unknown|unavailable) (?:model|endpoint|deployment|provider|route)\b",
    # not now, but perhaps soon
    r"\btry again\b|\blater\b|\btemporar|\bat the moment\b|稍后|并发|限流|欠费|余额|敏感|不安全",
    # no dial at all, or the wrong form of it
    r"\b(?:unsupported|unknown|unrecogni[sz]ed|unexpected|extra|missing|invalid) (?:request |keyword |query )?"
    r"(?:arguments?|param\w*|fields?|keys?|propert\w+|inputs?)\b(?! value)"
    rf"(?!:? ?'?(?:value|(?:reasoning|thinking)[._ ]?(?:effort|level)'? ?[=:] ?'?{LEVEL}))",
    r"\b(?:argument|param\w*|field|key|property) '?[\w.]{1,64}'? (?:is|are) (?:un|not )",
    r"\bparam\w*error\b[^.;]{0,60}\bnot support param",
    rf"(?:{FIELD})'?(?: (?:parameter|field|option|control|setting))?,? (?:is|are) (?:un|not )"
    rf"(?!(?:supported|available|valid|allowed): ?'?{LEVEL})",
    rf"\bnot (?:support|accept|have|offer) (?:the |an? |any )?'?(?:{FIELD}|(?:thinking|reasoning)(?![\w.]))'?+"
    rf"(?! ?[:=]? ?'?{LEVEL})(?! (?:level|effort|strength|budget|value|of|to)\b)",
    r"\bthinking is not enabled\b|\bmoved to\b|\brenamed\b|\bdeprecated\b|\bno longer\b|\badaptive\b|\bprompt mode\b",
    # a number, another field, another matter
    r"\b(?:greater|less|larger|smaller|more|fewer|at least|at most) (?:than|or equal)\b|\btokens?\b|\binteger\b",
    r"\bbetween \d|\b(?:number|numeric|boolean|float)\b",
    r"\bverbosity\b|\btemperature\b|\btools?\b|\bfunctions?\b|\b(?:non-)?stream\w*|\bquality\b|\blog\w*\b|\btop_[pk]\b",
    r"\btier\b|\bvoice\b|\bsize\b|\bpriority\b|\bsignatures?\b|\bhistory\b|\bmessages?\b|\bcontent\b|\bcontext\b",
    r"\bimages?\b|\baudio\b|\bresolution\b|\bdetail\b|\bformat\b|\bcache\b|\bseed\b|\bschema\b|\bsearch\b|\bpolicy\b|\bsafety\b",
    r"\bplan\b|\bsubscri\w+|\bquota\b|\brate\b|\bbilling\b|\bpermission|\bcredits?\b|\borgani[sz]ation\b|\baccount\b",
    r"\bsummary\b|\bspeed\b|\bfidelity\b|\bmoderation\b|\beagerness\b|\bsensitivity\b|\bdepth\b|\bmedia\b",
    r"\bthreshold\b|\b(?:[2-9]|\d\d+) validation errors\b|\bnot exist\b|\bapi[ _-]?key\b|\bblocks?\b|\bpassed back\b",
)
"""Near misses: a level named in such a text is not what is wrong. Sources: as above."""

OTHER_CODE: Final = _words(
    r"^(?:unsupported|unknown|missing|unrecogni[sz]ed|extra)_.*(?:param|arg|field|forbidden|key)|^extra_forbidden$",
    r"filter|context_length|not_found|encrypted|rate_limit|quota|auth|permission|overload|billing|safety|policy|too_large",
)
"""Codes of other faults (OpenAI `unsupported_parameter` is no dial, `unsupported_value` may be a level)."""

DELIBERATE: Final = "unsupported_reasoning_effort"
"""The code of a gateway that refuses a level before any provider I/O: meant so, never re-issued."""

TEMPLATE: Final = _words(rf"\bunexpected reasoning effort '?({LEVEL})'?\. supported types are\b")
"""The one sentence that counts under status 500: Qwen3.8's chat template, by way of vLLM and Ollama (vllm#54017)."""

IDENTIFIER: Final = re.compile(r"(?<![\w.-])'?((?:[a-z]+_)+[a-z]+(?:\.[a-z_]+)*|[a-z]{3,}(?:[A-Z][a-z]+)+)(?![\w-])")
"""Names of fields: snake_case and camelCase."""

QUOTED: Final = re.compile(r"'([A-Za-z][\w.]{1,48})'")
"""A single quoted word without a hyphen or slash (those are model names)."""

MODEL: Final = _words(
    r"\bmodels? '[^' ]{1,80}'|(?:\b(?:for|by|with|on) )'(?=[^' ]{0,79}[\d/-])[^' ]{1,80}'"
    r"|'(?=[^' ]{0,79}[\d/-])[^' ]{1,80}'(?= models?\b)"
)
"""A model named in the text; it may end in a word of the ladder."""

NOISE: Final = _set(
    "reasoning_effort reasoning effort thinking_level thinking_budget thinking_config thinking think level "
    "output_config generation_config chat_template_kwargs extra_body enable_thinking reasoning_strength "
    "reasoning_level reasoningeffort thinkinglevel thinkingbudget thinkingconfig generationconfig enablethinking "
    "invalid_request_error bad_request supported_values drop_params litellm vertex_ai input_value input_type "
    "literal_error request_id type loc body msg input ctx expected enum default auto enabled true string value"
)
"""Steps of identifiers that belong to a level's refusal or to its wrapping; any other one names another fault."""

PLAIN_WORDS: Final = _set(
    "a an the this that it which by for on in with at to of as is are be was does do not model models endpoint "
    "deployment provider value values level levels option setting parameter field type variant kind reasoning "
    "thinking effort budget think currently yet here now selected requested specified provided support supported "
    "supports accept accepted available allowed valid permitted offered recognized unsupported invalid illegal unknown "
    "unexpected unrecognized unrecognised disallowed rejected refused got received given input set setting"
)
"""All that a refusal without a list may say beside the level, the field and a model's name. Anything more
(`in batch mode`, `via the Responses API`) is a condition, and perhaps the true fault."""

GENERIC: Final = _words(r"^\W*(?:invalid|bad|unprocessable|validation)(?: \w+){0,4}\W*$")
"""A headline that says nothing (`Invalid request`)."""

MODES: Final = frozenset(("default", "auto", "true", "enabled", "adaptive", "ultra"))
"""Words that stand in lists of levels and are no step of the ladder."""

OTHER_MODE: Final = _words(r"(?<![\w-])'?auto'?(?![\w-])")
"""Offered beside levels it makes a text that names no field doubtful: images and voices have such lists."""

_FIXES: Final = (
    (re.compile(r"\\{1,8}[\"'`]|[\"`\u2018\u2019\u201c\u201d\u300c\u300d]"), "'"),
    (re.compile(r"\\{1,8}[nrt]|[\s\x00-\x1f]+"), " "),
    (re.compile(r"https?://[^\s')\]]+", re.IGNORECASE), ""),
    (re.compile(r"\bcan't\b|\bcan not\b", re.IGNORECASE), "cannot"),
    (re.compile(r"n't\b", re.IGNORECASE), " not"),
    (re.compile(r"(?<=[a-z])'s\b"), ""),
    (re.compile(r" ?\(type\.googleapis\.com/[^ )]{0,200}\)"), ""),
    (re.compile(r"\bTo drop unsupported params\b.*"), ""),  # LiteLLM's advice to its operator
    (re.compile(r" {2,}"), " "),
)


def plain(text: str) -> str:
    """The text with one kind of quote, without escapes, addresses and contractions, in single spaces."""
    for pattern, instead in _FIXES:
        text = pattern.sub(instead, text)
    return text


def anonymous(text: str, model: str) -> str:
    """The text without the name of the model that was asked, whole or behind its vendor's: it may say anything."""
    for name in (model, model.rpartition("/")[2]):
        if name and name.lower() not in PLAIN_WORDS | NOISE and level_of(name) is None:
            text = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", "a model", text, flags=re.IGNORECASE)
    return text

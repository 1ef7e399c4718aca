# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read the command of a recipe as options. Nothing is executed."""

from __future__ import annotations

import collections
import dataclasses
import json
import re
import typing as t

from .._engines.registry import ENGINES
from .formats import FORMATS, RecipeImportError

Values = t.Mapping[str, t.Any]
# A brace behind a dollar sign belongs to a shell.
ESCAPED = re.compile(r"\$\{\w*\}|\{\{|\}\}|\{(\w*)\}|[{}]")
NAMED = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")
# Values may name each other. More rounds than this are a circle.
MOST_ROUNDS = 10
# The largest known command has 2 kB and 25 options.
MOST_LENGTH, MOST_OPTIONS, MOST_KEYS = 100_000, 200, 10
# A line continues after a backslash, also with a comment behind it. A line with nothing but a comment does not count.
TOKEN = re.compile(
    r"""
    (?P<line>^[ \t]*\#[^\n]*(?:\n|\Z))
    | (?P<gap>[ \t\r]+ | \\[ \t\r]*(?:\#[^\n]*)?(?:\n|\Z))
    | (?P<comment>(?<!\S)\#[^\n]*)
    | (?P<end>\n)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\.)*)"
    | \\(?P<escaped>.)
    | (?P<plain>[^\s\\'"$`;|&<>()]+)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
BETWEEN = ("line", "gap", "comment", "end")
WHOLE, FRACTION = re.compile(r"-?\d{1,18}"), re.compile(r"-?\d{1,18}\.\d{1,18}(?:[eE]-?\d{1,2})?")
SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kKmMgG])")
NAMES = ENGINES[FORMATS.engine].names
SIZED = (NAMES.context, NAMES.concurrency, NAMES.prompt, NAMES.tokens)
POWERS = "kmg"


@dataclasses.dataclass
class Command:
    """The model that a command serves, its options, and those of them that were there twice."""

    model: str = ""
    options: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    doubles: list[str] = dataclasses.field(default_factory=list)


def text_of(value: t.Any) -> str:
    """Return a value as it stands in a command."""
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def fill_in(pattern: re.Pattern[str], template: str, value: t.Callable[[re.Match[str]], str]) -> str:
    """Return a template with a value in place of each match; raises RecipeImportError if it becomes too long."""
    room = MOST_LENGTH - len(template)

    def counted(match: re.Match[str]) -> str:
        nonlocal room
        text = value(match)
        room -= len(text)
        if room < 0:
            raise RecipeImportError("With the values of defaults the command has more than 100 kB.")
        return text

    return pattern.sub(counted, template)


def expand_escaped(template: str, values: Values) -> str:
    """Fill in a template whose doubled braces stand for single ones."""

    def value(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        if match[0].startswith("$"):
            return match[0]
        if match[1] is None:
            raise RecipeImportError(f"The command has a single {match[0]}; braces of JSON must be doubled in it.")
        return known(match[1], values)

    return fill_in(ESCAPED, template, value)


def expand_named(template: str, values: Values) -> str:
    """Fill in a template whose other braces stay as they are, also names in the values."""
    for _round in range(MOST_ROUNDS):
        if not NAMED.search(template):
            return template
        template = fill_in(NAMED, template, lambda match: known(match[1], values))
    raise RecipeImportError("The values of defaults name each other in a circle.")


def known(name: str, values: Values) -> str:
    if values.get(name) is None:
        raise RecipeImportError(f"The command has {{{name}}}, but defaults has no value for it.")
    return text_of(values[name])


def words(command: str) -> list[str]:
    """Return the words of one command; raises RecipeImportError for anything that only a shell can do."""
    found: list[str] = []
    position, in_word, ended = 0, False, False
    while position < len(command):
        match = TOKEN.match(command, position)
        if match is None:
            raise RecipeImportError(
                f"The command has a quote without its end, or needs a shell, at {command[position : position + 40]!r}. "
                "Only one plain command can be imported."
            )
        position = match.end()
        if match.lastgroup in BETWEEN:
            in_word = False
            ended = ended or (match.lastgroup == "end" and bool(found))
            continue
        if ended:
            raise RecipeImportError(f"A second command begins with {match[0]!r}. Only one command can be imported.")
        part = match[match.lastgroup or 0]
        part = re.sub(r'\\(["\\])', r"\1", part).replace("\\\n", "") if match.lastgroup == "double" else part
        found[len(found) - in_word :] = [found[-1] + part if in_word else part]
        in_word = True
    return found


def value_of(name: str, text: str) -> t.Any:
    """Return a word as a value: JSON, a number, a size such as 32k, or text."""
    if text.startswith("{{"):
        # Some files of format 2 double the braces, too. No JSON begins like this.
        text = text.replace("{{", "{").replace("}}", "}")
    if text.startswith(("{", "[")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise RecipeImportError(f"The value of --{name} begins like JSON, but is none: {text[:60]!r}.") from None
    size = SIZE.fullmatch(text) if name in SIZED else None
    if size:
        # A capital letter is a power of 1024.
        base = 1024 if size[2].isupper() else 1000
        return int(float(size[1]) * base ** (POWERS.index(size[2].lower()) + 1))
    if WHOLE.fullmatch(text):
        return int(text)
    return float(text) if FRACTION.fullmatch(text) else text


def name_of(flag: str) -> tuple[str, list[str]]:
    """Return the name of an option with dashes, and the keys below it of a dotted one, with underscores."""
    name, *keys = flag.lstrip("-").split(".")
    return FORMATS.aliases.get(name, name.replace("_", "-")), [key.replace("-", "_") for key in keys]


def value_below(text: str) -> t.Any:
    """Return a word as the value of a dotted option, which is JSON if it can be."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def add(command: Command, flag: str, texts: t.Sequence[str]) -> None:
    """Add a flag with its words. Of an option that is there twice the last one counts."""
    name, keys = name_of(flag)
    if len(keys) > MOST_KEYS:
        raise RecipeImportError(f"The option --{name} has more than {MOST_KEYS} keys below each other.")
    value: t.Any = [value_below(text) if keys else value_of(name, text) for text in texts] or True
    value = value[0] if len(texts) == 1 else value
    if not texts and name.startswith("no-"):
        name, value = name[3:], False
    place, key = command.options, name
    for below in keys:
        place[key] = place[key] if isinstance(place.get(key), dict) else {}
        place, key = place[key], below
    command.doubles += [".".join([name, *keys])] * (key in place)
    place[key] = value


def parse(text: str) -> Command:
    """Return a command of a recipe; raises RecipeImportError."""
    program, every = list(FORMATS.program), words(text)
    if every[: len(program)] != program:
        begins = " ".join(every[: len(program)])
        raise RecipeImportError(f"The command begins with '{begins}', but must begin with '{' '.join(program)}'.")
    given = collections.deque(every[len(program) :])
    command = Command()
    if sum(word.startswith("-") for word in given) > MOST_OPTIONS:
        raise RecipeImportError(f"The command has more than {MOST_OPTIONS} options.")
    if given and not given[0].startswith("-"):
        command.model = given.popleft()
    while given:
        flag, equals, value = given.popleft().partition("=")
        if level := re.fullmatch(r"-O(\d)", flag):
            flag, equals, value = "-O", "=", level[1]
        if not re.fullmatch(r"--?[A-Za-z][\w.-]{,200}", flag):
            raise RecipeImportError(f"The command has the word {flag!r} where an option must stand.")
        if not flag.startswith("--") and flag[1:].split(".")[0] not in FORMATS.aliases:
            raise RecipeImportError(f"The command has the short option {flag}, which is not known. Write it in full.")
        texts = [value] if equals else []
        # A number below 0 is a value.
        while not equals and given and (not given[0].startswith("-") or WHOLE.fullmatch(given[0])):
            texts.append(given.popleft())
        add(command, flag, texts)
    return command

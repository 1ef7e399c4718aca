# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan a benchmark: draft lengths, engine options, prompts and duration."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import typing as t
from pathlib import Path

import yaml

from ...module_utils._data.text import duration
from ...module_utils._deployment.records import nodes_of
from .._engines.engine import AUTO, Request
from .._engines.methods import NONE
from .._engines.registry import engine_of
from . import point

# Root of the collection, in a clone and if installed.
ROOT = Path(__file__).resolve().parents[3]
# The lengths that NVIDIA's page advises to try. Those of the second row are measured only while the last step gained.
ALWAYS = (0, 1, 2, 3)
WHILE_IT_GAINS = (4, 5, 8)
QUICK = (0, 1, 3)
# Longer drafts than any head or draft model was trained for, so most likely a slip.
LONGEST = 64
FIELDS = {"id": str, "category": str, "prompt": str}
# Further settings of the measuring program.
SWEEP: dict[str, dict[str, t.Any]] = {
    "deployment": {"type": "str"},
    "results": {"type": "str"},
    "lease_s": {"type": "int"},
    "ready_timeout": {"type": "int"},
    "answer_timeout": {"type": "int"},
}
# Arguments of the action.
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "record": {"type": "dict", "required": True},
    "choice": {"type": "dict"},
    "draft_lengths": {"type": "list", "elements": "raw", "default": []},
    "quick": {"type": "bool", "default": False},
    "prompts": {"type": "path", "required": True},
    "max_tokens": {"type": "int", "default": 256, "no_log": False},
    "repetitions": {"type": "int", "default": 3},
    "warmup": {"type": "int", "default": 2},
    "prompt_lengths": {"type": "list", "elements": "int", "default": []},
    "load_s": {"type": "float"},
    "recipe": {"type": "str"},
    "sweep": {"type": "dict", "default": {}, "options": SWEEP},
}


class BenchmarkError(Exception):
    """The benchmark cannot be done as it was asked for; the text is for the user."""


class SweepPoint(t.NamedTuple):
    """A draft length to measure; 0 is without speculation."""

    length: int
    always: bool

    @property
    def id(self) -> str:
        return point.label(self.length)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of the measurement of each point."""

    max_tokens: int
    repetitions: int
    warmup: int
    prompt_lengths: tuple[int, ...]


def read_length(value: t.Any) -> int | None:
    """Return a draft length as people write it; YAML takes a bare off for false. None if it is none."""
    value = value.strip() if isinstance(value, str) else value
    if value is False or value in ("off", "0", 0):
        return 0
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    # Ansible's own kind of number, which remembers where it was written, is none for YAML.
    return int(value) if isinstance(value, int) and 0 < value <= LONGEST else None


def sweep_points(given: t.Sequence[t.Any], quick: bool, serving: int) -> list[SweepPoint]:
    """Return the draft lengths in the order of measurement. The current one is always among them."""
    if given:
        lengths = [read_length(value) for value in given]
        wrong = [repr(value) for value, length in zip(given, lengths) if length is None]
        if wrong:
            raise BenchmarkError(
                f"speculative_benchmark_draft_lengths has {', '.join(wrong)}; a draft length is a number from 1 to "
                f"{LONGEST}, or off."
            )
        return [
            SweepPoint(length, True) for length in dict.fromkeys(length for length in lengths if length is not None)
        ]
    always = {*(QUICK if quick else ALWAYS), serving}
    every = always if quick else always | {*WHILE_IT_GAINS}
    return [SweepPoint(length, length in always) for length in sorted(every)]


def speculation_of(record: t.Mapping[str, t.Any], choice: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the speculation of the deployment; after a benchmark that chose none, that of its recipe."""
    engine = engine_of(record)
    before = choice.get("speculative_config") if record.get("method") == NONE else None
    section = record["options"].get(engine.speculation) or before
    if not section:
        raise BenchmarkError(
            f"The deployment {record['deployment']} has no speculation to measure. Deploy it with the speculation of "
            "its recipe first."
        )
    key = engine.section(section).length_key
    if not isinstance(section.get(key), int):
        raise BenchmarkError(
            f"The {engine.speculation} of the deployment {record['deployment']} has no {key}, so there is no draft "
            f"length to change. Deploy it with a {engine.speculation} that has one."
        )
    return dict(section)


def options_of(record: t.Mapping[str, t.Any], section: t.Mapping[str, t.Any], length: int) -> tuple[str, list[str]]:
    """Return the engine options with drafts of this length, as the text of a file, and what the server would refuse."""
    engine = engine_of(record)
    options = {key: value for key, value in record["options"].items() if key != engine.speculation}
    if length:
        options[engine.speculation] = {**section, engine.section(section).length_key: length}
    built = engine.build(
        Request(
            release=record["image"]["reference"],
            family=record.get("family") or AUTO,
            options=options,
            target_model=record["target_model"],
            world_size=len(nodes_of(record.get("cluster") or {})) or 1,
        )
    )
    return engine.render(built.options), [str(error) for error in built.errors]


def fingerprint(record: t.Mapping[str, t.Any], options: str, prompts: t.Sequence[t.Any], settings: Settings) -> str:
    """Return the fingerprint of a measured point. A point with the same one need not be measured again."""
    models = {name: model.get("commit") or model.get("fingerprint") for name, model in record["models"].items()}
    everything = [
        record["deployment"],
        record["image"]["id"],
        models,
        record["files"].get("serve.sh"),
        options,
        prompts,
        dataclasses.asdict(settings),
    ]
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def points(
    record: t.Mapping[str, t.Any],
    choice: t.Mapping[str, t.Any],
    wanted: t.Sequence[SweepPoint],
    prompts: t.Sequence[t.Any],
    settings: Settings,
) -> list[dict[str, t.Any]]:
    """Return the points of the sweep; refuses all that the server would refuse at once."""
    section = speculation_of(record, choice)
    result = []
    errors: dict[str, list[int]] = {}
    for wish in wanted:
        options, wrong = options_of(record, section, wish.length)
        for error in wrong:
            errors.setdefault(error, []).append(wish.length)
        result.append(
            {
                "id": wish.id,
                "draft_length": wish.length,
                "always": wish.always,
                "options": options,
                "fingerprint": fingerprint(record, options, prompts, settings),
            }
        )
    if errors:
        lines = [f"- draft length {', '.join(map(str, lengths))}: {error}" for error, lengths in errors.items()]
        raise BenchmarkError(
            "\n".join(
                [
                    f"{engine_of(record).words} would refuse the engine options of some points; leave these out of "
                    "speculative_benchmark_draft_lengths, or correct the options and deploy again:",
                    *lines,
                ]
            )
        )
    return result


def read_prompts(text: str, path: str) -> list[dict[str, t.Any]]:
    """Return the prompts of JSON lines: prompt, and optionally id, category and optional. Report all errors at once."""
    prompts: list[dict[str, t.Any]] = []
    errors = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        try:
            prompts.append(read_prompt(line, number))
        except BenchmarkError as error:
            errors.append(f"- line {number}: {error}")
    names = [prompt["id"] for prompt in prompts]
    errors += [f"- the id '{name}' is there more than once" for name in dict.fromkeys(names) if names.count(name) > 1]
    if errors:
        raise BenchmarkError("\n".join([f"The prompts in {path} cannot be used:", *errors[:20]]))
    if not prompts:
        raise BenchmarkError(f'There are no prompts in {path}; write lines such as {{"prompt": "Why is it so?"}}.')
    return prompts


def read_prompt(line: str, number: int) -> dict[str, t.Any]:
    """One prompt."""
    try:
        data = json.loads(line)
    except RecursionError:
        raise BenchmarkError("has too many brackets within each other") from None
    except ValueError as error:
        raise BenchmarkError(f"is no JSON ({error})") from None
    if not isinstance(data, dict):
        raise BenchmarkError('is no object such as {"prompt": "..."}')
    prompt = {"id": f"line-{number}", "category": "own", "optional": False, **data}
    for name, kind in FIELDS.items():
        if not isinstance(prompt.get(name), kind) or not prompt[name].strip():
            raise BenchmarkError(
                f"'{name}' " + ("must be a text that is not empty" if name in prompt else "is missing")
            )
        # JSON can contain half a character, which cannot be sent.
        if prompt[name] != prompt[name].encode("utf-8", "ignore").decode():
            raise BenchmarkError(f"'{name}' has half a character in it, a \\uD8.. or \\uDC.. without its other half")
    if not isinstance(prompt["optional"], bool):
        raise BenchmarkError("'optional' must be true or false")
    return {name: prompt[name] for name in (*FIELDS, "optional")}


def task(
    record: t.Mapping[str, t.Any],
    points_: t.Sequence[t.Any],
    prompts: t.Sequence[t.Any],
    settings: Settings,
    told: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """Return the task of the program on the Spark, with its paths, times and limits."""
    return {
        "title": record.get("title"),
        "url": record.get("url"),
        "model": record.get("served_model"),
        "points": points_,
        "prompts": prompts,
        **told,
        **dataclasses.asdict(settings),
    }


def key(points_: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """By what a run knows whether the benchmark at work is its own."""
    return hashlib.sha256("".join(one["fingerprint"] for one in points_).encode()).hexdigest()


def check_recipe(recipe: t.Mapping[str, t.Any], record: t.Mapping[str, t.Any], hosts: t.Sequence[str]) -> None:
    """Raise BenchmarkError if the winner could not be chosen for the deployment on these hosts."""
    if recipe["name"] != record["deployment"]:
        raise BenchmarkError(
            f"{record['deployment']} serves here, but the recipe is {recipe['name']}. Give the recipe that it was "
            "deployed with, as -e recipe=NAME or PATH."
        )
    if recipe["sparks"] != len(hosts):
        raise BenchmarkError(
            "serving with the winner is for one deployment at a time, and this run has "
            f"{', '.join(hosts)}. Choose with --limit."
        )


def announcement(
    host: str,
    record: t.Mapping[str, t.Any],
    wanted: t.Sequence[SweepPoint],
    prompts: int,
    settings: Settings,
    load_s: float | None,
    now: datetime.datetime,
) -> list[str]:
    """Return what will happen, how often the model is loaded, and until about when: drafts change the speed."""
    surely = [wish.id for wish in wanted if wish.always]
    perhaps = [wish.id for wish in wanted if not wish.always]
    measured = f"{host} is measured at draft length {', '.join(surely)}"
    if perhaps:
        measured += f", and at {', '.join(perhaps)} while longer drafts gain"
    times = "once" if settings.repetitions == 1 else f"{settings.repetitions} times"
    asked = f"{prompts} prompts, {times} each, {settings.max_tokens} tokens at most."
    loads = len(surely) + 1
    most = f" to {len(wanted) + 1}" if perhaps else ""
    lines = [
        "",
        f"{measured}: {asked}",
        f"The model is loaded {loads}{most} times, the last time to serve as it does now.",
    ]
    speed = (record.get("measurements") or {}).get("tokens_per_second")
    if speed and load_s:
        a_point = load_s + prompts * settings.repetitions * settings.max_tokens / speed
        least, longest = (count * a_point + load_s for count in (len(surely), len(wanted)))
        until = now + datetime.timedelta(seconds=longest + 60)
        spread = duration(longest) if not perhaps else f"{duration(least)} to {duration(longest)}"
        lines.append(f"That takes about {spread}, until about {until:%H:%M}. What was measured before is kept.")
    lines += [
        f"Meanwhile {record['url']} answers with other drafts than yours, or not at all while the model is loaded.",
        "",
    ]
    return lines


def report_name(host: str, record: t.Mapping[str, t.Any], now: datetime.datetime) -> str:
    """Return a name for the files of a report that no other benchmark has."""
    parts = (host, record["deployment"], record.get("variant"))
    return "-".join([*filter(None, parts), f"{now.astimezone(datetime.timezone.utc):%Y-%m-%d-%H%M%S}"])


def collection_version(root: Path = ROOT) -> str | None:
    """Return the version of this collection, cloned or installed; None if neither file has it."""
    for name, place in (("galaxy.yml", ()), ("MANIFEST.json", ("collection_info",))):
        try:
            data = yaml.safe_load((root / name).read_text(encoding="utf-8"))
        except OSError:
            continue
        for key in place:
            data = data[key]
        return str(data["version"])
    return None

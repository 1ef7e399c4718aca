# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Build, validate and render the engine options of a TensorRT-LLM release.

`build()` turns a request into the mapping that trtllm-serve reads, with everything the server would refuse (errors)
and everything that works but is unwise on a DGX Spark (warnings). `render()` writes that mapping as YAML.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import json
import math
import re
import typing as t

from ansible_collections.dgx_spark.speculative.plugins.module_utils import _trtllm_schema_1_3
from ansible_collections.dgx_spark.speculative.plugins.module_utils._trtllm_schema import Family, Field, Section

FAMILIES: tuple[Family, ...] = (_trtllm_schema_1_3.FAMILY,)
METHODS = ("eagle3", "draft_target", "none")
ROOT = "TorchLlmArgs"
HEADER = "# Managed by Ansible, module dgx_spark.speculative.trtllm_config; local edits are overwritten.\n"

RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:rc(\d+))?(?:\.post(\d+))?(?:[-+][\w.+-]+)?")
PARALLEL_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
# The models that the documentation of the dynamic tree excludes: sliding-window and MLA attention.
NO_DYNAMIC_TREE = re.compile(r"gpt-oss|deepseek(?!.*distill)", re.IGNORECASE)

Version = tuple[int, int, int, float, int]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong or unwise, and the dotted path of where."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclasses.dataclass(frozen=True)
class Request:
    """What a caller wants: the neutral inputs, and any engine options."""

    release: str
    method: str = "none"
    draft_model: str | None = None
    max_draft_len: int | None = None
    revision: str | None = None
    options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    world_size: int = 1


@dataclasses.dataclass
class Report:
    """What was found so far."""

    errors: list[Finding] = dataclasses.field(default_factory=list)
    warnings: list[Finding] = dataclasses.field(default_factory=list)

    def error(self, path: str, message: str) -> None:
        self.errors.append(Finding(path, message))

    def warn(self, path: str, message: str) -> None:
        self.warnings.append(Finding(path, message))


@dataclasses.dataclass(frozen=True)
class Built:
    """The answer to a request; the options are complete only without errors."""

    release: str
    family: str
    options: dict[str, t.Any]
    errors: list[Finding]
    warnings: list[Finding]


# Releases


def release_of(text: str) -> str:
    """The release in a release or an image reference: the tag, without registry, repository and digest."""
    name = text.strip().partition("@")[0]
    last = name.rpartition("/")[2]
    return last.rpartition(":")[2] if ":" in last else last


def version_of(release: str) -> Version | None:
    """A release as something to compare; a final release comes after its candidates."""
    match = RELEASE.fullmatch(release)
    if match is None:
        return None
    major, minor, patch, candidate, post = match.groups()
    return int(major), int(minor), int(patch), float(candidate or "inf"), int(post or 0)


def _holds(family: Family, version: Version) -> bool:
    first, last = version_of(family["first"]), version_of(family["last"] or "")
    # A post release belongs to the release it repairs.
    return first is not None and first <= version and (last is None or version[:4] <= last[:4])


def _families_in_words() -> str:
    return ", ".join(
        f"{family['name']} ({family['first']} to {family['last']})"
        if family["last"]
        else f"{family['name']} ({family['first']} and later)"
        for family in FAMILIES
    )


def find_family(text: str, report: Report) -> Family | None:
    """The release family of a release or image reference; none is an error, an unread release of one a warning."""
    release = release_of(text)
    version = version_of(release)
    if version is None:
        report.error(
            "release",
            f"{shown(text)} names no TensorRT-LLM release such as 1.3.0rc12; give the release, or an image reference"
            f" with its tag. The known release families are {_families_in_words()}",
        )
        return None
    family = next((family for family in FAMILIES if _holds(family, version)), None)
    if family is None:
        report.error(
            "release",
            f"the engine options of {release} are not known here; the known release families are"
            f" {_families_in_words()}",
        )
        return None
    _check_release_is_known(family, release, version, report)
    return family


def _check_release_is_known(family: Family, release: str, version: Version, report: Report) -> None:
    known = [known for known in map(version_of, family["known"]) if known is not None]
    if any(version[:4] == other[:4] for other in known):
        return
    relation = "newer than" if version > max(known) else "older than" if version < min(known) else "none of"
    report.warn(
        "release",
        f"{release} is {relation} the releases these rules were written for ({', '.join(family['known'])});"
        " the server may refuse what passes here and accept what is refused",
    )


# Words


def shown(value: t.Any) -> str:
    """A value as a reader of the YAML knows it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return f"'{value}'"
    return "a list" if isinstance(value, (list, tuple)) else "a mapping"


def _seen(value: t.Any) -> str:
    return f"the text {shown(value)}" if isinstance(value, str) else shown(value)


def _folded(word: str) -> str:
    return re.sub(r"[\W_]+", "", word).lower()


def same_word(word: str, known: t.Iterable[str]) -> str | None:
    """The known word that differs only in case, dashes, blanks or underscores."""
    return next((other for other in known if _folded(other) == _folded(word)), None)


def nearest(word: str, known: t.Iterable[str]) -> str | None:
    """The known word a writer most likely meant."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return same_word(word, known) or (close[0] if close else None)


def _did_you_mean(word: str, known: t.Iterable[str]) -> str:
    close = nearest(word, known)
    return f"; did you mean '{close}'?" if close else ""


def _is_newer(word: str, patterns: t.Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(word, pattern) for pattern in patterns)


def _bounds(field: Field) -> str:
    words = {"min": "at least", "above": "above", "max": "at most", "below": "below"}
    bounds = [f"{word} {field[key]}" for key, word in words.items() if key in field]
    return f" ({', '.join(bounds)})" if bounds else ""


def _expected(field: Field) -> str:
    """What a field may hold, as the middle of a sentence."""
    if field["type"] == "union":
        return " or ".join(_expected(other) for other in field["any_of"])
    if "values" in field:
        return "one of " + ", ".join(field["values"])
    return {
        "any": "anything",
        "bool": "true or false",
        "int": "a whole number" + _bounds(field),
        "float": "a number" + _bounds(field),
        "str": "a text",
        "list": "a list",
        "map": "a mapping",
        "section": "a mapping",
    }[field["type"]]


# Values against the schema


def _has_shape(field: Field, value: t.Any) -> bool:
    kind = field["type"]
    if kind == "any":
        return True
    if kind == "union":
        return any(_has_shape(other, value) for other in field["any_of"])
    if isinstance(value, bool):
        return kind == "bool"
    shapes: dict[str, tuple[type, ...]] = {
        "bool": (bool,),
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "list": (list, tuple),
        "map": (dict,),
        "section": (dict,),
    }
    return isinstance(value, shapes[kind])


def _in_bounds(field: Field, value: float) -> bool:
    return (
        value >= field.get("min", value)
        and value <= field.get("max", value)
        and ("above" not in field or value > field["above"])
        and ("below" not in field or value < field["below"])
    )


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


class Checker:
    """Checks values against the schema of one family and returns them in the schema's order and spelling."""

    def __init__(self, family: Family, report: Report) -> None:
        self.family = family
        self.sections: t.Mapping[str, Section] = family["sections"]
        self.report = report

    def fields(self, name: str) -> dict[str, Field]:
        """The fields of a section, those of the section it extends first."""
        section = self.sections[name]
        inherited = self.fields(section["extends"]) if "extends" in section else {}
        return {**inherited, **section["fields"]}

    def _gathered(self, name: str, what: str) -> list[t.Any]:
        section = self.sections[name]
        inherited = self._gathered(section["extends"], what) if "extends" in section else []
        return [*inherited, section.get(what, ())]

    def _renamed(self, name: str) -> dict[str, str]:
        return {old: new for table in self._gathered(name, "renamed") for old, new in dict(table).items()}

    def _newer(self, name: str) -> list[str]:
        return [pattern for patterns in self._gathered(name, "newer") for pattern in patterns]

    def value(self, field: Field, value: t.Any, path: str) -> t.Any:
        """The value as it is written, or the same value and an error."""
        if "never" in field:
            self.report.error(path, f"remove it: {field['never']}")
            return value
        if "advice" in field:
            self.report.warn(path, field["advice"])
        if value is None and field.get("null"):
            return None
        if not _has_shape(field, value):
            self.report.error(path, f"must be {_expected(field)}, not {_seen(value)}")
            return value
        check: t.Callable[[Field, t.Any, str], t.Any] = getattr(self, f"_{field['type']}")
        return check(field, value, path)

    def _any(self, field: Field, value: t.Any, path: str) -> t.Any:
        return value

    def _bool(self, field: Field, value: bool, path: str) -> bool:
        return value

    def _int(self, field: Field, value: int, path: str) -> int:
        return t.cast(int, self._float(field, value, path))

    def _float(self, field: Field, value: float, path: str) -> float:
        if not _in_bounds(field, value):
            self.report.error(path, f"must be {_expected(field)}, not {value}")
        return value

    def _str(self, field: Field, value: str, path: str) -> str:
        values = field.get("values")
        folded = {"lower": value.lower(), "upper": value.upper()}.get(field.get("fold", ""), value)
        if not values or folded in values:
            return folded if values else value
        if _is_newer(value, field.get("newer", ())):
            self.report.error(path, f"'{value}' is of a newer release than release family {self.family['name']}")
        else:
            self.report.error(path, f"must be {_expected(field)}, not '{value}'{_did_you_mean(value, values)}")
        return value

    def _list(self, field: Field, value: list[t.Any], path: str) -> list[t.Any]:
        if len(value) < field.get("min_items", 0):
            self.report.error(path, "must not be an empty list")
        return [self.value(field["items"], item, f"{path}[{index}]") for index, item in enumerate(value)]

    def _map(self, field: Field, value: dict[t.Any, t.Any], path: str) -> dict[t.Any, t.Any]:
        pairs = {self._map_key(field, key, path): (key, item) for key, item in value.items()}
        ordered = sorted(pairs, key=lambda key: (not isinstance(key, int), key if isinstance(key, int) else str(key)))
        return {key: self.value(field["of"], pairs[key][1], _join(path, pairs[key][0])) for key in ordered}

    def _map_key(self, field: Field, key: t.Any, path: str) -> t.Any:
        if field.get("keys") != "int":
            return str(key)
        # Module parameters travel as JSON, which makes texts of all keys.
        if re.fullmatch(r"-?\d+", str(key)):
            return int(key)
        self.report.error(_join(path, key), "the key must be a whole number")
        return key

    def _union(self, field: Field, value: t.Any, path: str) -> t.Any:
        fitting = next(other for other in field["any_of"] if _has_shape(other, value))
        return self.value(fitting, value, path)

    def _section(self, field: Field, value: dict[str, t.Any], path: str) -> dict[str, t.Any]:
        return self.section(field["section"], value, path)

    def section(self, name: str, value: t.Mapping[str, t.Any], path: str) -> dict[str, t.Any]:
        """The mapping of a section, in the order of its fields."""
        if "tag" in self.sections[name]:
            return self._variant(name, value, path)
        return self._members(name, value, path)

    def _variant(self, name: str, value: t.Mapping[str, t.Any], path: str) -> dict[str, t.Any]:
        section = self.sections[name]
        tag, variants = section["tag"], section["variants"]
        where = _join(path, tag)
        if tag not in value:
            self.report.error(where, f"is missing; it must be one of {', '.join(variants)}")
            return dict(value)
        chosen = value[tag]
        if not isinstance(chosen, str) or chosen not in variants:
            self._report_unknown_variant(section, chosen, where)
            return dict(value)
        members = {key: item for key, item in value.items() if key != tag}
        siblings = {other: self.fields(target) for other, target in variants.items() if other != chosen}
        return {tag: chosen, **self._members(variants[chosen], members, path, tag, siblings)}

    def _report_unknown_variant(self, section: Section, chosen: t.Any, where: str) -> None:
        known = ", ".join(section["variants"])
        if not isinstance(chosen, str):
            self.report.error(where, f"must be one of {known}, not {_seen(chosen)}")
        elif _is_newer(chosen, section.get("newer", ())):
            self.report.error(where, f"'{chosen}' is of a newer release than release family {self.family['name']}")
        else:
            hint = _did_you_mean(chosen, section["variants"])
            self.report.error(where, f"must be one of {known}, not '{chosen}'{hint}")

    def _members(
        self,
        name: str,
        value: t.Mapping[str, t.Any],
        path: str,
        tag: str = "",
        siblings: t.Mapping[str, t.Mapping[str, Field]] | None = None,
    ) -> dict[str, t.Any]:
        fields = self.fields(name)
        aliases = {field["alias"]: key for key, field in fields.items() if "alias" in field}
        for key in value:
            if key not in fields and key not in aliases:
                self.report.error(_join(path, key), self._unknown_key(name, str(key), tag, siblings or {}))
        result: dict[str, t.Any] = {}
        for key, field in fields.items():
            spellings = dict.fromkeys((key, field.get("alias", key)))
            given = [spelling for spelling in spellings if spelling in value]
            if len(given) > 1:
                self.report.error(_join(path, given[1]), f"is another name of {given[0]}; give only one of them")
            if given:
                result[key] = self.value(field, value[given[0]], _join(path, given[0]))
            elif field.get("required"):
                self.report.error(_join(path, key), "is missing")
        return result

    def _unknown_key(self, name: str, key: str, tag: str, siblings: t.Mapping[str, t.Mapping[str, Field]]) -> str:
        family = self.family["name"]
        renamed = self._renamed(name)
        if key in renamed:
            return f"is not a key of release family {family}; use {renamed[key]}"
        if _is_newer(key, self._newer(name)):
            return f"is a key of a newer release than release family {family}"
        owners = [variant for variant, fields in siblings.items() if key in fields]
        if owners:
            return f"is a key of {tag} {', '.join(owners)} only"
        unknown = f"is not a key of release family {family}"
        fields = self.fields(name)
        spelling = same_word(key, fields)
        elsewhere = [] if spelling else [place for place in self._places(key) if place]
        if elsewhere:
            return f"{unknown} here; did you mean '{elsewhere[0]}'?"
        return unknown + _did_you_mean(key, [*fields, *renamed])

    def _places(self, key: str) -> t.Iterator[str]:
        """Where a key that is misplaced belongs: at the top, or in one of the top's sections."""
        top = self.fields(ROOT)
        if key in top and "never" not in top[key]:
            yield key
        for parent, field in top.items():
            if field["type"] == "section" and "tag" not in self.sections[field["section"]]:
                fields = self.fields(field["section"])
                if key in fields:
                    yield f"{parent}.{key}"


# Rules over more than one field; each reads only values of the right type, since the rest is reported already


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a rule looks at."""

    family: Family
    options: t.Mapping[str, t.Any]
    world_size: int
    report: Report

    def mapping(self, key: str) -> t.Mapping[str, t.Any]:
        value = self.options.get(key)
        return value if isinstance(value, dict) else {}

    @property
    def speculation(self) -> t.Mapping[str, t.Any]:
        return self.mapping("speculative_config")

    @property
    def decoding_type(self) -> str | None:
        value = self.speculation.get("decoding_type")
        variants = self.family["sections"]["SpeculativeConfig"]["variants"]
        return value if isinstance(value, str) and value in variants else None


def _is_int(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _int_in(mapping: t.Mapping[str, t.Any], key: str, default: int | None = None) -> int | None:
    value = mapping.get(key, default)
    return value if _is_int(value) else None


def _number_in(mapping: t.Mapping[str, t.Any], key: str) -> float | None:
    value = mapping.get(key)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _spec(key: str) -> str:
    return f"speculative_config.{key}"


def decoding_type_is_served(subject: Subject) -> None:
    reason = subject.family["refused_types"].get(subject.decoding_type)
    if reason:
        subject.report.error(_spec("decoding_type"), f"{subject.decoding_type} can not be served: {reason}")


def draft_model_is_given(subject: Subject) -> None:
    key = subject.family["draft_model_key"]
    if subject.decoding_type in subject.family["needs_draft_model"] and not subject.speculation.get(key):
        subject.report.error(_spec(key), f"is missing; {subject.decoding_type} needs a draft model")


def draft_length_is_positive(subject: Subject) -> None:
    if subject.decoding_type not in subject.family["needs_draft_length"]:
        return
    length = subject.speculation.get("max_draft_len")
    if length is None:
        subject.report.error(_spec("max_draft_len"), f"is missing; {subject.decoding_type} needs a draft length")
    elif length == 0 and not isinstance(length, bool):
        subject.report.error(_spec("max_draft_len"), f"must be at least 1 for {subject.decoding_type}")


def schedule_or_concurrency(subject: Subject) -> None:
    given = [key for key in ("max_concurrency", "draft_len_schedule") if subject.speculation.get(key) is not None]
    if len(given) == 2:
        subject.report.error(_spec("max_concurrency"), "excludes draft_len_schedule; keep one of them")
    elif given == ["max_concurrency"] and subject.decoding_type == "Eagle" and "Eagle3" in _types(subject):
        subject.report.error(
            _spec("max_concurrency"), "is refused with decoding_type Eagle; write decoding_type Eagle3"
        )


def _types(subject: Subject) -> t.Collection[str]:
    return t.cast("dict[str, str]", subject.family["sections"]["SpeculativeConfig"]["variants"])


def schedule_fits_draft_length(subject: Subject) -> None:
    schedule = subject.speculation.get("draft_len_schedule")
    if not isinstance(schedule, dict):
        return
    where = _spec("draft_len_schedule")
    if not schedule:
        subject.report.error(where, "must not be empty")
    if not schedule or not all(_is_int(number) for pair in schedule.items() for number in pair):
        return
    for size, length in schedule.items():
        if size < 1:
            subject.report.error(f"{where}.{size}", "the batch size must be at least 1")
        if length < 0:
            subject.report.error(f"{where}.{size}", f"the draft length must be at least 0, not {length}")
    _compare_schedule(subject, schedule, where)


def _compare_schedule(subject: Subject, schedule: dict[int, int], where: str) -> None:
    start = subject.family["schedule_start"]
    if start is not None and start not in schedule:
        subject.report.error(where, f"must have the batch size {start}")
        return
    smallest = min(schedule) if start is None else start
    longest = _int_in(subject.speculation, "max_draft_len")
    if longest is None:
        return
    if schedule[smallest] != longest:
        subject.report.error(
            f"{where}.{smallest}",
            f"must equal max_draft_len ({longest}) at the smallest batch size, not {schedule[smallest]}",
        )
    for size, length in schedule.items():
        if size != smallest and length > longest:
            subject.report.error(f"{where}.{size}", f"must not exceed max_draft_len ({longest}), but is {length}")


def dynamic_tree_is_complete(subject: Subject) -> None:
    speculation = subject.speculation
    if speculation.get("use_dynamic_tree") is True and speculation.get("eagle_choices") is not None:
        subject.report.error(_spec("eagle_choices"), "is a static tree, which excludes use_dynamic_tree")
    if not _has_dynamic_tree(speculation):
        return
    width = _int_in(speculation, "dynamic_tree_max_topK")
    if width is None and speculation.get("dynamic_tree_max_topK") is None:
        subject.report.error(_spec("dynamic_tree_max_topK"), "is missing; a dynamic tree needs its width")
    elif width is not None and width < 1:
        subject.report.error(_spec("dynamic_tree_max_topK"), f"must be at least 1, not {width}")
    length, nodes = _int_in(speculation, "max_draft_len"), _int_in(speculation, "max_total_draft_tokens")
    if width and length and nodes is not None and not length <= nodes <= width * length:
        subject.report.error(
            _spec("max_total_draft_tokens"),
            f"must be from {length} (max_draft_len) to {width * length} (dynamic_tree_max_topK times max_draft_len),"
            f" not {nodes}",
        )


def _has_dynamic_tree(speculation: t.Mapping[str, t.Any]) -> bool:
    return speculation.get("use_dynamic_tree") is True or speculation.get("dynamic_tree_max_topK") is not None


def dynamic_tree_suits_the_model(subject: Subject) -> None:
    if not _has_dynamic_tree(subject.speculation):
        return
    models = (subject.options.get("model"), subject.speculation.get(subject.family["draft_model_key"]))
    if any(isinstance(model, str) and NO_DYNAMIC_TREE.search(model) for model in models):
        subject.report.error(
            _spec("use_dynamic_tree"), "the dynamic tree does not work with gpt-oss and DeepSeek models"
        )
    else:
        subject.report.warn(
            _spec("use_dynamic_tree"), "the dynamic tree does not work with models of sliding-window or MLA attention"
        )


def suffix_automaton_fits(subject: Subject) -> None:
    if subject.decoding_type != "SA":
        return
    speculation, report = subject.speculation, subject.report
    matching = _int_in(speculation, "max_matching_ngram_size", -1)
    pool, pooled = _int_in(speculation, "global_pool_size"), speculation.get("enable_global_pool") is True
    if matching == 0:
        report.error(_spec("max_matching_ngram_size"), "must be -1 (the longest match) or at least 1, not 0")
    elif pooled and matching is not None and matching > 64:
        report.error(_spec("max_matching_ngram_size"), f"must be at most 64 with enable_global_pool, not {matching}")
    if pool is not None and not pooled:
        report.error(_spec("global_pool_size"), "needs enable_global_pool: true")
    batch = _int_in(subject.options, "max_batch_size")
    if pool is not None and batch is not None and pool < batch:
        report.error(_spec("global_pool_size"), f"must be at least max_batch_size ({batch}), not {pool}")


def no_pipeline_with_speculation(subject: Subject) -> None:
    stages = _int_in(subject.options, "pipeline_parallel_size")
    if stages is not None and stages > 1 and subject.speculation:
        subject.report.error("pipeline_parallel_size", f"must be 1 with speculative decoding, not {stages}")


def parallel_sizes_fill_the_world(subject: Subject) -> None:
    sizes = [_int_in(subject.options, key, 1) or 0 for key in PARALLEL_SIZES]
    ranks = math.prod(sizes)
    if ranks > 0 and ranks != subject.world_size:
        given = [key for key in PARALLEL_SIZES if key in subject.options]
        subject.report.error(
            (given or PARALLEL_SIZES)[0],
            f"tensor, pipeline and context parallel size are {' x '.join(map(str, sizes))} = {ranks},"
            f" but world_size is {subject.world_size}",
        )


def cache_fraction_is_written(subject: Subject) -> None:
    # What the server does with a kv_cache_config without it differs from release to release.
    given = isinstance(subject.options.get("kv_cache_config"), dict)
    if given and "free_gpu_memory_fraction" not in subject.mapping("kv_cache_config"):
        subject.report.error(
            "kv_cache_config.free_gpu_memory_fraction", "is missing; always write it where kv_cache_config is given"
        )


def graph_sizes_are_given_once(subject: Subject) -> None:
    graphs = subject.mapping("cuda_graph_config")
    if graphs.get("batch_sizes") and graphs.get("max_batch_size"):
        subject.report.error("cuda_graph_config.batch_sizes", "excludes max_batch_size; keep one of them")


def lora_is_not_prefetched(subject: Subject) -> None:
    if subject.mapping("peft_cache_config").get("lora_prefetch_dir") is not None:
        subject.report.error("peft_cache_config.lora_prefetch_dir", "remove it: the server does not support it")


def ray_options_need_ray(subject: Subject) -> None:
    if subject.options.get("orchestrator_type") == "ray":
        return
    for key in ("ray_worker_extension_cls", "ray_placement_config"):
        if subject.options.get(key) is not None:
            subject.report.error(key, "needs orchestrator_type: ray")


def collecting_needs_a_file(subject: Subject) -> None:
    benchmarks = subject.mapping("layer_wise_benchmarks_config")
    if benchmarks.get("calibration_mode") == "COLLECT" and not benchmarks.get("calibration_file_path"):
        subject.report.error(
            "layer_wise_benchmarks_config.calibration_file_path", "is missing; calibration_mode COLLECT needs it"
        )


def balanced_attention_waits_forward(subject: Subject) -> None:
    attention = subject.mapping("attention_dp_config")
    if attention.get("enable_balance") is not True:
        return
    for key in ("timeout_iters", "batching_wait_iters"):
        iterations = _int_in(attention, key)
        if iterations is not None and iterations < 0:
            subject.report.error(f"attention_dp_config.{key}", "must be at least 0 with enable_balance")


def helix_blocks_agree(subject: Subject) -> None:
    context, cache = subject.mapping("cp_config"), subject.mapping("kv_cache_config")
    tokens, expected = _int_in(context, "tokens_per_block"), _int_in(cache, "tokens_per_block", 32)
    parallel = _int_in(subject.options, "context_parallel_size", 1)
    if context.get("cp_type") == "HELIX" and parallel != 1 and tokens is not None and tokens != expected:
        subject.report.error(
            "cp_config.tokens_per_block", f"must equal kv_cache_config.tokens_per_block ({expected}), not {tokens}"
        )


# Advice: the server starts, but not well on a DGX Spark


def graphs_fit_the_batch(subject: Subject) -> None:
    graphs, batch = subject.mapping("cuda_graph_config"), _int_in(subject.options, "max_batch_size")
    sizes = graphs.get("batch_sizes")
    listed = [size for size in sizes if _is_int(size)] if isinstance(sizes, list) else []
    largest = max([*listed, _int_in(graphs, "max_batch_size") or 0])
    if batch is not None and largest > batch:
        where = "batch_sizes" if listed else "max_batch_size"
        subject.report.warn(
            f"cuda_graph_config.{where}",
            f"{largest} exceeds max_batch_size ({batch}); the larger graphs only cost memory",
        )


def cache_leaves_memory(subject: Subject) -> None:
    fraction = _number_in(subject.mapping("kv_cache_config"), "free_gpu_memory_fraction")
    if fraction is not None and 0.9 < fraction <= 1:
        subject.report.warn(
            "kv_cache_config.free_gpu_memory_fraction",
            f"{fraction} is more than 0.9; on a GB10 the system lives in the same memory and may run out of it",
        )


def host_cache_is_the_same_memory(subject: Subject) -> None:
    size = _int_in(subject.mapping("kv_cache_config"), "host_cache_size")
    if size:
        subject.report.warn(
            "kv_cache_config.host_cache_size", "on a GB10 host and GPU share their memory; a host cache only wastes it"
        )


def experts_run_on_cutlass(subject: Subject) -> None:
    if subject.mapping("moe_config").get("backend") == "TRTLLM":
        subject.report.warn("moe_config.backend", "TRTLLM does not run FP4 experts on a GB10; use CUTLASS")


def eagle_means_eagle3(subject: Subject) -> None:
    if subject.decoding_type == "Eagle" and "Eagle3" in _types(subject):
        subject.report.warn(_spec("decoding_type"), "Eagle is treated as Eagle3; write Eagle3")


def two_models_are_deprecated(subject: Subject) -> None:
    for key in ("eagle3_one_model", "mtp_eagle_one_model"):
        if subject.speculation.get(key) is False:
            subject.report.warn(_spec(key), "drafting as two models is deprecated and goes with release 1.4")


def save_state_is_no_service(subject: Subject) -> None:
    if subject.decoding_type == "SaveState":
        subject.report.warn(
            _spec("decoding_type"), "SaveState collects data to train a draft model; it does not speculate"
        )


RULES: tuple[t.Callable[[Subject], None], ...] = (
    decoding_type_is_served,
    draft_model_is_given,
    draft_length_is_positive,
    schedule_or_concurrency,
    schedule_fits_draft_length,
    dynamic_tree_is_complete,
    dynamic_tree_suits_the_model,
    suffix_automaton_fits,
    no_pipeline_with_speculation,
    parallel_sizes_fill_the_world,
    cache_fraction_is_written,
    graph_sizes_are_given_once,
    lora_is_not_prefetched,
    ray_options_need_ray,
    collecting_needs_a_file,
    balanced_attention_waits_forward,
    helix_blocks_agree,
    graphs_fit_the_batch,
    cache_leaves_memory,
    host_cache_is_the_same_memory,
    experts_run_on_cutlass,
    eagle_means_eagle3,
    two_models_are_deprecated,
    save_state_is_no_service,
)


# Requests


def _merged(request: Request, family: Family, report: Report) -> dict[str, t.Any]:
    """The free options together with the neutral inputs; an option that comes from both sides is an error."""
    options = dict(request.options)
    if request.method != "none":
        if options.get("speculative_config") is not None:
            report.error("speculative_config", f"excludes method {request.method}; give only one of them")
        options["speculative_config"] = _speculation(request, family)
    if request.revision is not None:
        given = [key for key in ("revision", "hf_revision") if options.pop(key, None) not in (None, request.revision)]
        if given:
            report.error(given[0], "is given as the parameter revision too, with another value")
        options["revision"] = request.revision
    if request.world_size > 1 and not any(key in options for key in PARALLEL_SIZES):
        options["tensor_parallel_size"] = request.world_size
    return options


def _speculation(request: Request, family: Family) -> dict[str, t.Any]:
    inputs = {"max_draft_len": request.max_draft_len, family["draft_model_key"]: request.draft_model or None}
    return {
        "decoding_type": family["methods"][request.method],
        **{key: value for key, value in inputs.items() if value is not None},
    }


def _as_parameters(findings: t.Iterable[Finding], request: Request, family: Family) -> list[Finding]:
    """Findings about speculation that came from parameters, under the names of the parameters."""
    if request.method == "none":
        return list(findings)
    names = {_spec("max_draft_len"): "max_draft_len", _spec(family["draft_model_key"]): "draft_model"}
    return [dataclasses.replace(finding, path=names.get(finding.path, finding.path)) for finding in findings]


def build(request: Request) -> Built:
    """The engine options a request asks for, and everything that is wrong or unwise about them."""
    report = Report()
    release = release_of(request.release)
    family = find_family(request.release, report)
    if family is None:
        return Built(release, "", {}, report.errors, report.warnings)
    if request.world_size < 1:
        report.error("world_size", f"must be at least 1, not {request.world_size}")
    options = Checker(family, report).section(ROOT, _merged(request, family, report), "")
    subject = Subject(family, options, max(request.world_size, 1), report)
    for rule in RULES:
        rule(subject)
    errors, warnings = (_as_parameters(found, request, family) for found in (report.errors, report.warnings))
    return Built(release, family["name"], options, errors, warnings)


def render(options: t.Mapping[str, t.Any]) -> str:
    """Engine options as the text of a file; the same options always give the same text."""
    # Only rendering needs PyYAML, and a module reports its absence in its own words.
    import yaml

    body = yaml.dump(
        dict(options), Dumper=yaml.SafeDumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=4096
    )
    return HEADER + body

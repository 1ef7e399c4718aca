# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._data.typed import (
    Check,
    Mismatch,
    MismatchError,
    find_mismatches,
    keep_matching,
    read_typed,
)

Port = t.Annotated[int, Check(lambda port: 0 < port < 65536, "a port")]


@dataclasses.dataclass(frozen=True)
class Mount:
    source: str
    target: str
    read_only: bool = True


@dataclasses.dataclass(frozen=True)
class Request:
    name: str
    mounts: tuple[Mount, ...] = ()
    ports: list[Port] = dataclasses.field(default_factory=list)
    method: t.Literal["eagle3", "none"] = "none"
    memory: float | None = None
    stop: int | str = 10
    sizes: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    lines: t.Sequence[str] = ()
    options: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    free: dict = dataclasses.field(default_factory=dict)
    main: t.Optional[Mount] = None  # noqa: UP045
    extra: Mount | str = ""
    made: int = dataclasses.field(init=False, default=3)


MOUNT = {"source": "/a", "target": "/b"}
WHOLE: dict[str, t.Any] = {
    "name": "n",
    "mounts": [MOUNT, {**MOUNT, "read_only": False}],
    "ports": [8000],
    "method": "eagle3",
    "memory": 5,
    "stop": "10s",
    "sizes": {"a": 1},
    "lines": ["x"],
    "options": {"a": [None]},
    "free": {1: 2},
    "main": MOUNT,
    "extra": MOUNT,
}


def test_nested_parts_become_what_their_hints_say() -> None:
    request = read_typed(Request, WHOLE)
    assert request.mounts == (Mount("/a", "/b"), Mount("/a", "/b", read_only=False))
    assert (request.main, request.extra) == (Mount("/a", "/b"), Mount("/a", "/b"))
    assert (request.ports, request.memory, request.stop, request.sizes) == ([8000], 5, "10s", {"a": 1})
    assert (request.lines, request.options, request.free, request.made) == (["x"], {"a": [None]}, {1: 2}, 3)


def test_what_is_left_out_has_its_default() -> None:
    request = read_typed(Request, {"name": "n", "memory": None, "main": None})
    assert request == Request("n")


def test_asdict_does_the_reverse() -> None:
    request = read_typed(Request, WHOLE)
    data = dataclasses.asdict(request)
    assert read_typed(Request, data, ignore_unknown=True) == request


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": 5}, "name must be a string, not 5"),
        ({"mounts": [MOUNT, {"source": "/a"}]}, "mounts[1].target is missing"),
        ({"mounts": [{**MOUNT, "read_only": 1}]}, "mounts[0].read_only must be true or false, not 1"),
        ({"mounts": MOUNT}, "mounts must be a list, not {'source': '/a', 'target': '/b'}"),
        ({"mounts": ["/a"]}, "mounts[0] must be a mapping, not '/a'"),
        ({"ports": [8000, 0]}, "ports[1] is 0, but must be a port"),
        ({"ports": [True]}, "ports[0] must be a whole number, not True"),
        ({"method": "mtp"}, "method is 'mtp', but must be one of eagle3, none"),
        ({"memory": "5"}, "memory must be a number, not '5'"),
        ({"stop": 1.5}, "stop must be a whole number or a string, not 1.5"),
        ({"stop": None}, "stop must be a whole number or a string, not None"),
        ({"sizes": {"a": "x"}}, "sizes.a must be a whole number, not 'x'"),
        ({"sizes": {5: 1}}, "sizes[5] must be a string, not 5"),
        ({"lines": "xyz"}, "lines must be a list, not 'xyz'"),
        ({"main": {"source": "/a", "target": None}}, "main.target must be a string, not None"),
        # Of a dataclass among other types.
        ({"extra": {"source": "/a"}}, "extra.target is missing"),
        ({"extra": 5}, "extra must be a mapping or a string, not 5"),
        ({"mist": 1}, "mist is not known"),
        ({"main": {**MOUNT, "mode": "ro"}}, "main.mode is not known"),
        ({"made": 4}, "made is not known"),
        ({"name": None, "memory": "x"}, "name must be a string, not None; memory must be a number, not 'x'"),
    ],
    ids=str,
)
def test_each_part_that_is_wrong_is_named(change: dict[str, t.Any], text: str) -> None:
    with pytest.raises(MismatchError) as error:
        read_typed(Request, {**WHOLE, **change})
    assert str(error.value) == text


@pytest.mark.parametrize("value", [None, [], "text", 5])
def test_what_is_no_mapping(value: t.Any) -> None:
    assert [str(one) for one in find_mismatches(Request, value)] == [f"it must be a mapping, not {value!r}"]


def test_unknown_keys_may_be_ignored() -> None:
    assert read_typed(Request, {"name": "n", "mist": 1}, ignore_unknown=True) == Request("n")
    assert find_mismatches(Request, {"name": "n", "mist": 1}) == []
    assert find_mismatches(Request, {"mist": 1}) == [Mismatch(("name",), "is missing")]


def test_a_long_value_is_shortened() -> None:
    assert len(str(find_mismatches(Request, {"name": ["x" * 1000] * 1000})[0])) < 300


def test_only_the_wrong_parts_are_dropped() -> None:
    broken = {"source": 5, "target": "/b"}
    data = {
        **WHOLE,
        "name": 5,
        "mounts": [broken, MOUNT, {"source": "/a"}, MOUNT],
        "sizes": {"a": "x", "b": 1},
        "main": broken,
        "stop": None,
        "memory": None,
        "more": {"any": 1},
    }
    kept = keep_matching(Request, data)
    # An item of a list goes as a whole; another part stays, even if something is missing beside it.
    changed = {"mounts": [MOUNT, MOUNT], "sizes": {"b": 1}, "main": {"target": "/b"}, "more": {"any": 1}}
    assert kept == {key: value for key, value in {**WHOLE, **changed}.items() if key not in ("name", "stop", "memory")}
    assert data["mounts"][0] is broken
    assert keep_matching(Request, [1]) is None
    assert keep_matching(Request, {}) == {}

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._cluster.nodes import (
    authorized_keys,
    compare_nodes,
    key_exchange,
    known_hosts,
    node_links,
    public_key,
    sshd_config,
    trust,
)

from tests.unit.looks import KEY, STATE, node


def named(*looks: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    return {f"spark-{number}": look for number, look in enumerate(looks, start=1)}


def problems(head: dict[str, t.Any], worker: dict[str, t.Any], **more: t.Any) -> list[str]:
    return list(compare_nodes(named(head, worker), 60, **more)["problems"])


def slot(**changes: t.Any) -> dict[str, t.Any]:
    labels = {"dgx_spark.speculative.deployment": "single_eagle3", "dgx_spark.speculative.directory": f"{STATE}/x"}
    return {"name": "dgx-spark-speculative", "state": "running", "labels": labels, **changes}


def test_two_sparks_of_a_kind_go_together() -> None:
    found = compare_nodes(named(node(1), node(2)), 60)
    assert (found["problems"], found["findings"]) == ([], [])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hostname": "spark-1"}, "both have the host name spark-1"),
        ({"architecture": "x86_64"}, "spark-1 is a machine of type aarch64 and spark-2 of type x86_64"),
        ({"drivers": ["570.1"]}, "the GPU driver is 580.95.05 on spark-1 and 570.1 on spark-2"),
        ({"drivers": []}, "and missing on spark-2"),
        ({"memory_total": 68_000_000_000}, "spark-1 has 129 GB of memory and spark-2 has 68.0 GB"),
        ({"clock_offset": -300.0}, "the clock of spark-2 is 5 min behind that of spark-1"),
        ({"clock_offset": 86400 * 3}, "the clock of spark-2 is 3 days ahead of that of spark-1"),
        ({"sshd": None}, "spark-2 has no sshd"),
    ],
)
def test_what_keeps_two_sparks_apart_is_named_with_what_to_do(change: dict[str, t.Any], expected: str) -> None:
    found = problems(node(1), node(2, **change))
    assert len(found) == 1
    assert expected in found[0]
    assert ":" in found[0]


def test_everything_is_told_at_once() -> None:
    other = node(2, drivers=["570.1"], memory_total=1, clock_offset=1000.0, sshd=None)
    assert len(problems(node(1), other)) == 4


def test_whose_clock_is_wrong_is_told_by_the_clock_here() -> None:
    assert "by the controller's clock, that of spark-1" in problems(node(1, clock_offset=-900.0), node(2))[0]


@pytest.mark.parametrize(
    ("what", "change"),
    [("driver", {"drivers": ["1"]}), ("memory", {"memory_total": 1}), ("clock", {"clock_offset": 1e6})],
)
def test_a_difference_can_be_tolerated(what: str, change: dict[str, t.Any]) -> None:
    assert f"spark_network_allow_differences: [{what}]" in problems(node(1), node(2, **change))[0]
    found = compare_nodes(named(node(1), node(2, **change)), 60, [what])
    assert (found["problems"], len(found["findings"])) == ([], 1)


def test_a_little_less_memory_and_a_slow_answer_are_no_difference() -> None:
    assert problems(node(1), node(2, memory_total=127_000_000_000, clock_offset=9.0)) == []


def test_another_docker_is_only_said() -> None:
    other = node(2, docker={**node(2)["docker"], "version": "27.5.1"})
    found = compare_nodes(named(node(1), other), 60)
    assert (found["problems"], len(found["findings"])) == ([], 1)
    denied = node(2, docker={**node(2)["docker"], "state": "unusable", "detail": "no socket"})
    assert problems(node(1), denied) == ["Docker on spark-2 cannot be used: no socket"]


def test_a_port_that_somebody_has() -> None:
    port = {
        "address": "192.168.100.11",
        "port": 2233,
        "input": "spark_network_worker_port",
        "in_use": True,
        "ours": False,
        "holder": "process sshd (4711) of user root",
        "description": None,
    }
    assert problems(node(1), node(2, ports=[port])) == [
        "port 2233 on 192.168.100.11 of spark-2 is in use by process sshd (4711) of user root. Choose another "
        "port with spark_network_worker_port, or stop it."
    ]
    assert problems(node(1), node(2, ports=[{**port, "ours": True}])) == []


def test_another_users_deployment_is_not_replaced_while_it_serves() -> None:
    other = slot(labels={**slot()["labels"], "dgx_spark.speculative.directory": "/home/you/x/single_eagle3"})
    assert "holds the deployment single_eagle3 of another user" in problems(node(1, slot=other), node(2))[0]
    stopped = compare_nodes(named(node(1), node(2, slot={**other, "state": "exited"})), 60)
    assert (stopped["problems"], len(stopped["findings"])) == ([], 1)
    assert problems(node(1, slot=slot()), node(2, slot=slot())) == []


def test_the_worker_of_another_head_is_not_taken_away() -> None:
    serving = slot(labels={**slot()["labels"], "dgx_spark.speculative.rank": "1"})
    worker = node(2, slot=serving, authorized={"from": ["192.168.100.10"], "key": KEY})
    assert "is the worker of another head" in problems(node(1, client_key=KEY[:-1] + "1"), worker)[0]
    assert problems(node(1, client_key=KEY), worker) == []
    # A head that was installed anew takes its own worker back.
    assert problems(node(1), worker) == []


# Keys


def test_the_lines_of_the_keys() -> None:
    assert known_hosts(["10.0.0.2", "10.0.1.2"], [2233, 2234], f"{KEY} comment") == (
        f"[10.0.0.2]:2233 {KEY}\n[10.0.0.2]:2234 {KEY}\n[10.0.1.2]:2233 {KEY}\n[10.0.1.2]:2234 {KEY}\n"
    )
    line = authorized_keys(["10.0.0.1", "10.0.1.1"], "/usr/bin/python3 /x", KEY)
    assert line == f'restrict,from="10.0.0.1,10.0.1.1",command="/usr/bin/python3 /x" {KEY}\n'


@pytest.mark.parametrize("text", ["", "ssh-rsa AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----", f"x {KEY}"])
def test_only_a_public_key_gets_into_a_line(text: str) -> None:
    with pytest.raises(ValueError, match="ed25519 public key"):
        public_key(text)


def test_a_key_is_never_valid_from_everywhere_or_for_everything() -> None:
    with pytest.raises(ValueError, match="valid from somewhere"):
        authorized_keys([], "/x", KEY)
    with pytest.raises(ValueError, match="quotation marks"):
        authorized_keys(["10.0.0.1"], 'x" y', KEY)


def test_the_copy_service_listens_on_the_link_only() -> None:
    lines = sshd_config("/s/cluster", ["10.0.0.2", "fd00::2"], 2234, "me").splitlines()
    assert [line for line in lines if line.startswith("ListenAddress")] == [
        "ListenAddress 10.0.0.2:2234",
        "ListenAddress [fd00::2]:2234",
    ]
    assert {"PasswordAuthentication no", "DisableForwarding yes", "AllowUsers me", "UsePAM no"} <= set(lines)
    assert not any(line.startswith("Port ") for line in lines)


# Images


BASE = {"fingerprint": "f", "base": None, "bytes": 7}
MADE = {"fingerprint": "g", "base": "f", "bytes": 8}
OLD = {"fingerprint": "h", "base": "e", "bytes": 8}


@pytest.mark.parametrize(
    ("head", "workers", "copied"),
    [
        ({"base": None, "cluster": None}, [{"base": None, "cluster": None}], False),
        # Of an image that has been pulled anew since, and the same on the worker.
        ({"base": BASE, "cluster": OLD}, [{"base": None, "cluster": OLD}], False),
        ({"base": BASE, "cluster": MADE}, [{"base": None, "cluster": None}], False),
        ({"base": BASE, "cluster": MADE}, [{"base": BASE, "cluster": OLD}], False),
        ({"base": BASE, "cluster": MADE}, [{"base": None, "cluster": MADE}], True),
        ({"base": BASE, "cluster": MADE}, [{"base": None, "cluster": MADE}, {"base": None, "cluster": None}], False),
    ],
)
def test_whether_all_have_the_image(head: dict[str, t.Any], workers: list[dict[str, t.Any]], copied: bool) -> None:
    looks = [node(number, images=images) for number, images in enumerate([head, *workers], start=1)]
    assert compare_nodes(named(*looks), 60)["image_copied"] is copied


def test_the_refusal_has_all_problems() -> None:
    assert compare_nodes(named(node(1), node(2)), 60)["refusal"] == ""
    one = compare_nodes(named(node(1), node(2, sshd=None)), 60)
    assert one["refusal"] == f"spark-1 and spark-2 cannot serve as one: {one['problems'][0]}"
    two = compare_nodes(named(node(1), node(2, sshd=None, drivers=["1"])), 60)
    assert two["refusal"] == "spark-1 and spark-2 cannot serve as one: " + "".join(f"\n- {p}" for p in two["problems"])


# Any number


@pytest.mark.parametrize(
    ("number", "change", "expected"),
    [
        (
            4,
            {"drivers": ["580.82"]},
            "the GPU driver is 580.95.05 on spark-1, spark-2 and spark-3 and 580.82 on spark-4, with which one of "
            "them may wait for the others: bring all to the same with 'sudo apt update' and 'sudo apt full-upgrade', "
            "and restart them, or set spark_network_allow_differences: [driver].",
        ),
        (
            2,
            {"memory_total": 68_000_000_000},
            "spark-1, spark-3 and spark-4 have 129 GB of memory and spark-2 has 68.0 GB, but each holds a quarter "
            "of the model: use Sparks of the same kind, or set spark_network_allow_differences: [memory].",
        ),
        (
            3,
            {"architecture": "x86_64"},
            "spark-1, spark-2 and spark-4 are machines of type aarch64 and spark-3 of type x86_64: one image cannot "
            "run on all, so serve on one of them.",
        ),
        (
            3,
            {"hostname": "spark-2"},
            "spark-2 and spark-3 both have the host name spark-2, so logs could not tell the ranks apart: rename one "
            "with 'sudo hostnamectl set-hostname NAME'.",
        ),
        (4, {"sshd": None}, None),
    ],
)
def test_four_are_grouped_by_what_they_have(number: int, change: dict[str, t.Any], expected: str | None) -> None:
    looks = [node(each, **(change if each == number else {})) for each in range(1, 5)]
    (found,) = compare_nodes(named(*looks), 60)["problems"]
    assert found.startswith(f"spark-{number} has no sshd") if expected is None else found == expected


def test_another_docker_among_four_is_only_said() -> None:
    other = node(4, docker={**node(4)["docker"], "version": "27.5.1"})
    assert compare_nodes(named(node(1), node(2), node(3), other), 60)["findings"] == [
        "spark-1, spark-2 and spark-3 have Docker 28.3.3 and spark-4 has 27.5.1. That works, but the same version on "
        "all is easier to maintain."
    ]


def spark(rank: int) -> dict[str, t.Any]:
    """What a node tells the others of itself."""
    addresses = [f"10.0.0.{1 + rank}", f"10.0.1.{1 + rank}"]
    return {
        "addresses": addresses,
        "key": f"{KEY[:-1]}{rank} x",
        "user": f"user{rank}",
        "python": f"/usr/bin/python3.1{rank}",
    }


def test_a_key_is_the_one_that_was_made_just_now_or_found() -> None:
    looks: dict[str, dict[str, t.Any]] = {"a": {"key": KEY}, "b": {"key": None}, "c": {"key": None}}
    keys: dict[str, dict[str, t.Any]] = {"a": {}, "b": {"public_key": "ssh-ed25519 BBBB"}, "c": {"skipped": True}}
    rails = {host: [{"address": f"10.0.0.{number}"}] for number, host in enumerate("abc")}
    users = dict.fromkeys("abc", "me")
    found = key_exchange(rails, looks, keys, users, {"a": "/usr/bin/python3.12", "b": "", "c": ""})
    assert found["a"] == {"addresses": ["10.0.0.0"], "key": KEY, "user": "me", "python": "/usr/bin/python3.12"}
    assert (found["b"]["key"], found["b"]["python"]) == ("ssh-ed25519 BBBB", "/usr/bin/python3")
    # Check mode has made none.
    assert found["c"]["key"] == "ssh-ed25519 AAAA"
    with pytest.raises(KeyError, match="user_id"):
        key_exchange(rails, looks, keys, {**users, "b": ""}, dict.fromkeys("abc", ""))


def doors(many: int, directory: str = "/s/cluster", **changes: t.Any) -> list[dict[str, t.Any]]:
    hosts = {f"spark-{rank + 1}": {**spark(rank), **changes} for rank in range(many)}
    return [trust(hosts, host, directory, 2233, 2234, f"{directory}/own", 8, 180) for host in hosts]


def key(rank: int) -> str:
    return f"{KEY[:-1]}{rank}"


def test_of_two_each_side_gets_the_other_ones_key() -> None:
    head, worker = doors(2)
    (known,) = head["files"]
    assert (known["name"], head["copies"]) == ("known_hosts", [])
    assert known["content"] == known_hosts(["10.0.0.2", "10.0.1.2"], [2233, 2234], key(1))
    assert head["connection"] == {
        "worker": "spark-2",
        "user": "user1",
        "addresses": ["10.0.0.2", "10.0.1.2"],
        "port": 2234,
        "key": "/s/cluster/own",
        "known_hosts": "/s/cluster/known_hosts",
        "streams": 8,
        "patience": 180,
    }
    (container,) = worker["files"]
    assert container["content"] == (
        f'restrict,from="10.0.0.1,10.0.1.1",command="/usr/bin/python3 /deployment/entrypoint.py launch" {key(0)}\n'
    )
    settings, copies = worker["copies"]
    assert (settings["name"], worker["connection"]) == ("sshd_config", {})
    assert copies["content"].startswith('restrict,from="10.0.0.1,10.0.1.1",')
    command = "/usr/bin/python3.11 /s/jobs/copies/program.pyz receive /s/cluster/copy/receive.json"
    assert f'command="{command}" {key(0)}' in copies["content"]
    assert {file["mode"] for file in (known, container, settings, copies)} == {"0600"}


def test_of_three_the_middle_lets_the_one_before_in_and_knows_the_one_after() -> None:
    head, middle, last = doors(3)
    # The head starts a rank on each, and copies to the next one only.
    assert head["files"][0]["content"] == (
        known_hosts(["10.0.0.2", "10.0.1.2"], [2233, 2234], key(1))
        + known_hosts(["10.0.0.3", "10.0.1.3"], [2233], key(2))
    )
    known, container = middle["files"]
    assert known["content"] == known_hosts(["10.0.0.3", "10.0.1.3"], [2234], key(2))
    assert [one["name"] for one in last["files"]] == ["authorized_keys"]
    # Ranks are started by the head on all others, whoever copies.
    assert container["content"] == last["files"][0]["content"]
    assert f'from="10.0.0.1,10.0.1.1",command="{"/usr/bin/python3 /deployment"}' in container["content"]
    assert [
        f'from="{spark(rank)["addresses"][0]},' in one["copies"][1]["content"] for rank, one in ((0, middle), (1, last))
    ] == [
        True,
        True,
    ]
    assert last["copies"][1]["content"].endswith(f" {key(1)}\n")
    assert [one["connection"].get("worker") for one in (head, middle, last)] == ["spark-2", "spark-3", None]


def test_one_alone_lets_nobody_in() -> None:
    (alone,) = doors(1)
    assert (alone["files"], alone["copies"], alone["connection"]) == ([], [], {})


@pytest.mark.parametrize("changes", [{"key": "secret"}, {"directory": "/home/my name/cluster"}, {"addresses": []}])
def test_what_cannot_be_written_is_refused(changes: dict[str, t.Any]) -> None:
    with pytest.raises(ValueError, match=r"ed25519 public key|spaces|valid from somewhere"):
        doors(2, **changes)


RAILS = {host: [{"address": one} for one in spark(rank)["addresses"]] for rank, host in enumerate("abc")}


def proof(**changes: t.Any) -> dict[str, t.Any]:
    return {"error": "", "findings": [], "rails": [{"mtu": 9000}], **changes}


def idle(host: str, *looks: dict[str, t.Any], is_configured: bool = True) -> list[str]:
    return list(node_links(host, dict(zip("abc", looks)), RAILS, is_configured, 2233, 2234)["completed_steps"])


def trusting(*, worker_port: int = 2233) -> list[dict[str, t.Any]]:
    """Three that have just the others' keys."""
    looks = [node(number) for number in (1, 2, 3)]
    known = {host: {**spark(rank), "key": looks[rank]["key"]} for rank, host in enumerate("abc")}
    return [
        {**look, "trusted": trust(known, host, "/s/cluster", worker_port, 2234, "/s/own", 8, 180)["sha256"]}
        for host, look in zip("abc", looks)
    ]


def test_a_link_that_is_proven_and_as_planned_is_done() -> None:
    proven = [{**look, "proof": proof()} for look in trusting()]
    assert idle("b", *proven) == ["link", "ssh_keys"]
    assert idle("b", *proven, is_configured=False) == ["ssh_keys"]
    assert idle("b", proven[0], {**proven[1], "proof": proof(error="no link")}, proven[2]) == ["ssh_keys"]
    assert node_links("b", dict(zip("abc", proven)), RAILS, True, 2233, 2234)["rails"] == [{"mtu": 9000}]


def test_a_link_that_has_to_be_configured_is_proven_later() -> None:
    looks = trusting()
    assert idle("a", *looks) == ["ssh_keys"]
    assert node_links("a", dict(zip("abc", looks)), RAILS, True, 2233, 2234)["rails"] == RAILS["a"]


@pytest.mark.parametrize("host", ["a", "b", "c"])
def test_keys_are_done_where_they_are_as_all_have_them_now(host: str) -> None:
    looks, rank = trusting(), "abc".index(host)
    assert idle(host, *looks) == ["ssh_keys"]
    for changed in ({"trusted": ""}, {"has_directory": False}, {"key_is_open": True}, {"key": None}):
        assert idle(host, *({**look, **changed} if at == rank else look for at, look in enumerate(looks))) == []


def test_another_key_or_port_of_another_spark_counts() -> None:
    first, second, third = trusting()
    assert idle("b", first, second, {**third, "key": first["key"]}) == []
    assert idle("a", *trusting(worker_port=2299)) == []


def test_what_is_wrong_with_a_link_keeps_sparks_apart() -> None:
    broken = node(2, proof=proof(error="spark-2: enp1s0f1np1 has no link."))
    assert problems(node(1, proof=proof(findings=["Slow."])), broken) == ["spark-2: enp1s0f1np1 has no link."]


def test_what_may_surprise_about_a_link_is_told_of_its_spark() -> None:
    looks = [{**look, "proof": proof(findings=["Slow."])} for look in trusting()]
    assert node_links("b", dict(zip("abc", looks)), RAILS, True, 2233, 2234)["findings"] == ["b: Slow."]
    # Of a link that is not good, or was not looked at, the planned rails are all there is.
    unproven = node_links("b", dict(zip("abc", trusting())), RAILS, True, 2233, 2234)
    assert (unproven["rails"], unproven["findings"]) == (RAILS["b"], [])

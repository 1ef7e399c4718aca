# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.lines import Page
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import NOT_COMPARED
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.access import NO_PROXY, Endpoint, Reach
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.summary import first_lines, render, short

LOCAL = Reach(local=True)


def record(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "target_model": "example/target",
        "served_model": "target",
        "method": "eagle3",
        "draft_length": 5,
        "url": "http://127.0.0.1:8000",
        "deployed_at": "2026-10-04T09:12:44Z",
        "measurements": {"ttft_s": 0.214, "tokens_per_second": 61.26, "acceptance_length": 2.5},
        "memory_available": 54_200_000_000,
        "answer": {"text": "The distance is 276 km.", "reasoning": None},
        "findings": [],
        **changes,
    }


def test_the_figures_are_there() -> None:
    text = render("spark-1", record(), LOCAL)
    assert text.startswith("spark-1 serves target with EAGLE-3, draft length 5\n")
    assert "  first token        0.21 s\n" in text
    assert "  speed              61.3 tokens/s\n" in text
    assert "  acceptance length  2.50 tokens per pass (maximum 6)\n" in text
    assert "  measured           at deployment, 2026-10-04T09:12:44Z\n" in text
    assert "  available memory   54.2 GB\n" in text
    # As in every other output.
    assert "  available memory   124 GB\n" in render("spark-1", record(memory_available=124_000_000_000), LOCAL)
    assert "    The distance is 276 km.\n" in text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1", "(reachable from this Spark only)"),
        ("::1", "(reachable from this Spark only)"),
        ("0.0.0.0", "(open to everyone who can reach 0.0.0.0)"),
    ],
)
def test_who_can_use_the_api_is_said(address: str, words: str) -> None:
    assert f"  URL                http://127.0.0.1:8000/v1 {words}\n" in render("x", record(listens_on=address), LOCAL)


def test_what_was_not_measured_is_unknown_and_not_zero() -> None:
    text = render("spark-1", record(measurements={}), LOCAL)
    assert "  speed              unknown\n" in text
    assert "  acceptance length  unknown tokens" in text


def test_what_is_not_the_recipes_is_said_with_where_it_comes_from() -> None:
    said = {"draft_length": {"from": "given", "says": "draft length 5, given with -e"}, "odd": None}
    assert "  overrides          draft length 5, given with -e\n" in render("spark-1", record(origins=said), LOCAL)
    # Earlier records know nothing of it.
    assert "overrides" not in render("spark-1", record(), LOCAL)


def test_what_was_free_for_the_gpu_stands_before_what_is_left() -> None:
    text = render("spark-1", record(free_for_gpu="101 GB according to CUDA, 118 GB available"), LOCAL)
    assert "  free GPU memory    101 GB according to CUDA, 118 GB available\n  available memory " in text
    # A record of before knows nothing of it, and a worker's image is not asked.
    assert "free GPU memory" not in render("spark-1", record(free_for_gpu=""), LOCAL)


def test_without_drafts_there_is_no_acceptance() -> None:
    text = render("spark-1", record(method="none", draft_length=0), LOCAL)
    assert "spark-1 serves target without speculation" in text
    assert "acceptance" not in text


def test_a_local_spark_needs_no_tunnel() -> None:
    assert "ssh" not in render("spark-1", record(), LOCAL)


@pytest.mark.parametrize(
    ("reach", "command"),
    [
        (Reach(False, "192.0.2.7", "me"), "ssh -N -L 8000:127.0.0.1:8000 me@192.0.2.7"),
        (
            Reach(False, "192.0.2.7", "", 2222, "a key", "-o StrictHostKeyChecking=yes"),
            "ssh -o StrictHostKeyChecking=yes -N -L 8000:127.0.0.1:8000 -p 2222 -i 'a key' 192.0.2.7",
        ),
    ],
)
def test_the_tunnel_is_the_way_ansible_goes(reach: Reach, command: str) -> None:
    assert f"    {command}\n" in render("spark-1", record(), reach)


def test_what_is_reported_of_the_image_is_told_with_its_source() -> None:
    url = "https://github.com/NVIDIA/TensorRT-LLM/pull/15739"
    text = render("spark-1", record(warnings=[f"release: this {'long ' * 20}sentence; see {url}"]), LOCAL)
    assert "  Known issues:\n    - release: this long " in text
    assert url in text
    assert max(map(len, text.split("Known issues")[1].splitlines())) <= 100
    assert "Known issues" not in render("spark-1", record(warnings=[]), LOCAL)


def test_findings_come_last() -> None:
    text = render("spark-1", record(findings=[{"id": "repetition", "message": "the answer repeats itself"}]), LOCAL)
    assert text.endswith("  Findings:\n    - the answer repeats itself")


def test_a_long_answer_is_cut() -> None:
    assert first_lines("one\n\ntwo\nthree", count=2) == ["one", "two", "..."]


def test_a_raw_speculative_config_is_not_called_without_drafts() -> None:
    text = render("spark-1", record(method="", draft_length=0), LOCAL)
    assert text.startswith("spark-1 serves target with a speculative_config of its own\n")


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (2.1, "  Speculation costs more than it brings here (acceptance length 2.10, break-even 2.59)"),
        (2.81, "  Speculation may or may not pay here (acceptance length 2.81): break-even lies between 2.59"),
        (4.5, None),
        (None, None),
    ],
)
def test_drafts_that_may_not_pay_are_named(length: float | None, words: str | None) -> None:
    measurements = {"ttft_s": 0.2, "tokens_per_second": 60, "acceptance_length": length}
    text = render("spark-1", record(measurements=measurements, break_even={"best": 2.59, "worst": 4.32}), LOCAL)
    if words is None:
        assert "Speculation" not in text
    else:
        assert words in text
    assert max(len(line) for line in text.split("Test answer")[0].splitlines()) <= 100


def test_what_was_measured_is_worth_more_than_what_is_computed() -> None:
    chosen = {"date": "2026-11-22", "sentence": "Use draft length 2: it is 1.41 times as fast as without speculation."}
    text = render("spark-1", record(benchmark=chosen, break_even={"best": 9.0, "worst": 9.0}), LOCAL)
    assert "  By the benchmark of 2026-11-22: Use draft length 2: it is 1.41 times as fast as" in text
    assert "break-even" not in text


def test_without_a_break_even_nothing_is_said_of_it() -> None:
    assert "Speculation" not in render("spark-1", record(break_even=None), LOCAL)


@pytest.mark.parametrize(("length", "told"), [(1.13, True), (1.5, False), (None, False)])
def test_drafts_that_bring_little_are_named_where_nothing_is_known_of_their_cost(
    length: float | None, told: bool
) -> None:
    measurements = {"tokens_per_second": 60, "acceptance_length": length}
    text = " ".join(render("spark-1", record(method="ngram", measurements=measurements), LOCAL).split())
    assert (" speculation is at most 1.13 times as fast. " in text) is told


def test_the_speed_stands_beside_that_of_the_deployment_before() -> None:
    before = {"speculation": "with EAGLE-3, draft length 3", "tokens_per_second": 131.6}
    text = render("spark-1", record(method="none", draft_length=0, compared=before), LOCAL)
    assert "  speed              61.3 tokens/s; with EAGLE-3, draft length 3, before: 131.6 (2.15 times)\n" in text
    # Who has compared need not be told to.
    without = {"speculation": "without speculation", "tokens_per_second": 40.0}
    assert "compare the speed" in render("spark-1", record(break_even={"best": 2.4, "worst": 4.3}), LOCAL)
    text = render("spark-1", record(break_even={"best": 2.4, "worst": 4.3}, compared=without), LOCAL)
    assert "without speculation, before: 40.0 (0.65 times)\n" in text
    assert "compare the speed" not in text


def test_what_was_checked_is_listed() -> None:
    text = render("spark-1", record(checks=["A tool was called.", "4 of 4 answers are the same."]), LOCAL)
    assert "\n  Checks passed:\n    - A tool was called.\n    - 4 of 4 answers are the same.\n\n  Test answer:" in text
    assert "Checks passed" not in render("spark-1", record(checks=[]), LOCAL)


def test_what_was_not_compared_is_not_called_checked() -> None:
    text = render("spark-1", record(checks=[NOT_COMPARED]), LOCAL)
    assert "Checks passed" not in text
    assert f"  Not checked:\n    - {NOT_COMPARED[:40]}" in text


ROOM = "one request at a time, 131,072 tokens each, prompt and answer together"


@pytest.mark.parametrize(
    ("concurrency", "options", "words"),
    [
        (
            1,
            {"enable_chunked_prefill": True},
            "one request at a time, 131,072 tokens each, prompt and answer together",
        ),
        (4, {"max_num_tokens": 131_072}, "4 requests at a time, 131,072 tokens each, prompt and answer together"),
        (
            1,
            {"enable_chunked_prefill": False, "max_num_tokens": 1024},
            f"{ROOM}; prompts of at most 1,024 tokens",
        ),
        (
            1,
            {},
            f"{ROOM}; prompts of at most 8,192 tokens",
        ),
    ],
)
def test_how_much_it_holds_is_told(concurrency: int, options: dict[str, t.Any], words: str) -> None:
    shown = render("x", record(context=131072, concurrency=concurrency, options=options), LOCAL)
    assert f"capacity {words} " in " ".join(shown.split())


def test_a_record_that_does_not_say_how_much_it_holds_says_nothing() -> None:
    assert "  capacity " not in render("x", record(), LOCAL)


def rank(**changes: t.Any) -> dict[str, t.Any]:
    return {"rank": 0, "host": "a", "cores": 20, "versions": {"NCCL": "2.28.9", "Open MPI": "4.1.7"}, **changes}


def paired(**changes: t.Any) -> dict[str, t.Any]:
    rail = {"interface": "enp1s0f1np1", "address": "192.168.100.10", "peer_address": "192.168.100.11"}
    rails = [{**rail, "mtu": 9000, "speed_mbps": 200_000}, {"address": "192.168.101.10"}]
    pair = {"rank": 0, "nodes": ["spark-1", "spark-2"], "rails": rails, **changes}
    return record(cluster=pair, listens_on="127.0.0.1")


def test_two_sparks_serve_together() -> None:
    text = render("spark-1", paired(ranks=[rank(), rank(rank=1, host="b")]), LOCAL)
    assert text.startswith("spark-1 and spark-2 serve target with EAGLE-3, draft length 5\n")
    assert "  URL                http://127.0.0.1:8000/v1 (reachable from this Spark only) on spark-1\n" in text
    assert "  available memory   54.2 GB on spark-1\n" in text
    assert (
        "  fabric             enp1s0f1np1 192.168.100.10 - 192.168.100.11, 200 Gb/s, MTU 9000\n"
        "                     192.168.101.10\n"
    ) in text
    assert (
        "  ranks              the same environment, 20 cores each, not known whether NCCL uses RDMA, the same\n"
        "                     versions (NCCL 2.28.9, Open MPI 4.1.7)\n"
    ) in text


def test_ranks_say_that_they_use_rdma() -> None:
    def told(*names: str | None) -> str:
        # That a rank could use its devices is no proof that it does.
        verbs = {"rocep1s0f1": "uverbs1", "roceP2p1s0f1": "uverbs3"}
        networks = [name and {"name": name, "rdma": name != "Socket"} for name in names]
        text = render("x", paired(ranks=[rank(verbs=verbs, network=network) for network in networks]), LOCAL)
        return " ".join(text.split())

    assert "20 cores each, RDMA through the cable by NCCL's own log, the same versions" in told("IB", "IBext_v10")
    assert "20 cores each, RDMA through the switch by NCCL's own log, the same versions" in told(*4 * ["IB"])
    assert "20 cores each, NCCL without RDMA, the same versions" in told("IB", "Socket")
    assert "20 cores each, NCCL without RDMA, the same versions" in told(None, "Socket")
    assert "20 cores each, not known whether NCCL uses RDMA, the same versions" in told("IB", None)


def test_ranks_say_only_what_is_known() -> None:
    assert "  ranks  " not in render("x", paired(), LOCAL)
    assert "  ranks  " not in render("x", record(cluster={}), LOCAL)
    text = render("x", paired(ranks=[rank(cores=1), rank(versions={})]), LOCAL)
    assert "  ranks              the same environment, 1 and 20 cores, not known whether NCCL uses RDMA\n" in text


LAN = Endpoint(
    urls=[
        {"scope": "docker", "url": "http://172.17.0.1:8000"},
        {"scope": "lan", "url": "https://spark-1.local:8443"},
        {"scope": "lan", "url": "https://192.0.2.7:8443"},
    ],
    keys={"default": "/home/me/proxy/keys/default", "open-webui": "/home/me/proxy/keys/open-webui"},
    ca="~/.config/spark-1-ca.crt",
)
AWAY = Reach(False, "192.0.2.7", "me")


def test_whoever_was_let_in_is_told_the_address_with_key_and_certificate_and_not_the_loopback_one() -> None:
    text = render("spark-1", record(listens_on="127.0.0.1"), AWAY, LAN)
    assert "  URL                https://spark-1.local:8443/v1 (other machines, with a key)\n" in text
    assert "  keys               default, open-webui (in /home/me/proxy/keys on the Spark)\n" in text
    assert "127.0.0.1" not in text
    assert "tunnel" not in text
    assert "  Read the key:\n    KEY=$(ssh me@192.0.2.7 'cat /home/me/proxy/keys/default')\n" in text
    # By the address by which this machine gets there.
    assert "    curl https://192.0.2.7:8443/v1/chat/completions --cacert ~/.config/spark-1-ca.crt" in text
    assert '-H "Authorization: Bearer $KEY"' in text
    assert '    client = OpenAI(base_url="https://192.0.2.7:8443/v1")\n' in text
    assert "# export OPENAI_API_KEY=$KEY SSL_CERT_FILE=~/.config/spark-1-ca.crt\n" in text


def test_where_only_containers_were_let_in_the_tunnel_is_the_way() -> None:
    containers = Endpoint(urls=LAN.urls[:1], keys=LAN.keys)
    text = render("spark-1", record(listens_on="127.0.0.1"), AWAY, containers)
    assert "  URL                http://127.0.0.1:8000/v1 (reachable from this Spark only)\n" in text
    assert "                     http://172.17.0.1:8000/v1 (containers on the Spark, with a key)\n" in text
    assert "ssh -N -L" in text
    assert "KEY" not in text


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("endpoint", [Endpoint(), LAN])
def test_what_is_printed_to_be_copied_is_what_a_shell_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: int, endpoint: Endpoint
) -> None:
    monkeypatch.setattr(Page, "columns", columns)
    reach = Reach(False, "192.0.2.7", "me", 2222, "/a key", "-o 'UserKnownHostsFile=\"/a directory/hosts\"'")
    lines = render("spark-1", record(listens_on="127.0.0.1"), reach, endpoint).splitlines()
    assert max(map(len, lines)) <= columns
    first = next(number for number, line in enumerate(lines) if line in ("  Open an SSH tunnel:", "  Read the key:"))
    last = lines.index("  Or from Python:")
    script = "\n".join(line for line in lines[first:last] if line.startswith("    "))
    for name in ("ssh", "curl"):
        told = 'printf "%s\\n" "$@"'
        (tmp_path / name).write_text(f"#!/bin/sh\n{{ echo {name}; {told}; }} >> {tmp_path}/told\necho the-key\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/home/me"}
    subprocess.run(["/bin/sh", "-euc", script], check=True, env=environment, stdout=subprocess.DEVNULL)
    said = (tmp_path / "told").read_text(encoding="utf-8").splitlines()
    assert said[:5] == ["ssh", "-o", 'UserKnownHostsFile="/a directory/hosts"', *said[3:5]]
    assert "/a key" in said
    body = "\n".join(said[said.index("-d") + 1 :])
    assert json.loads(body)["model"] == "target"
    if endpoint is LAN:
        assert "Authorization: Bearer the-key" in said
        assert "/home/me/.config/spark-1-ca.crt" in said


def test_in_short_what_serves_where_and_how_to_see_all() -> None:
    text = short("spark-1", record(deployment="mine", listens_on="127.0.0.1"), Endpoint())
    assert text.splitlines() == [
        "spark-1 serves target with EAGLE-3, draft length 5",
        "",
        "  deployment         mine",
        "  URL                http://127.0.0.1:8000/v1 (reachable from this Spark only)",
        "",
        "  Nothing was changed. Full summary: status.yml",
    ]
    worse = record(findings=[{"id": "x", "message": "the answer repeats itself"}])
    assert "the answer repeats itself" in short("spark-1", worse, Endpoint())


def test_a_config_of_its_own_says_how_it_drafts_and_what_that_brought() -> None:
    own = {"speculative_config": {"decoding_type": "MTP"}}
    text = render("spark-1", record(method="", draft_length=0, options=own), LOCAL)
    assert "serves target with MTP, by a speculative_config of its own\n" in text
    assert "  acceptance length  2.50 tokens per pass\n" in text


def test_a_verdict_is_said_though_nothing_was_chosen_by_it() -> None:
    verdict = {"date": "2026-11-22", "sentence": "Use draft length 5: it is 1.77 times as fast as without speculation."}
    text = render("spark-1", record(verdict=verdict, break_even={"best": 2.0, "worst": 9.0}), LOCAL)
    assert "  By the benchmark of 2026-11-22: Use draft length 5: it is 1.77 times as fast" in text
    assert "may or may not" not in text


@pytest.mark.parametrize(("variant", "name"), [("", "mine\n"), ("qa", "mine (variant qa)\n")])
def test_a_variant_is_named(variant: str, name: str) -> None:
    assert f"  deployment         {name}" in short("spark-1", record(deployment="mine", variant=variant), NO_PROXY)

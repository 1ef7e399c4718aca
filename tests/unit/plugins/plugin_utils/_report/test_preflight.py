# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.preflight import (
    Findings,
    all_problems,
    refusal,
    refusals,
    render,
    rows,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.preflight import (
    findings as read_findings,
)

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
SPARK = {
    "is_spark": True,
    "problems": [],
    "gpus": [{"name": "NVIDIA GB10", "driver": "580.95.05"}],
    "memory_total": 128_521_625_600,
    "memory_available": 115_200_000_000,
}
DOCKER = {
    "state": "usable",
    "detail": "",
    "server_version": "28.3.3",
    "gpu": True,
    "image_store": {"path": "/var/lib/docker", "free_bytes": 1_500_000_000_000},
    "port": {"in_use": False, "container": None, "process": None},
    "image": None,
}
REPOSITORY = {
    "id": "openai/gpt-oss-120b",
    "verified": False,
    "complete": False,
    "bytes_missing": 65_248_815_744,
    "gated": False,
    "source": "hub",
}
MODELS = {
    "repositories": [REPOSITORY],
    "token_needed": False,
    "cache_free_bytes": 900_000_000_000,
    "cache_filesystem": "/",
}


def findings(**changes: t.Any) -> Findings:
    given: dict[str, t.Any] = {
        "spark": SPARK,
        "docker": DOCKER,
        "registry": {"compressed_bytes": 17_500_000_000},
        "models": MODELS,
        "directories": [],
        "plan": [],
        "problems": [],
    }
    return Findings(**{**given, **changes})


def found(**changes: t.Any) -> list[tuple[str, str]]:
    return rows(IMAGE, findings(**changes), 2)


def report(**changes: t.Any) -> list[str]:
    return render("a model", IMAGE, {"spark-1": findings(**changes)})


def problems(**changes: t.Any) -> list[str]:
    return all_problems({"spark-1": findings(**changes)})


def test_everything_is_told_before_anything_is_fetched() -> None:
    assert found() == [
        ("GPU", "NVIDIA GB10, driver 580.95.05"),
        ("memory", "115 GB of 129 GB available"),
        ("Docker", "28.3.3, with GPU"),
        ("image disk", "1500 GB free at /var/lib/docker"),
        ("port", "free"),
        ("image", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12, to pull: 17.5 GB compressed"),
        ("model", "openai/gpt-oss-120b, to download: 65.2 GB"),
        ("Hub", "reachable"),
        ("model disk", "900 GB free at /"),
    ]


def test_the_image_of_another_engine_stays() -> None:
    rows = render("a model", IMAGE, {"spark-1": findings(docker={**DOCKER, "slot": {"image": "lab/other-engine:1"}})})
    (line,) = [number for number, row in enumerate(rows) if "to pull: 17.5 GB" in row]
    assert rows[line + 1].strip() == "beside lab/other-engine:1, which stays for a rollback"
    assert not [row for row in report(docker={**DOCKER, "slot": {"image": IMAGE}}) if "beside" in row]


def test_what_is_here_is_not_asked_for() -> None:
    told = dict(
        found(
            docker={**DOCKER, "image": {"id": "sha256:01"}},
            registry={},
            models={
                **MODELS,
                "repositories": [{**REPOSITORY, "verified": True, "complete": True, "source": "receipt"}],
            },
        )
    )
    assert told["image"].endswith(":1.3.0rc12, present")
    assert told["model"] == "openai/gpt-oss-120b, present, verified"
    assert told["Hub"] == "not needed"


@pytest.mark.parametrize(("token_needed", "words"), [(True, "; gated, token accepted"), (False, "; gated")])
def test_gated_models_say_so(token_needed: bool, words: str) -> None:
    told = dict(found(models={**MODELS, "repositories": [{**REPOSITORY, "gated": True}], "token_needed": token_needed}))
    assert told["model"] == f"openai/gpt-oss-120b, to download: 65.2 GB{words}"


def test_models_in_directories_need_no_hub() -> None:
    told = found(directories=["/models/mine"], models={**MODELS, "repositories": []})
    assert ("model", "/models/mine, complete") in told
    assert "Hub" not in dict(told)


def test_a_check_that_was_not_reached_is_not_passed() -> None:
    told = dict(found(docker={}, registry={}, models={}))
    for asked in ("skipped", "failed"):
        assert told == dict(found(docker={}, registry={"changed": False, asked: True}, models={}))
    assert told["Docker"] == told["models"] == "not checked, see below"
    assert told["image"].endswith("not checked, see below")


def test_who_holds_the_port_is_named() -> None:
    told = dict(found(docker={**DOCKER, "port": {"in_use": True, "container": "vllm", "process": None}}))
    assert told["port"] == "in use by vllm"


def test_a_docker_that_does_not_answer_says_why() -> None:
    told = dict(found(docker={**DOCKER, "state": "denied", "detail": "The user spark may not open the socket."}))
    assert told["Docker"] == "The user spark may not open the socket."


def test_problems_are_the_reason_of_the_failure_and_not_told_in_the_table_as_well() -> None:
    told = ["The first one.", "The second:\n- a\n- b"]
    lines = report(problems=told)
    assert lines[0] == "spark-1: preflight for a model"
    assert "The first one" not in "".join(lines)
    assert "No problems" not in "".join(lines)
    assert problems(problems=told) == told
    assert refusal(told, "nothing was changed").splitlines()[0] == "2 problems; nothing was changed:"


def test_a_machine_that_is_no_spark_stands_in_the_way() -> None:
    spark = {**SPARK, "is_spark": False, "gpus": [], "problems": ["it has no NVIDIA GPU"]}
    assert problems(spark=spark, problems=["Docker is missing."]) == [
        "This is not a DGX Spark: it has no NVIDIA GPU. Is the address in the inventory right?",
        "Docker is missing.",
    ]


def test_a_spark_whose_gpu_does_not_answer_is_told_to_reboot() -> None:
    spark = {
        **SPARK,
        "gpus": [],
        "problems": ["its GPU driver does not answer: nvidia-smi did not answer within 10 s"],
        "remedy": "Reboot; if that does not help, install the driver of DGX OS again.",
    }
    assert problems(spark=spark) == [
        "Its GPU driver does not answer: nvidia-smi did not answer within 10 s. Reboot; if that does not help, install "
        "the driver of DGX OS again."
    ]


def test_no_problem_is_said_in_one_line() -> None:
    lines = report(plan=["weights  65.2 GB", "", "It fits."])
    assert lines[-1] == "No problems. Nothing was changed."
    assert lines[-5:-2] == ["  weights  65.2 GB", "", "  It fits."]


RAILS = [
    {
        "interface": f"enp1s0f{number}np{number}",
        "address": f"192.168.10{number}.10",
        "peer_address": f"192.168.10{number}.11",
        "mtu": 9000,
        "speed_mbps": 200_000,
    }
    for number in range(2)
]
RECEIVES = {
    "repositories": [
        {**REPOSITORY, "verified": True, "complete": True, "bytes_missing": 0},
        {**REPOSITORY, "id": "b/copied", "complete": True, "bytes_missing": 0},
        {**REPOSITORY, "id": "a/draft", "bytes_missing": 3_000_000_000},
    ],
    "cache_free_bytes": 800_000_000_000,
    "cache_filesystem": "/",
}


def of_both(head: dict[str, t.Any], worker: dict[str, t.Any] | None) -> dict[str, Findings | None]:
    second = (
        None
        if worker is None
        else findings(**{"role": "worker", "rails": RAILS, "registry": {}, "models": {}, **worker})
    )
    return {"spark-1": findings(role="head", rails=RAILS, **head), "spark-2": second}


def both(head: dict[str, t.Any], worker: dict[str, t.Any] | None) -> list[str]:
    return render("a model", IMAGE, of_both(head, worker))


def test_two_sparks_stand_side_by_side() -> None:
    lines = both({"plan": ["It fits."]}, {"models": RECEIVES, "image_here": False, "plan": ["It fits."]})
    assert lines[0] == "spark-1 and spark-2: preflight for a model"
    assert max(map(len, lines)) <= 100
    assert lines[2].split() == ["spark-1,", "head", "spark-2,", "worker"]
    second = lines[2].index("spark-2")
    assert lines[3][:second].split() == ["GPU", "NVIDIA", "GB10,", "driver", "580.95.05"]
    assert lines[3][second:] == "NVIDIA GB10, driver 580.95.05"
    left, right = ([line[part].strip() for line in lines] for part in (slice(18, second), slice(second, None)))
    assert "enp1s0f0np0 192.168.100.10 - 192.168.100.11," in " ".join(left)
    assert "enp1s0f1np1 192.168.101.10 - 192.168.101.11," in " ".join(left)
    text = " ".join(filter(None, right))
    # It goes on below after a hyphen.
    assert f"{IMAGE}, from the head" in text.replace("tensorrt- llm", "tensorrt-llm")
    assert (
        "openai/gpt-oss-120b, present, verified b/copied, present, not verified a/draft, from the head: 3.0 GB" in text
    )
    assert "800 GB free at /" in right
    assert "900 GB free at /" in left
    # The server listens on the head only, which is also the only one to ask the Hub; the plan is the same for both.
    assert [right[number] for number, line in enumerate(lines) if line[2:18].strip() in ("port", "Hub")] == ["", ""]
    assert lines[-1] == "No problems. Nothing was changed."
    assert lines.count("  It fits.") == 1


@pytest.mark.parametrize(
    ("here", "words"), [(True, "present"), (False, "from the head"), (None, "from the head, if it is not present")]
)
def test_the_workers_image(here: bool | None, words: str) -> None:
    told = dict(found(role="worker", image_here=here, models={}))
    assert told["image"] == f"{IMAGE}, {words}"
    assert told["models"] == "not checked, see below"


def test_problems_of_two_sparks_have_names() -> None:
    hosts = of_both(
        {"problems": ["The port is in use.", "spark-1: No cable.", "spark-1 and spark-2: They differ."]},
        {"problems": ["No cable.", "spark-1: No card.", "spark-1 and spark-2: They differ."]},
    )
    assert all_problems(hosts) == [
        "spark-1: The port is in use.",
        "spark-1 and spark-2: No cable.",
        "spark-1 and spark-2: They differ.",
        "spark-1: No card.",
    ]


def test_one_that_could_not_be_looked_at_stands_in_the_way() -> None:
    assert both({}, None)[2].split() == ["spark-1,", "head"]
    assert all_problems(of_both({}, None)) == ["spark-2 could not be checked; see the Ansible error above."]


def test_a_cable_that_was_not_looked_at_is_not_passed() -> None:
    assert ("fabric", "not checked, see below") in found(role="head")


def test_notes_of_both_are_told_once() -> None:
    lines = both({"notes": ["The twins share a network."]}, {"notes": ["The twins share a network."]})
    assert lines[-5:-2] == ["", "  Notes:", "    - The twins share a network."]


WRONG = {**SPARK, "is_spark": False, "problems": ["it has no NVIDIA GPU"]}
SILENT = {**SPARK, "problems": ["its GPU driver does not answer"], "remedy": "Reboot."}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"problems": ["spark-1: The port is in use."]}, ["spark-1: The port is in use."]),
        (
            {"spark": WRONG},
            ["spark-1 is not a DGX Spark: it has no NVIDIA GPU. Is the address in the inventory right?"],
        ),
        (
            {"spark": WRONG, "local": True},
            [
                "spark-1 is not a DGX Spark: it has no NVIDIA GPU. It is the machine you are on (ansible_connection: "
                "local); give the address of your Spark in the inventory."
            ],
        ),
        ({"spark": SILENT}, ["spark-1: its GPU driver does not answer. Reboot."]),
        # Among several the host's name would only be in the way.
        ({"problems": ["spark-1: The port is in use.", "No token."]}, ["The port is in use.", "No token."]),
    ],
)
def test_a_run_is_refused_in_the_words_of_each_problem(given: dict[str, t.Any], said: list[str]) -> None:
    assert refusals({"spark-1": findings(**given)}) == said


def test_a_run_on_two_is_refused_with_whose_problem_it_is() -> None:
    hosts = {
        "spark-1": findings(problems=["spark-1 and spark-2 cannot serve as one: drivers.", "spark-1: No cable."]),
        "spark-2": findings(problems=["spark-2: No cable.", "No room."]),
        "spark-3": None,
    }
    assert refusals(hosts) == [
        "spark-3 could not be checked; see the Ansible error above.",
        "spark-1 and spark-2 cannot serve as one: drivers.",
        "spark-1 and spark-2: No cable.",
        "spark-2: No room.",
    ]


def test_four_sparks_are_told_of_by_twos_and_what_they_share_once() -> None:
    words = "spark-1, spark-2, spark-3 and spark-4"
    shared = [f"{words}: They differ.", "spark-2 and spark-4: No cable."]
    rails = [{**rail, "subnet": "192.168.100.0/24"} for rail in RAILS]
    hosts = {f"spark-{number}": findings(role="worker", rails=rails, problems=shared) for number in range(1, 5)}
    all_four = {**hosts, "spark-1": findings(role="head", rails=rails)}
    lines = render("a model", IMAGE, all_four)
    assert lines[0] == f"{words}: preflight for a model"
    assert max(map(len, lines)) <= 100
    assert [line.split() for line in lines if ", worker" in line] == [
        ["spark-1,", "head", "spark-2,", "worker"],
        ["spark-3,", "worker", "spark-4,", "worker"],
    ]
    assert all_problems(all_four) == [
        f"{words}: They differ.",
        "spark-2 and spark-4: No cable.",
    ]
    place = next(number for number, line in enumerate(lines) if "192.168.100.10 in" in line)
    assert lines[place + 1].strip().startswith("192.168.100.0/24")


def test_a_name_that_words_begin_with_is_no_spark_that_is_named() -> None:
    hosts = {
        "a": findings(problems=["a: a benchmark is at work here.", "a and b cannot serve as one: drivers."]),
        "b": findings(problems=["benchmarks are at work here.", "b has no sshd: install it."]),
    }
    said = [
        "a: a benchmark is at work here.",
        "a and b cannot serve as one: drivers.",
        "b: benchmarks are at work here.",
        "b has no sshd: install it.",
    ]
    assert refusals(hosts) == said
    assert all_problems(hosts) == said


def test_several_problems_are_items_of_one_refusal() -> None:
    assert refusal(["spark-1: No token."]) == "spark-1: No token."
    assert refusal(["No token.", "Options:\n- a\n- b"]).splitlines() == [
        "2 problems; the running server was not touched:",
        "- No token.",
        "- Options:",
        "  - a",
        "  - b",
    ]


def test_several_sentences_of_one_refusal_are_several_problems() -> None:
    said = {"spark": SPARK, "problems": ["spark-1: No port.\nspark-1: No image.", "spark-1: Options:\n- a"]}
    read = read_findings("spark-1", said, ["spark-1"])
    assert read is not None
    assert read.problems == ["spark-1: No port.", "spark-1: No image.", "spark-1: Options:\n- a"]


def test_what_was_not_come_to_is_not_known_and_who_could_not_be_looked_at_is_nobody() -> None:
    hosts = ["spark-1", "spark-2"]
    assert read_findings("spark-1", {"spark": {}, "problems": []}, hosts) is None
    read = read_findings("spark-2", {"spark": SPARK, "docker": {}, "plan": {}, "connection": "local"}, hosts)
    assert read is not None
    assert (read.docker, read.plan, read.image_here, read.role, read.local) == ({}, [], None, "worker", True)


def test_models_in_directories_are_those_that_the_hub_does_not_have() -> None:
    facts: dict[str, dict[str, t.Any]] = {"openai/gpt-oss-120b": {}, "/models/mine": {}}
    read = read_findings("spark-1", {"spark": SPARK, "models": MODELS, "facts": facts}, ["spark-1"])
    assert read is not None
    assert (read.role, read.directories) == ("alone", ["/models/mine"])

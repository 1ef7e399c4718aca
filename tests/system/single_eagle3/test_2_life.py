# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happens to a deployment: changes, reboots, a stop, a cleanup. It serves as shipped again at the end."""

from __future__ import annotations

import re
import time

from tests import playbook
from tests.deployed import HOME, SLOT, Deployed
from tests.twin.control import Internet, Spark

pytest_plugins = ["tests.scenario"]


def test_a_second_run_changes_nothing_and_asks_nobody(internet: Internet) -> None:
    outcome = playbook.succeed("single_eagle3", "-e", "ansible_become_password=")
    assert outcome.changed == []
    assert internet.counters()["requests"] == []


def test_a_kv_cache_that_became_smaller_than_planned_is_told(deployed: Deployed, spark: Spark) -> None:
    # The memory guard would end a server that leaves so little; how newer releases tell of their cache is not known.
    image = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
    playbook.succeed(
        "single_eagle3", variables={"speculative_serve_memory_guard": False, "engine_container_image": image}
    )
    # Something else has taken 50 GB since the plan was made.
    with spark.gpu(system_bytes=55e9):
        spark.exec(["docker", "restart", SLOT])
        deployed.wait_until_it_answers()
        text = " ".join(playbook.succeed("status").output.split())
    found = re.search(r"context is smaller than planned: ([0-9,]+) of 131,168 tokens", text)
    assert found, text
    assert 50_000 < int(found[1].replace(",", "")) < 131_168
    spark.exec(["docker", "restart", SLOT])
    deployed.wait_until_it_answers()
    assert "smaller than planned" not in playbook.succeed("status").output
    playbook.succeed("single_eagle3")


def test_another_draft_length_changes_options_and_restarts_once(deployed: Deployed, internet: Internet) -> None:
    before = deployed.inspect()
    outcome = playbook.succeed("single_eagle3", "--diff", variables={"speculative_serve_draft_length": 3})
    assert outcome.changed == [
        "Write the deployment files",
        "Move the container to standby",
        "Run the container",
        "Save the previous record",
        "Write the record, remove old files",
        "Finalize the switchover",
    ]
    assert "+  max_draft_len: 3" in outcome.output
    assert deployed.options()["speculative_config"]["max_draft_len"] == 3
    assert deployed.inspect()["Id"] != before["Id"]
    assert deployed.inspect()["Image"] == before["Image"]
    assert deployed.state()["restarts"] == 0
    assert internet.counters()["requests"] == []


def test_a_restarted_spark_serves_again_without_ansible(deployed: Deployed, spark: Spark, internet: Internet) -> None:
    spark.restart()
    deployed.wait_until_it_answers()
    assert internet.counters()["requests"] == []


def test_stop_stays_stopped_and_start_needs_neither_internet_nor_sudo(
    deployed: Deployed, spark: Spark, internet: Internet
) -> None:
    outcome = playbook.succeed("stop")
    assert "Memory available:" in outcome.output
    assert not deployed.answers()
    assert playbook.succeed("stop").changed == []
    spark.restart()
    time.sleep(3)
    assert deployed.inspect()["State"]["Running"] is False

    internet.set_faults([{"host": "*", "path": "*", "action": "status", "status": 503}])
    playbook.succeed("start", "-e", "ansible_become_password=")
    assert deployed.answers()
    assert playbook.succeed("start").changed == []


def given_up(deployed: Deployed) -> None:
    """Wait until a server that cannot have its port is not started again."""
    deadline = time.monotonic() + 900
    while deployed.state()["state"] != "failed":
        assert time.monotonic() < deadline, deployed.state()
        time.sleep(1)


def test_a_server_that_gave_up_is_started_anew(deployed: Deployed, spark: Spark) -> None:
    playbook.succeed("stop")
    with spark.listener(8000, "127.0.0.1"):
        spark.exec(["docker", "start", SLOT])
        given_up(deployed)
        assert "- Start the deployment again: start.yml" in playbook.succeed("status").output
        refused = playbook.fail("start").message
        assert "port 8000 on 127.0.0.1 is in use by" in refused
        assert "python3" in refused
    outcome = playbook.succeed("start")
    assert outcome.changed == ["Start the container as it was created"]
    assert deployed.answers()
    assert playbook.succeed("start").changed == []


def kept_for_logging_in(spark: Spark) -> list[str]:
    """As systemd was told; what the kernel makes of it needs control groups v2."""
    return spark.exec("systemctl show --property=MemoryMin --value ssh.service system.slice user.slice").stdout.split()


def test_memory_is_kept_for_logging_in(deployed: Deployed, spark: Spark) -> None:
    wish = ("-e", "speculative_serve_protect_ssh=true")
    refused = playbook.fail("single_eagle3", *wish, "-e", "ansible_become_password=")
    assert "could not change the memory reserved for SSH" in refused.output
    assert refused.changed == []
    assert kept_for_logging_in(spark) == ["0"] * 3
    playbook.succeed("single_eagle3", *wish)
    started = deployed.inspect()["State"]["StartedAt"]
    assert kept_for_logging_in(spark) == [str(256 * 2**20), str(256 * 2**20), str(2 * 2**30)]
    # Once it is so, nobody is asked for sudo.
    assert playbook.succeed("single_eagle3", *wish, "-e", "ansible_become_password=").changed == []
    assert deployed.inspect()["State"]["StartedAt"] == started


def test_cleanup_leaves_the_models_and_nothing_else(spark: Spark) -> None:
    playbook.succeed("cleanup")
    assert kept_for_logging_in(spark) == ["0"] * 3
    assert spark.exec("ls -d /etc/systemd/system/ssh.service.d /etc/systemd/system/*.slice.d").stdout == ""
    assert spark.exec(["ls", HOME]).stdout == "images\nmodels\n"
    assert spark.exec(["docker", "ps", "--all", "--quiet"]).stdout == ""
    assert spark.exec(["docker", "volume", "ls", "--quiet"]).stdout == ""
    assert spark.exec("ls .cache/huggingface/hub/models--openai--gpt-oss-120b/snapshots", user="spark").returncode == 0


def test_after_a_cleanup_the_models_are_used_again(internet: Internet) -> None:
    playbook.succeed("single_eagle3")
    assert internet.requests("huggingface.co") == []

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another Docker than the one that serves models is refused by name, before anything is changed."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from tests import playbook
from tests.twin.control import Internet, Spark

pytest_plugins = ["tests.scenario"]

STOP = "systemctl stop docker.socket docker.service"
# Systemd counts starts and refuses the sixth within a minute.
FORGET = "systemctl reset-failed docker.socket docker.service"
CONTAINERD = "/etc/containerd/config.toml"
START = f"{FORGET}; systemctl start docker.socket docker.service"


@contextlib.contextmanager
def changed(spark: Spark, change: str, back: str) -> t.Iterator[None]:
    """The Spark with something else about its Docker, for a while."""
    done = spark.exec(change)
    try:
        assert done.returncode == 0, done.stderr
        yield
    finally:
        undone = spark.exec(back)
        assert undone.returncode == 0, undone.stderr


# What is moved away, and put back.
PROGRAMS = "/usr/bin/docker /usr/sbin/dockerd"
AWAY = f"for file in {PROGRAMS}; do mv $file $file.away; done"
BACK = f"for file in {PROGRAMS}; do mv $file.away $file; done"
SHIM = r"printf '#!/bin/sh\nexec /usr/bin/podman \"$@\"\n' >/usr/bin/docker; chmod 755 /usr/bin/docker"


@pytest.mark.parametrize(
    ("change", "back", "words"),
    [
        (STOP, START, ["Docker is installed and does not answer", "systemctl start docker"]),
        (f"{STOP}; rm -f /run/docker.sock; {AWAY}", f"{BACK}; {START}", ["Docker is not installed"]),
        (f"{STOP}; rm -f /run/docker.sock; {AWAY}; {SHIM}", f"{BACK}; {START}", ["Podman"]),
        (
            f"{STOP}; rm -f /run/docker.sock; {AWAY}; mkdir -p /snap/bin; touch /snap/bin/docker",
            f"rm -r /snap; {BACK}; {START}",
            ["snap"],
        ),
        (
            f"{STOP}; rm -f /run/docker.sock; mkdir -p /run/user/1000; touch /run/user/1000/docker.sock",
            f"rm /run/user/1000/docker.sock; {START}",
            ["rootless"],
        ),
        (
            f"mv /usr/bin/nvidia-container-runtime-hook /root/hook; {FORGET}; systemctl restart docker",
            f"mv /root/hook /usr/bin/nvidia-container-runtime-hook; {FORGET}; systemctl restart docker",
            ["Docker cannot give the GPU to a container", "nvidia-ctk runtime configure"],
        ),
    ],
    ids=["stopped", "absent", "podman", "snap", "rootless", "no GPU"],
)
def test_a_docker_that_cannot_serve(spark: Spark, internet: Internet, change: str, back: str, words: list[str]) -> None:
    with changed(spark, change, back):
        outcome = playbook.fail("single_eagle3")
        told = playbook.succeed("diagnose").output
    for word in words:
        assert word.lower() in outcome.message.lower()
    assert "docker" in told.lower()
    assert "healthy" not in told
    assert internet.requests("nvcr.io") == []


@pytest.mark.parametrize("name", ["stop", "start", "cleanup"])
def test_a_docker_that_does_not_answer_is_not_taken_for_no_server(spark: Spark, name: str) -> None:
    # The login's session is older than its membership, so only sg learns that nothing answers.
    spark.exec("gpasswd --delete spark docker; pkill -u spark sshd")
    playbook.run("status")
    spark.exec("usermod --append --groups docker spark")
    with changed(spark, STOP, START):
        assert "Docker is installed and does not answer" in playbook.fail(name).message


def test_the_room_is_looked_for_where_docker_really_keeps_its_images(spark: Spark, internet: Internet) -> None:
    # This Docker has containerd keep them.
    before = spark.read_file(CONTAINERD)
    spark.exec("mkdir -p /mnt/small && mount -t tmpfs -o size=60m tmpfs /mnt/small")
    try:
        spark.write_file(CONTAINERD, f'root = "/mnt/small/containerd"\n{before}')
        assert spark.exec(f"{STOP}; systemctl restart containerd; {START}").returncode == 0
        message = playbook.fail("single_eagle3").message
    finally:
        spark.write_file(CONTAINERD, before)
        back = f"{STOP}; systemctl stop containerd; umount /mnt/small; systemctl start containerd; {START}"
        assert spark.exec(back).returncode == 0
    assert "/mnt/small/containerd" in message
    assert "or move containerd's root" in message
    assert internet.bytes_to(spark.address, "nvcr.io/v2/nvidia/tensorrt-llm/release/blobs") < 100_000

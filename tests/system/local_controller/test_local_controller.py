# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run on the Spark itself, as its user: with a sudo password once, and without any sudo right."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tomllib

from tests.playbook import ROOT, Outcome
from tests.twin import engine
from tests.twin.control import Spark

PROJECT = "/srv/project"
WHEELS = ROOT / ".cache" / "twin" / "wheels"
# The Spark of the twin has no way to the package index: it gets the same packages as files.
OFFLINE = "PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/wheels"


@pytest.fixture(scope="module")
def spark() -> Spark:
    """A Spark with a copy of the checkout, as git would clone it, and the packages that make setup asks for."""
    spark = Spark()
    version = spark.exec(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout.strip()
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(WHEELS), "--only-binary", ":all:"),
            *("--python-version", version, *requirements),
        ],
        cwd=ROOT,
        check=True,
    )
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    archive = subprocess.run(
        ["tar", "--create", "--null", "--files-from=-"], cwd=ROOT, input=files.stdout, capture_output=True, check=True
    )
    spark.exec(f"mkdir -p {PROJECT}")
    subprocess.run(
        ["docker", "exec", "-i", spark.container, "tar", "--extract", "--directory", PROJECT],
        input=archive.stdout,
        check=True,
    )
    engine.docker("cp", str(WHEELS), f"{spark.container}:/srv/wheels")
    spark.exec(f"chown -R spark:spark {PROJECT} && chmod -R a+rX /srv")
    return spark


def playbook(spark: Spark, name: str, *arguments: str, user: str = "spark") -> Outcome:
    # Outcome reads Ansible's own output.
    command = (
        f"cd {PROJECT} && . .venv/bin/activate && export ANSIBLE_STDOUT_CALLBACK=ansible.builtin.default"
        f" && ansible-playbook playbooks/{name}.yml {' '.join(arguments)} 2>&1"
    )
    done = spark.exec(command, user=user, timeout=600)
    return Outcome(done.returncode, done.stdout)


def test_make_setup_ends_with_the_next_command(spark: Spark) -> None:
    done = spark.exec(f"cd {PROJECT} && {OFFLINE} make setup 2>&1", user="spark", timeout=600)
    assert done.returncode == 0, done.stdout
    assert "ansible-playbook playbooks/single_eagle3.yml" in done.stdout
    assert "ansible_connection: local" in spark.read_file(f"{PROJECT}/inventory/hosts.yml")


def test_without_a_password_the_step_is_named(spark: Spark) -> None:
    outcome = playbook(spark, "single_eagle3")
    assert outcome.code != 0
    assert "to group docker needs sudo" in outcome.message
    assert "-K" in outcome.message


def test_the_first_run_needs_the_sudo_password_once(spark: Spark) -> None:
    spark.write_file("/home/spark/password", "twin", user="spark")
    outcome = playbook(spark, "single_eagle3", "--become-password-file", "/home/spark/password")
    spark.exec(["rm", "/home/spark/password"])
    assert outcome.code == 0, outcome.output
    assert "serves gpt-oss-120b with EAGLE-3, draft length 5" in outcome.output
    assert "ssh" not in outcome.output.rpartition("PLAY RECAP")[2]


def test_the_second_run_in_the_same_login_needs_no_sudo(spark: Spark) -> None:
    outcome = playbook(spark, "single_eagle3")
    assert outcome.code == 0, outcome.output
    assert outcome.changed == []


def test_a_user_in_the_group_without_any_sudo_right_can_do_everything(spark: Spark) -> None:
    assert playbook(spark, "cleanup").code == 0
    outcome = playbook(spark, "single_eagle3", user="member")
    assert outcome.code == 0, outcome.output
    assert playbook(spark, "stop", user="member").code == 0
    assert playbook(spark, "cleanup", "-e", "models=all", user="member").code == 0

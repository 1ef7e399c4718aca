# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file of the CA certificate on the controller."""

from __future__ import annotations

from pathlib import Path

from tests.unit import plays

DEFAULTS = Path(__file__).parents[3] / "roles/api_proxy/defaults/main.yml"
INVENTORY = """
sparks:
  hosts:
    spark-1: {ansible_host: 192.0.2.11}
    spark-2: {ansible_host: spark-2}
    spark-3:
"""


def test_sparks_of_the_same_name_have_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY, encoding="utf-8")
    directory = tmp_path / "certificates"
    directory.mkdir()
    write = {
        "name": "Write",
        "ansible.builtin.copy": {"content": "x", "dest": f"{directory}/{{{{ api_proxy_ca_path | basename }}}}"},
        "delegate_to": "localhost",
    }
    play = {"gather_facts": False, "vars_files": [str(DEFAULTS)], "tasks": [write]}
    done = plays.run(tmp_path, play, hosts="hosts.yml")
    assert done.returncode == 0, done.stdout
    names = ["spark-1-192.0.2.11-ca.crt", "spark-2-ca.crt", "spark-3-ca.crt"]
    assert sorted(path.name for path in directory.iterdir()) == names

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images that are removed by name, with the real ansible-playbook."""

from __future__ import annotations

from pathlib import Path

from tests.unit import plays


def test_images_are_removed_by_name_without_a_look_at_the_container(tmp_path: Path) -> None:
    role = {"name": "dgx_spark.speculative.engine_container", "tasks_from": "images"}
    task = {"name": "Remove images", "ansible.builtin.include_role": role}
    # As in the inventory of somebody who has cleanup.yml always remove the image.
    known = {"engine_container_remove_image": True, "deployment_settings": {"state_directory": str(tmp_path)}}
    done = plays.run(tmp_path, {"name": "Play", "hosts": "all", "gather_facts": False, "vars": known, "tasks": [task]})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No image was removed" not in done.stdout

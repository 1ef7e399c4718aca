# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.unit import plays

REPOSITORY = Path(__file__).parents[4]
HOSTS, USER = ("athena.lan.example", "hera.lan.example"), "alice"
SAID = f"http://10.1.2.3:8000 on {HOSTS[0]} (athena) /home/{USER}/x hf_CANARYabcd1234"
ROW = {"id": "log", "section": "Server", "what": "Log", "how": "server.log"}
IMAGE = {"id": "image", "section": "Server", "what": "Image", "how": "record.json"}
REGISTRY = "registry.olympus.example:5000"
PRIVATE = ("athena", "hera", "10.1.2.3", USER, "CANARY", "olympus")


def play(directory: Path, *options: str, **task: object) -> str:
    """Report on two hosts, of which the second one has found nothing."""
    rows = [{**ROW, "value": SAID}, {**IMAGE, "value": f"{REGISTRY}/nvidia/release:1.3.0"}]
    report = {"field_report": {"path": "field/one", **task}, "from_hosts": {"found": "found.rows"}}
    found = {"ansible.builtin.set_fact": {"found": {"rows": rows}}, "when": f"inventory_hostname == '{HOSTS[0]}'"}
    tasks = [found, {"dgx_spark.speculative.report": report, "run_once": True}]
    variables = {"ansible_user": USER, "ansible_connection": "ssh"}
    play = {"gather_facts": False, "vars": variables, "tasks": tasks}
    done = plays.run(directory, play, *options, hosts=",".join(HOSTS))
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout + done.stderr


def test_nothing_private_is_written(tmp_path: Path) -> None:
    said = play(tmp_path)
    assert "2 of 3 rows were measured." in said
    files = [tmp_path / f"field/one{end}" for end in (".html", ".json")]
    assert not [word for word in PRIVATE for file in files if word in file.read_text()]
    found = json.loads(files[1].read_text())
    jsonschema.Draft202012Validator(json.loads((REPOSITORY / "reports/schema.json").read_text())).validate(found)
    assert [spark["name"] for spark in found["sparks"]] == ["spark-1", "spark-2"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_names_if_wanted(tmp_path: Path) -> None:
    play(tmp_path, names=True)
    text = (tmp_path / "field/one.json").read_text()
    assert json.loads(text)["sparks"][0]["name"] == HOSTS[0]
    assert USER not in text
    assert "CANARY" not in text


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    assert "2 of 3 rows were measured." in play(tmp_path, "--check")
    assert not (tmp_path / "field_report").exists()


@pytest.mark.parametrize("path", ["play.yml/one"])
def test_a_place_that_cannot_be_written(tmp_path: Path, path: str) -> None:
    assert "cannot be written" in play(tmp_path, path=path)

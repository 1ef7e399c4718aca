# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The models made by hand, as directories without weights, and the cases with them."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import yaml

from tests.twin.models import write_models

DATA: dict[str, t.Any] = yaml.safe_load(Path(__file__).with_name("configurations.yml").read_text(encoding="utf-8"))
CASES: list[dict[str, t.Any]] = DATA["cases"]
DRAFT = "speculative-config"


def config(name: str) -> dict[str, t.Any]:
    """Return the config.json of a model."""
    own = dict(DATA["models"][name])
    like = own.pop("like", None)
    return {**(config(like) if like else {}), **own}


def write(directory: Path) -> None:
    """Write the models of the data by name, and those of the twin's Hub by id."""
    write_models(directory)
    for name in DATA["models"]:
        (directory / name).mkdir(parents=True)
        (directory / name / "config.json").write_text(json.dumps(config(name)), encoding="utf-8")


def request(options: t.Mapping[str, t.Any], directory: Path, target: str, draft: str, sparks: int) -> dict[str, t.Any]:
    """Return the request for a judgement with models, or without them if any is not there."""
    if not target or not all((directory / name / "config.json").exists() for name in (target, draft) if name):
        return {"options": dict(options)}
    section = {**options[DRAFT], "model": str(directory / draft)} if draft else options.get(DRAFT)
    models = {"target": str(directory / target), "draft": draft and str(directory / draft), "sparks": sparks}
    return {"options": {**options, **({DRAFT: section} if section else {})}, "models": {**models, "environment": {}}}


def case_request(case: t.Mapping[str, t.Any], directory: Path) -> dict[str, t.Any]:
    return request(
        case["options"], directory, case.get("target", ""), case.get("draft", ""), int(case.get("sparks", 1))
    )

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask each release about every shipped recipe of vLLM, and write verdicts.yml. Run as: python -m tests.verdicts"""

from __future__ import annotations

import tempfile
import typing as t
from pathlib import Path

import yaml

from tests.verdicts import configurations, rendered
from tests.verdicts.environments import RELEASES, ask

HEADER = """---
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Written by `make verdicts`: what the real vLLM says of each shipped recipe and variant, by release.
# hash: of the engine options as rendered; parser: accepted, or the refusal; configuration: that of the classes of
# vllm/config, where configurations.yml or the twin's Hub has the models.
"""


def row(digest: str, answer: t.Mapping[str, t.Any], place: str) -> dict[str, str]:
    """Return the verdict of a release on a recipe. Raises RuntimeError if its judge did not judge."""
    if not answer["available"]:
        raise RuntimeError(f"The judge did not judge: {answer['error']}")
    said = answer["error"] or "accepted"
    by_classes = answer["without_models"] or (said if answer["with_models"] else "")
    return {
        "hash": digest,
        "parser": "accepted" if by_classes else said,
        **({"configuration": by_classes.replace(place, "/models")} if by_classes else {}),
    }


def main() -> int:
    recipes, verdicts = rendered.recipes(), dict[str, dict[str, dict[str, str]]]()
    with tempfile.TemporaryDirectory() as place:
        configurations.write(Path(place))
        for release in RELEASES:
            asked = {name: recipe for name, recipe in recipes.items() if release in rendered.releases(recipe)}
            options = {name: rendered.options(recipe, release) for name, recipe in asked.items()}
            requests = [
                configurations.request(options[name], Path(place), one["target"], one["draft"], one["sparks"])
                for name, one in asked.items()
            ]
            for name, answer in zip(asked, ask(release, requests), strict=True):
                verdicts.setdefault(name, {})[release] = row(rendered.digest(options[name]), answer, place)
    rendered.FILE.write_text(HEADER + yaml.safe_dump(verdicts, width=4096), encoding="utf-8")
    refused = rendered.refused(verdicts)
    others = [f"{name}: its own release is not asked" for name, one in recipes.items() if not rendered.own_release(one)]
    print("\n".join([f"{sum(map(len, verdicts.values()))} verdicts are in {rendered.FILE}.", *refused, *others]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: update_info
short_description: Find newer versions of a deployment's image and models (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Asks the registry for newer releases of the image's minor version, and the Hub for newer commits of the models.
  - A registry or Hub that does not answer is a note of its row, and not a failure.
options:
  record: {type: dict, default: {}, description: "The record of the deployment. Empty if there is none."}
  recipe: {type: str, default: "", description: "The name or path of its recipe, if it is not the shipped one."}
  image: {type: str, default: "", description: "The image. The controller fills it in."}
  models: {type: list, elements: dict, default: [], description: "The models. The controller fills them in."}
  families:
    description:
      - The ranges of releases whose engine options are known, each with its first and last release.
      - No other release is proposed. The controller fills them in.
    type: list
    elements: list
    default: []
  endpoint: {type: str, default: "https://huggingface.co", description: "The Hub's address."}
  token: {type: str, description: "A token for the Hub, used only for a model that needs one."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._docker.image_store import own_platform
from ..module_utils._models.disk import ModelSpec
from ..module_utils._models.hub import Hub
from ..module_utils._updates.updates import Row, image_row, model_row

# A report does not wait as long as a download.
DELAYS = (1.0,)


def rows(module: AnsibleModule) -> list[Row]:
    tokens = ["", *([module.params["token"]] if module.params["token"] else [])]
    hubs = [Hub(module.params["endpoint"], token, delays=DELAYS) for token in tokens]
    return [
        image_row(module.params["image"], own_platform(), module.params["families"]),
        *(model_row(model["commit"], ModelSpec.of(model), hubs) for model in module.params["models"]),
    ]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "dict", "default": {}},
            "recipe": {"type": "str", "default": ""},
            "image": {"type": "str", "default": ""},
            "models": {"type": "list", "elements": "dict", "default": []},
            "families": {"type": "list", "elements": "list", "default": []},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "token": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, rows=[dataclasses.asdict(row) for row in rows(module)])


if __name__ == "__main__":
    main()

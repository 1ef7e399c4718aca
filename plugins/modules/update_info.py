#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: update_info
short_description: Tell what is newer than a deployment
version_added: 0.1.0
description:
  - Asks the registry for newer releases of the image's line, and the Hub for newer commits of the models. That a draft
    model is replaced by another one is known from O(recipes).
  - Release candidates go on with the next candidate of the same release (1.3.0rc12 with 1.3.0rc13), releases with the
    next one of the same minor version. What lies beyond is mentioned and not proposed. So is a tag that names no
    release and leads to another image by now.
  - A model that the recipe pins to a commit stays there. A commit that changes nothing but documentation is not
    proposed. For a model in a directory nobody can be asked.
  - A registry or Hub that cannot be asked is a sentence in the notes of its row, and not a failure.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  record:
    description:
      - What M(dgx_spark.speculative.deployment_info) returns of the deployment, or its keys V(deployment),
        V(deployed_at), V(image), V(models), V(target_model), V(draft_model), V(method) and V(options). Empty if it was
        never deployed.
    type: dict
    default: {}
  recipe:
    description:
      - What M(dgx_spark.speculative.recipe_info) returns of the recipe, or its keys V(name), V(image), V(method),
        V(options), V(target_model), V(draft_model) and V(repositories). Empty if it is not known; nothing counts as
        pinned then.
    type: dict
    default: {}
  asked:
    description:
      - A recipe by its name or path, or V("") for the shipped one that has the name of what serves. The controller then
        fills in O(recipe), O(recipes) and O(subject), which cannot be given with it. With neither a recipe nor a
        O(record), the answer says that nothing is deployed.
    type: str
  subject:
    description:
      - What is asked about if O(record) and O(recipe) have different models; the other one is left aside.
    type: str
    choices: [record, recipe]
    default: record
  recipes:
    description:
      - Shipped recipes, for naming one that has a newer draft model. Each is a list of its name, its target model, its
        draft model, the draft models that this one replaces, and where that is said.
    type: list
    elements: list
    default: []
  families:
    description:
      - The known release families, each a list of its first and its last release. Another family is beyond the line.
      - The controller, which knows them, fills it in.
    type: list
    elements: list
    default: []
  platform:
    description:
      - The platform that an image must be there for, such as V(linux/arm64). By default the one of the host.
    type: str
  endpoint:
    description:
      - The Hub's address.
    type: str
    default: https://huggingface.co
  token:
    description:
      - A token for the Hub. It is used only for a model that the Hub refuses to anonymous clients.
    type: str
  validate_certs:
    description:
      - Whether the registry's certificate must be valid.
    type: bool
    default: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.deployment_info
  - module: dgx_spark.speculative.recipe_info
  - module: dgx_spark.speculative.registry_image_info
"""

EXAMPLES = r"""
---
- name: Read the recipe
  dgx_spark.speculative.recipe_info:
    recipe: single_eagle3
  register: known

- name: Ask what is newer than the recipe
  dgx_spark.speculative.update_info:
    recipe: "{{ known.recipe }}"
  register: update

- name: Show it
  dgx_spark.speculative.report:
    lines: "{{ update.lines }}"
"""

RETURN = r"""
rows:
  description: What was asked about, in the order image, models, draft.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What it is. A draft is a row of its own only if another model replaces it.
      type: str
      choices: [image, model, draft]
    name:
      description: The image without its tag, or the model.
      type: str
    current:
      description: The tag, commit or draft model that serves. Null if not known.
      type: str
    newest:
      description: The newest of its line. Null if not known.
      type: str
    verdict:
      description: How the two compare. V(unknown) if it could not be asked for.
      type: str
      choices: [newest, newer, pinned, superseded, directory, not deployed, unknown]
    proposed:
      description: What a switch would take, an image or a commit. Null if nothing.
      type: str
    bytes:
      description: What there is to fetch at most. Null if not known.
      type: int
    notes:
      description: What else there is to know, in sentences.
      type: list
      elements: str
  sample:
    - kind: image
      name: nvcr.io/nvidia/tensorrt-llm/release
      current: 1.3.0rc12
      newest: 1.3.0rc13
      verdict: newer
      proposed: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13
      bytes: 17500000000
      notes: []
newer:
  description: Whether anything is proposed.
  returned: success
  type: bool
recipe_fits:
  description: Whether O(recipe) is that of what serves, so that the proposals can be switched to.
  returned: success
  type: bool
overrides:
  description: What the recipe says when all proposals are taken, to be put over what is in its file.
  returned: success
  type: dict
  sample:
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13
path:
  description: The file of the recipe, where O(asked) was given; empty if none is known.
  returned: success
  type: str
lines:
  description: The rows as a table for people, with their notes.
  returned: success
  type: list
  elements: str
closing:
  description: What can be done about it, in lines.
  returned: success
  type: list
  elements: str
keep:
  description: What to write down after a switch so that the next plain run serves the same, in lines.
  returned: success
  type: list
  elements: str
"""

import dataclasses
import functools
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.image_store import own_platform
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.registry import (
    Reference,
    Registry,
    fetch,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._models.hub import Hub
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report import updates

# Whoever looks for news does not wait as long as whoever needs a model.
DELAYS = (1.0,)


class UpdateInfo:
    """The module's parameters and the one thing it does."""

    def __init__(self, params: dict[str, t.Any]) -> None:
        self._params = params
        self._platform: str = params["platform"] or own_platform()
        self._hubs = updates.Hubs(
            Hub(params["endpoint"], delays=DELAYS),
            Hub(params["endpoint"], params["token"], delays=DELAYS) if params["token"] else None,
        )

    def act(self) -> dict[str, t.Any]:
        record, recipe, _fits, _notes = updates.subject_of(
            *(self._params[key] for key in ("record", "recipe", "subject"))
        )
        deployment = updates.deployment_of(record, recipe)
        rows = [
            updates.ImageQuestion(deployment, self._platform, self._params["families"], self._registry).row(),
            *(updates.model_row(model, self._hubs) for model in deployment.models),
        ]
        return {"changed": False, "rows": [dataclasses.asdict(row) for row in rows]}

    def _registry(self, reference: Reference) -> Registry:
        fetch_page = functools.partial(fetch, validate_certs=self._params["validate_certs"])
        return Registry(reference.base_url, reference.repository, fetch_page)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "dict", "default": {}},
            "recipe": {"type": "dict", "default": {}},
            "asked": {"type": "str"},
            "subject": {"type": "str", "choices": ["record", "recipe"], "default": "record"},
            "recipes": {"type": "list", "elements": "list", "default": []},
            "families": {"type": "list", "elements": "list", "default": []},
            "platform": {"type": "str"},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "token": {"type": "str", "no_log": True},
            "validate_certs": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    if not module.params["record"] and not module.params["recipe"]:
        module.fail_json(msg="There is nothing to compare with: give a record, a recipe or both.")
    module.exit_json(**UpdateInfo(module.params).act())


if __name__ == "__main__":
    main()

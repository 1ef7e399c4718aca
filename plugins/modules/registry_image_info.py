#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_image_info
short_description: Look up an image in its registry without pulling it (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Determines whether an image exists in its registry, its digests and the size of the download. Downloads no layer.
  - Queries the registry anonymously. A registry on the same machine is asked without TLS, as Docker does.
options:
  image: {type: str, required: true, description: "The reference of the image."}
  platform: {type: str, description: "The platform of the image. The default is that of the host."}
  validate_certs: {type: bool, default: true, description: "Whether the registry's certificate must be valid."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import functools
import typing as t

from ansible.module_utils.basic import (
    AnsibleModule,
)

from ..module_utils._docker.image_store import own_platform
from ..module_utils._docker.registry import Registry, RegistryError, describe, fetch, parse_reference


def look(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the facts that the registry has about the image."""
    reference = parse_reference(params["image"])
    fetch_page = functools.partial(fetch, validate_certs=params["validate_certs"])
    registry = Registry(reference.base_url, reference.repository, fetch_page)
    return describe(registry, reference, params["platform"] or own_platform())


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "platform": {"type": "str"},
            "validate_certs": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, **look(module.params))
    except RegistryError as e:
        module.fail_json(msg=str(e))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        module.fail_json(
            msg=f"The server of {module.params['image']} does not answer like a registry ({e!r}). Check the image's "
            "name and the network.",
        )


if __name__ == "__main__":
    main()

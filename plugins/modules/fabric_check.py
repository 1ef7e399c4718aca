#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_check
short_description: Check the link from one Spark to another (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Checks link, address, route, MTU, interface, loss and TCP of each rail, in this direction. Needs no root.
options:
  rails: {type: list, elements: dict, required: true, description: "The rails of this Spark."}
  peer: {type: str, default: the other Spark, description: "The name of the peer in messages."}
  host: {type: str, default: "", description: "The name of this Spark in messages."}
  port: {type: int, default: 2233, description: "The TCP port of the peer to connect to, or V(0) for none."}
  timeout: {type: int, default: 15, description: "Seconds for the whole check."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._fabric.arguments import PROOF
from ..module_utils._fabric.link_check import check_link


def main() -> None:
    module = AnsibleModule(argument_spec=PROOF, supports_check_mode=True)
    proof = check_link(module.params)
    if proof["error"]:
        module.fail_json(msg=proof["error"], table=proof["table"])
    module.exit_json(changed=False, **{name: proof[name] for name in ("rails", "table", "findings")})


if __name__ == "__main__":
    main()

# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader
from ansible.utils.display import Display
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._lease.fence import require
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan import (
    access,
    back,
    cluster,
    course,
    deployment,
    firewall,
    images,
    links,
    models,
    network,
    nodes,
    page,
    place,
    room,
    served,
    shared,
    sizes,
    steps,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.subjects import PARTS, SUBJECTS
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._recipe import fallback
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report.access import reach_of


def refusing(refusal: str) -> dict[str, t.Any]:
    """How the task ends, by what stands in the way."""
    return {"failed": True, "msg": refusal} if refusal else {}


display = Display()


class ActionModule(ActionBase):
    """Decide on the controller what all Sparks of a deployment do."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        self._variables = dict(task_vars or {})
        host = str(self._variables.get("inventory_hostname", ""))
        self._known = nodes.known(self._variables, self._task.args, self._templar.template)
        self._task.args = nodes.gathered(self._known, self._task.args, SUBJECTS)
        _result, given = self.validate_argument_spec(
            argument_spec={**SUBJECTS, **PARTS}, mutually_exclusive=[list(SUBJECTS)], required_one_of=[list(SUBJECTS)]
        )
        subject = next(name for name in SUBJECTS if given[name] is not None)
        try:
            return {"changed": False, **getattr(self, f"_{subject}")(host, given)}
        except (links.PlanError, sizes.PlanError) as error:
            raise AnsibleActionFail(str(error)) from None
        except KeyError as error:
            raise AnsibleActionFail(nodes.needs(subject, error)) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise AnsibleActionFail(f"What the Sparks run cannot be planned: {error}.") from None

    @staticmethod
    def _refused(host: str, refusal: str) -> dict[str, t.Any]:
        return refusing(refusal and f"{host}: {refusal}")

    @staticmethod
    def _fabric(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        try:
            return network.part(host, given["fabric"])
        except network.OfAnotherError as error:
            return {"failed": True, "of_another": True, "msg": str(error)}

    @staticmethod
    def _cluster(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = dict(given["cluster"])
        planned = asked.pop("findings")
        compared = cluster.compared(asked["looks"], asked.pop("clock_skew"), asked.pop("tolerate"))
        own = cluster.joined(host, **asked)
        # What is the same for all is said once.
        of_all = compared["findings"] if host == next(iter(asked["looks"])) else []
        return {**compared, **own, "findings": [*planned, *own["findings"], *of_all]}

    @staticmethod
    def _steps(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {"steps": steps.idle(**given["steps"])}

    @staticmethod
    def _room(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked, models = given["room"], given["room"]["models"]
        if asked["looks"] is None:
            return refusing(room.unfit(host, models, asked["image_bytes"], asked["reserve_bytes"]))
        models = {**models, "cache": models["cache"]["directory"]}
        lacking = room.needed(asked["looks"], host, models, asked["packed_bytes"], asked["reserve_bytes"])
        return refusing("\n".join(lacking))

    @staticmethod
    def _model_copies(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["model_copies"]
        views = asked["views"]
        return {
            "to": models.takers(views),
            **models.cargo(views[host], asked["state_directory"], asked["verify"]),
            **refusing(models.unlike(views, host)),
        }

    @staticmethod
    def _trust(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = dict(given["trust"])
        told = {name: asked.pop(name) for name in ("rails", "looks", "keys", "users", "pythons")}
        try:
            return cluster.trust(cluster.known_of(**told), host, **asked)
        except ValueError as error:
            raise AnsibleActionFail(f"Writing what the Sparks share failed: {error}.") from None

    def _access(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["access"]
        if os.environ.get("SUDO_USER"):
            raise AnsibleActionFail(access.UNDER_SUDO)
        found = access.way(asked["docker"], asked["add_to_group"], self._task.check_mode)
        return {**found, **self._refused(host, access.refusal(asked["docker"], asked["need_gpu"]))}

    @staticmethod
    def _place(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return refusing("\n".join(f"{host}: {problem}" for problem in place.problems(place.Place(**given["place"]))))

    @staticmethod
    def _firewall(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        try:
            return {"rules": firewall.rules(**given["firewall"])}
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None

    @staticmethod
    def _cable(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        refusal = network.in_use(**given["cable"])
        # It says all, whatever else may keep a network from being configured.
        return {"refused": True, **refusing(f"{host}: {refusal}")} if refusal else {}

    def _image_copies(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["image_copies"]
        found = images.copies(asked["looks"])
        is_other = host == asked["loaded"] and host in found["to"] and not self._task.check_mode
        return {**found, **refusing(images.other(asked["looks"], host) if is_other else "")}

    def _page(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return page.plan(host, **given["page"], reach=reach_of(self, self._variables))

    def _served(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        # Where a value was given, only what came with the task still tells.
        asked = {**given["served"], "given": self._task.args["served"]["given"]}
        plan = served.decided(asked, host)
        if "served" in plan:
            alternative = self._alternative(asked["recipe"], plan["served"]["image"])
            plan["fix"] = f"Correct the options, and report the difference. {alternative}".rstrip()
        if given["served"]["overcommit"] or not plan.get("message"):
            return plan
        display.display("\n".join(["", *plan["lines"], ""]))
        return {"lines": plan["lines"], **self._refused(host, plan["message"])}

    def _listen(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked, hosts = given["listen"], nodes.members(self._known)
        place = course.listens(host, hosts, asked["host"], asked["port"])
        told = {name: asked[name] for name in ("network", "image", "published_ports")}
        ways = {name: asked[name] for name in ("host", "expose", "allow_unauthenticated", "network")}
        return {
            **place,
            "closely": course.closely(place, **told, compare_path=asked["cache_directory"]),
            "alternative": self._alternative(asked["recipe"], asked["image"]),
            **self._refused(host, course.exposed(**ways, hosts=hosts)),
        }

    def _alternative(self, recipe: t.Mapping[str, t.Any], image: str) -> str:
        return fallback.advice(recipe, image, nodes.limit(self._known))

    @staticmethod
    def _share(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return shared.brought(given["share"], given["plan"], given["recipe"])

    def _nodes(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        def render(script: t.Mapping[str, t.Any]) -> str:
            lookup = lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
            return str(lookup.run([given["script"]], variables=self._variables, template_vars={"script": script})[0])

        return dict(shared.planned(host, given["nodes"], given["plan"], given["recipe"], render))

    def _run(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["run"]
        look = {"slot": asked["slot"]} if asked["addresses"] is None else asked
        known = asked["own"], asked["proven"]
        found = deployment.way(asked["deployment"], asked["turn"], look, *known)
        return {**found, **self._refused(host, found["refusal"])}

    def _back(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["back"]
        refused = self._refused(host, back.refusal(host, asked["records"], asked["state_directory"], asked["docker"]))
        found = (asked["records"].get(host) or {}) if not refused.get("failed") else {}
        before = found.get("previous")
        room = deployment.reserved(before, found.get("present"), asked["state_directory"]) if before else []
        return {**refused, "reserved": room}

    @staticmethod
    def _question(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return course.question(host, **given["question"])

    def _failure(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        # What another run has taken over does not come back by this one.
        require(self, host)
        return course.failure(host, **given["failure"])

    @staticmethod
    def _ended(host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {"failed": True, "msg": course.ended(host, **given["ended"])}

    def _start(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        here = set(self._variables["ansible_play_hosts"])
        missing = [each for each in self._variables["ansible_play_hosts_all"] if each not in here]
        found = course.start(host, **given["start"], missing=missing)
        return {**found, "failed": True, "msg": found["gone"]} if found["gone"] else found

    @staticmethod
    def _review(_host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["review"]
        answered = served.of_head(asked["answered"])
        record = deployment.reviewed(asked["own"], answered, asked["networks"], asked["origins"])
        return {"record": deployment.with_verdict(record, asked["verdict"])}

    def _record(self, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        asked = given["record"]
        found, records, docker = asked["deployment"], asked["records"], asked["seen"]["docker"]
        # With it what else was looked up may have gone.
        if refused := self._refused(host, deployment.replaced_meanwhile(asked["container"], docker)):
            return refused
        if deployment.is_record(found):
            return {"record": found, "replaced": records["present"] or records["previous"]}
        answered, figures = (served.of_head(asked[name]) for name in ("answered", "figures"))
        seen = deployment.Seen(
            image=docker["image"],
            container=asked["container"],
            memory_available=asked["seen"]["machine"]["memory_available"],
            answered=answered,
            figures=figures,
            option_check=asked["option_check"] or asked["seen"]["records"]["said"].get(asked["checked"], {}),
            ranks=served.of_head(asked["ranks"]) or [],
            networks=asked["networks"],
        )
        planned = deployment.Deployment(**found)
        record = planned.record(seen, datetime.datetime.now(datetime.timezone.utc))
        record = deployment.with_verdict(record, records.get("verdict") or {})
        return {"record": record, "replaced": deployment.replaced(planned, records)}

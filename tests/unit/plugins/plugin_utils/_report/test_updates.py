# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.dgx_spark.speculative.plugins.module_utils._report import updates as asked
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._report import updates

RECIPE = {
    "name": "mine",
    "image": "nvcr.io/x:1.3.0rc12",
    "method": "eagle3",
    "options": {},
    "target_model": {"id": "a/target", "revision": "main", "include": [], "exclude": ["metal/*"]},
    "draft_model": {"directory": "/models/draft"},
    "repositories": [{"id": "a/target", "revision": "main", "include": [], "exclude": ["metal/*"]}],
}
RECORD = {
    "deployment": "mine",
    "deployed_at": "2026-01-02T03:04:05Z",
    "image": {"reference": "nvcr.io/x:1.3.0rc13", "id": "sha256:1", "digests": ["nvcr.io/x@sha256:abc"]},
    "method": "eagle3",
    "options": {},
    "target_model": "a/target",
    "draft_model": "/models/draft",
    "models": {
        "a/target": {"commit": "1" * 40, "snapshot": "/x", "bytes": 1},
        "/models/draft": {"commit": None, "snapshot": "/models/draft", "bytes": 1},
    },
}


SHIPPED = [
    updates.Shipped("elsewhere", "a/else", "a/v2", ["a/v1"], "https://example.org/v2"),
    updates.Shipped("old", "a/target", "a/v1", [], "https://example.org/v1"),
    updates.Shipped("new", "a/target", "a/v2", ["a/v0", "a/v1"], "https://example.org/v2"),
]


def drafting_with(draft: str) -> asked.Deployment:
    models = (asked.Model("target_model", "a/target"), asked.Model("draft_model", draft))
    return asked.Deployment("nvcr.io/x:1", (), models, "eagle3", {})


def test_a_draft_is_superseded_by_that_of_a_recipe_for_the_same_target() -> None:
    row = updates.draft_row(drafting_with("a/v1"), SHIPPED)
    assert row is not None
    assert (row.current, row.newest, row.verdict, row.proposed) == ("a/v1", "a/v2", "superseded", None)
    assert row.notes == [
        "a/v2 is recommended in place of the draft a/v1 (https://example.org/v2); serve.yml -e recipe=new serves it."
    ]
    assert updates.draft_row(drafting_with("a/v2"), SHIPPED) is None


def test_a_successor_that_no_shipped_recipe_has_for_this_target() -> None:
    row = updates.draft_row(drafting_with("a/v1"), SHIPPED[:1])
    assert row is not None
    assert row.notes == [
        "a/v2 is recommended in place of the draft a/v1 (https://example.org/v2); to serve it, set draft_model.id in a "
        "copy of the recipe."
    ]


def test_overrides_change_the_revision_wherever_it_stands_and_keep_the_image_that_serves() -> None:
    deployment = asked.deployment_of(RECORD, RECIPE)
    row = asked.Row("model", "a/target", proposed="2" * 40)
    found = updates.overrides(RECIPE, deployment, [row])
    assert found["image"] == "nvcr.io/x:1.3.0rc13"
    assert found["target_model"]["revision"] == found["repositories"][0]["revision"] == "2" * 40
    assert found["draft_model"] == {"directory": "/models/draft"}
    assert RECIPE["target_model"]["revision"] == "main"  # type: ignore[index]
    image = asked.Row("image", "nvcr.io/x", proposed="nvcr.io/x:1.3.0rc14")
    assert updates.overrides(RECIPE, deployment, [image])["image"] == "nvcr.io/x:1.3.0rc14"
    noted = {**RECIPE, "image": "nvcr.io/x:1.3.0rc13", "note": "Untried."}
    assert updates.overrides(noted, deployment, [])["note"] == "Untried."
    assert updates.overrides(noted, deployment, [image])["note"] == ""
    # What was read without its drafts is to serve without them.
    assert updates.overrides({**RECIPE, "method": "none"}, deployment, [])["method"] == "none"


def test_what_to_write_down() -> None:
    deployment = asked.deployment_of(RECORD, RECIPE)
    rows = [
        asked.Row("image", "nvcr.io/x", proposed="nvcr.io/x:1.3.0rc14"),
        asked.Row("model", "a/target", proposed="2" * 40),
    ]
    assert updates.keep_lines(deployment, rows) == [
        "The next plain run follows recipe and inventory again. To keep what was switched to, write down",
        "  in the inventory, among the variables of 'sparks':",
        "    trtllm_container_image: nvcr.io/x:1.3.0rc14",
        "  in the recipe, or a copy of it with the same file name:",
        f"    target_model: {{revision: {'2' * 40}}}",
        "To go back: serve.yml -e previous=true",
    ]
    assert updates.keep_lines(deployment, [asked.Row("image", "nvcr.io/x")]) == []


def test_what_the_recipe_itself_pins_needs_no_writing_down() -> None:
    pinned = {**RECIPE, "target_model": {"id": "a/target", "revision": "2" * 40}}
    row = asked.Row("model", "a/target", proposed="2" * 40)
    lines = updates.keep_lines(asked.deployment_of(RECORD, pinned), [row])
    assert lines == ["To go back: serve.yml -e previous=true"]


def test_the_table_for_people() -> None:
    rows = [
        asked.Row(
            "image", "nvcr.io/nvidia/tensorrt-llm/release", "1.3.0rc12", "1.3.0rc13", "newer", "x", 17_500_000_000
        ),
        asked.Row("model", "a/target", "1" * 40, "1" * 40, "newest"),
        asked.Row("model", "a/v1", "3" * 40, "3" * 40, "pinned"),
        asked.Row("model", "/models/draft", None, None, "directory"),
        asked.Row("draft", "a/v1", "a/v1", "a/v3", "superseded", notes=["Take the other one.", "Take the other one."]),
    ]
    assert updates.table(rows) == [
        "                                       now        newest",
        "  nvcr.io/nvidia/tensorrt-llm/release  1.3.0rc12  1.3.0rc13  newer, 17.5 GB to fetch at most",
        "  a/target                             11111111   11111111   newest",
        "  a/v1                                 33333333   33333333   pinned, has a successor",
        "  /models/draft                        -          -          directory",
    ]
    assert updates.note_lines(rows) == ["  - Take the other one."]
    assert max(map(len, updates.table(rows))) <= 100

#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: huggingface_snapshot
short_description: Compare models on the Hugging Face Hub with a host's cache, and check models in directories
version_added: 0.1.0
description:
  - Determines which files of each model are wanted, and which of them are missing in the host's Hugging Face cache.
    Returns the bytes to download and the free disk space. It downloads nothing and changes nothing.
  - A model whose files were verified after a download has a receipt. If all files still have the recorded size and
    time, the model is complete. Its revision is then the commit in the receipt, and the Hub is not asked.
  - Returns the facts of each model that a memory plan needs. They come from files of a few kilobytes, before any
    download.
  - All problems of all models are reported at once.
  - Runs on the host that owns the cache, and needs only Python's standard library.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
  - dgx_spark.speculative._following
  - dgx_spark.speculative._from_hosts
options:
  repositories:
    description: Models on the Hub. The list may be empty.
    required: true
    type: list
    elements: dict
    suboptions:
      id: {type: str, required: true, description: "Name of the model on the Hub, such as V(openai/gpt-oss-120b)."}
      revision: {type: str, default: main, description: "Branch, tag or full commit."}
      include: {type: list, elements: str, default: [],
        description: "Shell patterns of the wanted files, matched as C(huggingface_hub) does. If it is empty, all files
          are wanted."}
      exclude: {type: list, elements: str, default: [],
        description: "Shell patterns of files to leave out, even if O(repositories[].include) matches them."}
  directories:
    description:
      - Models in directories of the host, as absolute paths. A directory must contain a complete model, which is
        C(config.json), a tokenizer, and every file with weights in full length. The Hub is not asked about them.
      - A server sees only the directory itself. A link that leads out of it is therefore an error, such as those of a
        snapshot in the Hugging Face cache. The draft model of O(model_pair) and a draft head need no tokenizer.
      - Only the headers of the weights are read. Hidden files and directories are ignored.
    type: list
    elements: path
    default: []
  cache_directory: {type: path, default: ~/.cache/huggingface/hub,
    description: "The C(hub) directory of the Hugging Face cache, which contains the C(models--*) directories."}
  model_pair:
    description: Target model and draft model that are to be deployed together, each on the Hub or in a directory. Their
      files C(config.json) are compared. Without both models, nothing is compared.
    type: dict
    default: {}
    suboptions:
      target: {type: str, description: "Name of the target model on the Hub, or its directory."}
      draft: {type: str, description: "Name of the draft model on the Hub, or its directory."}
      method: {type: str, description: "Speculation method, such as V(eagle3)."}
  receipts_directory: {type: path, required: true, description: "Directory of the receipts of verified downloads."}
  endpoint: {type: str, default: "https://huggingface.co", description: "URL of the Hub."}
  token: {type: str,
    description: "Access token for the Hub, sent with every request. Without it, requests are anonymous."}
  missing_token: {type: str, choices: [fail, report], default: fail,
    description: "Reaction to an anonymous request that the Hub refuses. V(fail) fails the task. V(report) sets
      RV(token_needed), so that the caller looks for a token only if one is needed."}
  after_step: {type: str,
    description: "Name of the step that has just provided all files, such as V(the download), for the message. The task
      then fails if a model is not verified or one of O(files) is missing."}
  offline: {type: bool, default: false,
    description: "Whether to send the Hub no request. A model without a matching receipt is then not complete, and its
      C(source) in RV(repositories) is V(none)."}
  verify: {type: bool, default: false,
    description: "Whether to treat all models as not verified, so that a download or copy reads every file again. A
      receipt covers the size and the time of the files, and not their bytes."}
  follow:
    description: Whether to wait and ask again while the Hub limits requests, and to show the remaining time. The task
      still fails if the limit lasts longer than an hour, and in check mode.
    default: false
  reference:
    description:
      - RV(repositories) as this module returned it on another host. The cache is then compared with it, and the Hub is
        not asked. Each model is wanted at the commit of the other host.
      - O(from_hosts) may name the variable with the result of the head, as C(reference). RV(model_facts) is then
        completed by the facts that the head has read, and RV(bytes) is that of the head.
    type: list
    elements: dict
  files: {type: dict, default: {},
    description: "Further files of the models, such as tiktoken encodings. Keys are paths, values are SHA-256
      checksums."}
  tiktoken_encodings: {type: list, elements: str, choices: [o200k_base, cl100k_base], default: [],
    description: "Tokenizer files of gpt-oss, which are checked in O(tiktoken_directory) like O(files)."}
  tiktoken_directory: {type: str, description: "Directory of these files. It need not exist yet."}
  foreign_paths: {type: str, choices: [refuse, accept], default: refuse,
    description: "Reaction to directories that a download must write and that belong to another user. V(refuse) is an
      error. V(accept) is for a run that fixes the ownership before it downloads."}
  cache:
    description:
      - Settings to inspect the cache itself, too. The directory that is found is then used. RV(cache) contains the
        models in the cache, their unused files, and paths of other users that must be written. It also contains token
        files and variables of the login shell. The models of every deployment that was ever verified count as used.
      - Token files are not opened. Of the login shell's variables, only E(HF_HOME) and E(HF_HUB_CACHE) are returned.
        The Hub is not asked for RV(cache). With O(offline=true) and an empty O(repositories), only the cache is
        inspected.
    type: dict
    suboptions:
      from_environment: {type: bool, default: false,
        description: "Whether to use the directory of E(HF_HUB_CACHE) or E(HF_HOME) in the login shell, if set, instead
          of O(cache_directory)."}
      state_directory: {type: path, required: true, description: "Directory of the deployments."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Compare two models with the cache
  dgx_spark.speculative.huggingface_snapshot:
    repositories:
      - id: openai/gpt-oss-120b
        exclude: ["original/*", "metal/*"]
      - id: nvidia/gpt-oss-120b-Eagle3-long-context
        revision: 633caf45f31288cbb70ee237f7c939db707ecc94
    receipts_directory: ~/.local/share/dgx-spark-speculative/models
  register: result

- name: Check that the models fit on the disk
  ansible.builtin.assert:
    that: result.bytes_missing < result.cache_free_bytes
"""

RETURN = r"""
complete: {returned: success, type: bool, sample: false, description: "Whether all models are complete."}
verified: {returned: success, type: bool, sample: false, description: "Whether all models are verified."}
bytes: {returned: success, type: int, sample: 431000000,
  description: "Size in bytes of the wanted files of all models, without models whose size is unknown."}
bytes_missing: {returned: success, type: int, sample: 131000000,
  description: "Bytes to download for all models, without models whose size is unknown."}
incomplete_bytes: {returned: success, type: int, sample: 0,
  description: "Bytes of all incomplete downloads that no missing file will continue."}
cache_free_bytes: {returned: success, type: int, sample: 3211231232000,
  description: "Free disk space for the cache, in bytes."}
cache_filesystem: {returned: success, type: str, sample: /,
  description: "Mount point of the file system of the cache."}
models:
  description:
    - Location of the wanted revision of each model, with its size in bytes. The keys are the names of the models, and
      for O(directories) their paths.
    - C(snapshot) is the directory with the files, whether it exists or not. It is null if the commit is unknown. A
      model in a directory has no C(commit), but a C(fingerprint), which changes if a file is added, removed or written.
  returned: success
  type: dict
  sample:
    nvidia/gpt-oss-120b-Eagle3-long-context:
      {commit: 633caf45f31288cbb70ee237f7c939db707ecc94, bytes: 431000000, snapshot: &snapshot
        /home/me/.cache/huggingface/hub/models--nvidia--gpt-oss-120b-Eagle3-long-context/snapshots/633caf45f31288cbb70e}
    /models/gpt-oss-120b: {commit: null, snapshot: /models/gpt-oss-120b, bytes: 65280000000, fingerprint: 9f86d081}
repositories:
  description:
    - The models on the Hub, in the order of O(repositories), whose keys they have.
    - C(complete) says whether all wanted files are present with the right size. C(verified) says whether their
      checksums were verified after the download, and size and time have not changed since.
    - C(files) are the wanted files, each with its C(path), its C(size) in bytes, and C(blob), its name in the cache.
      C(missing) are those that are missing or have another size. C(incomplete_downloads), with C(path) and C(size),
      will not be continued.
    - C(bytes_total) is the size of all wanted files, C(bytes_weights) that of the files with weights. C(bytes_missing)
      is to be downloaded, and C(bytes_on_disk) is what C(directory) occupies now.
    - C(gated) says whether the Hub gives the model only to users who accepted its licence. C(source) of the list of
      files is V(receipt), V(hub) or V(none). A value is null if it is unknown.
  returned: success
  type: list
  elements: dict
  sample:
    - {id: nvidia/gpt-oss-120b-Eagle3-long-context, revision: main, include: [], exclude: [],
       commit: 633caf45f31288cbb70ee237f7c939db707ecc94, snapshot: *snapshot,
       directory: /home/me/.cache/huggingface/hub/models--nvidia--gpt-oss-120b-Eagle3-long-context,
       complete: false, verified: false, gated: false, source: hub, incomplete_downloads: [],
       missing: [{path: model.safetensors, size: 430946000}],
       files: [{path: model.safetensors, size: 430946000, blob: 9f86d081884c7d}],
       bytes_total: 431000000, bytes_weights: 430946000, bytes_missing: 131000000, bytes_on_disk: 300000000}
model_facts:
  description:
    - Facts of each model for a memory plan, from its files C(config.json), C(hf_quant_config.json) and
      C(model.safetensors.index.json). The keys are those of RV(models). A fact that is in none of these files is null.
    - C(weights_bytes) comes from the index. Without an index, it is the size of the files with weights.
    - C(kv_cache_dtype) is V(fp8) if C(hf_quant_config.json) asks for such a KV cache, which TensorRT-LLM follows.
    - C(attention_layers) and C(state_layers) are the layers of a hybrid model that keep keys and values, and those that
      keep a state for each request. C(state_values), C(convolution_values) and C(convolution_width) are the size of a
      layer's state.
    - C(prediction_layers) is the number of layers that predict further tokens, for the method V(mtp).
    - While a token is needed, only the facts of O(directories) are returned.
  returned: success
  type: dict
  sample:
    openai/gpt-oss-120b:
      {weights_bytes: 65248815744, architecture: GptOssForCausalLM, model_type: gpt_oss, layers: 36,
       attention_heads: 64, kv_heads: 8, head_dim: 64, hidden_size: 2880, vocab_size: 201088, max_context: 131072,
       experts: 128, active_experts: 4, kv_cache_dtype: null, attention_layers: null, state_layers: null,
       state_values: null, convolution_values: null, convolution_width: null, prediction_layers: null}
model_pair_problems: {returned: success, type: list, elements: str, sample: [],
  description: "Reasons why the draft model of O(model_pair) does not match the target model, one sentence each."}
unverified:
  description: Models that must be downloaded or at least verified. An entry contains nothing that changes during that.
    With O(verify=true), it also has C(verify), which is V(true).
  returned: success
  type: list
  elements: dict
  sample:
    - {id: nvidia/gpt-oss-120b-Eagle3-long-context, revision: main, include: [], exclude: [],
       commit: 633caf45f31288cbb70ee237f7c939db707ecc94}
configuration: {returned: success, type: list, elements: dict, sample: [],
  description: "Models of which files without weights are missing, such as C(config.json) and the tokenizer. Each is a
    request for just these files, with the keys of RV(unverified)."}
files_missing: {returned: success, type: list, elements: str, sample: [/srv/encodings/o200k_base.tiktoken],
  description: "Paths of O(files) that are missing or have another checksum."}
tiktoken_encodings: {returned: success, type: dict, sample: {/srv/encodings/o200k_base.tiktoken: 446a9538},
  description: "SHA-256 checksums of O(tiktoken_encodings), by path."}
downloads:
  description: Missing files of O(tiktoken_encodings).
  returned: success
  type: list
  elements: dict
  sample:
    - {path: /srv/encodings/o200k_base.tiktoken, checksum: "sha256:446a9538",
       url: "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"}
cache:
  description:
    - Facts of the cache, and of files and variables that belong to it. C(directory) is the one that was inspected.
    - C(models) are the models in the cache. C(bytes_on_disk) would be free without the directory of the model.
      C(fetched_here) says whether the model has a receipt, C(in_use) whether a deployment uses it. C(unused_files) and
      C(incomplete_downloads) have C(path) and C(bytes) each.
    - C(foreign) are paths that a run with O(repositories) must write, and that another user owns and has closed to this
      one. C(command) gives a path to the login user, with its content if C(recursive).
    - C(token_files) are the paths of the token files beside the cache. C(login_environment) are variables that an
      interactive login shell exports, or null. C(lines) is the same as text.
  returned: success, if O(cache) is given
  type: dict
  sample:
    directory: /home/me/.cache/huggingface/hub
    models:
      - {id: openai/gpt-oss-120b, directory: /home/me/.cache/huggingface/hub/models--openai--gpt-oss-120b,
         bytes_on_disk: 130500000000, fetched_here: true, in_use: true, incomplete_downloads: [],
         unused_files: [{path: original/, bytes: 65200000000}]}
    foreign:
      - {path: /home/me/.cache/huggingface/hub, owner: root, recursive: false,
         command: "sudo chown me: /home/me/.cache/huggingface/hub"}
    token_files: [/home/me/.cache/huggingface/token]
    login_environment: {HF_HOME: /data/huggingface, HF_HUB_CACHE: null}
    lines: ["Complete already: openai/gpt-oss-120b (65.2 GB)."]
lines: {returned: success, type: list, elements: str, sample: ["Complete in a directory: /models/x (65.3 GB)."],
  description: "Result of the check of O(directories), as text."}
token_needed: {returned: success, type: bool, sample: false,
  description: "Whether the Hub refused an anonymous request for one of the models."}
authorized: {returned: success, type: bool, sample: false, description: "Whether requests to the Hub had a token."}
finished: {returned: success, type: bool, sample: true,
  description: "Whether the Hub has answered. If not, which is possible only with O(follow=true), only RV(progress) is
    returned."}
progress: {returned: when the Hub limits requests, type: dict,
  sample: {text: "the Hub limits requests: continues in 4 min"},
  description: "State of the wait as C(text), with RV(finished=false)."}
attempts: {returned: with O(follow=true), type: int, sample: 1, description: "Number of calls of the module."}
errors:
  description: The problems, one sentence each.
  returned: failure
  type: list
  elements: str
  sample:
    - "The Hub has no model openai/gpt-oss-120 (or it is private and the token may not see it): check the name on
      https://huggingface.co/openai/gpt-oss-120"
"""

import time
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._data.text import amount, duration
from ..module_utils._models.cache_facts import EnvironmentValueError
from ..module_utils._models.cache_inspector import CacheInspector
from ..module_utils._models.config import PAIR_ARGUMENT, ModelFiles, facts_of, judged_pair, weight_bytes
from ..module_utils._models.directory import look_at
from ..module_utils._models.disk import ModelSpec
from ..module_utils._models.hub import (
    REPOSITORIES_ARGUMENT,
    CachedModelFiles,
    Hub,
    HubError,
    OtherHost,
    Survey,
    TokenNeededError,
    configuration_of,
    free_space,
    survey,
    unreadable,
)
from ..module_utils._spark.following import following

# Seconds of one wait with `follow`, and the longest limit for which it waits.
PATIENCE_S = 15.0
LONGEST_S = 3600.0


class SnapshotSurvey:
    """One call of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        params = module.params
        self.wanted = [ModelSpec.of(item) for item in params["repositories"]]
        # These come first, because they need no network.
        self.directories, errors = look_at(params["directories"], params["model_pair"].get("draft") or "")
        self.refuse(errors)
        self.found: dict[str, t.Any] = {}
        if params["cache"] is not None:
            take_over = params["foreign_paths"] == "accept"
            given = {key: params[key] for key in ("repositories", "cache_directory", "receipts_directory", "verify")}
            self.found = CacheInspector({**given, **params["cache"], "take_over": take_over}).look()
        self.cache = Path(self.found.get("directory") or params["cache_directory"])
        self.receipts = Path(params["receipts_directory"])
        self.hub = None if params["offline"] else Hub(params["endpoint"], params["token"] or "")
        if params["reference"] is not None:
            other = OtherHost(params["reference"])
            try:
                self.wanted = [other.wanted(item) for item in self.wanted]
            except HubError as error:
                module.fail_json(msg=str(error))
            self.hub = other

    def refuse(self, errors: list[str]) -> None:
        """Fail with all errors, if there are any."""
        if errors:
            text = errors[0] if len(errors) == 1 else "\n".join(f"- {error}" for error in errors)
            self.module.fail_json(msg=text, errors=errors)

    def in_directories(self) -> dict[str, dict[str, t.Any]]:
        """Return path, size and fingerprint of the models in directories."""
        return {
            name: {
                "commit": None,
                "snapshot": name,
                "bytes": model.contents.size(),
                "fingerprint": model.contents.fingerprint(),
            }
            for name, model in self.directories.items()
        }

    def describe(self, snapshot: Survey) -> tuple[dict[str, dict[str, t.Any]], list[str]]:
        """Return the facts of each model, and why the draft model does not match the target model."""
        models: dict[str, ModelFiles] = {view["id"]: CachedModelFiles(view, self.hub) for view in snapshot.views}
        facts = {view["id"]: facts_of(models[view["id"]], view["bytes_weights"]) for view in snapshot.views}
        pair = self.module.params["model_pair"]
        names = [pair.get("target") or "", pair.get("draft") or ""]
        models.update({name: ModelFiles(Path(name)) for name in names if name.startswith("/")})
        return facts, judged_pair(pair, models)

    def survey(self) -> tuple[Survey, dict[str, dict[str, t.Any]], list[str]]:
        """Return the survey of the Hub and the cache, with the facts of the models."""
        facts: dict[str, dict[str, t.Any]] = {}
        problems: list[str] = []
        try:
            accept = self.module.params["foreign_paths"] == "accept"
            result = survey(self.wanted, self.cache, self.receipts, self.hub, accept, self.module.params["verify"])
            if not result.errors and not result.token_needed:
                try:
                    facts, problems = self.describe(result)
                except TokenNeededError as error:
                    result.token_needed.append(str(error))
                except HubError as error:
                    result.errors.append(str(error))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self.module.fail_json(
                msg=f"{self.module.params['endpoint']} does not answer like the Hub ({error!r}). Check "
                "huggingface_cache_endpoint and the network.",
            )
        return result, facts, problems

    def look(self) -> dict[str, t.Any]:
        free, mount_point = free_space(self.cache)
        result, facts, problems = self.survey()
        if (waited := self.wait()) is not None:
            return waited
        self.refuse(result.errors + (result.token_needed if self.module.params["missing_token"] == "fail" else []))
        directories = self.in_directories()
        told = {"verify": True} if self.module.params["verify"] else {}
        complete = [f"{name} ({amount(model['bytes'])})" for name, model in directories.items()]
        facts.update(
            {name: facts_of(model.files, weight_bytes(model.sizes)) for name, model in self.directories.items()}
        )
        return {
            "changed": False,
            "finished": True,
            **({"cache": self.found} if self.found else {}),
            "repositories": result.views,
            "models": {
                **{
                    view["id"]: {"commit": view["commit"], "snapshot": view["snapshot"], "bytes": view["bytes_total"]}
                    for view in result.views
                },
                **directories,
            },
            "lines": [f"Complete in a directory: {', '.join(complete)}."] if complete else [],
            "model_facts": facts,
            "unverified": [
                {**{key: view[key] for key in ("id", "revision", "commit", "include", "exclude")}, **told}
                for view in result.views
                if not view["verified"]
            ],
            "configuration": [part for view in result.views if (part := configuration_of(view))],
            "complete": all(view["complete"] for view in result.views),
            "verified": all(view["verified"] for view in result.views),
            "bytes_missing": sum(view["bytes_missing"] or 0 for view in result.views),
            "incomplete_bytes": sum(part["size"] for view in result.views for part in view["incomplete_downloads"]),
            "cache_free_bytes": free,
            "cache_filesystem": str(mount_point),
            "model_pair_problems": problems,
            "token_needed": bool(result.token_needed),
            "authorized": bool(self.module.params["token"]),
            "files_missing": [
                path
                for path, checksum in self.module.params["files"].items()
                if not Path(path).is_file() or self.module.sha256(path) != checksum
            ],
        }

    def wait(self) -> dict[str, t.Any] | None:
        """Wait for some seconds if the Hub limits requests, and return the remaining time. None without a limit."""
        seconds = self.hub.limited_s if self.hub else None
        if seconds is None or seconds > LONGEST_S or not self.module.params["follow"] or self.module.check_mode:
            return None
        time.sleep(min(seconds, PATIENCE_S))
        left = max(0.0, seconds - PATIENCE_S)
        text = f"the Hub limits requests: continues in {duration(left)}"
        return {"changed": False, "finished": False, "progress": {"text": text}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repositories": {**REPOSITORIES_ARGUMENT, "required": True},
            "directories": {"type": "list", "elements": "path", "default": []},
            "cache_directory": {"type": "path", "default": "~/.cache/huggingface/hub"},
            "receipts_directory": {"type": "path", "required": True},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "token": {"type": "str", "no_log": True},
            "missing_token": {"type": "str", "choices": ["fail", "report"], "default": "fail", "no_log": False},
            "offline": {"type": "bool", "default": False},
            "verify": {"type": "bool", "default": False},
            **following(by_default=False),
            "reference": {"type": "list", "elements": "dict"},
            "files": {"type": "dict", "default": {}},
            # The action translates these into other options.
            "tiktoken_encodings": {
                "type": "list",
                "elements": "str",
                "choices": ["o200k_base", "cl100k_base"],
                "default": [],
            },
            "tiktoken_directory": {"type": "str", "no_log": False},
            "from_hosts": {"type": "dict"},
            "after_step": {"type": "str"},
            "foreign_paths": {"type": "str", "choices": ["refuse", "accept"], "default": "refuse"},
            "model_pair": PAIR_ARGUMENT,
            "cache": {
                "type": "dict",
                "options": {
                    "from_environment": {"type": "bool", "default": False},
                    "state_directory": {"type": "path", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    try:
        survey_of = SnapshotSurvey(module)
    except EnvironmentValueError as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=unreadable(module.params["cache_directory"], error))
    module.exit_json(**survey_of.look())


if __name__ == "__main__":
    main()

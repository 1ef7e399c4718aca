# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis.redaction import (
    Redactor,
    Secrets,
    known_tokens,
    mask_environments,
    redact,
)

NONE = Secrets()
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\nZXktdjE=\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("token hf_CANARYabc123 there", "token <token> there"),
        ("nvapi-CANARY_x-1 there", "<token> there"),
        ("+ TLLM_SPAWN_PROXY_PROCESS_IPC_HMAC_KEY=CANARY01", "+ TLLM_SPAWN_PROXY_PROCESS_IPC_HMAC_KEY=<masked>"),
        ("Authorization: Bearer CANARY.abc-1", "Authorization: Bearer <token>"),
        ("authorization: basic Q0FOQVJZOng=", "authorization: basic <token>"),
        ("HF_TOKEN=CANARY123 next", "HF_TOKEN=<masked> next"),
        ("export NGC_API_KEY='CANARY 1'", "export NGC_API_KEY='<masked>'"),
        ('{"HF_TOKEN": "CANARY"}', '{"HF_TOKEN": "<masked>"}'),
        ('"{\\"password\\": \\"CANARY\\"}"', '"{\\"password\\": \\"<masked>\\"}"'),
        ("hf_token: CANARY", "hf_token: <masked>"),
        ("hf_token: |\n  CANARY\n  CANARY\nnext: 1", "hf_token: |\n  <masked>\nnext: 1"),
        ('password: "a\\"CANARY"', 'password: "<masked>"'),
        ("password: 'a''CANARY'", "password: '<masked>'"),
        ("client_secret=CANARY apiKey: CANARY", "client_secret=<masked> apiKey: <masked>"),
        ("serve --api-key CANARY --token CANARY x", "serve --api-key <masked> --token <masked> x"),
        ('["--hf-token", "CANARY"]', '["--hf-token", "<masked>"]'),
        ("login(token='CANARY123')", "login(token='<masked>')"),
        ("GET https://h/x?token=CANARY123&a=1", "GET https://h/x?token=<masked>&a=1"),
        ("https://cdn/x?X-Amz-Signature=CANARY&Expires=1", "https://cdn/x?X-Amz-Signature=<masked>&Expires=1"),
        ("http://me:p@CANARY@proxy.example", "http://<credentials>@proxy.example"),
        ("X-API-Key: CANARY", "X-API-Key: <masked>"),
        ("Authorization: token CANARY", "Authorization: token <masked>"),
        ("Set-Cookie: sid=CANARY; Path=/", "Set-Cookie: <masked>"),
        ("eyJhbGciOiJ9CANARY.eyJDQU5BUlk3CANARY.c1CANARY", "<token>"),
        ("a3NCANARYQ==\n-----END RSA PRIVATE KEY-----\nb", "<private key>\nb"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nCANARY\n-----END PGP PRIVATE KEY BLOCK-----", "<private key>"),
        ("http://me:CANARY@proxy.example:3128/x", "http://<credentials>@proxy.example:3128/x"),
        (f"a\n{KEY}\nb", "a\n<private key>\nb"),
        ("-----BEGIN PRIVATE KEY-----\nCANARY cut", "<private key>"),
        ("/home/alice/.cache and /home/bob", "/home/<user>/.cache and /home/<user>"),
        ("from 192.168.1.20:8000 to 10.0.0.7, 192.168.1.20", "from <ip-1>:8000 to <ip-2>, <ip-1>"),
        ("fe80::1ff:fe23:4567:890a up", "<ip-1> up"),
        ("link/ether 48:b0:2d:aa:bb:cc brd", "link/ether <mac-1> brd"),
    ],
)
def test_what_is_taken_out(text: str, redacted: str) -> None:
    assert redact(text, NONE) == redacted
    assert "CANARY" not in redacted


@pytest.mark.parametrize(
    "text",
    [
        "[11/20/2025-16:31:05] [TRT-LLM] [I] get signal from executor worker",
        "INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)",
        "TensorRT LLM version: 1.3.0rc12, driver 580.95.05, pydantic 2.12",
        "listens on 0.0.0.0 and ::1 and ::",
        "max_num_tokens: 8192\neos_token: </s>\ndraft_tokens: 5",
        "CUDA out of memory. Tried to allocate 12.00 GiB.",
        "from huggingface_hub import hf_hub_download; hf_quant_config.json",
        "https://errors.pydantic.dev/2.12/v/extra_forbidden",
        "nvcr.io/nvidia/tensorrt-llm/release@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        'File "/usr/local/lib/python3.12/dist-packages/tensorrt_llm/llmapi/llm.py", line 1109, in __init__',
        "NVRM: Xid (PCI:000f:01:00): 31, pid=1234",
        "dgx_spark.speculative on dgx-spark-speculative",
        '{"token": null, "password": ""}',
        "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=3",
    ],
)
def test_useful_text_survives(text: str) -> None:
    assert redact(text, Secrets(hosts=("spark",), users=("spark",))) == text


def test_what_is_known_of_the_machine() -> None:
    secrets = Secrets(tokens=("strange token", "x"), hosts=("box-7", "box-7.lan"), users=("alice",))
    text = "x strange token on box-7.lan (BOX-7): The user alice may not; xstrange tokeny; mybox-7; user=alice"
    assert redact(text, secrets) == (
        "x <token> on <host> (<host>): The user <user> may not; x<token>y; mybox-7; user=<user>"
    )


def test_one_address_has_one_name_in_all_texts() -> None:
    redactor = Redactor(NONE)
    assert redactor.redact("10.0.0.1 10.0.0.2") == "<ip-1> <ip-2>"
    assert redactor.redact("10.0.0.2") == "<ip-2>"


def test_tokens_found_on_the_machine(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "elsewhere/hub"
    for path, text in {
        home / ".cache/huggingface/token": "secret-one\n",
        home / ".cache/huggingface/stored_tokens": "[laptop]\nhf_token = secret-two\n",
        cache.parent / "token": "secret-three",
        tmp_path / "hf/token": "secret-four",
        tmp_path / "path": "secret-five",
        home / ".docker/config.json": json.dumps({"auths": {"nvcr.io": {"auth": "c2VjcmV0LXNpeA=="}}}),
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {"HF_HOME": str(tmp_path / "hf"), "HF_TOKEN_PATH": str(tmp_path / "path"), "HF_TOKEN": "secret-seven"}
    assert set(known_tokens(home, cache, environment)) == {
        *(f"secret-{number}" for number in ("one", "two", "three", "four", "five", "seven")),
        "c2VjcmV0LXNpeA==",
    }
    assert known_tokens(tmp_path / "nobody", None, {}) == ()


def test_environments_are_masked_unless_known() -> None:
    data = {
        "Config": {"Env": ["PATH=/usr/bin", "COMPANY=CANARY", "HF_HOME=/x"], "Cmd": ["a"]},
        "list": [{"environment": {"TRITON_CACHE_DIR": "/x", "OTHER": "CANARY"}}],
        "env": None,
    }
    assert mask_environments(data) == {
        "Config": {"Env": ["PATH=/usr/bin", "COMPANY=<masked>", "HF_HOME=/x"], "Cmd": ["a"]},
        "list": [{"environment": {"TRITON_CACHE_DIR": "/x", "OTHER": "<masked>"}}],
        "env": None,
    }


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("VLLM_HOST_IP", True),
        ("VLLM_ENGINE_READY_TIMEOUT_S", True),
        ("VLLM_MAX_BAD_WORDS_TOTAL_TOKENS", True),
        ("GLOO_SOCKET_IFNAME", True),
        ("HF_TOKEN_PATH", True),
        ("TOKENIZERS_PARALLELISM", True),
        ("VLLM_API_KEY", False),
        ("VLLM_SOME_TOKEN", False),
        ("vllm_api_key", False),
        ("TRTLLM_PASSWORD", False),
        ("CUDA_OPENAI_KEY", False),
        ("NVIDIA_GH_PAT", False),
        ("NCCL_AUTH_TOKEN", False),
    ],
)
def test_a_variable_of_an_engine_that_is_a_secret_is_masked(name: str, kept: bool) -> None:
    assert mask_environments({"Env": [f"{name}=CANARY"]}) == {"Env": [f"{name}={'CANARY' if kept else '<masked>'}"]}
    assert mask_environments({"environment": {name: "CANARY"}}) == {
        "environment": {name: "CANARY" if kept else "<masked>"}
    }


@pytest.mark.parametrize(
    "text",
    [
        "VLLM_API_KEY=CANARY",
        "export VLLM_API_KEY='CANARY CANARY'",
        "non-default args: {'api_key': ['CANARY', 'CANARY'], 'host': 'x'}",
        '{"api-key": ["CANARY", "CANARY"], "host": "x"}',
        "api_key=['CANARY']",
        "api-key: [CANARY, CANARY]",
        "api-key:\n- CANARY\n- CANARY\nport: 1\n",
        "  api-key:\n    - CANARY\n  port: 1\n",
        "vllm serve --api-key CANARY",
    ],
)
def test_the_keys_of_vllm_are_masked(text: str) -> None:
    assert "CANARY" not in redact(text, NONE)


@pytest.mark.parametrize("before", ["", "u", "me", "me:"])
def test_a_known_token_in_other_spellings(before: str) -> None:
    token = "strange/but secret"
    redactor = Redactor(Secrets(tokens=(token,)))
    assert redactor.redact(f"GET /x/{quote(token, safe='')}") == "GET /x/<token>"
    encoded = base64.b64encode(f"{before}{token}, and more".encode()).decode()
    assert "<token>" in redactor.redact(encoded)


def test_the_users_name_where_it_is_one() -> None:
    redactor = Redactor(Secrets(users=("nvidia",)))
    assert redactor.redact("nvidia@spark, uid=1000(nvidia), chown -R nvidia: x") == (
        "<user>@spark, uid=1000(<user>), chown -R <user>: x"
    )
    assert redactor.redact("nvcr.io/nvidia/tensorrt-llm needs nvidia-smi") == (
        "nvcr.io/nvidia/tensorrt-llm needs nvidia-smi"
    )


@pytest.mark.parametrize("text", ["a", "A_", "token=", "http://a:", "ab:", "1.", "-----BEGIN ", "password='", "TOKEN_"])
def test_a_log_without_an_end_takes_no_time(text: str) -> None:
    # Of this thread: what else the machine does takes time, too.
    begin = time.thread_time()
    redact(text * (200_000 // len(text)), NONE)
    assert time.thread_time() - begin < 10

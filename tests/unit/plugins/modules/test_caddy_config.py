# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import ssl
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgx_spark.speculative.plugins.module_utils._gateway.caddy import same
from ansible_collections.dgx_spark.speculative.plugins.modules import caddy_config

from tests.unit.caddy import Proxy
from tests.unit.replay_server import free_port

Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="proxy")
def fixture_proxy(tmp_path: Path) -> t.Iterator[Proxy]:
    # Nobody is asked behind it.
    proxy = Proxy(tmp_path, f"http://127.0.0.1:{free_port()}")
    proxy.keys.ensure(["default"], "api_proxy")
    proxy.start()
    yield proxy
    proxy.close()


@pytest.fixture(name="config")
def fixture_config(capsys: pytest.CaptureFixture[str], proxy: Proxy) -> Run:
    def config(check: bool = False, **args: t.Any) -> dict[str, t.Any]:
        args = {"socket": str(proxy.directory / "data/admin.sock"), "content": proxy.caddyfile(), **args}
        if check:
            args["_ansible_check_mode"] = True
        with patch_module_args(args), pytest.raises(SystemExit):
            caddy_config.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return config


def test_a_configuration_is_put_in_force_once(proxy: Proxy, config: Run) -> None:
    assert config()["changed"] is False
    proxy.site["max_requests"] = 7
    assert config(check=True) == config(check=True)
    assert config(check=True)["changed"] is True
    assert not same(proxy.caddy.running(), proxy.caddy.adapt(proxy.caddyfile()))
    assert config()["changed"] is True
    assert config()["changed"] is False


def test_a_revoked_key_is_a_change_of_the_configuration(proxy: Proxy, config: Run) -> None:
    key = proxy.key("default")
    proxy.keys.ensure(["other"], "api_proxy")
    result = config()
    assert result["changed"] is True
    for secret in (key, proxy.key("other")):
        assert secret not in json.dumps(result)
    assert config()["changed"] is False


def test_the_authority(proxy: Proxy, config: Run) -> None:
    assert config()["authority_certificate"] is None
    pem = config(authority="local")["authority_certificate"]
    assert ssl.PEM_cert_to_DER_cert(pem) == ssl.PEM_cert_to_DER_cert(proxy.ca.read_text())


def test_a_configuration_that_caddy_refuses_leaves_the_former_one(proxy: Proxy, config: Run) -> None:
    before = proxy.caddy.running()
    result = config(content="{\n\tnonsense\n}\n")
    assert result["failed"] is True
    assert "Caddy refuses /adapt with status 400" in result["msg"]
    assert proxy.caddy.running() == before


def test_no_caddy(proxy: Proxy, config: Run) -> None:
    proxy.kill()
    assert "Caddy does not answer on" in config()["msg"]
    assert config(check=True) == {**config(check=True), "changed": False, "running": False}


def test_a_long_way_to_the_socket(tmp_path_factory: pytest.TempPathFactory, config: Run, proxy: Proxy) -> None:
    link = tmp_path_factory.mktemp("long") / ("x" * 120)
    link.symlink_to(proxy.directory / "data")
    assert config(socket=str(link / "admin.sock"))["running"] is True

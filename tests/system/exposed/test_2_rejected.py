# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates of one's own, and what is wrong before a door is opened."""

from __future__ import annotations

import datetime
import ipaddress
import typing as t
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.exposed import AUTHORITY, HOME, Exposed, ask, key
from tests.twin.control import Neighbour, Spark
from tests.twin.names import spark_address

pytest_plugins = ["tests.scenario"]

# Shifts the clock of the programs on this machine that are written in Python; a twin's clock is this machine's.
SHIFTED = """
import datetime, time
_time, _now = time.time, datetime.datetime.now
time.time = lambda: _time() + 900
class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return _now(tz) + datetime.timedelta(seconds=900)
    @classmethod
    def utcnow(cls):
        return _now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(seconds=900)
datetime.datetime = Shifted
"""


def certificate(directory: Path, name: str, days: int = 30, names: str = spark_address(1)) -> tuple[Path, Path]:
    """A certificate that is its own authority, for an address or a name, and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    alternative = x509.IPAddress(ipaddress.ip_address(names)) if names[0].isdigit() else x509.DNSName(names)
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    crt, key_file = directory / f"{name}.crt", directory / f"{name}.key"
    crt.write_bytes(made.public_bytes(Encoding.PEM))
    key_file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return crt, key_file


def given(crt: Path, private: Path) -> dict[str, str]:
    return {"api_proxy_certificate": str(crt), "api_proxy_certificate_key": str(private)}


def test_a_certificate_of_ones_own(exposed: Exposed, neighbour: Neighbour, tmp_path: Path) -> None:
    crt, private = certificate(tmp_path, "mine")
    exposed.run(**given(crt, private))
    neighbour.write_file(AUTHORITY, crt.read_text(encoding="utf-8"))
    assert ask(neighbour, "/v1/models", bearer=key()).status == 200
    exposed.run()
    neighbour.write_file(AUTHORITY, exposed.authority.read_text(encoding="utf-8"))
    assert ask(neighbour, "/v1/models", bearer=key()).status == 200


def test_certificates_that_do_not_work(exposed: Exposed, tmp_path: Path) -> None:
    crt, private = certificate(tmp_path, "mine")
    _, other = certificate(tmp_path, "other")
    assert "does not belong to" in exposed.refused(**given(crt, other))
    assert "api_proxy_certificate_key" in exposed.refused(api_proxy_certificate=str(crt))
    assert "and not now" in exposed.refused(**given(*certificate(tmp_path, "old", days=-1)))
    missing = exposed.refused(**given(tmp_path / "nothing.crt", private))
    assert "nothing.crt" in missing
    elsewhere = certificate(tmp_path, "elsewhere", names="example.org")
    assert "example.org" in exposed.refused(**given(*elsewhere))


@pytest.fixture
def process_on_the_port(spark: Spark) -> t.Iterator[None]:
    with spark.listener(9443):
        yield


@pytest.mark.usefixtures("process_on_the_port")
def test_a_port_that_somebody_has(exposed: Exposed) -> None:
    message = exposed.refused(api_proxy_port=9443)
    assert "9443" in message
    assert "python3" in message
    assert "api_proxy_port" in message


def test_addresses_and_names_that_cannot_be(exposed: Exposed) -> None:
    message = exposed.refused(api_proxy_addresses=["192.0.2.7"])
    assert "192.0.2.7" in message
    assert spark_address(1) in message
    assert "../x" in exposed.refused(api_proxy_keys=["../x"])


def test_a_key_that_cannot_be_read(exposed: Exposed, spark: Spark) -> None:
    spark.exec(f"chown root {HOME}/proxy/keys/default")
    try:
        message = exposed.refused()
    finally:
        spark.exec(f"chown spark {HOME}/proxy/keys/default")
    assert f"{HOME}/proxy/keys" in message
    assert "chown" in message


def test_clocks_that_differ(exposed: Exposed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHIFTED, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    message = exposed.refused()
    assert "clock" in message
    assert "15" in message or "900" in message

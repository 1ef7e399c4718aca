# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create the keys of the twin once in each checkout: certificate authority, server certificate and SSH key."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile

from tests.twin.names import CACHE, SERVED_NAMES, STATE, TwinError

AUTHORITY = CACHE / "ca"
CA_CERTIFICATE = AUTHORITY / "ca.crt"
SERVER_CERTIFICATE = CACHE / "tls" / "server.pem"
SSH_KEY = CACHE / "id_ed25519"
KNOWN_HOSTS = STATE / "known_hosts"


def run(program: str, *arguments: str) -> None:
    """Run a program that creates keys."""
    try:
        result = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TwinError(f"The twin needs the program {program} to make its keys, and it is not installed.") from None
    if result.returncode:
        raise TwinError(f"`{program} {arguments[0]}` failed: {result.stderr.strip().splitlines()[-1:] or 'silently'}")


def make_authority() -> None:
    """Create the certificate authority that the twin's machines trust."""
    if CA_CERTIFICATE.exists():
        return
    AUTHORITY.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = AUTHORITY / "ca.key"
    fresh = AUTHORITY / "ca.crt.new"
    run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", "3650"),
        *("-keyout", str(key), "-out", str(fresh), "-subj", "/O=dgx-spark-twin/CN=Authority of the twin"),
        *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
    )
    fresh.rename(CA_CERTIFICATE)


def make_server_certificate() -> None:
    """Create one certificate for all host names of the twin's internet."""
    names = ",".join(f"DNS:{name}" for name in SERVED_NAMES)
    stamp = SERVER_CERTIFICATE.with_name("names")
    if SERVER_CERTIFICATE.exists() and stamp.exists() and stamp.read_text() == names:
        return
    SERVER_CERTIFICATE.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory() as temporary:
        place = pathlib.Path(temporary)
        key, request, extensions, certificate = (place / name for name in ("key", "csr", "ext", "crt"))
        extensions.write_text(
            f"subjectAltName={names}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
            "keyUsage=digitalSignature,keyEncipherment\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
        )
        run(
            *("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-sha256", "-subj", f"/CN={SERVED_NAMES[0]}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        run(
            *("openssl", "x509", "-req", "-sha256", "-days", "3650", "-in", str(request), "-out", str(certificate)),
            *("-CA", str(CA_CERTIFICATE), "-CAkey", str(AUTHORITY / "ca.key"), "-CAcreateserial"),
            *("-extfile", str(extensions)),
        )
        SERVER_CERTIFICATE.touch(mode=0o600)
        SERVER_CERTIFICATE.write_text(certificate.read_text() + CA_CERTIFICATE.read_text() + key.read_text())
    stamp.write_text(names)


def make_ssh_key() -> None:
    """Create the SSH key of the twin's Sparks."""
    if not SSH_KEY.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "dgx-spark-twin", "-f", str(SSH_KEY))


def make_keys() -> None:
    """Create the missing keys. Existing keys stay."""
    make_authority()
    make_server_certificate()
    make_ssh_key()

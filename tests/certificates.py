"""Certificates for hosts that exist in tests alone."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import needs


def make_certificate(folder: Path, hosts: Sequence[str]) -> Path:
    """A file with a certificate for `hosts`, followed by its key."""
    made, key, both = folder / "certificate.pem", folder / "key.pem", folder / "both.pem"
    names = ",".join(f"DNS:{host}" for host in hosts)
    command = [needs("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=tests", "-addext", f"subjectAltName={names}"]
    subprocess.run([*command, "-out", made, "-keyout", key], check=True, capture_output=True, timeout=30)
    both.write_bytes(made.read_bytes() + key.read_bytes())
    return both


def public_part(certificate: Path) -> str:
    """The certificate without its key."""
    return certificate.read_text().partition("-----BEGIN PRIVATE")[0]

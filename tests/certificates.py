"""Certificates for hosts of tests."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import needs


def make_certificate(folder: Path, hosts: Sequence[str]) -> Path:
    """Create a file with a certificate for `hosts`, followed by its key."""
    made, key, both = folder / "certificate.pem", folder / "key.pem", folder / "both.pem"
    names = ",".join(f"DNS:{host}" for host in hosts)
    command = [needs("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=tests", "-addext", f"subjectAltName={names}"]
    subprocess.run([*command, "-out", made, "-keyout", key], check=True, capture_output=True, timeout=30)
    both.write_bytes(made.read_bytes() + key.read_bytes())
    return both


def read_certificate(certificate: Path) -> str:
    """Return the certificate without its key."""
    return certificate.read_text().partition("-----BEGIN PRIVATE")[0]

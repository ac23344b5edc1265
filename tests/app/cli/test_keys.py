"""Keys, revocations and the record from the command line, against a server."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import OKPAlgorithm

from tests.app.processes import Serving


@pytest.mark.whole
async def test_keys_are_kept_from_the_command_line(serving: Serving):
    """A key that was made opens its scope for the other commands, until it is revoked; the record has all of it."""
    shell = serving.shell
    made, secret, _ = (await shell.said("keys", "create", "Reports", "--scope", "read", "--days", "7")).splitlines()
    id = made.split()[0]
    assert secret.startswith(f"pk_{id}_")
    assert "assistant" in (await shell.run("agents", "list", PARLEY_API_KEY=secret))[1]
    refused = await shell.refused("keys", "list", PARLEY_API_KEY=secret)
    assert "`admin`" in refused
    fresh = (await shell.said("keys", "rotate", id, "--grace", "0")).splitlines()[1]
    assert fresh != secret
    assert (await shell.said("keys", "revoke", id)).split() == [id, "revoked"]
    _, row = (await shell.said("keys", "list")).splitlines()
    assert (row.split()[:3], row.split()[-1]) == (["Reports", "revoked", "read"], id)
    await shell.said("revoke", "--actor", "ada")
    assert "sessions  0" in await shell.said("actors", "delete", "ada")
    lines = [json.loads(line) for line in (await shell.said("audit")).splitlines()]
    assert [line["result"] for line in lines] == [201, 200, 204, 201, 200]
    assert [line["object"] for line in lines[:3]] == [id] * 3
    assert secret not in json.dumps(lines)


@pytest.mark.whole
async def test_keys_of_sites_are_kept_from_the_command_line(serving: Serving, tmp_path: Path):
    """A public key is registered from a file, PEM or JWK, listed, and removed; a private one is refused."""
    shell, key = serving.shell, Ed25519PrivateKey.generate()
    pem, jwk, private = tmp_path / "site.pem", tmp_path / "site.json", tmp_path / "private.pem"
    pem.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    jwk.write_text(OKPAlgorithm.to_jwk(key.public_key()))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    id, algorithm, kid, name = (await shell.said("web-keys", "add", "site", str(pem), "--kid", "2027")).split()
    assert (algorithm, kid, name) == ("EdDSA", "2027", "site")
    assert "private" in await shell.refused("web-keys", "add", "site", str(private))
    other = (await shell.said("web-keys", "add", "other", str(jwk))).split()[0]
    _, *rows = (await shell.said("web-keys", "list")).splitlines()
    assert [(row.split()[0], row.split()[-1]) for row in rows] == [("site", id), ("other", other)]
    assert (await shell.said("web-keys", "remove", id)).split() == [id, "removed"]
    made, secret, _ = (await shell.said("keys", "create", "Deploys", "--scope", "admin")).splitlines()
    own, *_ = (await shell.run("web-keys", "add", "site", str(pem), "--kid", "a", PARLEY_API_KEY=secret))[1].split()
    revoked = (await shell.run("keys", "revoke", made.split()[0], PARLEY_API_KEY=secret))[1].splitlines()
    assert revoked == [f"{made.split()[0]}  revoked", f"{own}  still signs  site"], "not what others registered"

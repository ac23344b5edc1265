"""A tool of one's own that signs with RS256."""

import json

from parley import tool


@tool
async def sign(subject: str) -> str:
    """Sign a token for a subject.

    Args:
        subject: Whom the token is for.
    """
    # Imported when called, as the server has imported PyJWT by then.
    import jwt  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return json.dumps({"token": jwt.encode({"sub": subject}, key, algorithm="RS256"), "key": public.decode()})

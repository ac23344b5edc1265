"""The description of the API at `/openapi.json`."""

from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.bodies.schemas import components
from app.api.entrance.callers import GUARDED, OPEN

BEARER = {"bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a visitor's token."}}


def install(app: FastAPI) -> None:
    """Make *app* describe itself, once, when first asked."""
    app.openapi = partial(_openapi, app)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes, tags=app.openapi_tags)
        shapes = made.setdefault("components", {}).setdefault("schemas", {})
        shapes.update(components())
        made["components"]["securitySchemes"] = BEARER
        for path, operations in made["paths"].items():
            for operation in operations.values():
                operation["security"] = [{"bearer": []}] if path.startswith(GUARDED) and path not in OPEN else []
        app.openapi_schema = made
    return app.openapi_schema

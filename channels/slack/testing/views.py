"""`views.*`: modals opened by a trigger of three seconds, and the Home tab."""

import json

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, MethodContext, MethodFailed
from channels.slack.testing.blocks import check_view
from channels.slack.testing.content import raise_problems
from channels.slack.testing.world import Json, View
from channels.slack.web_api import limits

_STACK = 3


def open_modal(context: MethodContext, arguments: Arguments) -> Json:
    """`views.open`."""
    view = _view(context, arguments, "modal")
    opened = View(context.unique("V"), context.unique("h"), view, context.redeem(arguments.need("trigger_id")), "")
    return _keep(context, opened)


def push_modal(context: MethodContext, arguments: Arguments) -> Json:
    """`views.push`: on top of what the person sees, three at most."""
    view, user = _view(context, arguments, "modal"), context.redeem(arguments.need("trigger_id"))
    below = [each for each in context.workspace.views.values() if each.user == user]
    if len(below) >= _STACK:
        raise MethodFailed("push_limit_reached")
    previous = below[-1] if below else None
    opened = View(context.unique("V"), context.unique("h"), view, user, previous.root if previous else "")
    opened.previous = previous.id if previous else None
    return _keep(context, opened)


def update_view(context: MethodContext, arguments: Arguments) -> Json:
    """`views.update`, by id or by external id; a `hash` that is no longer true is refused."""
    name, external = arguments.text("view_id"), arguments.text("external_id")
    view = context.workspace.views.get(name) or next(
        (each for each in context.workspace.views.values() if external and each.view.get("external_id") == external),
        None,
    )
    if view is None:
        raise MethodFailed("not_found")
    _check_hash(arguments, view)
    view.view, view.hash = _view(context, arguments, "modal", view), context.unique("h")
    return {"view": payloads.view(context.workspace, view, context.app_id)}


def publish_home(context: MethodContext, arguments: Arguments) -> Json:
    """`views.publish`."""
    if (user := arguments.need("user_id")) not in context.workspace.users:
        raise MethodFailed("user_not_found")
    home = context.workspace.homes.get(user)
    if home is not None:
        _check_hash(arguments, home)
    name = context.unique("V") if home is None else home.id
    made = View(name, context.unique("h"), _view(context, arguments, "home"), user, name)
    context.workspace.homes[user] = made
    return {"view": payloads.view(context.workspace, made, context.app_id)}


def _keep(context: MethodContext, opened: View) -> Json:
    opened.root = opened.root or opened.id
    context.workspace.views[opened.id] = opened
    return {"view": payloads.view(context.workspace, opened, context.app_id)}


def _check_hash(arguments: Arguments, view: View) -> None:
    if (expected := arguments.text("hash")) and expected != view.hash:
        raise MethodFailed("hash_conflict")


def _view(context: MethodContext, arguments: Arguments, kind: str, old: View | None = None) -> Json:
    view = arguments.mapping("view", "invalid_arguments")
    if view is None or view.get("type") != kind:
        raise MethodFailed("invalid_arguments", f"[ERROR] must be a {kind} [json-pointer:/view/type]")
    if len(json.dumps(view).encode()) > limits.VIEW_BYTES.value:
        raise MethodFailed("view_too_large")
    raise_problems("invalid_arguments", check_view(view), "/view")
    external = view.get("external_id")
    others = (each for each in context.workspace.views.values() if each is not old)
    if external and any(each.view.get("external_id") == external for each in others):
        raise MethodFailed("duplicate_external_id")
    return view

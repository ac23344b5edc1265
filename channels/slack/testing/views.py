"""`views.*`: modals opened by a trigger of three seconds, and the Home tab."""

import json

from channels.slack.testing import payloads
from channels.slack.testing.asked import Arguments, Desk, Refused
from channels.slack.testing.blocks import check_view
from channels.slack.testing.content import refuse
from channels.slack.testing.world import Json, View
from channels.slack.web_api import limits

_STACK = 3


def open_modal(desk: Desk, given: Arguments) -> Json:
    """`views.open`."""
    view = _view(desk, given, "modal")
    opened = View(desk.unique("V"), desk.unique("h"), view, desk.redeem(given.need("trigger_id")), "")
    return _keep(desk, opened)


def push_modal(desk: Desk, given: Arguments) -> Json:
    """`views.push`: on top of what the person sees, three at most."""
    view, user = _view(desk, given, "modal"), desk.redeem(given.need("trigger_id"))
    below = [each for each in desk.workspace.views.values() if each.user == user]
    if len(below) >= _STACK:
        raise Refused("push_limit_reached")
    previous = below[-1] if below else None
    opened = View(desk.unique("V"), desk.unique("h"), view, user, previous.root if previous else "")
    opened.previous = previous.id if previous else None
    return _keep(desk, opened)


def update_view(desk: Desk, given: Arguments) -> Json:
    """`views.update`, by id or by external id; a `hash` that is no longer true is refused."""
    name, external = given.text("view_id"), given.text("external_id")
    found = desk.workspace.views.get(name) or next(
        (each for each in desk.workspace.views.values() if external and each.view.get("external_id") == external), None
    )
    if found is None:
        raise Refused("not_found")
    _check_hash(given, found)
    found.view, found.hash = _view(desk, given, "modal", found), desk.unique("h")
    return {"view": payloads.view(desk.workspace, found, desk.app_id)}


def publish_home(desk: Desk, given: Arguments) -> Json:
    """`views.publish`."""
    if (user := given.need("user_id")) not in desk.workspace.users:
        raise Refused("user_not_found")
    home = desk.workspace.homes.get(user)
    if home is not None:
        _check_hash(given, home)
    name = desk.unique("V") if home is None else home.id
    made = View(name, desk.unique("h"), _view(desk, given, "home"), user, name)
    desk.workspace.homes[user] = made
    return {"view": payloads.view(desk.workspace, made, desk.app_id)}


def _keep(desk: Desk, opened: View) -> Json:
    opened.root = opened.root or opened.id
    desk.workspace.views[opened.id] = opened
    return {"view": payloads.view(desk.workspace, opened, desk.app_id)}


def _check_hash(given: Arguments, view: View) -> None:
    if (said := given.text("hash")) and said != view.hash:
        raise Refused("hash_conflict")


def _view(desk: Desk, given: Arguments, kind: str, old: View | None = None) -> Json:
    view = given.mapping("view", "invalid_arguments")
    if view is None or view.get("type") != kind:
        raise Refused("invalid_arguments", f"[ERROR] must be a {kind} [json-pointer:/view/type]")
    if len(json.dumps(view).encode()) > limits.VIEW_BYTES.value:
        raise Refused("view_too_large")
    refuse("invalid_arguments", check_view(view), "/view")
    external = view.get("external_id")
    others = (each for each in desk.workspace.views.values() if each is not old)
    if external and any(each.view.get("external_id") == external for each in others):
        raise Refused("duplicate_external_id")
    return view

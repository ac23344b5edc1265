"""Answers are derived from the core's structs; what visitors see of them is decided field by field."""

from app.api import wire
from channels.web.visible import APPROVAL_CONTENTS, APPROVAL_OPERATORS, RUN_OPERATORS, SESSION_OPERATORS
from tests.cases import for_each

HIDDEN = {"run": RUN_OPERATORS, "session": SESSION_OPERATORS, "approval": APPROVAL_OPERATORS + APPROVAL_CONTENTS}
SEEN = {
    "session": "id agent actor title status created_at last_activity_at replaced_by",
    "message": "id seq role actor run parts partial created_at",
    "renderAnswer": "id session run call kind title payload text created_at",
    "run": (
        "id session agent agent_version parent_run root_run status stop_reason error steps pending started_by "
        "created_at started_at last_activity_at completed_at output feedback"
    ),
    "approval": (
        "id session run agent call step tool title detail status responders quorum edit remember on_timeout asker "
        "speakers requested_at expires_at decided_by decided_at reason may_decide"
    ),
}


@for_each("name", SEEN)
def test_visitors_see_the_fields_that_were_decided_on(name: str):
    """A field that is new in an object of the API is listed here or left out in `channels/web/visible.py`."""
    fields = getattr(wire, name[0].upper() + name[1:]).__struct_fields__
    assert {field for field in fields if field not in HIDDEN.get(name, ())} == set(SEEN[name].split())

"""Types of parameters that functions of the tests take."""

from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """Where something is."""

    x: int
    y: int = 0


@dataclass
class Size:
    """How large something is."""

    width: int

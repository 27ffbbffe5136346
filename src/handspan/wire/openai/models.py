"""The list of models, which are agents."""

from typing import Literal

from msgspec import Struct


class ModelView(Struct, frozen=True):
    """One model."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "handspan"
    description: str = ""


class ModelList(Struct, frozen=True):
    """All models that the token may use."""

    data: list[ModelView]
    object: Literal["list"] = "list"

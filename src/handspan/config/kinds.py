"""The kinds of values that settings have. Their descriptions say in an error what is wanted."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

_NO_LIMIT: Final = {"read_as": ((0, None), (0.0, None), ("none", None))}
"""Other spellings, and what they stand for."""
NotEmpty: TypeAlias = Annotated[str, Meta(pattern=r"\S", description="a text that is not empty")]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, description="a number of seconds above 0")]
TimeLimit: TypeAlias = Annotated[
    Annotated[float, Meta(gt=0)] | None,
    Meta(description='a number of seconds, or 0 or "none" for no limit', extra=_NO_LIMIT),
]
Days: TypeAlias = Annotated[
    Annotated[float, Meta(gt=0)] | None,
    Meta(description='a number of days, or 0 or "none" for all time', extra=_NO_LIMIT),
]
Count: TypeAlias = Annotated[int, Meta(ge=1, description="a whole number of 1 or more")]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, description="an amount of US dollars, 0 or more")]
WebAddress: TypeAlias = Annotated[
    str, Meta(pattern=r"^(https?://[^\s/]\S*)?$", description="an address that begins with http:// or https://")
]
ContactAddress: TypeAlias = Annotated[
    str, Meta(pattern=r"^(mailto:|https://)\S+$", description="an address that begins with mailto: or https://")
]
ServerName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!.*__)\S*[^\s_]$",
        description="a server name without '__', white space or a '_' at its end: tools are called SERVER__TOOL",
    ),
]
ChannelName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_-]{0,31}$",
        description="a channel name of up to 32 of a-z 0-9 _ -, beginning with a letter",
    ),
]
Switch: TypeAlias = Annotated[
    Literal["auto", "on", "off"],
    Meta(description="'auto', 'on' or 'off'", extra={"read_as": ((True, "on"), (False, "off"))}),
]
Bytes: TypeAlias = Annotated[int, Meta(ge=1024, description="a whole number of bytes, 1024 or more")]
NodeRole: TypeAlias = Literal["all", "edge", "agent"]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535, description="a port from 1 to 65535, or 0 for any that is free")]
ServedPath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$",
        description="a path such as '/handspan', with a '/' at its beginning and none at its end",
    ),
]
KnownHost: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@*?#%]+)(:[0-9]{1,5})?$",
        description="a host as browsers send it, 'name' or 'name:port', without 'http://' and without '*'",
    ),
]
KnownOrigin: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9+.-]*://[^\s/@*?#%]+$",
        description="an origin such as 'https://app.example.com', without a path and without '*'",
    ),
]

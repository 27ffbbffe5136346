"""The models that a person added, with their keys: `models.json` in the state folder, mode 600."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from handspan.config.private_files import make_private, read_private, replace_private
from handspan.config.settings import ModelSettings, Settings
from handspan.core.errors import ConfigError

NAME: Final = "models.json"


class _ModelFile(Struct, frozen=True):
    model: str = ""
    """The model that answers where none is named; empty: as the settings say."""
    models: dict[str, ModelSettings] = {}


class StoredModels:
    """The models that a person added to those of the settings, and the model that the person chose.

    Models of the settings can't be changed in this way.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._file = settings.state / NAME
        self._stored: _ModelFile | None = None

    def use(self, settings: Settings) -> None:
        """Take the models of these settings from now on."""
        self._settings = settings

    @property
    def settings(self) -> Settings:
        """The settings, with the models that a person added and the model that the person chose."""
        stored = self._read()
        models = {
            **self._settings.models,
            **{name: one for name, one in stored.models.items() if not self.is_fixed(name)},
        }
        return structs.replace(self._settings, models=models, model=stored.model or self._settings.model)

    @property
    def chosen_model(self) -> str:
        """The model that a person chose; empty when no model was chosen."""
        return self._read().model

    def is_fixed(self, name: str) -> bool:
        """Whether the settings have this model: then it can only be changed in the settings."""
        return name in self._settings.models

    def put(self, name: str, model: ModelSettings) -> None:
        """Add or change a model. Raises `ConfigError` for a model of the settings, or if the file can't be written."""
        self._check_not_fixed(name)
        stored = self._read()
        self._write(structs.replace(stored, models={**stored.models, name: model}))

    def remove(self, name: str) -> bool:
        """Remove a model with its key. Returns False without such a model. Raises `ConfigError` as `put` does."""
        self._check_not_fixed(name)
        stored = self._read()
        left = {key: value for key, value in stored.models.items() if key != name}
        if len(left) == len(stored.models):
            return False
        self._write(_ModelFile("" if stored.model == name else stored.model, left))
        return True

    def choose(self, name: str) -> None:
        """Let this model answer where none is named; an empty name: as the settings say."""
        self._write(structs.replace(self._read(), model=name))

    def _check_not_fixed(self, name: str) -> None:
        if self.is_fixed(name):
            raise ConfigError(f"models.{name}: the model {name!r} is in the settings file. Change it there.")

    def _read(self) -> _ModelFile:
        if self._stored is None:
            try:
                self._stored = msgspec.json.decode(read_private(self._file) or b"{}", type=_ModelFile)
            except (OSError, msgspec.DecodeError) as error:
                raise ConfigError(f"{self._file}: it can't be read: {error}. Mend it, or remove it.") from None
        return self._stored

    def _write(self, stored: _ModelFile) -> None:
        try:
            make_private(Path(self._file).parent)
            replace_private(self._file, msgspec.json.format(msgspec.json.encode(stored)) + b"\n")
        except OSError as error:
            raise ConfigError(f"{self._file}: it can't be written: {error.strerror}.") from None
        self._stored = stored

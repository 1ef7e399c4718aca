# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Read formats.yml, the data about recipes of other launchers.

engine      our engine that serves what is imported
program     the words that a command begins with
formats     the launcher of each recipe_version
runtimes    values of the key runtime that mean this engine
images      names that a launcher has for images it builds, with a published image of the same content
trusted     beginnings of the image repositories that need no permission
read        keys of a file that are read
patches     keys of a file that change the image or run a command; they are refused unless they are empty
unread      other keys of a file, each with the reason to leave it out
generated   the option of each key of defaults, in a file without a command
aliases     other names of options, without dashes
dropped     options that are left out, each with the reason
secrets     those of them whose value is not repeated
chat        options that decide what the server does, with the values by which it generates text
"""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from .._data.rows import Field, load

TEXTS = Field(dict, required=True, each=Field(str))
NAMES = Field(list, required=True, each=Field(str))


class RecipeImportError(Exception):
    """A file that cannot be imported. Each reason is whole sentences for the user.

    The inputs allow what can be allowed. They are enough if nothing else is wrong with the file.
    """

    def __init__(self, *reasons: str, inputs: t.Mapping[str, t.Any] | None = None, is_enough: bool = False) -> None:
        super().__init__(*reasons)
        self.inputs = inputs or {}
        self.is_enough = is_enough


@dataclasses.dataclass(frozen=True)
class Formats:
    """The data of the file, under the names of its keys."""

    engine: str
    program: t.Sequence[str]
    formats: t.Mapping[str, str]
    runtimes: t.Sequence[str]
    images: t.Mapping[str, str]
    trusted: t.Sequence[str]
    read: t.Sequence[str]
    patches: t.Sequence[str]
    unread: t.Mapping[str, str]
    generated: t.Mapping[str, str]
    aliases: t.Mapping[str, str]
    dropped: t.Mapping[str, str]
    secrets: t.Sequence[str]
    chat: t.Mapping[str, t.Sequence[str]]


FIELDS: dict[str, Field] = {
    "engine": Field(str, required=True),
    "chat": Field(dict, required=True, each=NAMES),
    **{
        field.name: TEXTS if str(field.type).startswith("t.Mapping") else NAMES
        for field in dataclasses.fields(Formats)
        if field.name not in ("engine", "chat")
    },
}
FORMATS = Formats(**load(Path(__file__).with_suffix(".yml"), Field(dict, fields=FIELDS)))

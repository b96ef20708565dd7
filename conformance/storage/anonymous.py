"""Removes what names a person or a machine from texts that leave the machine: paths, user names, host names, UUIDs."""

from __future__ import annotations

import contextlib
import os
import platform
import pwd
import re
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER, USER, HOST, UUID = "<folder>", "<user>", "<host>", "<uuid>"

#: An absolute path, or one below a home folder. Its last part may be kept: the name of a file of code.
_PATH = re.compile(r"(?<![\w.<>/~])~?(?:/[\w.@+~%=,-]+)+/?")
_CODE_FILE = re.compile(r"[A-Za-z]\w*\.(?:py|cpp|h|so|toml|txt)")
_UUID = re.compile(r"(?:[A-Z]{3}-)?\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
#: Hosts that are every machine, and words that are no name.
_NO_NAMES = {"", "localhost", "localdomain", "home", "/"}


class Anonymiser:
    """Removes the names of one machine and its user. The defaults are those of this machine.

    `folders`: paths that begin with one of them are replaced as a whole. `users`, `hosts`: whole words.
    """

    def __init__(
        self,
        folders: Iterable[str] | None = None,
        users: Iterable[str] | None = None,
        hosts: Iterable[str] | None = None,
    ) -> None:
        own = [*_users()] if users is None else list(users)
        machine = [*_hosts()] if hosts is None else list(hosts)
        named = _folders() if folders is None else folders
        self._folders = sorted({each.rstrip("/") for each in named} - _NO_NAMES, key=len, reverse=True)
        self._users = _words(own)
        self._hosts = _words(machine)

    def text(self, text: str) -> str:
        """Returns a message without names. Words that are a name by chance are replaced as well."""
        for folder in self._folders:
            text = text.replace(folder, FOLDER)
        text = _PATH.sub(_shortened, text.replace(f"{FOLDER}/", "/./"))
        text = _UUID.sub(UUID, text)
        for words, placeholder in ((self._users, USER), (self._hosts, HOST)):
            text = words.sub(placeholder, text) if words else text
        return text

    def data(self, value: Any) -> Any:
        """Returns JSON data with all its strings without names. Keys stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.data(each) for key, each in value.items()}
        return [self.data(each) for each in value] if isinstance(value, (list, tuple)) else value

    def names_in_code(self, text: str) -> list[str]:
        """Returns the folders of this machine and the paths through its user's name that generated code has.

        Code is never changed, because it is compared. A user's name alone may be a word of the code.
        """
        folders = [folder for folder in self._folders if folder in text]
        return folders + [path for path in _PATH.findall(text) if self._users and self._users.search(path)]


def _shortened(path: re.Match[str]) -> str:
    """`<folder>/test_flip.py` for a file of code, else `<folder>`."""
    last = path[0].rstrip("/").rpartition("/")[2]
    return f"{FOLDER}/{last}" if _CODE_FILE.fullmatch(last) else FOLDER


def _words(names: Iterable[str]) -> re.Pattern[str] | None:
    kept = sorted(set(names) - _NO_NAMES, key=len, reverse=True)
    if not kept:
        return None
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, kept))})(?![A-Za-z0-9])", re.IGNORECASE)


def _folders() -> Iterable[str]:
    """The folders of this user and machine that messages may name."""
    with contextlib.suppress(RuntimeError):
        yield str(Path.home())
    yield str(Path.cwd())
    yield tempfile.gettempdir()
    for name in ("CONFORMANCE_CACHE", "XDG_CACHE_HOME", "TMPDIR", "VIRTUAL_ENV"):
        yield os.environ.get(name, "")


def _users() -> Iterable[str]:
    for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER"):
        yield os.environ.get(name, "")
    with contextlib.suppress(KeyError):
        entry = pwd.getpwuid(os.getuid())
        yield entry.pw_name
        yield entry.pw_gecos.partition(",")[0]
    with contextlib.suppress(RuntimeError):
        yield Path.home().name


def _hosts() -> Iterable[str]:
    for name in (socket.gethostname(), platform.node(), os.environ.get("HOSTNAME", "")):
        yield name
        yield name.partition(".")[0]

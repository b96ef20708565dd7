"""Texts that leave the machine name no person and no machine."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

from conformance.storage.anonymous import Anonymiser

PLANTED = Anonymiser(
    folders=["/home/zaphod", "/mnt/My Disk"], users=["zaphod", "root", ""], hosts=["heart-of-gold", "localhost"]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/zaphod/a/b.txt is missing", "<folder>/b.txt is missing"),
        ("in /mnt/My Disk/x/main.cpp:12", "in <folder>/main.cpp:12"),
        ('File "/opt/torch/_inductor/ir.py", line 3', 'File "<folder>/ir.py", line 3'),
        ("/srv/trillian and ~/notes", "<folder> and <folder>"),
        ("Zaphod@heart-of-gold: zaphods", "<user>@<host>: zaphods"),
        ("localhost", "localhost"),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "<uuid>"),
        ("flip/hflip-224-u8 needs 1/2, 3 / 4 and a//b", "flip/hflip-224-u8 needs 1/2, 3 / 4 and a//b"),
        ("12 of 20 elements are wrong, off by 0.5", "12 of 20 elements are wrong, off by 0.5"),
    ],
)
def test_messages(text, expected):
    assert PLANTED.text(text) == expected


def test_data():
    data = {"a": ["/home/zaphod/x", 3, {"b": "zaphod"}], "c": None, "d": True}
    assert PLANTED.data(data) == {"a": ["<folder>", 3, {"b": "<user>"}], "c": None, "d": True}


def test_code_is_not_changed_but_named():
    """A word of the code may be a user's name; a path of this machine may not be there."""
    assert PLANTED.names_in_code("x = root(y)  # /usr/include/math.h, zaphod") == []
    assert PLANTED.names_in_code("open('/home/zaphod/x')")
    assert PLANTED.names_in_code("open('/data/zaphod/x')") == ["/data/zaphod/x"]


def test_this_machine():
    own = Anonymiser()
    text = own.text(f"{Path.home()}/x.py {getpass.getuser()} {socket.gethostname()} {Path.cwd()}")
    assert text == "<folder>/x.py <user> <host> <folder>"

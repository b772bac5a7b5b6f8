import os
import stat

import pytest

from torch_ctree.data import DataError
from torch_ctree.data.disk import copy, whole, write


def test_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b" / "file.txt"
    write(path, "one ü")
    write(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file.txt"]


def interrupted(path):
    with whole(path) as file:
        file.write(b"half of the n")
        raise KeyboardInterrupt


def test_an_interrupted_write_changes_nothing(tmp_path):
    path = tmp_path / "file.txt"
    write(path, "old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    write(tmp_path / "whole", "")
    assert stat.S_IMODE((tmp_path / "whole").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"^\S+/file/within: cannot be written: \w[\w ]+$"):
        write(tmp_path / "file" / "within", "x")


def test_copy(tmp_path):
    (tmp_path / "a").write_bytes(b"\x00\xff")
    assert copy(tmp_path / "a", tmp_path / "c" / "b").read_bytes() == b"\x00\xff"

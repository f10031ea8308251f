"""How fast a filesystem is read."""

from __future__ import annotations

import time

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import read_rate


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "models" / "1.safetensors"
    path.parent.mkdir()
    path.write_bytes(bytes(9 << 20))
    return path


def test_measures_by_a_file_that_is_there(file):
    assert read_rate.read_rate(file.parent, file, may_write=False) > 0


def test_measures_by_a_file_that_it_writes_and_removes(tmp_path, monkeypatch):
    monkeypatch.setattr(read_rate, "_WRITTEN_BYTES", 9 << 20)
    assert read_rate.read_rate(tmp_path, None, may_write=True) > 0
    assert list(tmp_path.iterdir()) == []


def test_writes_nothing_where_it_must_not(tmp_path):
    assert read_rate.read_rate(tmp_path, None, may_write=False) is None


def test_folder_that_cannot_be_written_has_no_rate(tmp_path):
    assert read_rate.read_rate(tmp_path / "none", None, may_write=True) is None


def test_ends_in_time_however_slow_the_filesystem(file, monkeypatch):
    def slow(_descriptor, _blocks, _place):
        time.sleep(0.05)
        return 1000

    monkeypatch.setattr(read_rate, "_BLOCK_BYTES", 4096)
    monkeypatch.setattr(read_rate.os, "preadv", slow)
    start = time.monotonic()
    assert read_rate.read_rate(file.parent, file, may_write=False, seconds=0.3) < 200_000
    assert time.monotonic() - start < 2


def test_file_that_is_read_round_the_cache_or_with_its_pages_dropped(file, monkeypatch):
    monkeypatch.setattr(read_rate.os, "O_DIRECT", read_rate.os.O_DIRECTORY)  # refused by any file

    def refuses(path, flags, *rest, opens=read_rate.os.open):
        if flags & read_rate.os.O_DIRECTORY:
            raise OSError(22, "Invalid argument")
        return opens(path, flags, *rest)

    monkeypatch.setattr(read_rate.os, "open", refuses)
    assert read_rate.read_rate(file.parent, file, may_write=False) > 0


def test_largest_file_is_large_enough_or_none(file, monkeypatch):
    assert read_rate.largest_file(file.parent) is None
    monkeypatch.setattr(read_rate, "LEAST_BYTES", 1 << 20)
    assert read_rate.largest_file(file.parent) == file

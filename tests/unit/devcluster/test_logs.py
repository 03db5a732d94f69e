from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from devcluster.command import log_files, log_lines, services_with_logs


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "etcd.log").write_text("e1\ne2\ne3\n")
    (tmp_path / "kwok.log").write_text("k1\n")
    return tmp_path


def test_one_services_last_lines_are_printed_as_they_are(directory: Path) -> None:
    assert list(log_lines(log_files(directory, "etcd"), 2, follow=False)) == ["e2", "e3"]


def test_lines_of_several_services_begin_with_their_name(directory: Path) -> None:
    assert list(log_lines(log_files(directory, ""), 1, follow=False)) == ["etcd | e3", "kwok | k1"]


def test_an_unknown_service_has_no_log(directory: Path) -> None:
    assert log_files(directory, "nope") == {}
    assert services_with_logs(directory) == ["etcd", "kwok"]


def test_following_shows_what_is_written_later_and_ends_with_the_cluster(directory: Path) -> None:
    seen: list[str] = []

    def follow() -> None:
        seen.extend(log_lines(log_files(directory, "etcd"), 1, follow=True))

    reader = threading.Thread(target=follow)
    reader.start()
    time.sleep(0.1)
    with (directory / "etcd.log").open("a") as file:
        file.write("e4\n")
    time.sleep(0.4)
    (directory / "etcd.log").unlink()
    reader.join(timeout=5)
    assert not reader.is_alive()
    assert seen == ["e3", "e4"]

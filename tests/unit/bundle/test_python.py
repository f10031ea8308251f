"""The collection and the controller's Python packages on the drive."""

import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle import python
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import Failed


def silent(_line: str) -> None:
    pass


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """The only package that pip finds."""
    folder = tmp_path / "offered"
    folder.mkdir()
    path = folder / "sample_package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        about = "sample_package-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: sample-package\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return path


def wheels(drive: Path, *names: str) -> python.Wheels:
    (drive / ".work").mkdir(exist_ok=True)
    requirements = drive.parent / "requirements.txt"
    requirements.write_text("\n".join(names))
    return python.Wheels(Drive(drive), requirements)


def test_wheels_come_with_a_list_that_pip_installs_by_hash_without_an_index(drive, wheel, tmp_path):
    assert not wheels(drive, "sample-package").is_whole()
    assert wheels(drive, "sample-package").make(silent)
    assert wheels(drive, "sample-package").is_whole()
    (line,) = (line for line in (drive / "python/requirements.txt").read_text().splitlines() if "==" in line)
    assert line.startswith("sample_package==1.0 --hash=sha256:")
    pip = [python.sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-index"]
    where = ["--find-links", str(drive / "python/wheels"), "--target", str(tmp_path / "t")]
    subprocess.run([*pip, *where, "-r", str(drive / "python/requirements.txt")], check=True)
    assert (tmp_path / "t/sample_package-1.0.dist-info").is_dir()


def test_a_wheel_that_changed_or_another_list_of_requirements_is_noticed(drive, wheel):
    wheels(drive, "sample-package").make(silent)
    assert not wheels(drive, "sample-package", "# one more").is_whole()
    assert wheels(drive, "sample-package").is_whole()
    (drive / "python/wheels" / wheel.name).write_bytes(b"damaged")
    assert not wheels(drive, "sample-package").is_whole()


def test_a_package_that_nobody_offers_is_told_in_pips_words(drive, wheel):
    with pytest.raises(Failed, match="No matching distribution found for nonesuch"):
        wheels(drive, "nonesuch").make(silent)


def test_the_tarball_is_built_anew_only_when_the_collection_changed(drive, tmp_path):
    source = tmp_path / "source"
    (source / "plugins").mkdir(parents=True)
    shutil.copy(python.COLLECTION / "galaxy.yml", source)
    (source / "README.md").write_text("a collection")
    (drive / ".work").mkdir()
    part = python.Tarball(Drive(drive), source)
    assert not part.is_whole() and part.make(silent)
    assert part.is_whole()
    (source / "plugins/one.py").write_text("1")
    assert not part.is_whole()


def test_an_installed_collection_makes_the_tarball_that_it_came_from(drive, tmp_path):
    source = tmp_path / "installed"
    source.mkdir()
    (source / "README.md").write_text("a collection")
    about = {"namespace": "sovereign", "name": "kimi_k3", "version": "0.1.0"}
    (source / "MANIFEST.json").write_text(json.dumps({"collection_info": about}))
    (source / "FILES.json").write_text(json.dumps({"files": [{"name": "."}, {"name": "README.md"}]}))
    (drive / ".work").mkdir()
    part = python.Tarball(Drive(drive), source)
    part.make(silent)
    with tarfile.open(drive / part.about()["path"]) as tar:
        assert sorted(tar.getnames()) == ["FILES.json", "MANIFEST.json", "README.md"]
    assert part.is_whole()

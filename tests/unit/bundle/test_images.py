"""Images on the drive: whole by their digests, or copied."""

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.images import Layout
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import Failed

from tests.unit.bundle.samples import DOCKER, Image, digest_of


def silent(_line: str) -> None:
    pass


def test_an_image_that_is_all_there_is_not_asked_for(drive, skopeo):
    image = Image()
    image.lay_out(image.on(drive).folder)
    assert image.on(drive).is_whole()
    assert image.on(drive).missing() == ([], 0)
    assert skopeo.asked() == []


def test_all_of_an_index_is_copied_with_its_digests(drive, skopeo):
    image = Image()
    skopeo.give(image)
    assert image.on(drive).make(silent)
    assert image.on(drive).is_whole()
    (copy,) = (words for words in skopeo.asked() if words[0] == "copy")
    assert {"--all", "--preserve-digests", "--src-tls-verify=true"} <= set(copy)
    assert copy[-2:] == [f"docker://{image.reference}", f"oci:{image.on(drive).folder}"]


def test_a_layer_that_is_missing_or_short_counts_with_its_bytes(drive, skopeo):
    image = Image()
    skopeo.give(image)
    image.lay_out(image.on(drive).folder)
    gone, short = (image.on(drive).layout.blob_file(digest) for digest in image.layers())
    gone.unlink()
    assert image.on(drive).missing() == ([image.reference], 5000)
    short.write_bytes(b"short")
    assert len(image.on(drive).layout.missing()) == 2


def test_a_manifest_whose_bytes_are_others_makes_the_image_not_whole(drive):
    image = Image()
    image.lay_out(image.on(drive).folder)
    image.on(drive).layout.manifest_file(image.digest).write_text('{"manifests": []}')
    assert not image.on(drive).is_whole()


def test_a_layout_that_does_not_list_the_image_is_not_whole(drive):
    image = Image()
    image.lay_out(image.on(drive).folder)
    (image.on(drive).folder / "index.json").write_text('{"manifests": []}')
    assert not image.on(drive).is_whole()


def test_manifests_of_dockers_own_types_go_to_the_form_that_keeps_them(drive, skopeo):
    image = Image(DOCKER.format("list."), DOCKER.format(""))
    skopeo.give(image)
    with pytest.raises(Failed, match="does not hold"):  # this skopeo copies OCI layouts only
        image.on(drive).make(silent)
    assert skopeo.asked()[-1][-1].startswith("dir:")


def test_that_form_is_whole_when_each_file_lies_under_its_name(tmp_path):
    image = Image(DOCKER.format("list."), DOCKER.format(""))
    for digest, data in image.blobs.items():
        manifest = digest_of(data) != image.digest and b"layers" in data
        name = digest.partition(":")[2] + (".manifest.json" if manifest else "")
        (tmp_path / ("manifest.json" if digest == image.digest else name)).write_bytes(data)
    layout = Layout(tmp_path, image.digest, "dir")
    assert layout.is_whole()
    layout.blob_file(next(iter(image.layers()))).unlink()
    assert not layout.is_whole()


def test_an_image_that_is_not_for_the_nodes_processors_is_refused(drive, skopeo):
    image = Image()
    skopeo.give(image)
    assert list(image.on(drive).processor_faults(["x86_64", "aarch64"])) == []
    (fault,) = image.on(drive).processor_faults(["riscv64"])
    assert "amd64, arm64" in fault["value"] and "riscv64" in fault["limit"]


def test_a_registry_that_does_not_answer_is_told_in_skopeos_words(drive, skopeo):
    image = Image()
    skopeo.go_down()
    with pytest.raises(Failed, match="connection refused"):
        image.on(drive).missing()


def test_every_file_of_an_image_is_known_by_its_digest(drive):
    image = Image()
    image.lay_out(image.on(drive).folder)
    assert set(image.on(drive).known().values()) == {digest.partition(":")[2] for digest in image.blobs}

"""VGGish from a local file: patches, network, principal components, and files that are something else."""

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from orderfree.config import DataConfig
from orderfree.data.audio.vggish import VGGish, log_mel_patches, quantised
from orderfree.data.readers import read_examples
from orderfree.errors import DataError

SIZES = ((0, 1, 64), (3, 64, 128), (6, 128, 256), (8, 256, 256), (11, 256, 512), (13, 512, 512))


@pytest.fixture(scope="module")
def weights():
    """The published names and shapes, but for the two wide layers, which are 8 wide here."""
    drawn = torch.Generator().manual_seed(1)

    def some(*shape):
        return torch.randn(*shape, generator=drawn) * (2 / np.prod(shape[1:])) ** 0.5

    found = {}
    for place, into, out in SIZES:
        found |= {f"features.{place}.weight": some(out, into, 3, 3), f"features.{place}.bias": torch.zeros(out)}
    for place, into, out in ((0, 512 * 4 * 6, 8), (2, 8, 8), (4, 8, 128)):
        found |= {f"embeddings.{place}.weight": some(out, into), f"embeddings.{place}.bias": torch.full((out,), 0.1)}
    return found


@pytest.fixture(scope="module")
def folder(weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vggish")
    save_file(weights, folder / "vggish.safetensors")
    np.savez(folder / "pca.npz", pca_eigen_vectors=np.eye(128)[::-1], pca_means=np.full((128, 1), 0.25))
    time = np.arange(3 * 16_000) / 16_000
    soundfile.write(folder / "tone.wav", 0.3 * np.sin(2 * np.pi * 1000 * time), 16_000)
    return folder


def test_patches_are_096_seconds_and_a_tone_is_in_the_band_that_holds_it():
    time = np.arange(16_000 * 2) / 16_000
    patches = log_mel_patches(0.5 * np.sin(2 * np.pi * 1000 * time))
    assert patches.shape == (2, 96, 64)  # 198 frames
    mel = 2595 * np.log10(1 + np.array([125.0, 1000.0, 7500.0]) / 700)
    expected = (mel[1] - mel[0]) / (mel[2] - mel[0]) * 65 - 1
    assert abs(patches.mean(axis=(0, 1)).argmax() - expected) <= 1


def test_silence_is_the_logarithm_of_the_offset_and_short_sounds_are_one_patch():
    assert log_mel_patches(np.zeros(100)) == pytest.approx(np.full((1, 96, 64), np.log(0.01)))


def test_the_network_is_convolutions_pools_and_layers_with_channels_last(folder, weights):
    samples = np.random.default_rng(1).normal(0, 0.1, 16_000)
    maps = torch.from_numpy(log_mel_patches(samples))[:, None]  # (1, 1, 96, 64)
    for place, _, _ in SIZES:
        maps = F.relu(F.conv2d(maps, weights[f"features.{place}.weight"], weights[f"features.{place}.bias"], padding=1))
        if place not in (6, 11):  # two convolutions in a row
            maps = F.max_pool2d(maps, 2)
    flat = maps.numpy().transpose(0, 2, 3, 1).reshape(1, -1)
    for place in (0, 2, 4):
        flat = flat @ weights[f"embeddings.{place}.weight"].numpy().T + weights[f"embeddings.{place}.bias"].numpy()
        flat = np.maximum(flat, 0)
    found = VGGish(folder / "vggish.safetensors", None).features(samples, 16_000)
    assert found == pytest.approx(flat, rel=1e-3, abs=1e-5)
    assert found.std() > 0


def test_components_are_cut_off_at_two_and_become_bytes():
    embedded = np.array([[0.0, 5.0, -5.0, 1.0]])
    assert quantised(embedded, np.eye(4), np.zeros(4)).tolist() == [[127, 255, 0, 191]]
    assert quantised(embedded, np.eye(4)[::-1], np.ones(4)).tolist() == [[127, 0, 255, 63]]


def test_sounds_are_read_as_audiosets_features(folder):
    options = DataConfig(vggish=str(folder / "vggish.safetensors"), vggish_pca=str(folder / "pca.npz"))
    (example,) = read_examples(folder / "tone.wav", options, labelled=False)
    assert example.features.shape == (3, 128)
    assert example.features.dtype == np.uint8


def content(kind, folder):
    path = folder / f"{kind}.safetensors"
    if kind == "program":
        torch.save(print, path)
    elif kind == "torn":
        path.write_bytes((folder / "vggish.safetensors").read_bytes()[:1000])
    elif kind == "other":
        save_file({"features.0.weight": torch.zeros(3)}, path)
    return path


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("program", "is no safetensors file"),
        ("torn", "is no safetensors file"),
        ("other", "holds no weights of VGGish"),
        ("absent", "there is no such file"),
    ],
)
def test_other_files_are_refused_in_one_sentence(kind, said, folder):
    with pytest.raises(DataError, match=said) as error:
        VGGish(content(kind, folder), None)
    assert f"{kind}.safetensors" in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_components_are_refused(folder):
    np.savez(folder / "wrong.npz", pca_eigen_vectors=np.eye(3), pca_means=np.zeros(4))
    with pytest.raises(DataError, match="holds no principal components of VGGish"):
        VGGish(folder / "vggish.safetensors", folder / "wrong.npz")

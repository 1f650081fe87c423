"""External data: published files, searched in the given folder and one folder below it.

Each reader returns None where its file is absent. Accepted files:

    timm_resnet34.npz and other .npz     ``conf``, confidence of the predicted class, and ``correct``, 0 or 1
    resnet34.csv                         columns ``confidence``, ``true_label``, ``pred_label``, as published
    SF.FC.C1.csv                         not needed: the DAFFS forecasts are in the package
    POP_3cat_2003.txt                    rain in Tampere: the published table (see ``read_rain``), also the
                                         data set ``pop`` of the R package verification
    tampere_rain.csv                     the same as columns ``p`` and ``y``
    NETWORK.npz, NETWORK.mat             outputs of networks (see ``read_network``)
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.special import softmax

__all__ = ["confidences", "find", "network_files", "read_confidences", "read_network", "read_rain"]

Pair = tuple[np.ndarray, np.ndarray]


def find(folder: Path | None, *names: str) -> Path | None:
    """Return the first of the named files in the folder or in one folder below it."""
    if folder is None:
        return None
    for name in names:
        for path in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if path.is_file():
                return path
    return None


def read_confidences(path: Path) -> Pair:
    """Return outcomes (1 if the predicted class is correct) and confidences."""
    if path.suffix == ".csv":
        table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
        return (table["true_label"] == table["pred_label"]).astype(int), table["confidence"].astype(float)
    with np.load(path) as stored:
        return stored["correct"].astype(int), stored["conf"].astype(float)


def confidences(folder: Path | None) -> Iterator[tuple[str, Pair]]:
    """Yield names of ImageNet networks with outcomes and confidences."""
    if folder is not None:
        for path in sorted((folder / "imagenet_confidences").glob("*_*.npz")):
            if path.name.startswith(("timm_", "tv_")):
                yield path.stem, read_confidences(path)


def read_rain(folder: Path | None) -> Pair | None:
    """Return outcomes and forecasts of rain a day ahead in Tampere, 2003.

    The columns of POP_3cat_2003.txt, after a line of names: year, month, day, observed amount, then the
    probabilities of no rain, some and much rain a day ahead, and the same two days ahead. Rain is more than
    0.2 mm; days on which a number is missing are left out.
    """
    path = find(folder, "tampere_rain.csv")
    if path is not None:
        table = np.genfromtxt(path, delimiter=",", names=True)
        return table["y"].astype(int), table["p"].astype(float)
    path = find(folder, "POP_3cat_2003.txt")
    if path is None:
        return None
    outcomes, forecasts = [], []
    for line in path.read_text(encoding="latin-1").splitlines()[1:]:
        cells = line.split()
        try:
            amount, some, much = float(cells[3]), float(cells[5]), float(cells[6])
        except (ValueError, IndexError):
            continue
        outcomes.append(int(amount > 0.2))
        forecasts.append(min(some + much, 1.0))
    return np.array(outcomes), np.array(forecasts)


def network_files(folder: Path | None, *names: str) -> list[tuple[str, Path]]:
    """Return those of the named networks whose outputs are in the folder."""
    files = ((name, find(folder, *(name + end for end in (".npz", ".mat", ".npy")))) for name in names)
    return [(name, path) for name, path in files if path is not None]


def read_network(path: Path) -> Pair:
    """Return outcomes and confidences, in the order of the file, of the outputs of a network.

    .npz and .mat hold ``probs`` or ``logits`` (also ``logit``) of shape (n, K) with ``label`` (also
    ``labels``); or ``top_1_score``, ``top_1_predict`` and ``label``; or ``conf`` and ``correct``. .npy is an
    array of two columns, confidence and correctness. The published .pickle files are not read, since reading
    one can run code: save their two arrays with ``numpy.savez(name, conf=scores, correct=labels)``.
    """
    if path.suffix == ".npy":
        table = np.load(path)
        return table[:, 1].astype(int), table[:, 0].astype(float)
    if path.suffix == ".mat":
        stored: dict[str, Any] = loadmat(path)
    else:
        with np.load(path) as arrays:
            stored = dict(arrays)
    if "conf" in stored:
        return stored["correct"].ravel().astype(int), stored["conf"].ravel().astype(float)
    label = next(stored[key] for key in ("label", "labels") if key in stored).ravel().astype(int)
    if "top_1_score" in stored:
        right = stored["top_1_predict"].ravel().astype(int) == label
        return right.astype(int), stored["top_1_score"].ravel().astype(float)
    if "probs" in stored:
        proba = stored["probs"].astype(float)
        proba /= proba.sum(axis=1, keepdims=True)
    else:
        logits = next(stored[key] for key in ("logits", "logit") if key in stored)
        proba = softmax(logits.astype(float), axis=1)
    return (proba.argmax(axis=1) == label).astype(int), np.minimum(proba.max(axis=1), 1.0)

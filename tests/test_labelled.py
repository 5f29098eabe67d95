"""Scores on labelled frames, compared with loops and TrackEval; ignore regions."""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import permutations
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_imagine import model as model
from test_imagine import timed as timed
from test_videos import encode
from trackeval.metrics import CLEAR, HOTA, Identity

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.data.mot import MotBoxes, read_mot, write_mot
from gswm.eval.metrics.labelled import score_tracks

Row = tuple[int, int, float, float, float, float]


def mot(*rows: Row, conf: float = 1.0) -> MotBoxes:
    frame, id = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    box = np.array([row[2:] for row in rows], np.float64).reshape(-1, 4)
    return MotBoxes(frame, id, box, np.full(len(rows), conf))


def together(*parts: MotBoxes) -> MotBoxes:
    return MotBoxes(*(np.concatenate([vars(p)[n] for p in parts]) for n in vars(parts[0])))


def random_rows(seed: int) -> tuple[MotBoxes, MotBoxes]:
    """Labels of some frames, and tracks of all with every kind of mistake."""
    rng = np.random.default_rng(seed)
    labels, tracks = [], []
    for object in range(int(rng.integers(1, 4))):
        x, y = rng.uniform(0, 60, 2)
        name = 10 * object
        for frame in range(1, 9):
            x, y = x + rng.normal(3, 2), y + rng.normal(0, 2)
            name += int(rng.random() < 0.15)
            labels.append((frame, object, x, y, 20.0, 30.0))
            if rng.random() < 0.8:
                tracks.append((frame, name, *(v + rng.normal(0, 4) for v in (x, y)), 22.0, 28.0))
    for frame in range(1, 9):
        if rng.random() < 0.3:
            tracks.append((frame, 99, *rng.uniform(0, 60, 2), 20.0, 20.0))
    return mot(*labels), mot(*tracks)


def iou(one: np.ndarray, other: np.ndarray) -> float:
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[:2] + one[2:], other[:2] + other[2:])
    both = np.prod(np.clip(high - low, 0, None))
    return both / (one[2] * one[3] + other[2] * other[3] - both)


def best(gain: np.ndarray) -> list[tuple[int, int]]:
    """The pairs of the largest total gain, by trying all."""
    if gain.shape[0] > gain.shape[1]:
        return [(a, b) for b, a in best(gain.T)]
    choices = permutations(range(gain.shape[1]), gain.shape[0])
    most = max(choices, key=lambda c: sum(gain[a, b] for a, b in enumerate(c)), default=())
    return [(a, b) for a, b in enumerate(most) if gain[a, b] > 0]


def naive_hota(labels: MotBoxes, tracks: MotBoxes) -> tuple[float, float, float]:
    """HOTA, DetA and AssA as in the paper (Luiten et al., 2020), in loops."""
    frames = sorted(set(labels.frame.tolist()))
    names, ids = sorted(set(labels.id.tolist())), sorted(set(tracks.id.tolist()))
    here = {i: int((labels.id == i).sum()) for i in names}
    there = {
        j: sum(int(((tracks.id == j) & (tracks.frame == f)).sum()) for f in frames) for j in ids
    }
    overlap = {}
    for f in frames:
        for i in np.flatnonzero(labels.frame == f):
            for j in np.flatnonzero(tracks.frame == f):
                overlap[f, labels.id[i], tracks.id[j]] = iou(labels.box[i], tracks.box[j])
    jaccard = dict.fromkeys(((i, j) for i in names for j in ids), 0.0)
    for (f, i, j), o in overlap.items():
        row = sum(v for (g, a, _), v in overlap.items() if (g, a) == (f, i))
        column = sum(v for (g, _, b), v in overlap.items() if (g, b) == (f, j))
        jaccard[i, j] += o / (row + column - o) if o > 0 else 0.0
    jaccard = {(i, j): v / (here[i] + there[j] - v) for (i, j), v in jaccard.items() if v > 0}
    hits = []
    for f in frames:
        gain = np.array(
            [[jaccard.get((i, j), 0) * overlap.get((f, i, j), 0) for j in ids] for i in names]
        ).reshape(len(names), len(ids))
        hits += [(f, names[a], ids[b]) for a, b in best(gain)]
    scores = []
    for alpha in np.arange(1, 20) * 0.05:
        right = [(i, j) for f, i, j in hits if overlap[f, i, j] >= alpha - 1e-12]
        detection = len(right) / (sum(here.values()) + sum(there.values()) - len(right))
        of = [right.count(p) / (here[p[0]] + there[p[1]] - right.count(p)) for p in right]
        association = sum(of) / len(right) if right else 0.0
        scores.append(((detection * association) ** 0.5, detection, association))
    return tuple(np.mean(scores, axis=0))


def naive_found(labels: MotBoxes, tracks: MotBoxes) -> int:
    """The most pairs, one to one, that overlap by 0.3."""
    found = 0
    for f in set(labels.frame.tolist()):
        one, other = labels.box[labels.frame == f], tracks.box[tracks.frame == f]
        gain = np.array([[iou(a, b) >= 0.3 for b in other] for a in one], float)
        found += len(best(gain.reshape(len(one), len(other))))
    return found


@given(st.integers(0, 2**32 - 1))
def test_scores_are_those_of_loops(seed: int) -> None:
    labels, tracks = random_rows(seed)
    labels = labels[np.isin(labels.frame, (1, 2, 4, 5, 8))]
    scores = score_tracks(labels, tracks)
    expected = naive_hota(labels, tracks)
    assert (scores.hota, scores.det_a, scores.ass_a) == pytest.approx(expected, abs=1e-9)
    seen = int(np.isin(tracks.frame, labels.frame).sum())
    found = naive_found(labels, tracks)
    assert (scores.objects, scores.predictions) == (len(labels), seen)
    assert scores.precision == pytest.approx(found / seen if seen else nan, nan_ok=True)
    assert scores.recall == pytest.approx(found / len(labels))
    assert scores.f1 == pytest.approx(2 * found / (seen + len(labels)))


@given(st.integers(0, 2**32 - 1))
def test_scores_are_trackevals(seed: int) -> None:
    labels, tracks = random_rows(seed)
    frames = range(1, 9)
    names, ids = (sorted(set(rows.id.tolist())) for rows in (labels, tracks))
    real, said = ([rows[rows.frame == f] for f in frames] for rows in (labels, tracks))
    data = {
        **{"num_timesteps": 8, "num_gt_ids": len(names), "num_tracker_ids": len(ids)},
        **{"num_gt_dets": len(labels), "num_tracker_dets": len(tracks)},
        "gt_ids": [np.array([names.index(i) for i in rows.id], int) for rows in real],
        "tracker_ids": [np.array([ids.index(i) for i in rows.id], int) for rows in said],
        "similarity_scores": [
            np.array([[iou(a, b) for b in t.box] for a in r.box]).reshape(len(r), len(t))
            for r, t in zip(real, said, strict=True)
        ],
    }
    with redirect_stdout(StringIO()):
        theirs = {
            **{n.lower(): v for n, v in HOTA().eval_sequence(data).items()},
            **CLEAR().eval_sequence(data),
            **Identity().eval_sequence(data),
        }
    ours = score_tracks(labels, tracks)
    expected = [np.mean(theirs[n]) for n in ("hota", "deta", "assa", "MOTA", "IDF1")]
    found = [ours.hota, ours.det_a, ours.ass_a, ours.mota, ours.idf1]
    assert found == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_labels_score_1_on_themselves_and_frames_without_labels_do_not_count(seed: int) -> None:
    labels, tracks = random_rows(seed)
    some = labels[labels.frame % 2 == 0]
    scores = score_tracks(some, labels)
    assert (scores.f1, scores.mota, scores.idf1, scores.hota) == pytest.approx((1, 1, 1, 1))
    elsewhere = replace(tracks, frame=2 * tracks.frame + 1)
    assert score_tracks(some, together(labels, replace(elsewhere, id=elsewhere.id + 500))) == scores


OBJECT = mot((1, 1, 0, 0, 10, 10))
REGION = mot((1, -1, 100, 100, 50, 50), conf=0.0)


def test_a_prediction_in_an_ignore_region_is_dropped() -> None:
    labels = together(OBJECT, REGION)
    inside = mot((1, 5, 110, 110, 10, 10))
    assert score_tracks(labels, together(OBJECT, inside)) == score_tracks(labels, OBJECT)
    half, less = mot((1, 5, 95, 110, 10, 10)), mot((1, 5, 94, 110, 10, 10))
    assert score_tracks(labels, half).predictions == 0
    assert score_tracks(labels, less).predictions == 1


def test_a_prediction_that_matches_a_label_is_kept_in_an_ignore_region() -> None:
    labels = together(mot((1, 1, 110, 110, 10, 10)), REGION)
    assert score_tracks(labels, mot((1, 4, 110, 110, 10, 10))).f1 == 1


def test_low_labels_become_ignore_regions() -> None:
    labels = together(OBJECT, mot((1, 2, 50, 0, 10, 20)))
    scores = score_tracks(labels, OBJECT, min_height=10.0)
    assert (scores.objects, scores.predictions, scores.recall) == (1, 0, 0)
    assert score_tracks(labels, OBJECT, min_height=9.9).recall == 0.5


def test_a_frame_with_ignore_regions_alone_is_scored() -> None:
    labels = together(OBJECT, replace(REGION, frame=np.array([2])))
    scores = score_tracks(labels, together(OBJECT, mot((2, 5, 0, 0, 10, 10))))
    assert (scores.frames, scores.predictions, scores.precision) == (2, 2, 0.5)


def test_no_tracks_score_0_and_no_labels_are_refused() -> None:
    scores = score_tracks(OBJECT, mot())
    assert (scores.f1, scores.hota, scores.recall) == (0, 0, 0)
    with pytest.raises(UserError, match="no labelled frames"):
        score_tracks(mot(), OBJECT)


def test_a_score_of_nothing_is_undefined() -> None:
    neither, false_alarm = score_tracks(REGION, mot()), score_tracks(REGION, OBJECT)
    for scores in (neither, false_alarm):
        assert all(isnan(getattr(scores, name)) for name in ("recall", "mota", "idf1", "hota"))
    assert isnan(neither.precision)
    assert isnan(neither.f1)
    assert (false_alarm.precision, false_alarm.f1) == (0, 0)
    assert isnan(score_tracks(OBJECT, mot()).precision)


def test_undefined_scores_are_dashes_and_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, tracks, out = (tmp_path / name for name in ("labels.txt", "tracks.txt", "a.json"))
    write_mot(labels, together(OBJECT, replace(REGION, frame=np.array([10]))))
    write_mot(tracks, OBJECT)
    words = ["eval", "--labels", str(labels), "--tracks", str(tracks), "--frames", "10"]
    assert main([*words, "--json", str(out)]) == 0
    _, last = capsys.readouterr().out.splitlines()[-2:]
    assert last.split() == ["last", "20%", "1", "0", "0", *8 * ["-"], "0"]
    scores = json.loads(out.read_text())["parts"]["last 20%"]
    assert (scores["mota"], scores["f1"], scores["switches"]) == (None, None, 0)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    labels = mot(*((f, 1, 5.0 * f, 0, 20, 20) for f in range(1, 11)))
    for name, rows in (("labels", labels), ("tracks", labels[labels.frame < 10])):
        write_mot(tmp_path / f"{name}.txt", rows)
    return str(tmp_path / "labels.txt"), str(tmp_path / "tracks.txt")


def test_tracks_are_scored_from_the_command_line(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, tracks = files
    out = tmp_path / "scores.json"
    words = ["eval", "--labels", labels, "--tracks", tracks]
    assert main([*words, "--frames", "10", "--json", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["all", "last"]
    parts = json.loads(out.read_text())["parts"]
    assert parts["all"]["recall"] == 0.9
    assert parts["last 20%"]["recall"] == 0.5
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("all")


@pytest.mark.parametrize("which", ["model", "timed"])  # all frames, and every second one
def test_a_model_is_scored_as_its_tracks_are(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model = request.getfixturevalue(which)
    pixels = np.zeros((10, 48, 80, 3), np.uint8)
    pixels[:, 10:30, 20:40] = 255
    video, tracks, labels = (
        encode(tmp_path / "a.mp4", list(pixels)),
        *(tmp_path / f"{name}.txt" for name in ("tracks", "labels")),
    )
    assert main(["track", str(video), "--model", model, "--out", str(tracks)]) == 0
    found, inside = (rows := read_mot(tracks)), rows.clipped(80, 48)
    assert len(found) > 0
    assert not np.array_equal(found.box, inside.box)  # some boxes reach beyond the picture
    write_mot(labels, inside[inside.frame % 3 == 0])
    scored = []
    for words in (["--tracks", str(tracks), str(video)], [model, str(video)]):
        out = tmp_path / "out.json"
        assert main(["eval", *words, "--labels", str(labels), "--json", str(out), "--force"]) == 0
        scored.append(json.loads(out.read_text()))
    assert scored[0]["parts"] == scored[1]["parts"]
    assert scored[1]["parts"]["all"]["f1"] == 1
    assert [each["boxes_from"] for each in scored] == [None, "latents"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--labels", "{0}"], "--tracks or --baseline"),
        (["--labels", "{0}", "--tracks", "{1}", "--baseline", "median-sort"], "use either"),
        (["--labels", "{0}", "--baseline", "stay"], "does not track videos"),
        (["--labels", "{0}", "--baseline", "median-sort"], "needs the video"),
        (["a.mp4", "--labels", "{0}", "--baseline", "median-sort"], "no video a.mp4"),
        (["maze", "a.mp4", "--labels", "{0}", "--tracks", "{1}"], "specify only the video"),
        (["maze", "a.mp4", "--labels", "{0}"], "no video a.mp4"),
        (["--labels", "{0}", "--tracks", "{1}", "--half"], "--half"),
        (["--labels", "{0}", "--tracks", "{1}", "--min-height", "0.05"], "specify the video"),
        (["--labels", "{0}", "--tracks", "{1}", "--min-height", "-1"], "at least 0"),
        (["--labels", "{0}", "--tracks", "{1}", "--last", "1.5"], "between 0 and 1"),
        (["--labels", "{0}", "--tracks", "{1}", "--frames", "9"], "they do not match"),
        (["--labels", "none.txt", "--tracks", "{1}"], "cannot read none.txt"),
        (["--tracks", "{1}"], "--tracks needs --labels"),
        (["maze", "a.mp4"], "no video a.mp4"),
        (["maze", "--last", "0.3"], "--last needs a video"),
        (["--baseline", "median-sort"], "needs a video and --labels"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(
    words: list[str], said: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", *(word.format(*files) for word in words)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line

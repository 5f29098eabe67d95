"""Published numbers: Tables 1, 2 and 10 of G-SWM's paper, and Table 1 of SlotFormer's."""

from dataclasses import dataclass

MODELS = ("G-SWM", "SCALOR", "STOVE", "SILOT", "SQAIR", "OP3")
"""The models that the paper compares: SILOT in a figure, OP3 in the text, SQAIR in Table 1."""
TABULATED = MODELS[:3]
"""The models of Tables 2 and 10."""
BALLS = {"interaction": 3, "occlusion": 3, "two-layer": 6, "two-layer-dense": 16}
"""The worlds of both tables, with their number of objects."""
FIGURED = (*BALLS, "single-ball", "maze", "obj3d")
"""The worlds of the paper's figures."""
SOLIDS = {"obj3d": "", "obj3d-128": ", 128 pixels", "obj3d-two": ", two objects"}
"""The 3D worlds, the paper's first, with the suffix of model names in their rows."""
OTHER_TESTS = ("digits", "obj3d-128", "obj3d-two")
"""Worlds that are not in the paper: larger frames, and easier worlds for SQAIR and OP3."""


@dataclass(frozen=True)
class Said:
    """A published mean over 5 seeds, and its standard deviation."""

    mean: float
    spread: float


FAILS = {("two-layer", "STOVE"), ("two-layer-dense", "STOVE")}
"""Cells that both tables leave empty: STOVE does not find the objects in two layers (§5.1)."""

CENTER_ERROR = {
    ("interaction", "G-SWM"): Said(0.242, 0.028),
    ("interaction", "SCALOR"): Said(1.004, 0.019),
    ("interaction", "STOVE"): Said(0.411, 0.007),
    ("occlusion", "G-SWM"): Said(0.072, 0.015),
    ("occlusion", "SCALOR"): Said(0.272, 0.019),
    ("occlusion", "STOVE"): Said(0.387, 0.021),
    ("two-layer", "G-SWM"): Said(0.212, 0.007),
    ("two-layer", "SCALOR"): Said(1.012, 0.021),
    ("two-layer-dense", "G-SWM"): Said(0.535, 0.013),
    ("two-layer-dense", "SCALOR"): Said(1.208, 0.011),
}
"""Table 2: center error summed over the first 10 imagined frames."""

MOTA = {
    ("interaction", "G-SWM"): Said(0.9870, 0.0032),
    ("interaction", "SCALOR"): Said(0.9688, 0.0101),
    ("interaction", "STOVE"): Said(0.9979, 0.0005),
    ("occlusion", "G-SWM"): Said(0.9919, 0.0013),
    ("occlusion", "SCALOR"): Said(0.9447, 0.0119),
    ("occlusion", "STOVE"): Said(0.9618, 0.0023),
    ("two-layer", "G-SWM"): Said(0.9967, 0.0041),
    ("two-layer", "SCALOR"): Said(0.9686, 0.0102),
    ("two-layer-dense", "G-SWM"): Said(0.9756, 0.0066),
    ("two-layer-dense", "SCALOR"): Said(0.9501, 0.0087),
}
"""Table 10: MOTA at an IoU of 0.5."""

ABILITIES = {
    "Discovery": {"SQAIR": True, "SILOT": True, "SCALOR": True, "STOVE": False},
    "Interaction": {"SQAIR": False, "SILOT": False, "SCALOR": False, "STOVE": True},
    "Occlusion": {"SQAIR": True, "SILOT": True, "SCALOR": True, "STOVE": False},
    "Scalability": {"SQAIR": False, "SILOT": True, "SCALOR": True, "STOVE": False},
    "Background": {"SQAIR": False, "SILOT": False, "SCALOR": True, "STOVE": False},
    "Uncertainty": {"SQAIR": False, "SILOT": False, "SCALOR": False, "STOVE": False},
    "Situated": {"SQAIR": False, "SILOT": False, "SCALOR": False, "STOVE": False},
}
"""Table 1: abilities of the models before G-SWM."""

SLOTFORMER = {
    "PredRNN": (33.68, 0.91),
    "SAVi-dyn": (32.94, 0.91),
    "SlotFormer": (32.40, 0.91),
    "G-SWM": (31.43, 0.89),
}
"""PSNR and SSIM on the original 3D videos (Table 1 of SlotFormer's paper)."""

"""Tables of the 3D worlds: errors, pixels and collisions, for each model and for rules."""

from gswm.report.cells import HERE, Columns, Table, cells, seeds
from gswm.report.figures import SOLID_RULES
from gswm.report.paper import SLOTFORMER, SOLIDS
from gswm.report.results import Results

ORIGINAL = ", original videos"
"""The end of the names of rows with others' numbers."""
PROTOCOL = "slotformer-6-44"


def solids(results: Results) -> Table:
    """The 3D world."""
    columns = {
        **{"center error": ("center_error", 3), "strict error": ("strict_error", 3)},
        **{"mean over all frames": ("center_error_mean", 3), "objects found": ("objects", 2)},
        **{"true objects": ("true_objects", 2), "right number": ("count_right", 3)},
        **{"MOTA": ("mota", 4), "PSNR": ("psnr", 2), "SSIM": ("ssim", 3)},
        **{"way along the true one": ("moved_along", 2), "sharpness": ("sharpness", 2)},
    }
    text = (
        "10 frames are given, before anything touches; 90 are imagined. Errors and counts as "
        "above; PSNR and SSIM are means over all imagined frames. The paper has pictures alone: "
        "of its videos nobody knows where the objects are."
    )
    shown = [m for world in SOLIDS for ms in results.models(world).values() for m in ms]
    if any("moved_along" in m.scores for m in shown):
        text += (
            " *Way along the true one*: how far objects go over 10 frames in the direction of the "
            "true ones, as a share of the true way; 0 if they stay."
        )
    if any("sharpness" in m.scores for m in shown):
        text += " *Sharpness*: contrast of neighboring pixels in given frames; below 1 if blurry."
    if any(m.boxes_from == "masks" for m in shown):
        text += " Boxes of OP3 are the smallest around its masks."
    return Table("3D", text, ("", *columns), solid_rows(results, columns))


def collisions(results: Results) -> Table:
    """Hits in the 3D world."""
    columns = {
        **{"precision": ("collision_precision", 3), "recall": ("collision_recall", 3)},
        **{"F1": ("collision_f1", 3), "frames late": ("collision_delay", 2)},
    }
    text = (
        "Is an imagined object's velocity changed where, and when, the true one is hit? To three "
        "frames: *precision* is of the imagined hits, *recall* of the true ones."
    )
    return Table("3D: collisions", text, ("", *columns), solid_rows(results, columns))


def solid_rows(results: Results, columns: Columns) -> tuple[tuple[str, ...], ...]:
    """A row of each model in each 3D world, and of rules if they were measured."""
    rows = []
    for world, place in SOLIDS.items():
        found = results.models(world) or ({"G-SWM": []} if not place else {})
        rules = {name: results.of(rule, world) for rule, name in SOLID_RULES.items()}
        for name, each in (found | {n: m for n, m in rules.items() if m}).items():
            rows.append((name + place + seeds(each), *cells(each, columns)))
    return tuple(rows)


def slotformer(results: Results) -> Table:
    """The 3D world, as SlotFormer's authors measure."""
    ours = results.models("obj3d", PROTOCOL) or {"G-SWM": []}
    columns = {"PSNR": ("psnr", 2), "SSIM": ("ssim", 3)}
    said = [
        (f"{model}{ORIGINAL}", f"{psnr:.2f}", f"{ssim:.2f}")
        for model, (psnr, ssim) in SLOTFORMER.items()
    ]
    text = (
        "6 frames are given and 44 imagined, of the validation episodes. The other rows are what "
        "SlotFormer's paper says of the original videos, which are not ours: they show what is "
        "usual, and are no comparison."
    )
    here = [(f"{model}{HERE}{seeds(each)}", *cells(each, columns)) for model, each in ours.items()]
    if stay := results.of("stay", "obj3d", PROTOCOL):
        here.append((f"the last given frame{HERE}", *cells(stay, columns)))
    return Table("3D: by SlotFormer's protocol", text, ("", *columns), (*here, *said))

"""Tables of the 3D worlds: errors, pixels and collisions, for each model and baseline."""

from gswm.report.cells import HERE, Columns, Table, cells, seeds
from gswm.report.figures import SOLID_RULES
from gswm.report.paper import SLOTFORMER, SOLIDS
from gswm.report.results import Results

ORIGINAL = ", original videos"
"""Suffix of rows that quote other papers."""
PROTOCOL = "slotformer-6-44"


def solids(results: Results) -> Table:
    """The 3D world."""
    columns = {
        **{"center error": ("center_error", 3), "strict error": ("strict_error", 3)},
        **{"mean over all frames": ("center_error_mean", 3), "objects found": ("objects", 2)},
        **{"true objects": ("true_objects", 2), "right number": ("count_right", 3)},
        **{"MOTA": ("mota", 4), "PSNR": ("psnr", 2), "SSIM": ("ssim", 3)},
        **{"motion along the true path": ("moved_along", 2), "sharpness": ("sharpness", 2)},
    }
    text = (
        "Models see 10 frames, before the first collision, and imagine 90. Errors and counts are "
        "defined as above; PSNR and SSIM are means over all imagined frames. The paper shows only "
        "pictures, because its videos come without object positions."
    )
    shown = [m for world in SOLIDS for ms in results.models(world).values() for m in ms]
    if any("moved_along" in m.scores for m in shown):
        text += (
            " *Motion along the true path* is the distance that objects move in the true direction "
            "over 10 frames, divided by the true distance; 0 for stationary objects."
        )
    if any("sharpness" in m.scores for m in shown):
        text += (
            " *Sharpness* is the contrast between neighboring pixels of reconstructed frames, "
            "relative to the given frames; blurry reconstructions are below 1."
        )
    if any(m.boxes_from == "masks" for m in shown):
        text += " Boxes of OP3 are the bounding boxes of its masks."
    return Table("3D", text, ("", *columns), solid_rows(results, columns))


def collisions(results: Results) -> Table:
    """Precision and recall of collisions in the 3D worlds."""
    columns = {
        **{"precision": ("collision_precision", 3), "recall": ("collision_recall", 3)},
        **{"F1": ("collision_f1", 3), "frames late": ("collision_delay", 2)},
    }
    text = (
        "Do imagined objects change velocity when the true ones collide? A predicted collision "
        "counts as correct if the same object has a true one within three frames, also one half as "
        "strong as those that count for recall. *Frames late* is the mean delay of true ones that "
        "were predicted."
    )
    return Table("3D: collisions", text, ("", *columns), solid_rows(results, columns))


def solid_rows(results: Results, columns: Columns) -> tuple[tuple[str, ...], ...]:
    """A row for each model in each 3D world, and for each baseline that was measured."""
    rows = []
    for world, place in SOLIDS.items():
        found = results.models(world) or ({"G-SWM": []} if not place else {})
        rules = {name: results.of(rule, world) for rule, name in SOLID_RULES.items()}
        for name, each in (found | {n: m for n, m in rules.items() if m}).items():
            rows.append((name + place + seeds(each), *cells(each, columns)))
    return tuple(rows)


def slotformer(results: Results) -> Table:
    """PSNR and SSIM in the 3D world by SlotFormer's protocol."""
    ours = {
        f"{model}{place}": each
        for world, place in SOLIDS.items()
        for model, each in results.models(world, PROTOCOL).items()
    } or {"G-SWM": []}
    columns = {"PSNR": ("psnr", 2), "SSIM": ("ssim", 3)}
    said = [
        (f"{model}{ORIGINAL}", f"{psnr:.2f}", f"{ssim:.2f}")
        for model, (psnr, ssim) in SLOTFORMER.items()
    ]
    text = (
        "Models see 6 frames of each validation episode and imagine 44. The other rows quote "
        "SlotFormer's paper. They were measured on the original videos, not on ours, so they "
        "are not directly comparable."
    )
    here = [(f"{model}{HERE}{seeds(each)}", *cells(each, columns)) for model, each in ours.items()]
    if stay := results.of("stay", "obj3d", PROTOCOL):
        here.append((f"last given frame repeated{HERE}", *cells(stay, columns)))
    return Table("3D: SlotFormer's protocol", text, ("", *columns), (*here, *said))

"""Re-encode weights that ship, and write the checksums of all.

    python tools/encode_weights.py                    # says what it would do
    python tools/encode_weights.py --write NAME...    # does it for these; without names, for all

Every file in weights/ that is not compact is replaced by what `gswm export --compact` makes of it,
and so is one in 8 bits that can have tensors in 3 bits and has more than 10 MB. The others are left
as they are, so that a second run changes nothing. Then weights/checksums.txt lists all files.
Rounding changes scores by less than 1 % (docs/weights.md): measure again after changing what
`WorldModel.coarse` or `coarsest` names.
"""

import argparse
from pathlib import Path

from gswm.core.files import write_whole
from gswm.weights import files as weights
from gswm.weights.download import checksum
from gswm.weights.encoding import ENOUGH

WEIGHTS = Path(__file__).parents[1] / "weights"


def main() -> None:
    """Encode all files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="replace the files")
    parser.add_argument("--folder", type=Path, default=WEIGHTS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models")
    args = parser.parse_args()
    files = {file.stem: file for file in sorted(args.folder.glob("*.safetensors"))}
    if unknown := set(args.names) - set(files):
        parser.error(f"there are no weights {', '.join(sorted(unknown))} in {args.folder}")
    for name in args.names or files:
        print(f"{name:24} {encoded(files[name], write=args.write)}")
    if args.write:
        write_whole(args.folder / "checksums.txt", sums(args.folder).encode())


def encoded(file: Path, *, write: bool) -> str:
    """Encode a file; what came of it."""
    before = file.stat().st_size
    how = weights.read_encoding(file)
    if how == "int3" or (how == "int8" and (before <= ENOUGH or not weights.load(file).coarsest())):
        return f"{before / 1e6:5.1f} MB, compact"
    if not write:
        return f"{before / 1e6:5.1f} MB, to be encoded"
    header = weights.read_header(file)
    weights.save(file, weights.load(file), header["recipe"], compact=True, about=header["about"])
    return f"{before / 1e6:5.1f} MB, now {file.stat().st_size / 1e6:.1f} MB"


def sums(folder: Path) -> str:
    """The checksums of all files, as sha256sum writes them."""
    files = sorted(folder.glob("*.safetensors"))
    return "".join(f"{checksum(file)}  {file.name}\n" for file in files)


if __name__ == "__main__":
    main()

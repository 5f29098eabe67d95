"""Re-encode all weights that ship, and write their checksums.

    python tools/encode_weights.py            # says what it would do
    python tools/encode_weights.py --write    # does it

Every file in weights/ that is not compact is replaced by what `gswm export --compact` makes of it;
compact files are left as they are, so that a second run changes nothing. Then weights/checksums.txt
lists all files. Rounding changes scores by less than 1 % (docs/weights.md): measure again after
changing what `WorldModel.coarse` names.
"""

import argparse
from pathlib import Path

from gswm.core.files import write_whole
from gswm.weights import files as weights
from gswm.weights.download import checksum

WEIGHTS = Path(__file__).parents[1] / "weights"


def main() -> None:
    """Encode all files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="replace the files")
    parser.add_argument("--folder", type=Path, default=WEIGHTS)
    args = parser.parse_args()
    for file in sorted(args.folder.glob("*.safetensors")):
        print(f"{file.stem:24} {encoded(file, write=args.write)}")
    if args.write:
        write_whole(args.folder / "checksums.txt", sums(args.folder).encode())


def encoded(file: Path, *, write: bool) -> str:
    """Encode a file; what came of it."""
    before = file.stat().st_size
    if weights.read_encoding(file) == "int8":
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

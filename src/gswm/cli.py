"""The command line: `gswm COMMAND ...`.

A command is a frozen dataclass whose fields are its settings and whose `run` executes it. Only the
module of the requested command is imported, so `gswm --help` does not wait for torch.
"""

import importlib
import io
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gswm
from gswm.core.ending import Ending
from gswm.core.errors import UserError
from gswm.core.words import closest, printable

formatted: Callable[..., str] = warnings.formatwarning


@dataclass(frozen=True)
class Command:
    """The class of a command, its module in `gswm.commands`, and its description."""

    module: str
    name: str
    line: str

    def load(self) -> Any:
        """Import and return the class."""
        return getattr(importlib.import_module(f"gswm.commands.{self.module}"), self.name)


GROUPS = {
    "Trained models": {
        "demo": Command("demo", "DemoCommand", "Show what the shipped models can do."),
        "track": Command("track", "TrackCommand", "Track the objects in a video."),
        "imagine": Command("imagine", "ImagineCommand", "Imagine futures of a video."),
        "studio": Command(
            "studio", "StudioCommand", "Open a model in the browser and edit its objects."
        ),
        "weights": Command(
            "weights", "WeightsCommand", "List the named models, their scores and locations."
        ),
        "weights fetch": Command("weights", "FetchCommand", "Download a named model."),
    },
    "Your own videos": {
        "fit": Command("fit", "FitCommand", "Fit a model to a video."),
        "data look": Command(
            "look", "LookCommand", "Measure the objects in a video and suggest settings."
        ),
        "data import": Command("importing", "ImportCommand", "Import videos into an HDF5 file."),
    },
    "Training and evaluation": {
        "train": Command("train", "TrainCommand", "Train a recipe, or resume a run."),
        "sweep": Command("sweep", "SweepCommand", "Train several recipes with several seeds."),
        "eval": Command("evaluate", "EvaluateCommand", "Evaluate a model or a baseline."),
        "report": Command("report", "ReportCommand", "Write tables and figures of results."),
        "export": Command("export", "ExportCommand", "Export weights for release."),
    },
    "Datasets": {
        "data make": Command(
            "data", "MakeCommand", "Write the dataset of a world to an HDF5 file."
        ),
        "data show": Command("data", "ShowCommand", "Draw an episode with boxes and ids."),
        "data info": Command("importing", "InfoCommand", "Describe an HDF5 file."),
        "data scenes": Command("data", "MakeScenesCommand", "Simulate scenes of the 3D world."),
        "data compare": Command(
            "compare", "CompareCommand", "Compare the torch and Blender renderers of the 3D world."
        ),
    },
    "Development": {
        "selftest": Command(
            "selftest", "SelfTestCommand", "Compare the fast training paths with the plain one."
        ),
        "bench data": Command("bench", "BenchDataCommand", "Measure the speed of data generation."),
        "bench train": Command(
            "bench", "BenchTrainCommand", "Measure the speed of training steps."
        ),
        "bench imagine": Command("bench", "BenchImagineCommand", "Measure the speed of rollouts."),
        "bench track": Command("bench", "BenchTrackCommand", "Measure the speed of tracking."),
        "bench studio": Command(
            "bench", "BenchStudioCommand", "Measure the response times of the studio."
        ),
    },
}
"""The commands by group, in the order of `gswm --help`."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def main(args: list[str] | None = None) -> int:
    """Run a command; return its exit code.

    Without `args`, the arguments are those of the process, which exits afterwards.
    """
    warnings.formatwarning = one_line
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file name may not be valid text
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if args is None else args)
    ending = Ending()
    try:
        ending.begin()
        return run([word for word in words if word != "--debug"])
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has exited
        return 141
    except UserError as error:
        if "--debug" in words:
            traceback.print_exc()
        if ending.which is not None:  # a library turned the signal into another error
            return told(ending.reason, ending.code)
        return told(printable(str(error)), error.code)
    except KeyboardInterrupt:
        return told(ending.reason, ending.code)
    except OSError as error:  # for example, a file name that is too long
        if error.filename is None or "--debug" in words:
            raise
        return told(printable(f"cannot use {error.filename}: {error.strerror}"), UserError.code)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return told("out of memory: use smaller sizes or a smaller batch", 5)
    finally:
        ending.finish(process=args is None)


def run(args: list[str]) -> int:
    """Run a command; return its exit code."""
    if args == ["--version"]:
        print(f"gswm {gswm.__version__}")
        return 0
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    name, rest = find(args)
    if name is None:
        print(overview(" ".join(args[:1]) if args and not args[0].startswith("-") else ""))
        return 0
    return parse(name, rest).run() or 0


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python, or torch on a CPU or GPU, ran out of memory."""
    words = ("allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)


def told(line: str, code: int) -> int:
    """Print the reason why a command failed; return its exit code."""
    with suppress(OSError, ValueError):  # the terminal may be gone
        print(f"gswm: {line}", file=sys.stderr, flush=True)
    return code


def find(args: list[str]) -> tuple[str | None, list[str]]:
    """Split `args` into the name of a command and its options; no name means to print help."""
    words = args[:2] if len(args) > 1 and not args[1].startswith("-") else args[:1]
    groups = {name.split()[0] for name in COMMANDS if " " in name}
    name = " ".join(words if words[:1] and words[0] in groups else words[:1])
    if name in COMMANDS:
        return name, args[len(name.split()) :]
    if not args or args[0] in ("-h", "--help") or name in groups:
        return None, args
    meanings = {each.split()[-1]: each for each in COMMANDS}  # `gswm fetch` for `weights fetch`
    meanings |= {each: each for each in (*COMMANDS, *groups)}
    close = meanings.get(closest(name, meanings) or closest(" ".join(words), meanings) or "")
    meant = f": did you mean `gswm {close}`?" if close else ";"
    raise UserError(f"there is no command '{name}'{meant} `gswm --help` lists all commands")


def overview(prefix: str) -> str:
    """The description of every command, or of those that begin with the word `prefix`."""
    width = max(map(len, COMMANDS))
    lines = ["usage: gswm COMMAND [OPTIONS]"]
    for group, commands in GROUPS.items():
        rows = {n: c.line for n, c in commands.items() if not prefix or n.split()[0] == prefix}
        lines += ["", f"{group}:"] if rows else []
        lines += [f"  {name:<{width}}  {line}" for name, line in rows.items()]
    tail = (
        "`gswm COMMAND --help` describes a command, and `gswm --version` prints the version. Add",
        "--debug to any command to see the traceback of an error.",
    )
    return "\n".join([*lines, "", *tail])


def parse(name: str, args: list[str]):
    """Build a command from its options."""
    command = COMMANDS[name]
    cls = command.load()
    if hasattr(cls, "from_args"):
        return cls.from_args(args)
    from gswm.commands.parsing import tyro_cli

    return tyro_cli(cls, args, prog=f"gswm {name}", description=command.line)


def one_line(message: Warning | str, category: type[Warning], *where: object) -> str:
    """Format our own warnings in one line, and those of other packages as Python does."""
    if category.__module__.startswith("gswm."):
        return f"gswm: {message}\n"
    return formatted(message, category, *where)

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

import gswm
from gswm.core.ending import Ending
from gswm.core.errors import UserError
from gswm.core.words import closest, printable

formatted: Callable[..., str] = warnings.formatwarning


@dataclass(frozen=True)
class Command:
    """The module and class of a command, and its description."""

    module: str
    name: str
    line: str


COMMANDS = {
    "demo": Command("gswm.commands.demo", "DemoCommand", "Show what the shipped models can do."),
    "data make": Command(
        "gswm.commands.data", "MakeCommand", "Write a world's dataset to an HDF5 file."
    ),
    "data scenes": Command(
        "gswm.commands.data",
        "MakeScenesCommand",
        "Simulate scenes of the 3D world into a file.",
    ),
    "data compare": Command(
        "gswm.commands.compare",
        "CompareCommand",
        "Compare the 3D renderers torch and Blender.",
    ),
    "data import": Command(
        "gswm.commands.importing", "ImportCommand", "Import your own videos into an HDF5 file."
    ),
    "data look": Command(
        "gswm.commands.look", "LookCommand", "Measure a video, and derive settings for it."
    ),
    "data info": Command("gswm.commands.importing", "InfoCommand", "Describe an HDF5 file."),
    "data show": Command(
        "gswm.commands.data", "ShowCommand", "Draw an episode with boxes and ids."
    ),
    "fit": Command("gswm.commands.fit", "FitCommand", "Fit a model to your own video."),
    "train": Command("gswm.commands.train", "TrainCommand", "Train a recipe."),
    "weights": Command(
        "gswm.commands.weights",
        "WeightsCommand",
        "List all named models and their locations.",
    ),
    "weights fetch": Command("gswm.commands.weights", "FetchCommand", "Download a named model."),
    "sweep": Command("gswm.commands.sweep", "SweepCommand", "Train many runs."),
    "export": Command("gswm.commands.export", "ExportCommand", "Export weights for release."),
    "eval": Command("gswm.commands.evaluate", "EvaluateCommand", "Evaluate a model or a baseline."),
    "report": Command(
        "gswm.commands.report", "ReportCommand", "Write tables and figures of results."
    ),
    "imagine": Command("gswm.commands.imagine", "ImagineCommand", "Imagine futures of a video."),
    "track": Command("gswm.commands.track", "TrackCommand", "Track the objects of a video."),
    "studio": Command(
        "gswm.commands.studio",
        "StudioCommand",
        "Open a model in the browser, and edit its objects.",
    ),
    "selftest": Command(
        "gswm.commands.selftest",
        "SelfTestCommand",
        "Compare the fast training path with the plain one.",
    ),
    "bench data": Command(
        "gswm.commands.bench", "BenchDataCommand", "Measure the speed of data generation."
    ),
    "bench train": Command(
        "gswm.commands.bench", "BenchTrainCommand", "Measure the speed of training steps."
    ),
    "bench imagine": Command(
        "gswm.commands.bench", "BenchImagineCommand", "Measure the speed of rollouts."
    ),
    "bench track": Command(
        "gswm.commands.bench", "BenchTrackCommand", "Measure how fast a video is tracked."
    ),
    "bench studio": Command(
        "gswm.commands.bench", "BenchStudioCommand", "Measure the response times of the studio."
    ),
}


def main(args: list[str] | None = None) -> int:
    """Run the command that `args` name; return its exit code.

    Without `args` it is the whole process, which ends afterwards.
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
        sys.stderr.close()  # the reader of our output has gone
        return 141
    except UserError as error:
        if "--debug" in words:
            traceback.print_exc()
        if ending.which is not None:  # a library converted it to another error
            return told(ending.reason, ending.code)
        return told(printable(str(error)), error.code)
    except KeyboardInterrupt:
        return told(ending.reason, ending.code)
    except OSError as error:  # such as a name that is too long
        if error.filename is None or "--debug" in words:
            raise
        return told(printable(f"cannot use {error.filename}: {error.strerror}"), UserError.code)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return told("there is not enough memory: ask for smaller sizes, or for less at once", 5)
    finally:
        ending.finish(process=args is None)


def run(args: list[str]) -> int:
    """Run a command; return its exit code."""
    if args == ["--version"]:
        print(f"gswm {gswm.__version__}")
        return 0
    name, rest = find(args)
    if name is None:
        print(overview(" ".join(args[:1]) if args and not args[0].startswith("-") else ""))
        return 0
    return parse(name, rest).run() or 0


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python, torch on the CPU or the GPU is out of memory."""
    words = ("allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)


def told(line: str, code: int) -> int:
    """Print why a command ends; return its exit code."""
    with suppress(OSError, ValueError):  # the terminal may be gone
        print(f"gswm: {line}", file=sys.stderr, flush=True)
    return code


def find(args: list[str]) -> tuple[str | None, list[str]]:
    """The command at the start of `args`, and the rest; no command if help is requested."""
    words = args[:2] if len(args) > 1 and not args[1].startswith("-") else args[:1]
    for n in (2, 1):
        if " ".join(words[:n]) in COMMANDS and len(words) >= n:
            return " ".join(words[:n]), args[n:]
    groups = {name.split()[0] for name in COMMANDS}
    if not args or args[0] in ("-h", "--help") or (words[0] in groups and len(words) == 1):
        return None, args
    name = " ".join(words) if words[0] in groups else words[0]
    close = closest(name, [*COMMANDS, *groups]) or closest(" ".join(words), COMMANDS)
    meant = f": did you mean `gswm {close}`?" if close else ";"
    raise UserError(f"there is no command '{name}'{meant} `gswm --help` lists all commands")


def overview(group: str) -> str:
    """Every command with its description."""
    rows = [(n, c.line) for n, c in COMMANDS.items() if n.split()[0] == group or not group]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {line}" for name, line in rows]
    tail = "`gswm COMMAND --help` lists a command's settings; --debug adds tracebacks to errors."
    return "\n".join(["usage: gswm COMMAND [settings]", "", *lines, "", tail])


def parse(name: str, args: list[str]):
    """The command with its settings, from the command line."""
    command = COMMANDS[name]
    cls = getattr(importlib.import_module(command.module), command.name)
    if hasattr(cls, "from_args"):
        return cls.from_args(args)
    from gswm.commands.parsing import tyro_cli

    return tyro_cli(cls, args, prog=f"gswm {name}", description=command.line)


def one_line(message: Warning | str, category: type[Warning], *where: object) -> str:
    """A warning in one line; warnings of other packages are printed as by Python."""
    if category.__module__.startswith("gswm."):
        return f"gswm: {message}\n"
    return formatted(message, category, *where)

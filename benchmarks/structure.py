"""Structure of a source tree before and after a change: a table as JSON and as Markdown.

    python -m benchmarks.structure --before DIR [--after DIR] --out FILE.json

DIR is a checkout of loopmt. Only its command line, its experiment file and `POST /translate` must work: no name of the
package is imported. Commands run with DIR/src first on the path. Where calls are counted, a function is a named one in
DIR/src; lambdas, comprehensions, class bodies and all that runs during an import are left out.

text to update      Modules with a function that is called, in any thread of the main process of `loopmt train`, from
                    the first opening of a corpus file to the first fused Adam step, or is on the stack at that opening.
                    Bitext trains X>Y, monolingual text X>Y>X. Modules with a name or folder in `APART` count apart.
request to network  One `POST /translate` of one sentence, en>fr, to `loopmt serve`. At the first torch.embedding or
                    torch.layer_norm, all asyncio tasks and thread stacks are read. A function counts if its frame is
                    alive (running or awaiting), and was entered or resumed since FastAPI called the endpoint; in a
                    translating thread of its own, all on the stack count. The endpoint and its callers do not; the
                    network's functions that lead to that torch call do. The second figure is all distinct functions
                    called in that time, returned or not.
path walkers        Functions that translate text along a path, hop by hop: `WALKERS`, a list made by hand. A tree that
                    lacks one needs `--walkers-before COUNT NAME ...` or `--walkers-after COUNT NAME ...`.
classes             Names that `class` statements of two or more modules define.
functions           Lines from `def` to the end, without decorators; methods and inner functions, too.
tests               Strings of six words or more, no docstrings; what is between two fields of an f-string is a string.
                    Pinned: those in an operand of `==`, `!=`, `in` or `not in`, unless a call there takes them, and
                    those in `match=`. A sentence that reaches a comparison through a variable is not seen.
help                CPU seconds, user and system, of `loopmt --help`; median of 7, trees in turns, bytecode compiled.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import http.client
import json
import os
import random
import resource
import runpy
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

Json = dict[str, Any]
APART = {"__main__", "cli", "config", "progress", "terminal", "errors"}
WALKERS = ("model/travel:travel", "workflow/translate:_steps", "serve/walks:_reach", "judge/loops:walk_loops")
LAST = {"train": ("_fused_adamw_", "_fused_adam_"), "serve": ("embedding", "layer_norm")}
CORPORA = "corpora-read"  # the name of the folder; opening a file in it starts recording
EXPERIMENT = f"""
languages = ["en", "fr"]
data = {{ root = "{CORPORA}", bitext.en-fr = "bi", mono = {{ en = "mono", fr = "mono" }}, valid = "valid" }}
vocab.size = 360
model = {{ preset = "tiny", layers = 1, width = 32, feed_forward = 64, heads = 2 }}
train = {{ tokens = 512, max_length = 40 }}
stage = [{{ name = "loops", mix = ["X>Y", "X>Y>X"], updates = 2 }}]
"""
ROWS = {
    "modules from a line of text to the first update": "text_to_update.modules",
    f"... apart: {', '.join(sorted(APART))}": "text_to_update.apart",
    "calls from the endpoint to the network": "request_to_network.calls",
    "... distinct functions called in that time": "request_to_network.functions",
    "path walkers": "path_walkers.count",
    "files in src": "source.files",
    "lines in src": "source.lines",
    "lines per file, median": "source.median",
    "class names defined in more than one module": "classes.repeated",
    "lines per function, median": "functions.median",
    "... 90th percentile": "functions.p90",
    "... longest": "functions.longest",
    "strings of six words or more in tests": "tests.long_strings",
    "... compared or matched": "tests.pinned",
    "`match=` arguments in tests": "tests.match_arguments",
    "CPU seconds of `loopmt --help`": "help.median",
}


# -- recording calls, in the process of the command ------------------------------------------------------------------


def record(tree: str, *words: str) -> None:
    """Run a command of loopmt in this process and write its calls to found.json."""
    recorder = Recorder(f"{tree}/src/loopmt/", LAST[words[0]])
    sys.argv[1:] = words
    if words[0] == "train":
        sys.addaudithook(recorder.audit)
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    runpy.run_module("loopmt", run_name="__main__", alter_sys=True)


@dataclass
class Recorder:
    """Records functions called from a start until a C function in `last` is called."""

    source: str
    last: tuple[str, ...]
    recording: bool = False
    functions: set[str] = field(default_factory=set)
    entered: dict[FrameType, int] = field(default_factory=dict)  # since the endpoint was called, in order
    loop: asyncio.AbstractEventLoop | None = None  # the endpoint's
    callers: list[FrameType] = field(default_factory=list)  # of the endpoint

    def name(self, frame: FrameType) -> str:
        """`module:function`, empty for others."""
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        ours = file.startswith(self.source) and not name.startswith("<")
        return f"{file.removeprefix(self.source).removesuffix('.py')}:{frame.f_code.co_qualname}" if ours else ""

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not self.recording and Path(str(arguments[0])).parent.name == CORPORA:
            self.recording = True
            for frame in stack(sys._getframe()):
                self._note(frame)

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "run_endpoint_function":  # of FastAPI
            self.loop, self.callers, self.recording = asyncio.get_running_loop(), stack(frame), True
        elif self.recording and event == "call":
            self._note(frame)
        elif self.recording and event == "c_call" and getattr(argument, "__name__", "") in self.last:
            self._finish(frame)

    def _note(self, frame: FrameType) -> None:
        name = self.name(frame)
        if not name or frame in self.callers:
            return
        if self.loop:
            self.entered.setdefault(frame, len(self.entered))
        if name not in self.functions and not importing(frame):
            self.functions.add(name)

    def _finish(self, frame: FrameType) -> None:
        self.recording = False
        found = {"functions": sorted(self.functions), "chain": self._chain(frame) if self.loop else []}
        Path("found.json").write_text(json.dumps(found), encoding="utf-8")
        if not self.loop:
            os._exit(0)  # nothing after the first update matters

    def _chain(self, frame: FrameType) -> list[str]:
        """The functions from the endpoint to the network, outermost first."""
        if threading.current_thread() is not threading.main_thread():
            for one in filter(self.name, stack(frame)):
                self.entered.setdefault(one, len(self.entered))
        order = dict(self.entered)
        tasks, threads = asyncio.all_tasks(self.loop), sys._current_frames().values()
        stacks = (*map(awaiting, tasks), *map(stack, threads))
        alive = [entered for frames in stacks if (entered := [one for one in frames if one in order])]
        alive.sort(key=lambda frames: order[frames[0]])
        return [self.name(one) for one in dict.fromkeys(chain.from_iterable(alive))]


def stack(frame: FrameType) -> list[FrameType]:
    """The frames of a stack, outermost first."""
    return [one for one, _ in walk_stack(frame)][::-1]


def awaiting(task: asyncio.Task[Any]) -> list[FrameType]:
    """Frames of a task's coroutines, each awaiting the next."""
    awaited: list[Any] = [task.get_coro()]
    for one in awaited:
        following = (getattr(one, name, None) for name in ("cr_await", "gi_yieldfrom", "ag_await"))
        awaited += [other for other in following if other is not None]
    frames = (getattr(one, name, None) for one in awaited for name in ("cr_frame", "gi_frame", "ag_frame"))
    return [frame for frame in frames if frame is not None]


def importing(frame: FrameType) -> bool:
    return any(one.f_code.co_name == "<module>" and one.f_globals["__name__"] != "__main__" for one in stack(frame))


# -- running commands ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A tree, and a folder with a tiny experiment."""

    tree: Path
    folder: Path

    def start(self, *words: str, recorded: bool = False) -> subprocess.Popen[bytes]:
        """Start a command of the tree's loopmt. Bytecode goes to the folder, so that the tree does not change."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": f"{self.tree / 'src'}", "PYTHONPYCACHEPREFIX": f"{self.folder / 'bytecode'}"}
        how = ["-P", str(Path(__file__).resolve()), "--record", str(self.tree)] if recorded else ["-m", "loopmt"]
        command = [sys.executable, *how, *words]
        with (self.folder / "log.txt").open("wb") as log:
            return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def run(self, *words: str, recorded: bool = False) -> None:
        if self.start(*words, recorded=recorded).wait():
            self.fail(" ".join(words))

    def fail(self, what: str) -> None:
        sys.exit(f"{self.tree}: {what} failed.\n{(self.folder / 'log.txt').read_text(encoding='utf-8')[-3000:]}")

    def found(self) -> Json:
        file = self.folder / "found.json"
        if not file.is_file():
            self.fail("the record")
        content: Json = json.loads(file.read_text(encoding="utf-8"))
        file.unlink()
        return content


def write_experiment(folder: Path) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("aeioulnrst", k=draw.randint(2, 7))) for _ in range(200)]
    (folder / CORPORA).mkdir(parents=True)
    (folder / "tiny.toml").write_text(EXPERIMENT, encoding="utf-8")
    for name in ("bi.en", "bi.fr", "mono.en", "mono.fr", "valid.en", "valid.fr"):
        lines = (" ".join(draw.choices(words, k=draw.randint(4, 10))) for _ in range(200))
        (folder / CORPORA / name).write_text("".join(f"{line}.\n" for line in lines), encoding="utf-8")


def text_to_update(site: Site) -> Json:
    site.run("train", "tiny.toml", "--run", "cut-off", recorded=True)
    modules: dict[str, list[str]] = defaultdict(list)
    for module, _, function in (name.partition(":") for name in site.found()["functions"]):
        modules[module].append(function)
    apart = sorted(module for module in modules if APART & set(module.split("/")))
    names = {module: called for module, called in modules.items() if module not in apart}
    return {"modules": len(names), "apart": len(apart), "names": names, "names_apart": apart}


def request_to_network(site: Site) -> Json:
    site.run("train", "tiny.toml", "--run", "run")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = site.start("serve", "run", "--port", str(port), "--backend", "loopmt", recorded=True)
    while server.poll() is None and not answered(port, {"path": "en>fr", "texts": ["tale sun root."]}):
        time.sleep(0.2)
    server.terminate()
    server.wait(60)
    found = site.found()
    return {"calls": len(found["chain"]) - 1, "functions": len(found["functions"]) - 1, "chain": found["chain"]}


def answered(port: int, body: Json) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", "/translate", json.dumps(body), {"content-type": "application/json"})
        return bool(connection.getresponse().read())
    except ConnectionError:
        return False


def help_seconds(sites: Mapping[str, Site], repeats: int = 7) -> dict[str, Json]:
    times: dict[str, list[float]] = {name: [] for name in sites}
    for name, site in [*sites.items()] * (repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        site.run("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times[name].append(round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3))
    return {name: {"median": statistics.median(found[1:]), "all": found[1:]} for name, found in times.items()}


# -- reading the source ----------------------------------------------------------------------------------------------


def parsed(folder: Path) -> dict[str, list[ast.AST]]:
    """All nodes of each module."""
    files = {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.py"))}
    return {name: list(ast.walk(ast.parse(text))) for name, text in files.items()}


def source(folder: Path) -> Json:
    lines = [len(file.read_text(encoding="utf-8").splitlines()) for file in folder.rglob("*.py")]
    return {"files": len(lines), "lines": sum(lines), "median": statistics.median(lines)}


def classes(modules: Mapping[str, list[ast.AST]]) -> Json:
    places: dict[str, set[str]] = defaultdict(set)
    for module, nodes in modules.items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name].add(module)
    names = {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}
    return {"repeated": len(names), "names": names}


def functions(modules: Mapping[str, list[ast.AST]]) -> Json:
    defined = [
        one for nodes in modules.values() for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in defined]
    p90 = statistics.quantiles(lengths, n=10, method="inclusive")[-1]
    return {"count": len(lengths), "median": statistics.median(lengths), "p90": p90, "longest": max(lengths)}


def tests(modules: Mapping[str, list[ast.AST]]) -> Json:
    nodes = [node for found in modules.values() for node in found]
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    matches = [node for node in nodes if isinstance(node, ast.keyword) and node.arg == "match"]
    pinned = {one for match in matches for one in ast.walk(match) if is_long(one)}
    pinned |= {one for node in nodes if isinstance(node, ast.Compare) for one in compared(node) if is_long(one)}
    long = {node for node in nodes if is_long(node)} - docstrings
    return {"long_strings": len(long), "pinned": len(pinned), "match_arguments": len(matches)}


def is_long(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= 6


def compared(node: ast.Compare) -> Iterator[ast.AST]:
    """The operands and their parts, except arguments of calls."""
    if any(isinstance(one, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for one in node.ops):
        held: list[ast.AST] = [node.left, *node.comparators]
        for one in held:
            held += [] if isinstance(one, ast.Call) else ast.iter_child_nodes(one)
        yield from held


def path_walkers(tree: Path, given: Sequence[str] | None) -> Json:
    if given:
        return {"count": int(given[0]), "names": given[1:]}
    for module, function in (name.split(":") for name in WALKERS):
        file = tree / f"src/loopmt/{module}.py"
        if not file.is_file() or f"def {function}(" not in file.read_text(encoding="utf-8"):
            sys.exit(f"{tree} has no {module}:{function}. List its functions with --walkers-after COUNT NAME ...")
    return {"count": len(WALKERS), "names": WALKERS}


# -- the table -------------------------------------------------------------------------------------------------------


def measure(site: Site) -> Json:
    write_experiment(site.folder)
    modules = parsed(site.tree / "src")
    commit = subprocess.run(["git", "-C", site.tree, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {
        "commit": commit.stdout.strip(),
        "text_to_update": text_to_update(site),
        "request_to_network": request_to_network(site),
        "source": source(site.tree / "src"),
        "classes": classes(modules),
        "functions": functions(modules),
        "tests": tests(parsed(site.tree / "tests")),
    }


def markdown(columns: Mapping[str, Json]) -> str:
    rows = [["measure", *columns], ["---", *("--:" for _ in columns)]]
    for label, place in ROWS.items():
        group, _, name = place.partition(".")
        rows.append([label, *(f"{round(column[group][name], 2):,g}" for column in columns.values())])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def parse() -> Json:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, metavar="DIR")
    parser.add_argument("--after", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json")
    for name in ("before", "after"):
        parser.add_argument(
            f"--walkers-{name}", nargs="+", metavar="WORD", help="the number of functions, then their names"
        )
    return vars(parser.parse_args())


def main() -> None:
    options = parse()
    os.environ["OMP_NUM_THREADS"] = "1"
    trees = {name: options[name].resolve() for name in ("before", "after") if options[name]}
    walkers = {name: path_walkers(tree, options[f"walkers_{name}"]) for name, tree in trees.items()}
    with tempfile.TemporaryDirectory() as folder:
        sites = {name: Site(tree, Path(folder) / name) for name, tree in trees.items()}
        columns = {name: {**measure(site), "path_walkers": walkers[name]} for name, site in sites.items()}
        for name, seconds in help_seconds(sites).items():
            columns[name]["help"] = seconds
    write(columns, options["out"])


def write(columns: Json, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(columns, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(markdown(columns), encoding="utf-8")
    print(markdown(columns))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(*sys.argv[2:])
    else:
        main()

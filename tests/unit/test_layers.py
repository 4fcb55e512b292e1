"""Which package may import which, and what may be done only in some of them. Read from the source."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import loopmt.errors

ROOT = Path(loopmt.errors.__file__).parent
LAYERS = [  # a package may import those of the layers before its own; helpers are for everyone
    {"errors", "rng", "languages"},
    {"path", "files", "external"},
    {"config", "registry"},
    {"synthetic", "theory"},
    {"text", "run"},
    {"model", "commands"},
    {"translate", "lab"},
    {"evaluation", "pretrained"},
    {"planning"},
    {"learn", "serve", "export", "report"},  # never each other
    {"workflow"},
    {"cli", "api"},
    {"__init__", "__main__"},
]
HELPERS = {"progress", "distributed"}
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
MODULES = sorted(ROOT.rglob("*.py"))


def package(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def packages_seen(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[1] for name in node.names if name.name.startswith("loopmt."))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports say where from, in full"
            top, *inner = (node.module or "").split(".")
            if top == "loopmt":
                yield from inner[:1] or (name.name for name in node.names)


def named(file: Path) -> set[str]:
    """Every name and attribute that a module uses."""
    names = {node.id for node in ast.walk(tree(file)) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree(file)) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_package_imports_only_lower_layers(file: Path) -> None:
    here = package(file)
    for there in packages_seen(file):
        if there == here or there in HELPERS:
            continue
        assert here not in HELPERS, f"a helper imports nothing of ours: {there}"
        assert LAYER[there] < LAYER[here], f"{here} imports {there}"


def test_every_package_has_a_layer() -> None:
    assert {package(file) for file in MODULES} <= LAYER.keys() | HELPERS


def test_the_plan_is_drawn_in_the_documentation() -> None:
    """`ARCHITECTURE.md` names every room in the first column of its table."""
    rows = (ROOT.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    drawn = {name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)", row.split("|")[1])}
    assert drawn == (LAYER.keys() | HELPERS) - {"__init__", "__main__"}


def private_names_seen(file: Path) -> Iterator[str]:
    """Names with an underscore that a module takes from another of ours."""
    ours: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("loopmt"):
            ours |= {name.asname or name.name for name in node.names}
            yield from (name.name for name in node.names if _is_private(name.name))
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ours:
            yield from [node.attr] if _is_private(node.attr) else []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_is_private_stays_in_its_module(file: Path) -> None:
    assert not set(private_names_seen(file))


def test_a_class_name_leads_to_one_class() -> None:
    """`Generate` is the settings of a hop; `loopmt.Generate` adds checks for Python callers."""
    classes = [node.name for file in MODULES for node in ast.walk(tree(file)) if isinstance(node, ast.ClassDef)]
    assert {name for name, count in Counter(classes).items() if count > 1} == {"Generate"}


def test_no_module_is_a_drawer_for_everything() -> None:
    assert not [file for file in MODULES if file.stem in {"utils", "util", "helpers", "common", "misc"}]


def test_ranks_are_asked_where_work_is_dealt() -> None:
    """Which process this is matters to who deals rows, seeds dropout and joins the group; `first` is for the rest."""
    asks = {str(file.relative_to(ROOT)) for file in MODULES if "rank" in named(file) and "processes" in named(file)}
    learning = {f"learn/{name}.py" for name in ("gather", "learner", "module", "trainer", "captured", "sharded")}
    assert asks <= learning | {"workflow/generate.py"}


def test_gradients_are_switched_where_networks_are_used() -> None:
    """Switching gradients off belongs to what computes a network, and to the optimizer's own step."""
    switches = {str(file.relative_to(ROOT)) for file in MODULES if "no_grad" in named(file)}
    outside = {file for file in switches if not file.startswith(("model/", "translate/"))}
    modules = {
        "pretrained/generator.py",
        "pretrained/network.py",
        "pretrained/causal.py",
        "pretrained/module_stack.py",
        "export/huggingface.py",
    }
    assert outside <= {f"learn/{name}.py" for name in ("learner", "module", "captured", "sharded")} | modules
    modes = {"eval", "autocast", "inference_mode", "set_grad_enabled"}
    others = {ROOT / "pretrained" / name for name in ("network.py", "causal.py")}  # modules of others have modes
    own = [file for file in MODULES if file not in others]
    assert not [file for file in own if modes & named(file)], "dropout and precision are arguments, not modes"


def modules_seen(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_no_pickle_is_written_or_read() -> None:
    for file in MODULES:
        assert not {"pickle", "dill", "joblib", "shelve", "marshal", "yaml"} & set(modules_seen(file)), file
        text = file.read_text(encoding="utf-8")
        assert not any(word in text for word in ("torch.save(", "torch.load(", "np.load(", "np.save(")), file


def test_no_text_is_run_as_a_program() -> None:
    for file in MODULES:
        called = {node.func for node in ast.walk(tree(file)) if isinstance(node, ast.Call)}
        assert not {"eval", "exec", "compile", "__import__"} & {f.id for f in called if isinstance(f, ast.Name)}, file
        keywords = {word.arg for node in ast.walk(tree(file)) if isinstance(node, ast.Call) for word in node.keywords}
        assert "shell" not in keywords and not {"system", "popen"} & named(file), file


def test_help_needs_no_torch() -> None:
    """What `loopmt --help` imports, it imports at the top of the command line's modules."""
    for file in MODULES:
        if package(file) in {"cli", "path", "errors", "config", "progress", "__main__"}:
            top = [node for node in tree(file).body if isinstance(node, ast.Import | ast.ImportFrom)]
            names = {
                (node.module or "").split(".")[0]
                if isinstance(node, ast.ImportFrom)
                else node.names[0].name.split(".")[0]
                for node in top
            }
            assert not names & {"torch", "numpy", "sentencepiece", "sacrebleu", "transformers"}, file

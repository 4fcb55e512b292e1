"""Functions by name: registered, imported from a module, run as a program; and the error messages of each."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from loopmt.errors import ConfigError, ExternalError
from loopmt.external import Command
from loopmt.registry import Registry

ROWS = [["a", "b c"], ["d\te", "f\ng"], ["h", "ü"]]


@dataclass(frozen=True)
class Tool:
    name: str
    function: Callable[[int], int]
    size: int = 1


def twice(value: int) -> int:
    return 2 * value


def as_function(command: Command) -> Callable[[int], list[float]]:
    return lambda value: command.numbers([[str(value)]], 10)


@pytest.fixture
def tools() -> Registry[Tool]:
    found: Registry[Tool] = Registry("tool", Tool, as_function)
    found.register("twice", size=3)(twice)
    found.register("shovel")(lambda value: value)
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder for modules, which are removed after the test."""
    monkeypatch.chdir(tmp_path)
    known, places = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = places
    for name in set(sys.modules) - known:
        del sys.modules[name]


def program(file: Path, text: str, shebang: str = f"#!{sys.executable}\n") -> str:
    file.write_text(shebang + text, encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return f"command:{file}"


# -- registered ------------------------------------------------------------------------------------------------


def test_a_registered_name_has_its_function_and_facts(tools: Registry[Tool]) -> None:
    assert list(tools) == ["twice", "shovel"]
    assert tools.find("twice").function(4) == 8 and tools.find("twice").size == 3


def test_the_error_of_an_unknown_name_lists_the_known_ones(tools: Registry[Tool]) -> None:
    with pytest.raises(ConfigError) as failed:
        tools.find("twise")
    assert all(word in str(failed.value) for word in ('tool "twise"', 'Did you mean "twice"', "shovel", "command:"))
    with pytest.raises(ConfigError):
        tools.check("zzz")
    tools.check("no_such_module:function")  # what is outside is looked up only when it is needed


def test_a_name_is_registered_once(tools: Registry[Tool]) -> None:
    tools.register("twice")(twice)
    with pytest.raises(ConfigError, match=r"twice.*test_registry\.twice.*test_registry\.as_function"):
        tools.register("twice")(as_function)
    with pytest.raises(ConfigError, match="a:b"):
        tools.register("a:b")(twice)


# -- module:function -------------------------------------------------------------------------------------------


def test_a_function_is_imported_from_the_current_folder(tools: Registry[Tool], here: Path) -> None:
    (here / "own_tools.py").write_text("def thrice(value):\n    return 3 * value\n")
    found = tools.find("own_tools:thrice")
    assert (found.name, found.function(4)) == ("own_tools:thrice", 12)


def test_an_imported_function_that_registers_itself_keeps_its_facts(tools: Registry[Tool], here: Path) -> None:
    sys.modules["tools_of_this_test"] = type(sys)("tools_of_this_test")
    sys.modules["tools_of_this_test"].TOOLS = tools  # type: ignore[attr-defined]
    text = (
        "from tools_of_this_test import TOOLS\n@TOOLS.register('half', size=7)\ndef half(value):\n    return 1 / value"
    )
    (here / "halving.py").write_text(text)
    found = tools.find("halving:half")
    assert (found.name, found.size, found.function(2)) == ("half", 7, 0.5)
    with pytest.raises(ExternalError, match=r'tool "half".*ZeroDivisionError.*halving\.py, line 4'):
        found.function(0)


@pytest.mark.parametrize(
    ("reference", "text", "facts"),
    [
        ("absent:one", None, ['"absent"', "PYTHONPATH"]),
        ("broken:one", "import nowhere_to_be_found", ['"broken"', '"nowhere_to_be_found"']),
        ("broken:one", "1 / 0", ['"broken"', "ZeroDivisionError", "broken.py, line 1"]),
        ("broken:one", "def one(:", ['"broken"', "SyntaxError", "line 1"]),
        ("other:one", "def two(): pass", ["other.py", '"one"', "two"]),
        ("other:one", "one = 1\ndef two(): pass", ["other.py", '"one"', "two"]),
        (":one", None, [":one"]),
    ],
)
def test_import_errors_name_module_and_cause(
    tools: Registry[Tool], here: Path, reference: str, text: str | None, facts: list[str]
) -> None:
    if text is not None:
        (here / f"{reference.partition(':')[0]}.py").write_text(text)
    with pytest.raises(ConfigError) as failed:
        tools.find(reference)
    assert all(fact in str(failed.value) for fact in ["tool", reference, *facts])


# -- command:PROGRAM -------------------------------------------------------------------------------------------


def numbers(reference: str, timeout: float = 20) -> list[float]:
    return Command.parse(reference).numbers(ROWS, timeout, ("en", "fr"))


def test_a_program_reads_rows_and_prints_a_number_for_each(tmp_path: Path) -> None:
    text = """import os, sys
for line in sys.stdin:
    print(len(line.rstrip("\\n").split("\\t")[1]) + 10 * (os.environ["LOOPMT_SOURCE"] == "en"))
"""
    found = program(tmp_path / "a program.py", text)
    assert numbers(found.replace(" program", "\\ program")) == [13, 13, 11]
    quoted = f'command:{sys.executable} -c "print(1); print(2.5); print(-3e-1)"'
    assert numbers(quoted) == [1, 2.5, -0.3]
    assert Command.parse("command:false").numbers([], 1) == [], "no rows, no run"


def test_many_rows_do_not_block() -> None:
    """More text than a pipe holds, to a program that prints before it has read all."""
    rows = [["word " * 50] for _ in range(20_000)]
    assert Command.parse("command:sed s/.*/1/").numbers(rows, 60) == [1.0] * len(rows)


def test_the_home_folder_may_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program(tmp_path / "three.py", "print('1\\n2\\n3')")
    assert numbers("command:~/three.py") == [1, 2, 3]


def test_a_program_is_found_in_a_registry(tools: Registry[Tool]) -> None:
    assert tools.find("command:cat").function(5) == [5.0]  # type: ignore[comparison-overlap]
    plain: Registry[Tool] = Registry("spade", Tool)
    with pytest.raises(ConfigError, match=r'spade "command:cat".*module:function'):
        plain.find("command:cat")


@pytest.mark.parametrize(
    ("reference", "facts"),
    [
        ("command:", ["command:PROGRAM"]),
        ("command:cat 'x", ["quotation"]),
        ("command:no-such-program -x", ["no-such-program", "executable"]),
        ("command:/dev/null", ["/dev/null", "executable"]),
    ],
)
def test_missing_programs(reference: str, facts: list[str]) -> None:
    with pytest.raises(ConfigError) as failed:
        Command.parse(reference)
    assert all(fact in str(failed.value) for fact in [reference, *facts])


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("import sys\nprint('no model', file=sys.stderr)\nsys.exit(3)", ["exit code 3", "no model"]),
        ("print(1)", ["1 line ", "3 rows"]),
        ("print('1\\n2\\n3\\n4')", ["4 lines", "3 rows"]),
        ("while True: print('y')", ["400 bytes"]),
        ("print('1\\nnone\\n3')", ["line 2", "none"]),
        ("print('1\\nnan\\n3')", ["line 2", "nan"]),
        ("print('1\\n2\\n\\x1b[31m')", ["line 3", "\\x1b"]),
        ("import sys\nsys.stdout.buffer.write(b'1\\n2\\n\\xff\\n')", ["line 3"]),
        ("import os\nos.kill(os.getpid(), 9)", ["exit code -9"]),
    ],
)
def test_programs_that_fail(tmp_path: Path, text: str, facts: list[str]) -> None:
    found = program(tmp_path / "bad.py", text)
    with pytest.raises(ExternalError) as failed:
        numbers(found)
    assert all(fact in str(failed.value) for fact in [found, *facts])


def test_a_file_that_is_not_executable_code(tmp_path: Path) -> None:
    found = program(tmp_path / "odd", "\x00\x01", shebang="")
    with pytest.raises(ExternalError, match="odd cannot be run"):
        numbers(found)


@pytest.mark.parametrize("text", ["sleep 60", "sleep 60 &\nexit 0", "exec >&-\nsleep 60"])
def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path, text: str) -> None:
    """Also if only a child keeps the output open, and if the output ends but the program does not."""
    found = program(tmp_path / "slow.sh", f"echo $$ > {tmp_path / 'group'}\n{text}\n", shebang="#!/bin/sh\n")
    began = time.monotonic()
    with pytest.raises(ExternalError, match=r"slow\.sh.*1 seconds.*timeout"):
        numbers(found, timeout=1)
    assert time.monotonic() - began < 20
    assert soon_ended(int((tmp_path / "group").read_text()))


def soon_ended(group: int) -> bool:
    """Killed processes take a moment to end."""
    deadline = time.monotonic() + 20
    while alive(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(group)


def alive(group: int) -> bool:
    """Whether a process of a group is running."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def test_an_interrupt_ends_the_program(tmp_path: Path) -> None:
    text = f"sleep 0.3\necho $$ > {tmp_path / 'group'}\nsleep 60\n"
    found = program(tmp_path / "slow.sh", text, shebang="#!/bin/sh\n")

    def interrupt() -> None:
        while not (tmp_path / "group").exists() or not (tmp_path / "group").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), 2)

    Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        numbers(found)
    assert soon_ended(int((tmp_path / "group").read_text()))

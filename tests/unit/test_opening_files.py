"""Every call that opens a file is one of the checked helpers, or has a reason here. Read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopmt.errors

ROOT = Path(loopmt.errors.__file__).parent
FUNCTIONS = {  # that open a file, by their last name, whatever module they are taken from
    *(
        "fdopen",
        "fromfile",
        "tofile",
        "memmap",
        "mmap",
        "safe_open",
        "load_file",
        "save_file",
        "copyfile",
        "copyfileobj",
    ),
    *("copy2", "copytree", "ZipFile", "TarFile", "GzipFile", "LZMAFile", "ZstdFile", "FileIO", "TemporaryFile"),
    *("NamedTemporaryFile", "iterparse", "ParquetFile", "genfromtxt", "loadtxt", "savetxt", "read_table", "read_csv"),
}
METHODS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "touch"}
OF_MODULES = {"json": {"load"}, "tomllib": {"load"}, "np": {"load", "save", "savez"}, "torch": {"load", "save"}}
KEYWORDS = {"model_file", "filename"}  # of libraries that open a file that they are given


def opening(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in {"open", *FUNCTIONS}:
                yield node.func.id
            elif isinstance(node.func, ast.Attribute) and _opens(node.func):
                yield ast.unparse(node.func)
            yield from (f"{ast.unparse(node.func)}({word.arg}=)" for word in node.keywords if word.arg in KEYWORDS)


def _opens(function: ast.Attribute) -> bool:
    owner = ast.unparse(function.value)
    if function.attr in FUNCTIONS | OF_MODULES.get(owner, set()):
        return True
    own_class = owner[:1].isupper() and owner.isidentifier() and owner != "Path"  # Run.open, Store.open
    return function.attr in METHODS and not own_class


SCRATCH = "a new file in a folder that this process has just made"
OWN = "part of the package"
CHECKED = "opened and checked before by `reading`, and its checksum where it has one"
ALLOWED = {
    "export/ct2.py": {
        "(folder / 'README.md').write_text": SCRATCH,
        "(folder / 'source.spm').write_bytes": SCRATCH,
        "(folder / 'target.spm').write_bytes": SCRATCH,
        "sentencepiece.SentencePieceProcessor(model_file=)": "of an export that this process has just written",
    },
    "export/huggingface.py": {
        "(folder / 'README.md').write_text": SCRATCH,
        "file.write_text": SCRATCH,
        "save_file": SCRATCH,
    },
    "export/pretrained.py": {"(folder / 'README.md').write_text": SCRATCH, "shutil.copyfile": SCRATCH},
    "export/tokenizer.py": {
        "(folder / 'tokenizer_config.json').write_text": SCRATCH,
        "(folder / name).write_bytes": SCRATCH,
        "(folder / table).write_text": SCRATCH,
    },
    "external.py": {"TemporaryFile": "a file without a name"},
    "files/lock.py": {"os.open": "a folder, for its lock (O_DIRECTORY)"},
    "files/regular.py": {
        "file.open": "a pipe of the shell, which has a writer",
        "os.fdopen": "the checked helper itself",
        "os.open": "the checked helper itself",
        "shutil.copyfile": "the checked helper itself",
        "shutil.copytree": "the checked helper itself",
    },
    "planning/paper.py": {"file.read_text": OWN},
    "pretrained/importing.py": {
        "(into / file.name).open": SCRATCH,
        "shutil.copyfileobj": "between two open streams",
    },
    "pretrained/lora.py": {"(folder / 'adapter_config.json').write_text": SCRATCH, "save_file": SCRATCH},
    "planning/predictor.py": {"files('loopmt.planning').joinpath('predictor.json').read_text": OWN},
    "pretrained/tensors.py": {"load_file": CHECKED},
    "pretrained/untrusted.py": {"safe_open": CHECKED},
    "report/page.py": {"(resources.files('loopmt.report') / name).read_text": OWN},
    "run.py": {
        "load_file": CHECKED,
        "os.open": "a file or folder that this process has just written, for fsync",
        "safe_open": CHECKED,
        "save_file": SCRATCH,
    },
    "serve/pages.py": {"files('loopmt.serve').joinpath(name).read_text": OWN},
    "synthetic/corpora.py": {"path.open": SCRATCH},
    "synthetic/grammar.py": {"record.open": "no file: a part of speech"},
    "text/archives.py": {
        "file.open": "a member of an archive whose stream is checked",
        "gzip.open": "a stream that is checked",
        "tarfile.open": "a stream that is checked",
        "zipfile.ZipFile": "a stream that is checked",
    },
    "text/clean.py": {"np.fromfile": SCRATCH, "path.open": SCRATCH},
    "text/parquet.py": {"ParquetFile": "a stream that is checked"},
    "text/passes.py": {"np.memmap": SCRATCH, "path.open": SCRATCH, "self._marks.open": SCRATCH},
    "text/sampling.py": {"(folder / name).open": SCRATCH, "file.open": SCRATCH},
    "text/store.py": {"np.memmap": "a stream that is checked", "path.open": SCRATCH},
    "text/vocab.py": {"(folder / 'vocab.json').write_text": SCRATCH, "(folder / f'{name}.model').write_bytes": SCRATCH},
    "workflow/doctor.py": {"_CORE_TIMES.read_text": "/proc/stat"},
    "translate/chat.py": {"_opener(self.url).open": "a request to a server, not a file"},
    "workflow/memory.py": {"file.read_text": "a file of the kernel, of one number"},
}


def test_files_are_opened_by_the_checked_helpers() -> None:
    found = {
        str(file.relative_to(ROOT)): set(opening(ast.parse(file.read_text("utf-8")))) for file in ROOT.rglob("*.py")
    }
    assert {name: calls for name, calls in found.items() if calls} == {
        name: set(calls) for name, calls in ALLOWED.items()
    }


@pytest.mark.parametrize(
    "call",
    [
        *("open('x')", "Path('x').open()", "file.read_text()", "(folder / 'x').read_bytes()", "file.write_text('x')"),
        *("io.open('x')", "np.load('x')", "np.fromfile(file)", "json.load(stream)", "gzip.open('x')", "safe_open('x')"),
        *("tarfile.open('x')", "zipfile.ZipFile('x')", "os.open('x', 0)", "tomllib.load(stream)", "torch.load('x')"),
        *("SentencePieceProcessor(model_file='x')", "shutil.copyfile('x', 'y')", "safetensors.torch.load_file('x')"),
    ],
)
def test_a_call_that_opens_a_file_is_seen(call: str) -> None:
    assert list(opening(ast.parse(call)))

"""The rules of the house that no reviewer should have to remember."""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

import chaffinch

ROOT = Path(__file__).parents[2]
ROOMS = ("flows", "tasks", "storage")
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

NEVER_CALLED = {"print", "eval", "exec", "breakpoint"}
NEVER_IMPORTED = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
# it also loads pickles
SAFE_OF_JOBLIB = ("Parallel", "delayed", "hash", "cpu_count", "effective_n_jobs")

KERNELS = {"compiled", "reordering", "inlined"}
# Made by the compiler in one kind for each type. Of others, such as its sorts, there are several
# kinds that it may take for each other once they are kept on disk; see masked_loss/numba_tools.py.
SAFE_IN_KERNELS = {
    *("arange", "array", "empty", "full", "zeros", "exp", "log", "sqrt"),
    *("astype", "copy", "max", "min", "sum", "type", "view"),
    *("float32", "float64", "int16", "int64", "uint64"),
}


@cache
def nodes():
    """Return the nodes of each file."""
    return {path: list(ast.walk(ast.parse(path.read_text()))) for path in FILES}


def test_rooms_import_only_what_they_may():
    script = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def of_type(*kinds):
    """Yield each node of these types in any file, and where it stands."""
    for path, found in nodes().items():
        for node in found:
            if isinstance(node, kinds):
                yield node, f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def test_every_file_opens_with_a_docstring():
    assert [at for node, at in of_type(ast.Module) if not ast.get_docstring(node)] == []


def test_no_check_can_be_switched_off_and_nothing_executes_what_it_loads():
    assert [at for _, at in of_type(ast.Assert)] == []
    for node, at in of_type(ast.Call):
        assert getattr(node.func, "id", None) not in NEVER_CALLED, at
    for node, at in of_type(ast.Import, ast.ImportFrom):
        modules = [getattr(node, "module", None) or "", *(name.name for name in node.names)]
        if modules[0] == "joblib":
            modules = [name for name in modules[1:] if name not in SAFE_OF_JOBLIB]
            assert not modules, at
        assert not NEVER_IMPORTED & {module.partition(".")[0] for module in modules}, at


def test_no_random_state_is_global():
    never = r"np\.random\.(?!default_rng|Generator|PCG64\(|SeedSequence|RandomState\()"
    never = re.compile(rf"{never}|torch\.manual_seed|^import random", re.MULTILINE)
    assert [path for path in FILES if never.search(path.read_text())] == []


def test_what_is_compiled_into_a_kernel_stands_in_its_file():
    # a kernel kept on disk is compiled again when its own file changes, not when another does
    for node, at in of_type(ast.FunctionDef):
        kinds = {getattr(decorator, "id", None) for decorator in node.decorator_list}
        assert "inlined" not in kinds or node.name.startswith("_"), at
    for node, at in of_type(ast.ImportFrom):
        assert not any(name.name.startswith("_") for name in node.names), at


def test_a_kernel_calls_nothing_that_the_compiler_could_mistake():
    kernels = [
        (node, at)
        for node, at in of_type(ast.FunctionDef)
        if not KERNELS.isdisjoint(getattr(d, "id", None) for d in node.decorator_list)
    ]
    assert kernels
    for kernel, at in kernels:
        for call in ast.walk(kernel):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                assert call.func.attr in SAFE_IN_KERNELS, f"{at} {kernel.name}: {call.func.attr}"


def errors_raised_by(function):
    """Yield the errors, ours or ValueError, that a function raises in its own body."""
    source = textwrap.dedent(inspect.getsource(function))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = getattr(node.exc.func, "id", "")
            if name in ("InputError", "StorageError", "WorkersError", "ValueError"):
                yield name


@pytest.mark.parametrize("name", chaffinch.__all__)
def test_everything_public_has_a_docstring_with_its_errors(name):
    thing = getattr(chaffinch, name)
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return
    assert inspect.getdoc(thing)
    functions = [thing] if inspect.isfunction(thing) else vars(thing).values()
    for function in functions:
        if not inspect.isfunction(function) or function.__name__.startswith("_"):
            continue
        if not function.__module__.startswith("chaffinch."):
            continue
        docstring = inspect.getdoc(function)
        assert docstring, f"{name}.{function.__name__} has no docstring"
        for error in errors_raised_by(function):
            assert error in docstring, f"{function.__name__} does not document {error}"

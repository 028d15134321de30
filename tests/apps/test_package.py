"""The package as Python sees it: its names, its types, and how it is started."""

import subprocess
import sys
from importlib.resources import files

import boustro
from boustro.apps.cli.known import usage


def test_dir_lists_the_public_names_before_they_are_used():
    code = "import sys, boustro; print(*dir(boustro)); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(boustro.__all__) <= set(done.stdout.split()) and "__version__" in done.stdout.split()


def test_python_m_boustro_is_the_command():
    done = subprocess.run([sys.executable, "-m", "boustro", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == usage() + "\n"


def test_type_checkers_are_told_that_the_package_has_types():
    assert (files("boustro") / "py.typed").is_file()

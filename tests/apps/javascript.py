"""JavaScript of the package, run by Node: `run_js("return planWindows(...given)", given, "reading.js")`."""

import json
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node, which is not installed")
WEB = Path(str(files("boustro.apps.export"))) / "web"
RUNTIME = os.environ.get("BOUSTRO_ONNXRUNTIME_WEB", "")
WITHOUT = pytest.mark.skipif(
    not RUNTIME, reason="needs onnxruntime-web: npm install it, and name its folder in BOUSTRO_ONNXRUNTIME_WEB"
)


def needs_runtime(test):
    """Mark a test that needs onnxruntime-web; `make test-web` runs these alone."""
    return pytest.mark.web(WITHOUT(test))


def run_js(body: str, given, *modules: str):
    """What the body of an asynchronous function of `given` returns; the names that the modules export are there."""
    assert NODE is not None
    imports = "".join(f"import * as m{n} from {json.dumps(_address(name))};\n" for n, name in enumerate(modules))
    names = "".join(f"Object.assign(globalThis, m{n});\n" for n in range(len(modules)))
    script = f"""{imports}{names}
    import fs from "node:fs";
    const given = JSON.parse(fs.readFileSync(0, "utf-8"));
    const run = async () => {{ {body} }};
    process.stdout.write(JSON.stringify(await run()));
    """
    command = [NODE, "--input-type=module", "-e", script]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _address(name: str) -> str:
    return (WEB / name if "/" not in name else Path(name)).resolve().as_uri()

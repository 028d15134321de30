"""A trained folder as graphs of ONNX, which `boustro.apps.runtime` runs without torch."""

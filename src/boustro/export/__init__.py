"""A trained folder as graphs of ONNX, which `boustro.runtime` runs without torch."""

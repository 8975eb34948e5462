"""The export of trained models to ONNX, so that they run without torch (extra `export`)."""

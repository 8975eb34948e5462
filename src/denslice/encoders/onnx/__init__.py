"""Trained models as ONNX files that run without torch (extra `export`)."""

"""A certifier in another runtime: the ONNX graph, its calibration and its folder."""

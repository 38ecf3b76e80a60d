"""The runtime on the robot: numpy and onnxruntime only."""

"""Three reference platform services on the service SDK: OCR, EMBEDDING and SIS (docs/guides/platform-services.md).

Each service is a folder whose `step.py` has a class with the methods of `lucius_service.step.Step`, and `build`, which
creates it from the environment. This package imports nothing of the control plane or of its emulators.
"""

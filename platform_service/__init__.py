"""Reference platform services on the service SDK: OCR, EMBEDDING, SIS and PACK (docs/guides/platform-services.md).

Each service is a folder whose `step.py` has a class with the methods of `lucius_service.step.Step`, and `build`, which
creates an object of the class from the environment. This package does not import the control plane or its emulators.
"""

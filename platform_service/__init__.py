"""Reference platform services, and the skeleton to fork for your own (FEATURES K1, S3 13.3).

A service takes directives from `global-bus-p{lane}`, does one step's work on blobs, and answers with ACK, HEARTBEAT
and RESULT on `global-bus-replies-p{lane}`. It knows the messages and nothing else of LUCIUS: this package imports
neither `shared` nor `emulator`. A new service is one module with a class like `step.Step`: its payload's validation
and `execute()`; everything else here is kept as it is (docs/platform-services.md).
"""

"""Messages made from proto/serve.proto by `make proto`; a test fails when they are out of date."""

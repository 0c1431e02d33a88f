"""Messages made from proto/ps.proto by `make proto`; a test fails when they are out of date."""

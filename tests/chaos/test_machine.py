"""The state machine over the wire, in its short form; `make chaos` lets it run for longer."""

from hypothesis import HealthCheck, settings

from tests.chaos.machine import Wire

TestWire = Wire.TestCase
TestWire.settings = settings(
    max_examples=6, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)

"""Has pytest explain what fails in the suites."""

import pytest

pytest.register_assert_rewrite("tests.conformance.sandbox_suite", "tests.conformance.command_suite")

"""What a report counts."""

from intaglio.conformance.report import Report
from intaglio.conformance.result import Outcome, Result


def result(name: str, outcome: Outcome, is_compiled: bool) -> Result:
    """A test's result that has no operators and no distances."""
    return Result(name, outcome, is_compiled=is_compiled)


def test_what_passes_by_chance_is_not_counted() -> None:
    results = [result("test_relu", "passed", True), result("test_lrn", "passed", False)]
    for is_equal_by_chance in (True, False):
        report = Report("engine", [*results, result("test_bernoulli", "random", is_equal_by_chance)], is_native=True)
        assert report.compiled == 1
        assert report.counts == {"passed": 2, "failed": 0, "declined": 0, "random": 1}

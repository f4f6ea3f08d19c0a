"""What drivers return."""

CANCELLED, ROUNDS, ASSUMPTION, REQUIREMENT, OVERFLOW, FAULT = 1, 2, 3, 4, 5, 16
"""What a driver returns: stopped, a loop with too many rounds, sizes that break an assumption or that do not
fit each other or 64 bits, and FAULT + i when the i-th action (in the order of `walk`) met a value that its operator
forbids."""

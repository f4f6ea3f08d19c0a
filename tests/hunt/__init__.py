"""A hunt for wrong answers: sampled models, run by both engines and judged by others.

`python -m tests.hunt --kind operators --seeds 0:100` hunts, `docs/testing.md` tells how it works. A seed stands for one
model and what is fed to it; `generators` has the kinds of models, `judging` decides, `shaking` knows how far rounding
may carry, `children` keeps crashes away from the hunt, `minimise` turns a finding into a test.
"""

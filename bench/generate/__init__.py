"""Builders of the benchmark models: real topologies with random weights, scaled so that activations stay in range."""

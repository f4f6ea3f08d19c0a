"""Running models: sessions, engines, inputs, limits."""

"""What users hold: models, how they are loaded, fed and explained."""

"""What the tests share: models, tolerances, processes."""

"""Pictures of tuning results. matplotlib (the extra "plot") is imported when one is drawn."""

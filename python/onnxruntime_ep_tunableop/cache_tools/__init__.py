"""Files of tuning results: read, shown, compared, merged, cut down. Nothing here prints."""

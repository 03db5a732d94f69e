"""`secondary-scheduler validate`: every mistake in configuration and stack files, with its place."""

"""What a run leaves behind: each file, with its writer and its readers."""

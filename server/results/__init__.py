"""What a run leaves behind: its summary, and the lines that it prints."""

"""What the papers on private trees print, beside what ours do."""

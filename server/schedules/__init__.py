"""In which order the phases run, and when what came of them is committed."""

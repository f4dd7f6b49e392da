"""What stays on the user's disk between runs, and is used only where no other user can have written it."""

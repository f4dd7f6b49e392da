"""Files kept on the user's disk between runs, and used only if no other user can have written them."""

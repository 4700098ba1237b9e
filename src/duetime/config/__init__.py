"""From what an operator wrote to checked settings, and from what is wrong with it to sentences."""

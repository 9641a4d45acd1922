"""Text → token ids → rows of one fixed length."""

"""What one column of raw cells, of any Arrow type, becomes under the feature that reads it."""

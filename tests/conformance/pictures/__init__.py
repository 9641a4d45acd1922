"""Pictures of every subtype that strangers have: made, damaged, and held against what Pillow reads."""

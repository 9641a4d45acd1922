"""What keeps a step sound: bad ones are left out, and batches keep their shape."""

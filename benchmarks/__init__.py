"""What commands cost beside peers and earlier commits, and how often the gate is right.

The files here are commands, which may import any room; no room imports them. reading/ serves input, hosts,
position, shuffle and window; conversion/ convert; training/ train; release/ gate; accelerator/ metal. peers/
runs in build/peers (make peers), keras_on_jax.py beside JAX; it may import reading/ alone.
"""

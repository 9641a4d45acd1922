"""Sends recorded requests to a model server, as its clients do: TensorFlow Serving's REST or gRPC.

Start with ask.py.
"""

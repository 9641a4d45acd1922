"""A TFRecord dataset → a trained, evaluated, exported, published model. The files here are the commands.

Every folder is a room: data/ reads datasets, feed/ certifies the input, training/ trains, exporting/ saves a
model, serving/ checks it, gate/ compares models, publishing/ serves versions, retraining/ does all of it on a
schedule. base/ and report/ serve all rooms; configs/ holds one experiment a file.
"""

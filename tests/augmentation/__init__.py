"""`make augmentation-check`: what becomes of training images, beside torchvision and its Pillow."""

"""The names of the input of an exported graph."""

IMAGES = "images"
NOISY_IMAGES = "noisy_images"
"""The name if queries have secret noise, which is added before the graph."""

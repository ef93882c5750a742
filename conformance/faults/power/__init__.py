"""Loss of power: an image file behind a loop device whose file system is shut down."""

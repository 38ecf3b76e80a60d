"""From a controller to a file that is proved equal."""

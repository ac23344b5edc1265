"""`parley doctor`: checks of a deployment, each reported as one finding."""

"""Tools of the people who run Parley: the Python files of a folder, and installed packages."""

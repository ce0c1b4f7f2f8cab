"""Python that runs when the book is built: the Sphinx extension and the guard pages."""

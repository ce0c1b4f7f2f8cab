"""The published book: pages, and under ``site`` the Python that makes them."""

"""Guards: what each system refuses, as tables that answer with numbers."""

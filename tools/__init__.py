"""Scripts that build and maintain the project; run them through make."""

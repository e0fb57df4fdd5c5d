"""Features of audio recordings."""

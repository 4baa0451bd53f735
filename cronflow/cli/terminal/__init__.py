"""The terminal: tables, output formats, times, formatting, live frames, prompts."""

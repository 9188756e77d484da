"""The live view: a widget in Python, and the scripts and the style that a browser runs."""

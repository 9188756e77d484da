"""What a reader does, done in Chromium: JupyterLab with the notebooks, and the pages and slides made from them."""

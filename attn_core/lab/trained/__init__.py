"""A model that others have trained: its weights in our layers, what its heads look at, and what each is good for."""

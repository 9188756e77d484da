"""Models made of the course's own attention: an encoder, three translators, and BERT as others have trained it."""

"""Models made of the course's own attention: an encoder, a language model, three translators, and BERT as others have
trained it.
"""

"""Static figures: panels as pictures, curves with intervals, and the wall of maps."""

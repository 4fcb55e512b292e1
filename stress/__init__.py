"""What is too long for every commit: rubbish by the ten thousand, and whatever else wears a toolkit out."""

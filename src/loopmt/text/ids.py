"""Ids that mean the same in every vocabulary."""

PAD, EOS, UNK = 0, 1, 2  # a decoder starts from padding: there is no begin

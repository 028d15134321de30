"""The geometry of word vectors: how alike they are without reason, and what standardising and whitening change."""

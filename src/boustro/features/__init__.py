"""From examples to what heads read: `Reader`, the only path from sentences to vectors."""

"""`boustro guard`: a proxy before an OpenAI-compatible server that lets no text pass which its tagger has not read."""

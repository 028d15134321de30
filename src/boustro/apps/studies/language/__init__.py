"""Any language in an hour: from raw text and labelled sentences to tokenizer, pair, tagger and report."""

"""`boustro label`: a tagger that learns while a person labels. The session knows no HTTP; `app` serves it to a page."""

"""The lab: training of language models and studies of them. It uses the core, and no application."""

"""Pictures as SVG text, for reports and for the pages of the service."""

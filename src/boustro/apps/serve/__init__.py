"""The service, the batch job, and the pages: what takes trained folders to their users."""

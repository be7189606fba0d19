"""What has happened, for the journal, for scripts of the user, and as metrics."""

"""The report of a benchmark run: one HTML page that needs nothing else, a summary in Markdown and a plot for the README."""

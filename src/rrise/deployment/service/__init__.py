"""The service: certificates over HTTP, and its page."""

"""The host API over loopback HTTP and WebSocket. Imported only where a host listens."""

"""The only read path: what stands in the log and its views, made ready to be shown. Reading never writes."""

from tallystick.app.views.views import Views

__all__ = ["Views"]

"""What Redline is made of: packages, their versions and licences."""

from app.window.about.components import Component, components
from app.window.about.dialog import LicencesDialog

__all__ = ["Component", "LicencesDialog", "components"]

"""Tools in the form that a model provider takes, and a model's call back: pure (API design §8)."""

from connectors.provider_profiles.calls import ModelCall, read_call, result_message
from connectors.provider_profiles.exports import Dropped, Export, Exportable, export
from connectors.provider_profiles.rules import PROFILES, Format

__all__ = [
    "PROFILES",
    "Dropped",
    "Export",
    "Exportable",
    "Format",
    "ModelCall",
    "export",
    "read_call",
    "result_message",
]

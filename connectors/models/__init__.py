"""Rows of the connectors package, one file a thing."""

from connectors.models.browser_storage import BrowserRecord
from connectors.models.catalog import CatalogListing, CatalogTool, ListingKind
from connectors.models.connection import Connection, TimelineEntry
from connectors.models.connector import Connector
from connectors.models.custom_server import CustomServer
from connectors.models.input_request import InputKind, InputRequest, InputState
from connectors.models.tool_call import CallStatus, ToolCall

__all__ = [
    "BrowserRecord",
    "CallStatus",
    "CatalogListing",
    "CatalogTool",
    "Connection",
    "Connector",
    "CustomServer",
    "InputKind",
    "InputRequest",
    "InputState",
    "ListingKind",
    "TimelineEntry",
    "ToolCall",
]

"""The runs R01 … R47 of the reliability plan, by what breaks; importing them registers them."""

from chaos.runs import endurance, signing_in, sockets, stores, tenants, upstream, workers
from chaos.verdict import RUNS

__all__ = ["RUNS", "endurance", "signing_in", "sockets", "stores", "tenants", "upstream", "workers"]

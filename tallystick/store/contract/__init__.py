"""The checker of stores: what every implementation of `Store` and `Maintenance` has to pass."""

from tallystick.store.contract.cases import CASES, check_store
from tallystick.store.contract.samples import FullStore, Place, random_history, same_answers

__all__ = ["CASES", "FullStore", "Place", "check_store", "random_history", "same_answers"]

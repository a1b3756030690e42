"""The hub: capabilities that programs of any kind offer and reach for, over REACH-RPC."""

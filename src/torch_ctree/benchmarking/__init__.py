"""How fast it is on this machine: what ``ctree bench`` measures."""

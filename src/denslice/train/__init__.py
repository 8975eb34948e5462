"""Training: data, loss and loop, from a TOML file to a folder that `encoder=` takes. Needs the extra `train`."""

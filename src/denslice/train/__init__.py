"""Training of encoders, from a TOML file to a model folder that `encoder=` accepts. Needs the extra `train`."""

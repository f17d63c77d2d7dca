"""The three rules: values in, values out; no sockets, no clock, no logs."""

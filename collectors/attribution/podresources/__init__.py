"""The kubelet's PodResources API: which container was given which devices.

`client` asks, `ids` reads the plugins' ways of naming a device, `holdings` makes allocations of both.
`podresources_pb2` is generated from `podresources.proto` (docs/attribution.md says how).
"""

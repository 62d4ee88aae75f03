"""The kubelet's PodResources API: which devices each container was given.

`client` asks, `ids` parses the plugins' device ids, `holdings` makes allocations of both.
`podresources_pb2` is generated from `podresources.proto` (docs/attribution.md says how).
"""

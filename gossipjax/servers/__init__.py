"""Parameter servers without a machine of their own, for several strategies.

sharded_server    a vector whose entries are shared out over the workers
layerwise_server  tensors through sharded servers, each with its own codec
"""

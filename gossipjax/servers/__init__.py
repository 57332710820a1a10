"""Parameter servers sharded over the workers, for several strategies.

boxes             messages whose size is chosen at run time
sharded_server    each worker serves some entries of a sparse vector
layerwise_server  each worker serves a share of every tensor, with codecs
"""

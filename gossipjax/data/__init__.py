"""Examples, as NumPy arrays on the host.

files     where a data set's files are; reading, unpacking, verifying them
download  fetching them, once, when they are nowhere
images    the picture data sets, by name: digits, (Fashion-)MNIST, CIFAR
idx       the format of MNIST
cifar     the format of CIFAR's binary version
text      any text, by bytes
split     which worker gets which example
holdout   what no worker gets
batch     which of its examples a worker takes in a step (on the device)
augment   random crops and flips (on the device)
"""

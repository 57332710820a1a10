"""Examples, as NumPy arrays on the host.

files     finds, unpacks and verifies the files of a data set
download  fetches the files of a data set into the user's cache, once
unpack    unpacks a file in memory, within bounds
published where image data sets are published; SHA-256 of every file
images    image data sets by name: digits, (Fashion-)MNIST, CIFAR
digits    handwritten digits from scikit-learn, which need no download
idx       the format of MNIST
cifar     the format of CIFAR's binary version
text      text as bytes
sources   examples that are read when they are needed
examples  arrays or sources, checked; selects some of their examples
split     distributes examples over workers
holdout   selects the held-out examples, for a test or for validation
batch     selects the batch of a worker in a step (on the device)
augment   random crops and flips (on the device)
whitening patches of images in uncorrelated coordinates
"""

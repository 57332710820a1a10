"""Where image data sets are published, with the SHA-256 of every file."""

from gossipjax.data import files

IDX = (
  'train-images-idx3-ubyte',
  'train-labels-idx1-ubyte',
  't10k-images-idx3-ubyte',
  't10k-labels-idx1-ubyte',
)
TORONTO = 'https://www.cs.toronto.edu/~kriz/'
# SHA-256 of the .gz and .tar.gz as several projects publish them; those of the
# contents are of the unpacked official files (CIFAR-100: as published).
SOURCES = {
  'mnist': files.PublishedData(
    'mnist',
    'https://ossci-datasets.s3.amazonaws.com/mnist/',
    {
      f'{IDX[0]}.gz': '440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609',
      f'{IDX[1]}.gz': '3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c',
      f'{IDX[2]}.gz': '8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6',
      f'{IDX[3]}.gz': 'f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6',
    },
    dict(
      zip(
        IDX,
        (
          'ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db',
          '65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5',
          '0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7',
          'ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2',
        ),
        strict=True,
      )
    ),
    ('MNIST/raw',),
  ),
  'fashion_mnist': files.PublishedData(
    'fashion_mnist',
    'https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/'
    'data/fashion/',
    {
      f'{IDX[0]}.gz': '3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84',
      f'{IDX[1]}.gz': 'a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845',
      f'{IDX[2]}.gz': '346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073',
      f'{IDX[3]}.gz': '67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5',
    },
    dict(
      zip(
        IDX,
        (
          'c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888',
          'bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9',
          '5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b',
          '0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34',
        ),
        strict=True,
      )
    ),
    ('FashionMNIST/raw',),
  ),
  'cifar10': files.PublishedData(
    'cifar10',
    TORONTO,
    {
      'cifar-10-binary.tar.gz': 'c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd'
    },
    {
      'data_batch_1.bin': 'cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5',
      'data_batch_2.bin': 'a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed',
      'data_batch_3.bin': 'bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67',
      'data_batch_4.bin': '014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48',
      'data_batch_5.bin': '755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add',
      'test_batch.bin': '8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b',
    },
    ('cifar-10-batches-bin',),
  ),
  'cifar100': files.PublishedData(
    'cifar100',
    TORONTO,
    {
      'cifar-100-binary.tar.gz': '58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec'
    },
    {
      'train.bin': 'f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29',
      'test.bin': 'd8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a',
    },
    ('cifar-100-binary',),
  ),
}

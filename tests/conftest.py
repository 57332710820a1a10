"""Eight CPU devices, so that every strategy also runs on a real mesh."""

import jax

from gossipjax import spmd

jax.config.update('jax_platforms', 'cpu')
jax.config.update('jax_numpy_rank_promotion', 'raise')
spmd.emulate(8)

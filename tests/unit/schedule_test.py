"""The text of a scheduled program shows which collectives are hidden."""

import pytest

from gossipjax.audit import hlo, schedule

# In the syntax of XLA's compiler for GPUs.
CONFIG = (
  'backend_config={"operation_queue_id":"0","collective_backend_config":'
  '{"is_sync":%s,"is_pipelined":false,"backend":"DEFAULT"},'
  '"force_earliest_schedule":false}'
)
GROUPS = 'channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}'
HEAD = """HloModule jit_step, is_scheduled=true, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

"""
ENTRY = """
ENTRY %main (p: f32[1000]) -> f32[1000] {
  %p = f32[1000]{0} parameter(0)
"""
GROUP = """
%group (x: bf16[64], y: s8[80]) -> (bf16[64], s8[640]) {
  %x = bf16[64]{0} parameter(0)
  %y = s8[80]{0} parameter(1)
  %r = bf16[64]{0} all-reduce(%x), replica_groups={}, to_apply=%add
  %g = s8[640]{0} all-gather(%y), replica_groups={}, dimensions={0}
  ROOT %t = (bf16[64]{0}, s8[640]{0}) tuple(%r, %g)
}
"""


def collectives_of(*lines, rest=''):
  """The collectives of a program with these lines."""
  text = HEAD + rest + ENTRY + ''.join(f'  {line}\n' for line in lines) + '}\n'
  return schedule.scheduled_collectives(hlo.parse(text))


def reduce(name, sync='false', operand='%p'):
  return (
    f'%{name} = f32[1000]{{0}} all-reduce-start({operand}), {GROUPS}, '
    f'use_global_device_ids=true, to_apply=%add, {CONFIG % sync}'
  )


GEMM = (
  '%gemm = (f32[8,8]{1,0}, s8[64]{0}) custom-call(%p, %p), '
  'custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":'
  '{"alpha_real":1}}'
)
FUSION = '%f = f32[1000]{0} fusion(%p), kind=kLoop, calls=%add'


def test_computation_between_start_and_done_overlaps():
  (one,) = collectives_of(
    FUSION,
    reduce('s'),
    '%bitcast = f32[10,100]{1,0} bitcast(%p)',
    GEMM,
    '%get-tuple-element.3 = f32[8,8]{1,0} get-tuple-element(%gemm), index=0',
    'ROOT %d = f32[1000]{0} all-reduce-done(%s)',
  )
  assert one == ('all-reduce', ('f32',), 4000, True, ('custom-call',))


def test_a_synchronous_collective_overlaps_with_nothing():
  (one,) = collectives_of(
    reduce('s', 'true'), GEMM, 'ROOT %d = f32[1000]{0} all-reduce-done(%s)'
  )
  assert not one.split and not one.beside
  (plain,) = collectives_of(
    '%r = f32[1000]{0} all-reduce(%p), replica_groups={}, to_apply=%add, '
    + CONFIG % 'true',
    FUSION,
  )
  assert plain == ('all-reduce', ('f32',), 4000, False, ())


def test_interleaved_collectives_do_not_count_as_computation():
  one, two = collectives_of(
    reduce('s.1'),
    FUSION,
    reduce('s.2', operand='%f'),
    '%d.1 = f32[1000]{0} all-reduce-done(%s.1)',
    GEMM,
    GEMM.replace('%gemm', '%gemm.2'),
    'ROOT %d.2 = f32[1000]{0} all-reduce-done(%s.2)',
  )
  assert one.beside == ('fusion',)
  assert two.beside == ('custom-call', 'custom-call')


def test_collectives_that_are_issued_together_are_one_exchange():
  (one,) = collectives_of(
    '%s = ((bf16[64]{0}, s8[80]{0}), (bf16[64]{0}, s8[640]{0})) '
    'async-start(%x, %y), calls=%group, async_execution_thread="parallel"',
    FUSION,
    '%u = ((bf16[64]{0}, s8[80]{0}), (bf16[64]{0}, s8[640]{0})) '
    'async-update(%s)',
    GEMM,
    'ROOT %d = (bf16[64]{0}, s8[640]{0}) async-done(%u)',
    rest=GROUP,
  )
  assert one == (
    'all-reduce+all-gather',
    ('bf16', 's8'),
    2 * 64 + 640,
    True,
    ('fusion', 'custom-call'),
  )


@pytest.mark.parametrize(
  'operands, names',
  [
    ('%a, %b', ['a', 'b']),
    ('f32[8,3]{1,0:T(8,128)} %a, f32[] %b', ['a', 'b']),
    (
      '((f32[8,3]{1,0}, s8[2]{0}), f32[]) %pair.1, f32[8]{0} %b',
      ['pair.1', 'b'],
    ),
    ('a.1, /*index=1*/b', ['a.1', 'b']),
    ('', []),
  ],
)
def test_operands_are_parsed_with_and_without_their_shapes(operands, names):
  line = f'  %r = f32[] call({operands}), to_apply=%g'
  (instruction,) = hlo.parse(
    f'HloModule m\nENTRY %e () -> f32[] {{\n{line}\n}}\n'
  ).instructions()
  assert hlo.operands(instruction) == names

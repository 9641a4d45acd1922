"""Bytes of an optimised program, counted by hand."""

from pipeline.forecast import traffic

PROGRAM = """HloModule step

%fused (p: f32[8]) -> f32[8] {
  ROOT %inner = f32[9999]{0} add(%p, %p)
}

ENTRY %main (a: f32[64,128], b: bf16[16]) -> f32[64,128] {
  %a = f32[64,128]{1,0:T(8,128)} parameter(0)
  %b = bf16[16]{0} parameter(1)
  %copy-start.1 = (f32[64,128]{1,0:T(8,128)S(1)}, f32[64,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%a)
  %copy-done.1 = f32[64,128]{1,0:T(8,128)S(1)} copy-done(%copy-start.1)
  %fast = f32[64,128]{1,0:T(8,128)S(1)} fusion(%copy-done.1), kind=kLoop, calls=%fused
  %slice-start.1 = (bf16[4]{0:S(1)}, bf16[16]{0}, s32[]) slice-start(%b), slice={[0:4]}
  %mixed = (f32[10]{0}, pred[6]{0:S(1)}) fusion(%fast, %b, /*index=2*/%a), metadata={op_name="x(%a)"}
  %first = f32[10]{0} get-tuple-element(%mixed), index=0
  ROOT %out = f32[64,128]{1,0:T(8,128)} add(%fast, %fast)
}
"""


def test_only_what_lies_in_the_large_memory_is_counted():
    whole, table = 4 * 64 * 128, 2 * 16
    copied, sliced = whole, 2 * 4  # read there, written to the fast memory
    mixed = 4 * 10 + table + whole  # a result and two operands; the others are in the fast memory
    assert traffic.hbm_bytes(PROGRAM) == copied + sliced + mixed + whole

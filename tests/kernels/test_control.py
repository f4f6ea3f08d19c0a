"""If, Loop and Scan as C control flow: states that keep or change their sizes, stacked outputs, conditions, nesting."""

import numpy as np
import pytest
from onnx import parser

import intaglio
from intaglio.errors import IntaglioError, OperatorError, RunTimeoutError, ShapeError

F = np.float32
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def check(text, *runs, host_runs=0):
    """Run the model on both engines; the native one must need no host node."""
    proto = parser.parse_model(HEADER + text)
    native, reference = intaglio.load(proto, engine="native"), intaglio.load(proto, engine="reference")
    for arrays in runs:
        got, expected = native(*arrays), reference(*arrays)
        pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
        for mine, right in pairs:
            assert mine.shape == right.shape
            assert mine.dtype == right.dtype
            np.testing.assert_allclose(mine, right, rtol=1e-6)
    assert native.host_runs == host_runs
    return native


def vector(count):
    return np.arange(1, count + 1, dtype=F)


def test_branches_of_one_shape():
    text = """agraph (float[N] x, bool c) => (float[N] y) {
      y = If (c) <then_branch = a () => (float[N] t) { t = Mul(x, x) },
                  else_branch = b () => (float[N] e) { e = Neg(x) }> }"""
    check(text, (vector(3), np.array(True)), (vector(4), np.array(False)), (vector(0), np.array(True)))


def test_branches_of_different_shapes_and_constants():
    text = """agraph (float[N] x, bool[1] c) => (float[M] y, int64[K] z) {
      y, z = If (c) <
        then_branch = a () => (float[P] t, int64[1] s) { t = Mul(x, x) s = Shape(x) },
        else_branch = b () => (float[Q] e, int64[3] k) { e = Concat<axis=0>(x, x, x)
                                                       k = Constant<value_ints=[7, 8, 9]>() }> }"""
    check(text, (vector(3), np.array([True])), (vector(4), np.array([False])), (vector(0), np.array([False])))


def test_a_result_goes_on_with_the_size_that_the_branch_told():
    text = """agraph (float[N] x, bool c) => (float[K] z, int64[1] n) {
      y = If (c) <then_branch = a () => (float[P] t) { t = Mul(x, x) },
                  else_branch = b () => (float[Q] e) { e = Concat<axis=0>(x, x) }>
      z = Exp(y)  n = Shape(y) }"""
    check(text, (vector(3), np.array(True)), (vector(4), np.array(False)))


def test_a_loop_with_a_count():
    text = """agraph (float[N] x, int64 m) => (float[N] y, float[K,N] s) {
      y, s = Loop (m, , x) <body = a (int64 i, bool c, float[N] v) => (bool c2, float[N] w, float[N] o) {
        c2 = Identity(c) w = Add(v, x) o = Mul(w, w) }> }"""
    check(text, *((vector(n), np.array(m)) for n, m in [(3, 4), (5, 0), (5, 1), (0, 3), (2, 40), (3, -1)]))


def test_a_loop_with_a_condition_and_its_number():
    text = """agraph (float[N] x, float limit, bool start) => (float[N] y, int64[K] s) {
      one = Constant<value_float=1.0>()
      y, s = Loop ( , start, x) <body = a (int64 i, bool c, float[N] v) => (bool c2, float[N] w, int64 o) {
        w = Add(v, one) o = Add(i, i) r = ReduceSum<keepdims=0>(w) c2 = Less(r, limit) }> }"""
    cases = [(3, 400.0, True), (5, 0.0, True), (1, 100.0, True), (2, 9.0, False)]
    check(text, *((vector(n), np.array(limit, F), np.array(start)) for n, limit, start in cases))


def test_a_state_that_grows():
    text = """agraph (float[N] x, int64 m) => (float[K] y, float[K] z) {
      y = Loop (m, , x) <body = a (int64 i, bool c, float[P] v) => (bool c2, float[Q] w) {
        c2 = Identity(c) w = Concat<axis=0>(v, x) }>
      z = Neg(y) }"""
    check(text, *((vector(n), np.array(m)) for n, m in [(3, 4), (5, 0), (5, 1), (0, 3)]))


def test_states_that_change_places():
    text = """agraph (float[N] x, float[N] z, int64 m) => (float[N] y, float[N] w) {
      y, w = Loop (m, , x, z) <body = a (int64 i, bool c, float[N] p, float[N] q)
                                   => (bool c2, float[N] r, float[N] s) {
        c2 = Identity(c) r = Identity(q) s = Identity(p) }> }"""
    check(text, *((vector(3), -vector(3), np.array(m)) for m in (0, 1, 2, 3)))


def test_the_condition_may_be_a_state():
    text = """agraph (bool go, int64 m) => (bool y, int64 n) {
      zero = Constant<value_int=0>()  one = Constant<value_int=1>()
      y, n = Loop (m, , go, zero) <body = a (int64 i, bool c, bool p, int64 k) => (bool c2, bool q, int64 k2) {
        c2 = Identity(p) q = Not(p) k2 = Add(k, one) }> }"""
    check(text, *((np.array(go), np.array(5)) for go in (True, False)))


def test_elements_whose_size_only_the_body_knows():
    text = """agraph (float[N] x, int64 m) => (float[K,P] s) {
      v = Loop (m, , x) <body = a (int64 i, bool c, float[N] v) => (bool c2, float[N] w, int64[A,B] o) {
        c2 = Identity(c) w = Neg(v) o = NonZero(v) }> }""".replace("v = Loop", "v, s = Loop").replace(
        "float[K,P] s", "int64[K,A,B] s"
    )
    zeros = np.array([0, 1, 0, 2], F)
    check(text, (zeros, np.array(3)), (zeros, np.array(0)), (np.zeros(2, F), np.array(2)))


def test_elements_that_change_their_size_are_refused():
    text = """agraph (int64 m) => (int64[K,P] s) {
      zero = Constant<value_int=0>()  one = Constant<value_int=1>()
      s = Loop (m, ) <body = a (int64 i, bool c) => (bool c2, int64[P] o) {
        c2 = Identity(c) o = Range(zero, i, one) }> }"""
    model = intaglio.load(parser.parse_model(HEADER + text))
    assert model(np.array(1)).shape == (1, 0)
    with pytest.raises(OperatorError, match="Loop"):
        model(np.array(3))


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan(axis, backward):
    shape = "T,B" if axis == 0 else "B,T"
    text = f"""agraph (float[B] s, float[T,B] x) => (float[B] y, float[{shape}] z) {{
      y, z = Scan<num_scan_inputs=1, scan_output_axes=[{axis}], scan_input_directions=[{backward}],
                  scan_output_directions=[{backward}],
                  body = a (float[B] h, float[B] v) => (float[B] w, float[B] o) {{
                    w = Add(v, h) o = Mul(w, w) }}> (s, x) }}"""
    rng = np.random.default_rng(axis)
    check(text, *((rng.random(b).astype(F), rng.random((t, b)).astype(F)) for b, t in [(3, 5), (3, 0), (1, 1), (0, 4)]))


def test_scans_over_axes_of_different_lengths_are_refused():
    text = """agraph (float[T] p, float[S] q) => (float[T] z) {
      z = Scan<num_scan_inputs=2, body = a (float v, float w) => (float o) { o = Add(v, w) }> (p, q) }"""
    model = intaglio.load(parser.parse_model(HEADER + text))
    np.testing.assert_array_equal(model(vector(3), vector(3)), 2 * vector(3))
    with pytest.raises(ShapeError, match="lengths"):
        model(vector(3), vector(4))


def test_loops_in_loops_in_branches():
    text = """agraph (float[N] x, bool c, int64 m) => (float[P] y) {
      y = If (c) <
        then_branch = a () => (float[Q] t) {
          t = Loop (m, , x) <body = o (int64 i, bool g, float[R] v) => (bool g2, float[S] w) {
            g2 = Identity(g)
            u = Loop (m, , v) <body = q (int64 j, bool h, float[R] p) => (bool h2, float[R] r) {
              h2 = Identity(h) f = Cast<to=1>(i) r = Add(p, f) }>
            w = Concat<axis=0>(u, x) }> },
        else_branch = b () => (float[N] e) { e = Neg(x) }> }"""
    check(text, *((vector(n), np.array(c), np.array(m)) for n, c, m in [(3, True, 3), (2, False, 9), (1, True, 0)]))


def test_a_body_that_needs_the_host_leaves_the_loop_to_the_host():
    text = """agraph (float[N] x, int64 m) => (float[N] y, string[K] s) {
      word = Constant<value_strings=["word"]>()  zero = Constant<value_int=0>()
      y, s = Loop (m, , x) <body = a (int64 i, bool c, float[N] v) => (bool c2, float[N] w, string o) {
        c2 = Identity(c) w = Add(v, x) o = Gather(word, zero) }> }"""
    model = intaglio.load(parser.parse_model(HEADER + text))
    y, s = model(vector(3), np.array(2))
    np.testing.assert_array_equal(y, 3 * vector(3))
    assert list(s) == ["word", "word"]
    assert model.host_runs > 0


def test_an_endless_loop_can_be_stopped():
    text = """agraph (int64 n) => (int64 y) {
      yes = Constant<value = bool {1}>()  one = Constant<value_int=1>()
      y = Loop ( , yes, n) <body = a (int64 i, bool c, int64 v) => (bool c2, int64 w) {
        c2 = Identity(c) w = Add(v, one) }> }"""
    model = intaglio.load(parser.parse_model(HEADER + text))
    with pytest.raises(RunTimeoutError):
        model.run({"n": np.array(0)}, timeout=0.05)
    assert model.host_runs == 0


def loop_titles(model):
    """What runs in each round of the loops of a model."""
    return [call.title for call in model.explain().calls if call.depth and call.kind == "kernel"]


def rounds(body, signature="float[N] v) => (bool c2, float[N] w", outputs="float[N] y", names="y", start="x"):
    """A Loop of m rounds over a vector."""
    return f"""agraph (float[N] x, int64 m) => ({outputs}) {{
      {names} = Loop (m, , {start}) <body = a (int64 i, bool c, {signature}) {{ c2 = Identity(c) {body} }}> }}"""


COUNTS = [(n, m) for n in (5, 0, 1) for m in (0, 1, 2, 3, 4)]


def check_rounds(text):
    return check(text, *((vector(n), np.array(m)) for n, m in COUNTS))


def test_a_state_is_written_over_where_nobody_needs_it_any_more():
    model = check_rounds(rounds("w = Sub(v, x)"))
    assert len(loop_titles(model)) == 1
    assert model.memory_plan(N=1024).arenas[0] < 1024  # the state is the output itself


@pytest.mark.parametrize(
    "body",
    [
        "t = Constant<value_ints=[-1]>() f = Constant<value_ints=[-9223372036854775807]>() "
        "z = Constant<value_ints=[0]>() r = Slice(v, t, f, z, t) w = Sub(r, x)",
        "e = ReduceSum(v) w = Sub(x, e)",
        "zero = Constant<value_int=0>() w = CumSum(v, zero)",
    ],
    ids=["reversed", "reduced", "summed"],
)
def test_a_state_that_is_read_out_of_order_has_two_places(body):
    model = check_rounds(rounds(body))
    assert not any(title.startswith("copy") for title in loop_titles(model))


def test_a_state_that_is_read_after_its_next_value_was_made():
    text = rounds("w = Add(v, x) o = Mul(v, w)", "float[N] v) => (bool c2, float[N] w, float[N] o",
                  "float[N] y, float[K, N] s", "y, s")  # fmt: skip
    check_rounds(text)


def test_elements_are_made_where_they_are_stacked():
    signature = "float[N] v) => (bool c2, float[N] w, float[N] o, float[N] p, float[N] q"
    outputs = "float[N] y, float[K, N] s, float[K, N] t, float[K, N] u"
    model = check_rounds(rounds("w = Add(v, x) e = ReduceSum(v) o = Mul(e, w) p = Identity(o) q = Identity(w)",
                                signature, outputs, "y, s, t, u"))  # fmt: skip
    assert sum("copy" in title for title in loop_titles(model)) == 2  # of what is stacked twice, and of the state


def test_a_loop_whose_result_is_stacked_by_the_one_around():
    text = """agraph (float[N] x, int64 m, int64 n) => (float[K, N] s) {
      s = Loop (m, ) <body = a (int64 i, bool c) => (bool c2, float[N] o) {
        c2 = Identity(c) f = CastLike(i, x) e = Add(x, f)
        o = Loop (n, , e) <body = b (int64 j, bool d, float[N] p) => (bool d2, float[N] q) {
          d2 = Identity(d) r = ReduceMean(p) q = Sub(x, r) }> }> }"""
    check(text, *((vector(n), np.array(m), np.array(k)) for n in (3, 0) for m in (1, 2, 3) for k in (0, 1, 2, 3)))


def test_states_of_one_declared_size_grow_each_by_itself():
    text = """agraph (float[N] x, int64 m) => (float[K] y, float[K] z) {
      y, z = Loop (m, , x, x) <body = a (int64 i, bool c, float[P] v, float[P] u) => (bool c2, float[Q] w, float[Q] t) {
        c2 = Identity(c) w = Concat<axis=0>(v, x) t = Concat<axis=0>(u, x, x) }> }"""
    check_rounds(text)


def test_two_states_of_one_value_and_one_that_follows_another():
    signature = "float[N] p, float[N] q) => (bool c2, float[N] r, float[N] s"
    outputs = "float[N] y, float[N] z"
    check_rounds(rounds("r = Add(p, q) s = Identity(r)", signature, outputs, "y, z", "x, x"))
    check_rounds(rounds("r = Identity(q) s = Add(p, q)", signature, outputs, "y, z", "x, x"))
    check_rounds(rounds("r = Sub(q, p) s = Add(p, q)", signature, outputs, "y, z", "x, x"))
    check_rounds(rounds("r = Neg(q) s = Identity(p)", signature, outputs, "y, z", "x, x"))
    check_rounds(rounds("r = Identity(x) s = Add(p, q)", signature, outputs, "y, z", "x, x"))


def test_a_state_that_is_the_condition_is_looked_at_after_the_round():
    text = """agraph (int64 n, int64 m) => (bool y, int64 z, bool[K] s) {
      zero = Constant<value_int=0>()  one = Constant<value_int=1>()  yes = Greater(one, zero)
      y, z, s = Loop (m, , yes, zero) <body = a (int64 i, bool c, bool p, int64 k)
                                           => (bool q, bool q2, int64 k2, bool o) {
        k2 = Add(k, one) q = Less(k2, n) q2 = Identity(q) o = Xor(p, q) }> }"""
    check(text, *((np.array(n), np.array(m)) for n in (0, 1, 2, 3, 4, 9) for m in (0, 3, 4, 6)))


def test_loops_in_loops_whose_states_have_two_places():
    text = """agraph (float[N] x, int64 m, int64 n) => (float[N] y, float[K, N] s) {
      y, s = Loop (m, , x) <body = a (int64 i, bool c, float[N] v) => (bool c2, float[N] w, float[N] o) {
        c2 = Identity(c)
        w = Loop (n, , v) <body = b (int64 j, bool d, float[N] p) => (bool d2, float[N] q) {
          d2 = Identity(d) e = ReduceMean(p) q0 = Sub(p, e) q = Add(q0, v) }>
        o = Neg(w) }> }"""
    check(text, *((vector(n), np.array(m), np.array(k)) for n in (3, 0) for m in (0, 1, 2, 3) for k in (0, 1, 2, 3)))


def test_a_matrix_that_is_multiplied_in_each_round():
    text = """agraph (float[4, 4] x, float[T, 4, 4] s) => (float[4, 4] y, float[T, 4, 4] z) {
      y, z = Scan<num_scan_inputs=1, body = b (float[4, 4] p, float[4, 4] e) => (float[4, 4] q, float[4, 4] o) {
        q = MatMul(p, e) o = Neg(p) }>(x, s) }"""
    random = np.random.default_rng(1)
    arrays = [(random.random((4, 4), F), random.random((t, 4, 4), F)) for t in (0, 1, 2, 5)]
    model = check(text, *arrays)
    assert not any("copy" in title for title in loop_titles(model))


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_scan_of_elements_whose_size_only_the_body_knows(axis, backward):
    text = f"""agraph (float[T, N] x) => (int64[a, b, c] s) {{
      s = Scan<num_scan_inputs=1, scan_output_axes=[{axis}], scan_output_directions=[{backward}],
               body = g (float[N] v) => (int64[A, B] o) {{
                 z = NonZero(v) w = Concat<axis=0>(z, z) o = Neg(w) }}>(x) }}"""
    check(text, (np.array([[0, 1, 2, 0], [1, 0, 0, 1], [1, 1, 0, 0]], F),), (np.zeros((2, 3), F),))


STACK = """agraph (float[N] x, int64 m) => (float[N] y, %s[K, N] s) {
  y, s = Loop (m, , x) <body = a (int64 i, bool c, float[N] v) => (bool c2, float[N] w, %s[N] o) {
    c2 = Identity(c) w = Add(v, x) o = Cast<to=%d>(w) }> }"""


@pytest.mark.parametrize(("kind", "number"), [("float", 1), ("bfloat16", 16), ("int64", 7), ("bool", 9)])
def test_a_large_stacked_output_belongs_to_the_caller(kind, number):
    model = check(STACK % (kind, kind, number), (vector(3), np.array(4)))
    x = np.ones(5000, F)
    result = model.run({"x": x, "m": np.array(400)})["s"]
    assert result.shape == (400, 5000)
    expected = np.arange(2, 402).astype(result.dtype)
    np.testing.assert_array_equal(result[:, 17], expected)
    other = model.run({"x": x, "m": np.array(300)})["s"]
    result[:] = 0
    del model
    np.testing.assert_array_equal(other[:, 4999], expected[:300])
    assert result.flags.writeable
    assert not np.asarray(result, F).any()


def test_a_stacked_output_over_the_limit_is_refused():
    proto = parser.parse_model(HEADER + STACK % ("float", "float", 1))
    model = intaglio.load(proto, engine="native", limits=intaglio.Limits(memory=8 << 20))
    assert model.run({"x": vector(5000), "m": np.array(300)})["s"].nbytes == 6_000_000
    with pytest.raises(intaglio.LimitError, match=r"Loop.* asks for"):
        model(vector(5000), np.array(3000))


def test_a_broadcast_that_only_the_rounds_decide():
    text = """agraph (int64 m, float[n] x, float[k] s) => (float[p] y, float[r,q] z) {
      t = Constant<value = bool {1}>()
      y, z = Loop (m, t, s) <body = b (int64 i, bool c, float[u] v) => (bool d, float[w] f, float[w] g) {
        d = Identity(c) one = Constant<value_ints=[1]>() from = Reshape(i, one) to = Add(from, one)
        part = Slice(x, from, to) sum = Add(v, part) f = Relu(sum) g = Mul(sum, v) }> }"""
    check(text, *((np.array(m), vector(4), vector(k)) for m, k in [(3, 1), (4, 5), (2, 0), (1, 40), (0, 3)]))


def test_a_broadcast_that_ceases_to_fit():
    text = """agraph (int64 m, float[n] x, float[k] s) => (float[p] y) {
      t = Constant<value = bool {1}>()
      y = Loop (m, t, s) <body = b (int64 i, bool c, float[u] v) => (bool d, float[w] f) {
        d = Identity(c) one = Constant<value_ints=[1]>() zero = Constant<value_ints=[0]>()
        j = Reshape(i, one) to = Add(j, one) part = Slice(x, zero, to) f = Add(v, part) }> }"""
    model = check(text, *((np.array(m), vector(4), vector(k)) for m, k in [(1, 1), (2, 1), (1, 3), (0, 7)]))
    with pytest.raises(IntaglioError, match=r"Add.*\(2,\)|Add.*\[2\]|Add.*2 and 3"):
        model(np.array(3), vector(4), vector(1))
    np.testing.assert_array_equal(model(np.array(2), vector(4), vector(1)), [3, 4])


def test_a_condition_whose_number_of_elements_only_the_run_tells():
    text = """agraph (float[N] x, bool[K] c) => (float[N] y) {
      y = If (c) <then_branch = a () => (float[N] t) { t = Mul(x, x) },
                  else_branch = b () => (float[N] e) { e = Neg(x) }> }"""
    model = check(text, *((vector(3), np.array([c])) for c in (True, False)))
    for wrong in (np.zeros(0, bool), np.array([True, True])):
        with pytest.raises(OperatorError, match=f"the condition has {wrong.size} elements"):
            model(vector(3), wrong)
    assert model(vector(2), np.array([True])).tolist() == [1, 4]


OPEN_RANKS = {
    "branches": "e = If (b) <then_branch = l () => (float[a, p] q) { q = Neg(x) }, "
    "else_branch = r () => (float[a, p, 1] w) { two = Constant<value_ints=[2]>() w = Unsqueeze(x, two) }>",
    "sequence": "all = Constant<value_ints=[-1]>() flat = Reshape(x, all) s = SequenceConstruct(x, flat) "
    "zero = Constant<value = int64 {0}>() e = SequenceAt(s, zero)",
}
LOOPS = {
    "Loop": """t = Constant<value = bool {1}>()
      y = Loop (m, t) <body = l (int64 i, bool c) => (bool d, float g) {
        d = Identity(c) n = Cast<to = 1>(i) f = Add(e, n) %s }>""",
    "Scan": """y = Scan <num_scan_inputs = 1, body = l (float v) => (float g) { f = Add(e, v) %s }> (rows)""",
}
ELEMENTS = {
    "as it is": "g = Identity(f)",
    "with one more axis": "axis = Constant<value_ints=[0]>() g = Unsqueeze(f, axis)",
    "joined": "g = Concat<axis=1>(f, f)",
    "of a known rank": "shape = Constant<value_ints=[0, -1, 1]>() g = Reshape(f, shape)",
    "flat": "g = Flatten<axis=1>(f)",
}


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("source", OPEN_RANKS)
def test_elements_of_an_open_rank_are_stacked_without_rounds(source, loop, element):
    """Their axes are those that an element of a first round would have."""
    text = f"""agraph (float[n, k] x, bool b, int64 m, float[r] rows) => (y) {{
      {OPEN_RANKS[source]} {LOOPS[loop] % element} }}"""
    proto = parser.parse_model(HEADER + text)
    for info in (info for node in proto.graph.node for each in node.attribute for info in each.g.output):
        if info.name == "g":
            info.type.tensor_type.ClearField("shape")
    reference, native = (intaglio.load(proto, engine=engine) for engine in ("reference", "native"))
    x = np.arange(6, dtype=F).reshape(2, 3)
    for flag in (True, False):
        some, none = ((x, np.array(flag), np.array(m), vector(m)) for m in (2, 0))
        shape = reference(*some).shape[1:]
        assert reference(*none).shape == native(*none).shape == (0, *shape)
        np.testing.assert_array_equal(native(*some), reference(*some))

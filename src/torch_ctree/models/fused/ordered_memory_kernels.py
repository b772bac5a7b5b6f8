"""The kernels of ``ordered_memory``, in their order, and parts that they share.

The names are those of ``encoders.ordered_memory``: at position t, M̂ are the candidates and M the memory, one row for
each slot i, and p the attention over the slots, with →p and ←p its sums from both ends.

    attend          for a position: the last node of the one before, keys of its M̂, p, M
    hidden_layer    for a slot: the node of the one before, from its outputs; hidden_i = relu(W [node_{i−1}; M_i] + b)
    output_layer    for a slot: outputs_i = W' hidden_i + b', which are three gates and a candidate
    finish          the last node of all

Row statistics stand between a product's columns and what is made of them; so a kernel starts with the elementwise part
of the step before, which each of its programs repeats for its own rows, and one of them stores. The way back has the
same three kernels, mirrored (``hidden_back``, ``node_back``, ``attend_back``), and passes on only what the position
before waits for; ``inputs_back`` makes the rest of it, at all positions at once.

Within a position, everything is kept as (M, B, …): row i B + b is slot i of sentence b.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportPossiblyUnboundVariable=false
# (Triton's tensors are no Python numbers, and its branches on constants no branches)

from __future__ import annotations

import triton
import triton.language as tl

from torch_ctree.models.fused.chance import keep

# Where dropout stands: use u at position t has the place PLACES t + u; unit h of row r of width w, the number r w + h.
PLACES = tl.constexpr(5)
KEY, SCORE, MEMORY, NODE, HIDDEN = map(tl.constexpr, range(5))

# One number for each row: (FIELDS, M, B) at each position. Kept on the way forward, and on the way back.
FIELDS, BACK_FIELDS = 7, 3
UP, DOWN, RATIO, KEY_MEAN, KEY_RSTD, MEAN, RSTD = map(tl.constexpr, range(FIELDS))
D_UP, D_OPEN, D_SCORE = map(tl.constexpr, range(BACK_FIELDS))


# ---------------------------------------------------------------------------------------------------------------------
# Parts of kernels. Tiles are (rows, units); row, mean, rstd and share are (rows,), unit, gain and shift are (units,).


@triton.jit
def _tile(pointer, row, unit, mask, width: tl.constexpr):
    """Rows of a contiguous matrix; 0 outside."""
    return tl.load(pointer + row[:, None] * width + unit[None, :], mask=mask, other=0.0)


@triton.jit
def _dropped(seed, place, row, unit, P: tl.constexpr, width: tl.constexpr):
    """What each unit of a tile is multiplied by."""
    return keep(seed, place.to(tl.int64), row[:, None] * width + unit[None, :], P)


@triton.jit
def _moments(x, mask, H: tl.constexpr, EPS: tl.constexpr):
    """Mean and 1 / deviation of whole rows."""
    mean = tl.sum(x, 1) / H
    centred = tl.where(mask, x - mean[:, None], 0.0)
    return mean, 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / H + EPS)


@triton.jit
def _gates(outputs, row, unit, mask, H: tl.constexpr):
    """The softmax of the first three quarters of the outputs."""
    a = _tile(outputs, row, unit, mask, 4 * H)
    b = _tile(outputs + H, row, unit, mask, 4 * H)
    c = _tile(outputs + 2 * H, row, unit, mask, 4 * H)
    top = tl.maximum(tl.maximum(a, b), c)
    a, b, c = tl.exp(a - top), tl.exp(b - top), tl.exp(c - top)
    scale = 1.0 / (a + b + c)
    return a * scale, b * scale, c * scale


@triton.jit
def _new(outputs, row, unit, mask, mean, rstd, gain, shift, H: tl.constexpr):
    """The last quarter of the outputs, normalised; and tanh of its layer norm."""
    normal = (_tile(outputs + 3 * H, row, unit, mask, 4 * H) - mean[:, None]) * rstd[:, None]
    return normal, 1.0 - 2.0 / (1.0 + tl.exp(2.0 * (normal * gain[None, :] + shift[None, :])))


@triton.jit
def _node(x, below, memory, share, outputs, row, unit, mask, mean, rstd, gain, shift, H: tl.constexpr):
    """x (1 − →p) + cell →p, from tiles of x, the node below and the memory, and the outputs."""
    a, b, c = _gates(outputs, row, unit, mask, H)
    _, new = _new(outputs, row, unit, mask, mean, rstd, gain, shift, H)
    return x + share[:, None] * (a * below + b * memory + c * new - x)


@triton.jit
def _opened(fields_before, row, slot, real, B, M: tl.constexpr, FIRST: tl.constexpr):
    """How far slots are open: slot i as far as slot i + 1 was reached at the position before, the last one always."""
    opened = tl.where(slot == M - 1, 1.0, 0.0)
    if not FIRST:
        opened += tl.load(fields_before + UP * M * B + row + B, mask=real & (slot < M - 1), other=0.0)
    return opened


@triton.jit
def _layer_norm_back(d, normal, d_mean, d_slope, rstd, mask):
    """The gradient of a layer norm's input, from d = gain × that of its output, and the means of d and d × normal."""
    return tl.where(mask, (d - d_mean[:, None] - normal * d_slope[:, None]) * rstd[:, None], 0.0)


@triton.jit
def _vector(pointer, unit, H: tl.constexpr):
    return tl.load(pointer + unit, mask=unit < H, other=0.0)


@triton.jit
def _matrix(pointer, i, j, i_stride, j_stride, i_end, j_end):
    """A tile of a weight: rows i, columns j."""
    at = pointer + i[:, None] * i_stride + j[None, :] * j_stride
    return tl.load(at, mask=(i[:, None] < i_end) & (j[None, :] < j_end), other=0.0)


# ---------------------------------------------------------------------------------------------------------------------
# Forward


@triton.jit
def _before(
    found, x, below, memory, share, outputs, place, place_x, place_below, row, unit, mask, last, mean, rstd,
    gain, shift, H: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """A tile of M̂ of the position before, whose last slot is still in its outputs, but for the first position."""
    here = mask & last[:, None]
    if FIRST:
        value = tl.load(found + place[:, None] + unit[None, :], mask=mask, other=0.0)
    else:
        value = tl.load(found + place[:, None] + unit[None, :], mask=mask & (last[:, None] == 0), other=0.0)
        word = tl.load(x + place_x[:, None] + unit[None, :], mask=here, other=0.0)
        left = tl.load(below + place_below[:, None] + unit[None, :], mask=here, other=0.0)
        right = _tile(memory, row, unit, here, H)
        node = _node(word, left, right, share, outputs, row, unit, here, mean, rstd, gain, shift, H)
        value = tl.where(last[:, None], node, value)
    return value


@triton.jit
def _sums(value, ROWS: tl.constexpr, SLOTS: tl.constexpr, REVERSE: tl.constexpr):
    """Cumulative sums over slots, from the first or from the last: (ROWS,) → (ROWS,)"""
    value = tl.reshape(value, (ROWS // SLOTS, 1, SLOTS))
    here, other = tl.arange(0, SLOTS)[None, :, None], tl.arange(0, SLOTS)[None, None, :]
    reached = other >= here if REVERSE else other <= here
    return tl.reshape(tl.sum(tl.where(reached, value, 0.0), 2), (ROWS,))


@triton.jit
def _shares(score, opened, ROWS: tl.constexpr, SLOTS: tl.constexpr):
    """→p, ←p and exp(score) / Σ, where p = exp(score) × what is open / Σ"""
    score = tl.reshape(score, (ROWS // SLOTS, SLOTS))
    opened = tl.reshape(opened, (ROWS // SLOTS, SLOTS))
    weight = tl.exp(score - tl.max(score, 1)[:, None])
    ratio = weight / tl.sum(weight * opened, 1)[:, None]
    p = tl.reshape(ratio * opened, (ROWS,))
    return _sums(p, ROWS, SLOTS, False), _sums(p, ROWS, SLOTS, True), tl.reshape(ratio, (ROWS,))


@triton.jit(do_not_specialize=["t"])
def attend(  # noqa: PLR0915
    found, x, below, queries, seed,
    outputs_before, memory_before, fields_before,
    memory, fields, keys, fed_key, fed_memory,
    w_key, b_key, key_gain, key_shift, w_score, gain, shift,
    t, B, found_row, x_row, below_row,
    H: tl.constexpr, M: tl.constexpr, P: tl.constexpr, EPS: tl.constexpr, PRECISION: tl.constexpr,
    SCALE: tl.constexpr, FIRST: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Keys, attention and memory of position t for some whole sentences; M̂ and x are those of the position before.

    fed_…: what a layer is given, after dropout
    """
    local = tl.arange(0, ROWS)
    slot = local % SLOTS
    sentence = tl.program_id(0) * (ROWS // SLOTS) + local // SLOTS
    row = slot * B + sentence
    real = (slot < M) & (sentence < B)
    last = slot == M - 1
    place = sentence.to(tl.int64) * found_row + slot * H
    place_x = sentence.to(tl.int64) * x_row
    place_below = sentence.to(tl.int64) * below_row
    seed = tl.load(seed)
    whole = tl.arange(0, WIDE)
    whole_mask = real[:, None] & (whole[None, :] < H)
    # Loads come before sums, for which threads wait for one another.
    if BLOCK >= H:
        weight = _matrix(w_key, whole, whole, 1, H, H, H)
    query = tl.load(queries + place_x[:, None] + whole[None, :], mask=whole_mask, other=0.0)
    bias, scale = _vector(b_key, whole, H), _vector(key_gain, whole, H)
    query += _vector(key_shift, whole, H)[None, :]
    direction = _vector(w_score, whole, H)
    opened = _opened(fields_before, row, slot, real, B, M, FIRST)

    # The last slot of the position before: its statistics, so that it can be finished block by block.
    mean = tl.zeros((ROWS,), tl.float32)
    rstd = tl.zeros((ROWS,), tl.float32)
    share = tl.zeros((ROWS,), tl.float32)
    if not FIRST:
        new = _tile(outputs_before + 3 * H, row, whole, whole_mask & last[:, None], 4 * H)
        mean, rstd = _moments(new, whole_mask, H, EPS)
        share = tl.load(fields_before + UP * M * B + row, mask=real & last, other=0.0)

    key = tl.zeros((ROWS, WIDE), tl.float32)
    value = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        value = _before(
            found, x, below, memory_before, share, outputs_before, place, place_x, place_below, row, unit, mask, last,
            mean, rstd, _vector(gain, unit, H), _vector(shift, unit, H), H, FIRST,
        )  # fmt: skip
        if not FIRST:
            tl.store(found + place[:, None] + unit[None, :], value, mask=mask & last[:, None])
        fed = value * _dropped(seed, t * PLACES + KEY, row, unit, P, H)
        tl.store(fed_key + row[:, None] * H + unit[None, :], fed, mask=mask)
        if BLOCK < H:
            weight = _matrix(w_key, unit, whole, 1, H, H, H)
        key = tl.dot(fed, weight, key, input_precision=PRECISION)
    key += bias[None, :]
    tl.store(keys + row[:, None] * H + whole[None, :], key, mask=whole_mask)

    # score = w · relu(query + layernorm(key)) / √H
    key_mean, key_rstd = _moments(key, whole_mask, H, EPS)
    normal = (key - key_mean[:, None]) * key_rstd[:, None]
    mixed = tl.maximum(query + normal * scale[None, :], 0.0)
    mixed *= _dropped(seed, t * PLACES + SCORE, row, whole, P, H)
    score = tl.sum(mixed * direction[None, :], 1) * SCALE

    score = tl.where(real, score, -1e30)
    up, down, ratio = _shares(score, opened, ROWS, SLOTS)
    tl.store(fields + UP * M * B + row, up, mask=real)
    tl.store(fields + DOWN * M * B + row, down, mask=real)
    tl.store(fields + RATIO * M * B + row, ratio, mask=real)
    tl.store(fields + KEY_MEAN * M * B + row, key_mean, mask=real)
    tl.store(fields + KEY_RSTD * M * B + row, key_rstd, mask=real)
    if not FIRST:
        tl.store(fields_before + MEAN * M * B + row, mean, mask=real & last)
        tl.store(fields_before + RSTD * M * B + row, rstd, mask=real & last)

    for start in range(0, H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        if BLOCK < H:  # otherwise it is still there
            value = _before(
                found, x, below, memory_before, share, outputs_before, place, place_x, place_below, row, unit, mask,
                last, mean, rstd, _vector(gain, unit, H), _vector(shift, unit, H), H, FIRST,
            )  # fmt: skip
        old = tl.zeros((ROWS, BLOCK), tl.float32)
        if not FIRST:
            old = _tile(memory_before, row, unit, mask, H)
        value = old + down[:, None] * (value - old)
        tl.store(memory + row[:, None] * H + unit[None, :], value, mask=mask)
        value *= _dropped(seed, t * PLACES + MEMORY, row, unit, P, H)
        tl.store(fed_memory + row[:, None] * H + unit[None, :], value, mask=mask)


@triton.jit(do_not_specialize=["t", "slot"])
def hidden_layer(
    x, below, found, seed, outputs, memory, fields, hidden, fed_node, fed_memory,
    w_node, b_node, w_memory, gain, shift,
    t, slot, B, found_row, x_row, below_row,
    H: tl.constexpr, M: tl.constexpr, P: tl.constexpr, EPS: tl.constexpr, PRECISION: tl.constexpr,
    FIRST: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The hidden layer of a slot, and the node of the slot before, which is x for the FIRST slot.

    found: M̂ at this position of the slot before; below: of the one before that, or x; the rest: of all slots at this
    position; fed_…: what the layer is given, after dropout
    """
    sentence = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = sentence < B
    storing = real & (sentence * 0 + tl.program_id(1) == 0)  # one stores what all of them have computed
    row = slot * B + sentence
    row_before = row - B
    place_x = sentence.to(tl.int64) * x_row
    place_below = sentence.to(tl.int64) * below_row
    place = sentence.to(tl.int64) * found_row
    seed = tl.load(seed)

    whole = tl.arange(0, WIDE)
    whole_mask = real[:, None] & (whole[None, :] < H)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    more = tl.zeros((ROWS, COLUMNS), tl.float32)  # the other half of the sum, which need not wait for the first
    for start in tl.static_range(0, H, BLOCK):
        # All that can be loaded comes before the statistics, for which threads wait for one another.
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        node = tl.load(x + place_x[:, None] + unit[None, :], mask=mask, other=0.0)
        stored = _tile(fed_memory, row, unit, mask, H)
        w_left = _matrix(w_node, unit, column, 1, H, H, 4 * H)
        w_right = _matrix(w_memory, unit, column, 1, H, H, 4 * H)
        if not FIRST:
            left = tl.load(below + place_below[:, None] + unit[None, :], mask=mask, other=0.0)
            right = _tile(memory, row_before, unit, mask, H)
            a, b, c = _gates(outputs, row_before, unit, mask, H)
            scale, offset = _vector(gain, unit, H), _vector(shift, unit, H)
            if start == 0:
                share = tl.load(fields + UP * M * B + row_before, mask=real, other=0.0)
                new = _tile(outputs + 3 * H, row_before, whole, whole_mask, 4 * H)
                mean, rstd = _moments(new, whole_mask, H, EPS)
            _, new = _new(outputs, row_before, unit, mask, mean, rstd, scale, offset, H)
            node += share[:, None] * (a * left + b * right + c * new - node)
            tl.store(found + place[:, None] + unit[None, :], node, mask=mask & storing[:, None])
        node *= _dropped(seed, t * PLACES + NODE, row, unit, P, H)
        tl.store(fed_node + row[:, None] * H + unit[None, :], node, mask=mask & storing[:, None])
        total = tl.dot(node, w_left, total, input_precision=PRECISION)
        more = tl.dot(stored, w_right, more, input_precision=PRECISION)
    if not FIRST:
        tl.store(fields + MEAN * M * B + row_before, mean, mask=storing)
        tl.store(fields + RSTD * M * B + row_before, rstd, mask=storing)
    total = tl.maximum(total + more + _vector(b_node, column, 4 * H)[None, :], 0.0)
    total *= _dropped(seed, t * PLACES + HIDDEN, row, column, P, 4 * H)
    at = hidden + row[:, None] * (4 * H) + column[None, :]
    tl.store(at, total, mask=real[:, None] & (column[None, :] < 4 * H))


@triton.jit
def output_layer(
    hidden, outputs, w_out, b_out, B,
    H: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """outputs = W' hidden + b' of one slot"""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, 4 * H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        left = _tile(hidden, row, unit, (row[:, None] < B) & (unit[None, :] < 4 * H), 4 * H)
        right = _matrix(w_out, unit, column, 1, 4 * H, 4 * H, 4 * H)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    total += _vector(b_out, column, 4 * H)[None, :]
    at = outputs + row[:, None] * (4 * H) + column[None, :]
    tl.store(at, total, mask=(row[:, None] < B) & (column[None, :] < 4 * H))


@triton.jit
def finish(
    x, below, found, outputs, memory, fields, gain, shift, B, found_row, x_row, below_row,
    H: tl.constexpr, M: tl.constexpr, EPS: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The node of the last slot at the last position; found: M̂ there, the rest as in ``hidden_layer``."""
    sentence = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = sentence < B
    row = (M - 1) * B + sentence
    place_x = sentence.to(tl.int64) * x_row
    place_below = sentence.to(tl.int64) * below_row
    place = sentence.to(tl.int64) * found_row
    whole = tl.arange(0, WIDE)
    whole_mask = real[:, None] & (whole[None, :] < H)
    mean, rstd = _moments(_tile(outputs + 3 * H, row, whole, whole_mask, 4 * H), whole_mask, H, EPS)
    tl.store(fields + MEAN * M * B + row, mean, mask=real)
    tl.store(fields + RSTD * M * B + row, rstd, mask=real)
    share = tl.load(fields + UP * M * B + row, mask=real, other=0.0)
    for start in range(0, H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        node = tl.load(x + place_x[:, None] + unit[None, :], mask=mask, other=0.0)
        left = tl.load(below + place_below[:, None] + unit[None, :], mask=mask, other=0.0)
        right = _tile(memory, row, unit, mask, H)
        node = _node(
            node, left, right, share, outputs, row, unit, mask, mean, rstd,
            _vector(gain, unit, H), _vector(shift, unit, H), H,
        )  # fmt: skip
        tl.store(found + place[:, None] + unit[None, :], node, mask=mask)


# ---------------------------------------------------------------------------------------------------------------------
# Backward: d_ is the gradient of what follows


@triton.jit
def _quarter(w_out, which: tl.constexpr, unit, column, H: tl.constexpr):
    """A tile of the weights of one gate, or of the candidate."""
    return _matrix(w_out + which * 4 * H * H, unit, column, 4 * H, 1, H, 4 * H)


@triton.jit(do_not_specialize=["slot"])
def hidden_back(  # noqa: PLR0915
    x, below, outputs, memory, fields, hidden, w_out, gain, shift,
    d_node, d_outputs, d_pre, d_fields,
    slot, B, x_row, below_row,
    H: tl.constexpr, M: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From the gradient of a node to that of its outputs, →p and hidden layer before relu.

    below: the node of the slot before, or x; d_node: of this slot; the rest: of all slots at this position
    """
    sentence = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = sentence < B
    storing = real & (sentence * 0 + tl.program_id(1) == 0)
    row = slot * B + sentence
    place_x = sentence.to(tl.int64) * x_row
    place_below = sentence.to(tl.int64) * below_row
    out_mask = real[:, None] & (column[None, :] < 4 * H)
    mean = tl.load(fields + MEAN * M * B + row, mask=real, other=0.0)
    rstd = tl.load(fields + RSTD * M * B + row, mask=real, other=0.0)
    # The sum of a number and a zero: what has passed between threads, Triton does not let each warp compute for itself.
    pair = tl.arange(0, 2)[None, :]
    share = tl.load(fields + UP * M * B + row[:, None] + pair, mask=real[:, None] & (pair == 0), other=0.0)
    share = tl.sum(share, 1)

    # Layer norm's two means, of g = gain × the gradient of its output, and of g × what it normalised.
    d_mean = tl.zeros((ROWS,), tl.float32)
    d_slope = tl.zeros((ROWS,), tl.float32)
    for start in range(0, H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        scale = _vector(gain, unit, H)
        _, _, c = _gates(outputs, row, unit, mask, H)
        normal, new = _new(outputs, row, unit, mask, mean, rstd, scale, _vector(shift, unit, H), H)
        d_new = _tile(d_node, sentence, unit, mask, H) * share[:, None] * c * (1.0 - new * new) * scale[None, :]
        d_mean += tl.sum(d_new, 1)
        d_slope += tl.sum(d_new * normal, 1)
    d_mean, d_slope = d_mean / H, d_slope / H

    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    more = tl.zeros((ROWS, COLUMNS), tl.float32)
    d_up = tl.zeros((ROWS,), tl.float32)
    for start in range(0, H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        w_a, w_b = _quarter(w_out, 0, unit, column, H), _quarter(w_out, 1, unit, column, H)
        w_c, w_new = _quarter(w_out, 2, unit, column, H), _quarter(w_out, 3, unit, column, H)
        scale = _vector(gain, unit, H)
        a, b, c = _gates(outputs, row, unit, mask, H)
        normal, new = _new(outputs, row, unit, mask, mean, rstd, scale, _vector(shift, unit, H), H)
        word = tl.load(x + place_x[:, None] + unit[None, :], mask=mask, other=0.0)
        left = tl.load(below + place_below[:, None] + unit[None, :], mask=mask, other=0.0)
        right = _tile(memory, row, unit, mask, H)
        cell = a * left + b * right + c * new
        d = _tile(d_node, sentence, unit, mask, H)
        d_up += tl.sum(d * (cell - word), 1)
        d *= share[:, None]
        d_a, d_b, d_c = a * (left - cell) * d, b * (right - cell) * d, c * (new - cell) * d
        d_new = d * c * (1.0 - new * new) * scale[None, :]
        d_new = _layer_norm_back(d_new, normal, d_mean, d_slope, rstd, mask)
        at = d_outputs + row[:, None] * (4 * H) + unit[None, :]
        tl.store(at, d_a, mask=mask & storing[:, None])
        tl.store(at + H, d_b, mask=mask & storing[:, None])
        tl.store(at + 2 * H, d_c, mask=mask & storing[:, None])
        tl.store(at + 3 * H, d_new, mask=mask & storing[:, None])
        # Two sums that need not wait for one another, and two more.
        total = tl.dot(d_a, w_a, total, input_precision=PRECISION)
        more = tl.dot(d_b, w_b, more, input_precision=PRECISION)
        total += tl.dot(d_c, w_c, input_precision=PRECISION)
        more += tl.dot(d_new, w_new, input_precision=PRECISION)
    tl.store(d_fields + D_UP * M * B + row, d_up, mask=storing)
    # What is above zero after relu and dropout was above zero and kept.
    lives = _tile(hidden, row, column, out_mask, 4 * H) > 0.0
    d_total = tl.where(lives, (total + more) * (1.0 / (1.0 - P)), 0.0)
    tl.store(d_pre + row[:, None] * (4 * H) + column[None, :], d_total, mask=out_mask)


@triton.jit(do_not_specialize=["t", "slot"])
def node_back(
    seed, outputs, fields, d_node, d_pre, d_below, d_memory, w_both,
    t, slot, B,
    H: tl.constexpr, M: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adds to the gradients of the node of the slot before (half 0; of x below the first) and of the memory (half 1).

    w_both: (4H, 2H), the weights of both; d_below: of the slot before; d_node: of this slot; the rest: of all slots
    """
    half = tl.program_id(2)
    sentence = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = sentence < B
    row = slot * B + sentence
    w_both += half * H
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, 4 * H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        left = _tile(d_pre, row, unit, real[:, None] & (unit[None, :] < 4 * H), 4 * H)
        right = _matrix(w_both, unit, column, 2 * H, 1, 4 * H, H)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    total *= _dropped(tl.load(seed), t * PLACES + NODE + (MEMORY - NODE) * half, row, column, P, H)
    mask = real[:, None] & (column[None, :] < H)
    a, b, _ = _gates(outputs, row, column, mask, H)
    share = tl.load(fields + UP * M * B + row, mask=real, other=0.0)
    d = _tile(d_node, sentence, column, mask, H) * share[:, None]
    if half == 0:
        # Below the first slot is x, of which nothing is known yet.
        total += a * d + _tile(d_below, sentence, column, mask & (row[:, None] >= B), H)
        tl.store(d_below + sentence[:, None] * H + column[None, :], total, mask=mask)
    else:
        total += b * d + _tile(d_memory, row, column, mask, H)
        tl.store(d_memory + row[:, None] * H + column[None, :], total, mask=mask)


@triton.jit
def _shares_back(d_up, d_down, ratio, opened, ROWS: tl.constexpr, SLOTS: tl.constexpr):
    """The gradient of what is open; times that, it is the gradient of the score."""
    d_p = _sums(d_up, ROWS, SLOTS, True) + _sums(d_down, ROWS, SLOTS, False)
    mean = tl.sum(tl.reshape(ratio * opened * d_p, (ROWS // SLOTS, SLOTS)), 1)[:, None]
    d_p = tl.reshape(d_p, (ROWS // SLOTS, SLOTS)) - mean
    return ratio * tl.reshape(d_p, (ROWS,))


@triton.jit
def _key_tile(
    keys, queries, place_x, row, unit, mask, mean, rstd, gain, shift, w_score, seed, place,
    H: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """The normalised key; relu(query + layernorm(key)) after dropout; √H × the derivative of the score before relu."""
    normal = (_tile(keys, row, unit, mask, H) - mean[:, None]) * rstd[:, None]
    query = tl.load(queries + place_x[:, None] + unit[None, :], mask=mask, other=0.0)
    mixed = query + normal * gain[None, :] + shift[None, :]
    kept = _dropped(seed, place, row, unit, P, H)
    kept = tl.where(mask & (mixed > 0.0), kept, 0.0)
    return normal, mixed * kept, w_score[None, :] * kept


@triton.jit(do_not_specialize=["t", "later"])
def attend_back(  # noqa: PLR0915
    found, queries, seed, fields_before, memory_before, fields, keys,
    w_key, key_gain, key_shift, w_score,
    grad, d_memory, d_memory_before, d_found, d_keys, d_fields, d_fields_after,
    t, later, B, found_row, x_row,
    H: tl.constexpr, M: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
    SCALE: tl.constexpr, FIRST: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """From the gradient of M and p at position t to that of M, M̂ and p at the one before.

    grad: what the caller wants of M̂ at the position before; d_found: all of it; later: whether this is not the last one
    """
    local = tl.arange(0, ROWS)
    slot = local % SLOTS
    sentence = tl.program_id(0) * (ROWS // SLOTS) + local // SLOTS
    row = slot * B + sentence
    real = (slot < M) & (sentence < B)
    place = sentence.to(tl.int64) * found_row + slot * H
    place_x = sentence.to(tl.int64) * x_row
    seed = tl.load(seed)

    # Loads come before sums, for which threads wait for one another.
    whole = tl.arange(0, WIDE)
    whole_mask = real[:, None] & (whole[None, :] < H)
    if BLOCK >= H:
        weight = _matrix(w_key, whole, whole, H, 1, H, H)
    wanted = tl.load(grad + place[:, None] + whole[None, :], mask=whole_mask, other=0.0)
    d_stored = _tile(d_memory, row, whole, whole_mask, H)
    down = tl.load(fields + DOWN * M * B + row, mask=real, other=0.0)
    ratio = tl.load(fields + RATIO * M * B + row, mask=real, other=0.0)
    opened = _opened(fields_before, row, slot, real, B, M, FIRST)
    key_mean = tl.load(fields + KEY_MEAN * M * B + row, mask=real, other=0.0)
    key_rstd = tl.load(fields + KEY_RSTD * M * B + row, mask=real, other=0.0)

    # M_t = M_{t−1} + ←p (M̂ − M_{t−1}); and the two means of the layer norm, but for the gradient of the score.
    d_down = tl.zeros((ROWS,), tl.float32)
    d_mean = tl.zeros((ROWS,), tl.float32)
    d_slope = tl.zeros((ROWS,), tl.float32)
    for start in range(0, H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        change = tl.load(found + place[:, None] + unit[None, :], mask=mask, other=0.0)
        if not FIRST:
            change -= _tile(memory_before, row, unit, mask, H)
        d_down += tl.sum(_tile(d_memory, row, unit, mask, H) * change, 1)
        scale = _vector(key_gain, unit, H)
        normal, _, d = _key_tile(
            keys, queries, place_x, row, unit, mask, key_mean, key_rstd, scale, _vector(key_shift, unit, H),
            _vector(w_score, unit, H), seed, t * PLACES + SCORE, H, P,
        )  # fmt: skip
        d *= scale[None, :]
        d_mean += tl.sum(d, 1)
        d_slope += tl.sum(d * normal, 1)

    # →p was also what decided which slots were open at the position after.
    d_up = tl.load(d_fields + D_UP * M * B + row, mask=real, other=0.0)
    d_up += tl.load(d_fields_after + D_OPEN * M * B + row - B, mask=real & (slot * later > 0), other=0.0)
    d_open = _shares_back(d_up, d_down, ratio, opened, ROWS, SLOTS)
    d_score = d_open * opened * SCALE
    tl.store(d_fields + D_OPEN * M * B + row, d_open, mask=real)
    tl.store(d_fields + D_SCORE * M * B + row, d_score, mask=real)

    total = tl.zeros((ROWS, WIDE), tl.float32)
    d_mean, d_slope = d_mean / H, d_slope / H
    for start in range(0, H, BLOCK):
        unit = start + tl.arange(0, BLOCK)
        mask = real[:, None] & (unit[None, :] < H)
        scale = _vector(key_gain, unit, H)
        normal, _, d = _key_tile(
            keys, queries, place_x, row, unit, mask, key_mean, key_rstd, scale, _vector(key_shift, unit, H),
            _vector(w_score, unit, H), seed, t * PLACES + SCORE, H, P,
        )  # fmt: skip
        d = d_score[:, None] * _layer_norm_back(d * scale[None, :], normal, d_mean, d_slope, key_rstd, mask)
        tl.store(d_keys + row[:, None] * H + unit[None, :], d, mask=mask)
        if BLOCK < H:
            weight = _matrix(w_key, unit, whole, H, 1, H, H)
        total = tl.dot(d, weight, total, input_precision=PRECISION)

    total *= _dropped(seed, t * PLACES + KEY, row, whole, P, H)
    into = down[:, None] * d_stored
    tl.store(d_found + row[:, None] * H + whole[None, :], total + wanted + into, mask=whole_mask)
    tl.store(d_memory_before + row[:, None] * H + whole[None, :], d_stored - into, mask=whole_mask)


@triton.jit
def inputs_back(
    queries, seed, fields, keys, outputs, key_gain, key_shift, w_score, gain, shift,
    d_first, d_nodes, d_fields, d_x, d_queries, d_vectors,
    B, S, fields_step, d_fields_step,
    H: tl.constexpr, M: tl.constexpr, P: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of x and of the queries; and each (t, b)'s part in those of the layer norms and the score vector.

    d_vectors: (S − 1, B, 5, H): score, key_gain, key_shift, gain, shift
    """
    sentence, t = tl.program_id(0), tl.program_id(1)
    unit = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.arange(0, SLOTS)
    row = slot * B + sentence
    real = slot < M
    mask = real[:, None] & (unit[None, :] < H)
    place = (sentence.to(tl.int64) * S + t) * H + unit
    if t == 0:
        tl.store(d_x + place, tl.sum(_tile(d_first, row, unit, mask, H), 0), mask=unit < H)
        tl.store(d_queries + place, tl.zeros((BLOCK,), tl.float32), mask=unit < H)
    else:
        step = (t - 1).to(tl.int64)
        fields += step * fields_step
        d_fields += step * d_fields_step
        d_nodes += step * (M + 1) * B * H
        share = tl.load(fields + UP * M * B + row, mask=real, other=0.0)
        mean = tl.load(fields + MEAN * M * B + row, mask=real, other=0.0)
        rstd = tl.load(fields + RSTD * M * B + row, mask=real, other=0.0)
        d = _tile(d_nodes + B * H, row, unit, mask, H)
        d_word = tl.sum(d * (1.0 - share[:, None]), 0)
        d_word += tl.load(d_nodes + sentence * H + unit, mask=unit < H, other=0.0)
        tl.store(d_x + place, d_word, mask=unit < H)

        outputs += step * M * B * 4 * H
        _, _, c = _gates(outputs, row, unit, mask, H)
        normal, new = _new(outputs, row, unit, mask, mean, rstd, _vector(gain, unit, H), _vector(shift, unit, H), H)
        d *= share[:, None] * c * (1.0 - new * new)
        at = d_vectors + (step * B + sentence) * (5 * H) + unit
        tl.store(at + 3 * H, tl.sum(d * normal, 0), mask=unit < H)
        tl.store(at + 4 * H, tl.sum(d, 0), mask=unit < H)

        key_mean = tl.load(fields + KEY_MEAN * M * B + row, mask=real, other=0.0)
        key_rstd = tl.load(fields + KEY_RSTD * M * B + row, mask=real, other=0.0)
        d_score = tl.load(d_fields + D_SCORE * M * B + row, mask=real, other=0.0)
        place_x = (sentence.to(tl.int64) * S + t) * H + tl.zeros((SLOTS,), tl.int64)
        normal, mixed, d = _key_tile(
            keys + step * M * B * H, queries, place_x, row, unit, mask, key_mean, key_rstd, _vector(key_gain, unit, H),
            _vector(key_shift, unit, H), _vector(w_score, unit, H), tl.load(seed), t * PLACES + SCORE, H, P,
        )  # fmt: skip
        d *= d_score[:, None]
        d_query = tl.sum(d, 0)
        tl.store(d_queries + place, d_query, mask=unit < H)
        tl.store(at, tl.sum(mixed * d_score[:, None], 0), mask=unit < H)
        tl.store(at + H, tl.sum(d * normal, 0), mask=unit < H)
        tl.store(at + 2 * H, d_query, mask=unit < H)

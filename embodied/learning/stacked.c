/* Perceptrons forward and backward, several of one shape: the arithmetic of stacked.py without its many small calls.
 *
 * Rows are taken in blocks that pass through all layers while they lie in the nearest caches. Products keep a tile of
 * the result in registers; the right-hand matrix is packed in panels of its columns (Goto and van de Geijn 2008,
 * "Anatomy of high-performance matrix multiplication"). Matrices are row-major. Compiled by native.py.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 12
#else
#define LANES 8
#define TILE_ROWS 6
#endif
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#define PANEL (2 * LANES) /* columns of a panel */
#define BLOCK 96          /* rows that pass through all layers together; even, a multiple of TILE_ROWS */
#define EPSILON 1e-5f     /* added to the variance in a layer normalisation */

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* one anywhere in memory */
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    long in, out;
    long turned; /* weights and their gradient are (out, in) instead of (in, out) */
    long normed; /* layer normalisation between product and relu */
    long half;   /* products in bfloat16, sums in float32 */
    /* Parameters and gradients, member after member. */
    const float *weight, *bias, *gain, *shift;
    float *weight_slope, *bias_slope, *gain_slope, *shift_slope;
    /* Made by refresh, without the mean where normed: panels of the matrix and of its transpose, the bias, and room for
     * one matrix (in, out), which cannot be turned. */
    float *panels, *turned_panels, *base, *centred;
    /* Left by forward for backward, each (members, rows, out) but scales, (members, rows). */
    float *sums, *scales, *outputs;
} Layer;

typedef struct {
    float *slopes[2];  /* BLOCK x widest each */
    float *panels;     /* BLOCK x (widest, rounded up to panels) */
    uint32_t *pairs;   /* BLOCK x widest */
} Scratch;

static long panels_of(long columns) { return (columns + PANEL - 1) / PANEL; }
static long even(long count) { return (count + 1) & ~1L; }
static long least(long a, long b) { return a < b ? a : b; }

/* Floats that the panels of a (rows, columns) matrix take. */
long panel_size(long rows, long columns) { return panels_of(columns) * even(rows) * PANEL; }

INLINE uint32_t rounded(float value) {
    union { float f; uint32_t u; } bits = {value};
    return (bits.u + 0x7fffu + ((bits.u >> 16) & 1u)) >> 16;
}

INLINE vector dot(vector sum, uint32_t pair, vector pairs) {
#if defined(__AVX512BF16__)
    return (vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)pairs);
#else
    (void)pair, (void)pairs;
    return sum;
#endif
}

/* ---- products ---- */

typedef union { float f; uint32_t u; } word; /* a float, or two bfloat16 numbers, the earlier one in the lower half */

/* One tile of C: `count` rows by one or two vectors of columns, summed over `depth` words of A and B. */
INLINE void tile(int half, int count, int vectors, long depth, const word *a, long a_row, long a_term, const word *b,
                 float *c, long c_row, long columns, const float *base, int accumulate) {
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) sum[i][0] = sum[i][1] = (vector){0};
    for (long k = 0; k < depth; k++) {
        const vector first = *(const loose *)(b + k * PANEL), second = *(const loose *)(b + k * PANEL + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < count; i++) {
            const word scalar = a[i * a_row + k * a_term];
            sum[i][0] = half ? dot(sum[i][0], scalar.u, first) : sum[i][0] + scalar.f * first;
            if (vectors == 2) sum[i][1] = half ? dot(sum[i][1], scalar.u, second) : sum[i][1] + scalar.f * second;
        }
    }
    const int whole = columns == vectors * LANES;
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) {
        float *row = c + i * c_row, spare[PANEL];
        for (int v = 0; v < vectors; v++) {
            loose *place = (loose *)((whole ? row : spare) + v * LANES);
            vector result = sum[i][v];
            if (whole && base) result += *(const loose *)(base + v * LANES);
            if (whole && accumulate) result += *place;
            *place = result;
        }
        for (long j = 0; j < (whole ? 0 : columns); j++)
            row[j] = spare[j] + (base ? base[j] : 0.0f) + (accumulate ? row[j] : 0.0f);
    }
}

INLINE void tiles(int half, int vectors, long rows, long depth, const word *a, long a_row, long a_term, const word *b,
                  float *c, long c_row, long columns, const float *base, int accumulate) {
    long i = 0;
#define TILES(COUNT)                                                                                                 \
    for (; i + COUNT <= rows; i += COUNT)                                                                            \
    tile(half, COUNT, vectors, depth, a + i * a_row, a_row, a_term, b, c + i * c_row, c_row, columns, base, accumulate)
    TILES(TILE_ROWS);
    TILES(4);
    TILES(1);
#undef TILES
}

/* C (rows, columns) = A B + base, or C += A B. A's number (i, k) lies at a[i * a_row + k * a_term]; B comes in panels;
 * depth, a_row and a_term count words. */
static void product(int half, long rows, long columns, long depth, const void *a, long a_row, long a_term,
                    const float *panels, float *c, long c_row, const float *base, int accumulate) {
    for (long first = 0; first < columns; first += PANEL) {
        const word *b = (const word *)panels + first * depth;
        const long width = least(PANEL, columns - first);
        const float *part = base ? base + first : NULL;
#define PRODUCT(HALF, VECTORS)                                                                                       \
    tiles(HALF, VECTORS, rows, depth, a, a_row, a_term, b, c + first, c_row, width, part, accumulate)
        if (half) {
            if (width > LANES) PRODUCT(1, 2);
            else PRODUCT(1, 1);
        } else {
            if (width > LANES) PRODUCT(0, 2);
            else PRODUCT(0, 1);
        }
#undef PRODUCT
    }
}

/* ---- packing ---- */

/* Numbers a and b in bfloat16, a in the lower half. */
INLINE uint32_t paired(float a, float b) { return rounded(a) | (rounded(b) << 16); }

/* Panels of a matrix whose rows lie `row` apart. Columns beyond the last are zero, and so is an odd last term's twin. */
static void pack_rows(int half, long rows, long columns, const float *from, long row, float *panels) {
    const long depth = half ? even(rows) / 2 : rows;
    for (long first = 0; first < columns; first += PANEL) {
        const long width = least(PANEL, columns - first);
        word *restrict to = (word *)panels + first * depth;
        if (width < PANEL) memset(to, 0, sizeof(word) * PANEL * depth);
        for (long k = 0; k < depth; k++, to += PANEL) {
            const float *restrict source = from + (half ? 2 * k : k) * row + first;
            if (!half) memcpy(to, source, sizeof(float) * width);
            else if (2 * k + 1 == rows) for (long j = 0; j < width; j++) to[j].u = paired(source[j], 0.0f);
            else for (long j = 0; j < width; j++) to[j].u = paired(source[j], source[row + j]);
        }
    }
}

#if LANES == 16
#define EACH(F, S) F(0, S), F(1, S), F(2, S), F(3, S), F(4, S), F(5, S), F(6, S), F(7, S), \
                   F(8, S), F(9, S), F(10, S), F(11, S), F(12, S), F(13, S), F(14, S), F(15, S)
#else
#define EACH(F, S) F(0, S), F(1, S), F(2, S), F(3, S), F(4, S), F(5, S), F(6, S), F(7, S)
#endif
#define UPPER(LANE, S) ((LANE) & (S) ? (LANE) - (S) + LANES : (LANE))
#define LOWER(LANE, S) ((LANE) & (S) ? (LANE) + LANES : (LANE) + (S))

/* Square of LANES words: to[i * PANEL + j] = from[j * stride + i], by swapping ever smaller blocks. */
INLINE void turn_square(const word *from, long stride, word *to) {
    vector line[LANES];
#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) line[j] = *(const loose *)(from + j * stride);
#define SWAP(S)                                                                                                      \
    _Pragma("GCC unroll 16") for (int j = 0; j < LANES; j++) if (!(j & (S))) {                                       \
        const vector a = line[j], b = line[j + (S)];                                                                 \
        line[j] = __builtin_shufflevector(a, b, EACH(UPPER, S));                                                     \
        line[j + (S)] = __builtin_shufflevector(a, b, EACH(LOWER, S));                                               \
    }
#if LANES == 16
    SWAP(8)
#endif
    SWAP(4) SWAP(2) SWAP(1)
#undef SWAP
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) *(loose *)(to + i * PANEL) = line[i];
}

/* to[i * PANEL + j] = from[j * stride + i] for i < rows, j < columns. */
static void turn(long rows, long columns, const word *from, long stride, word *to) {
    const long square_rows = rows - rows % LANES, square_columns = columns - columns % LANES;
    for (long j = 0; j < square_columns; j += LANES)
        for (long i = 0; i < square_rows; i += LANES) turn_square(from + j * stride + i, stride, to + i * PANEL + j);
    for (long j = 0; j < columns; j++)
        for (long i = j < square_columns ? square_rows : 0; i < rows; i++) to[i * PANEL + j] = from[j * stride + i];
}

/* Panels of a matrix whose columns are the rows of `from`, `column` apart. */
static void pack_columns(int half, long rows, long columns, const float *from, long column, float *panels) {
    enum { PIECE = 64 };
    const long depth = half ? even(rows) / 2 : rows;
    for (long first = 0; first < columns; first += PANEL) {
        const long width = least(PANEL, columns - first);
        const float *source = from + first * column;
        word *to = (word *)panels + first * depth;
        if (width < PANEL) memset(to, 0, sizeof(word) * PANEL * depth);
        if (!half) turn(rows, width, (const word *)source, column, to);
        for (long start = 0; half && start < depth; start += PIECE) {
            const long count = least(PIECE, depth - start), whole = least(count, rows / 2 - start);
            word pieces[PANEL][PIECE];
            for (long j = 0; j < width; j++) {
                const float *restrict line = source + j * column + 2 * start;
                for (long k = 0; k < whole; k++) pieces[j][k].u = paired(line[2 * k], line[2 * k + 1]);
                if (whole < count) pieces[j][whole].u = paired(line[2 * whole], 0.0f);
            }
            turn(count, width, pieces[0], PIECE, to + start * PANEL);
        }
    }
}

/* ---- networks ---- */

/* The matrix less the mean of each row, (in, out), and the bias less its own. */
static void centre(long in, long out, const float *weight, const float *bias, float *centred, float *base) {
    for (long i = 0; i <= in; i++) {
        const float *restrict from = i < in ? weight + i * out : bias;
        float *restrict to = i < in ? centred + i * out : base, sum = 0.0f;
        for (long j = 0; j < out; j++) sum += from[j];
        for (long j = 0; j < out; j++) to[j] = from[j] - sum / out;
    }
}

/* Panels and bases of the parameters as they are now; panels of the transposes where `backwards`. */
void refresh(const Layer *layers, long count, long members, long backwards) {
    for (long index = 0; index < count; index++)
        for (long m = 0; m < members; m++) {
            const Layer l = layers[index];
            const float *weight = l.weight + m * l.in * l.out;
            float *panels = l.panels + m * panel_size(l.in, l.out), *base = l.base + m * l.out;
            float *turned_panels = l.turned_panels + m * panel_size(l.out, l.in);
            memcpy(base, l.bias + m * l.out, sizeof(float) * l.out);
            if (l.normed) {
                centre(l.in, l.out, weight, l.bias + m * l.out, l.centred, base);
                weight = l.centred;
            }
            if (l.out > 1 && l.turned) pack_columns(l.half, l.in, l.out, weight, l.in, panels);
            else if (l.out > 1) pack_rows(l.half, l.in, l.out, weight, l.out, panels);
            if (!backwards || !index) continue;
            if (l.turned) pack_rows(l.half, l.out, l.in, weight, l.in, turned_panels);
            else pack_columns(l.half, l.out, l.in, weight, l.out, turned_panels);
        }
}

/* Rows of floats as rows of bfloat16 numbers of even length. */
static void round_rows(long rows, long width, const float *restrict from, uint16_t *restrict to) {
    const long padded = even(width);
    for (long r = 0; r < rows; r++) {
        for (long j = 0; j < width; j++) to[r * padded + j] = rounded(from[r * width + j]);
        if (padded > width) to[r * padded + width] = 0;
    }
}

/* Word (k, j) holds the numbers of rows 2 k and 2 k + 1 in column j. */
static void pair_rows(long rows, long width, const float *restrict from, uint32_t *restrict to) {
    for (long r = 0; r < rows; r += 2) {
        const float *first = from + r * width, *second = first + (r + 1 < rows ? width : 0);
        const uint32_t there = r + 1 < rows ? 0xffffffffu : 0;
        for (long j = 0; j < width; j++)
            to[r / 2 * width + j] = rounded(first[j]) | ((rounded(second[j]) << 16) & there);
    }
}

/* x w + b for a single output. */
static void multiply_by_vector(long rows, long in, const float *x, const float *restrict weight, float bias,
                               float *restrict y) {
    for (long r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (long i = 0; i < in; i++) sum += x[r * in + i] * weight[i];
        y[r] = sum + bias;
    }
}

/* x W + b; where `half`, by way of `pairs`. */
static void multiply(const Layer *l, long rows, const float *x, const float *panels, float *y, uint32_t *pairs) {
    if (!l->half) {
        product(0, rows, l->out, l->in, x, l->in, 1, panels, y, l->out, l->base, 0);
        return;
    }
    round_rows(rows, l->in, x, (uint16_t *)pairs);
    product(1, rows, l->out, even(l->in) / 2, pairs, even(l->in) / 2, 1, panels, y, l->out, l->base, 0);
}

static void normalise(long rows, long width, const float *sums, const float *restrict gain,
                      const float *restrict shift, float *scales, float *outputs) {
    for (long r = 0; r < rows; r++) {
        const float *restrict x = sums + r * width;
        float *restrict y = outputs + r * width, squares = 0.0f;
        for (long j = 0; j < width; j++) squares += x[j] * x[j];
        const float scale = 1.0f / sqrtf(squares / width + EPSILON);
        scales[r] = scale;
        for (long j = 0; j < width; j++) {
            const float value = x[j] * scale * gain[j] + shift[j];
            y[j] = value < 0.0f ? 0.0f : value;
        }
    }
}

/* Outputs of the `members` first networks for x (rows, in), into the layers' own arrays. */
void forward(const Layer *layers, long count, long members, const float *x, long rows, const Scratch *scratch) {
    for (long m = 0; m < members; m++)
        for (long start = 0; start < rows; start += BLOCK) {
            const long block = least(BLOCK, rows - start);
            const float *below = x + start * layers[0].in;
            for (long index = 0; index < count; index++) {
                Layer l = layers[index];
                const long at = m * rows + start;
                float *outputs = l.outputs + at * l.out, *sums = l.normed ? l.sums + at * l.out : outputs;
                l.base += m * l.out;
                if (l.out == 1) multiply_by_vector(block, l.in, below, l.weight + m * l.in, *l.base, sums);
                else multiply(&l, block, below, l.panels + m * panel_size(l.in, l.out), sums, scratch->pairs);
                if (l.normed)
                    normalise(block, l.out, sums, l.gain + m * l.out, l.shift + m * l.out, l.scales + at, outputs);
                else if (index + 1 < count)
                    for (long j = 0; j < block * l.out; j++) outputs[j] = outputs[j] < 0.0f ? 0.0f : outputs[j];
                below = outputs;
            }
        }
}

/* From the gradient after relu to the one before the product, in place; Ba et al. 2016, arXiv 1607.06450. Line r of
 * `slopes` belongs to row row[r] of the other arrays. */
static void through_norm(long rows, const long *row, long width, const float *outputs, const float *sums,
                         const float *scales, const float *restrict gain, float *slopes, float *restrict gain_slope,
                         float *restrict shift_slope) {
    for (long r = 0; r < rows; r++) {
        const float *restrict x = sums + row[r] * width, *restrict y = outputs + row[r] * width;
        float *restrict g = slopes + r * width, mean = 0.0f, along = 0.0f;
        const float scale = scales[row[r]];
        for (long j = 0; j < width; j++) g[j] = y[j] > 0.0f ? g[j] : 0.0f;
        if (gain_slope)
            for (long j = 0; j < width; j++) {
                gain_slope[j] += g[j] * x[j] * scale;
                shift_slope[j] += g[j];
            }
        for (long j = 0; j < width; j++) {
            g[j] *= gain[j];
            mean += g[j];
            along += g[j] * x[j];
        }
        mean /= width;
        along *= scale * scale / width;
        for (long j = 0; j < width; j++) g[j] = scale * (g[j] - mean - x[j] * along);
    }
}

/* The same without a layer normalisation. */
static void through_relu(long rows, const long *row, long width, const float *outputs, float *slopes) {
    for (long r = 0; r < rows; r++) {
        const float *restrict y = outputs + row[r] * width;
        float *restrict g = slopes + r * width;
        for (long j = 0; j < width; j++) g[j] = y[j] > 0.0f ? g[j] : 0.0f;
    }
}

/* Adds a block's part to the gradients of weights and bias. */
static void add_slopes(const Layer *l, long m, long rows, const float *x, const float *slopes, const Scratch *scratch) {
    float *restrict bias_slope = l->bias_slope + m * l->out;
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < l->out; j++) bias_slope[j] += slopes[r * l->out + j];
    const float *left = l->turned ? slopes : x, *right = l->turned ? x : slopes;
    const long high = l->turned ? l->out : l->in, wide = l->turned ? l->in : l->out;
    const void *terms = left;
    if (l->half) {
        pair_rows(rows, high, left, scratch->pairs);
        terms = scratch->pairs;
    }
    pack_rows(l->half, rows, wide, right, wide, scratch->panels);
    product(l->half, high, wide, l->half ? even(rows) / 2 : rows, terms, 1, high, scratch->panels,
            l->weight_slope + m * l->in * l->out, wide, NULL, 1);
}

/* slopes W^T, with respect to the outputs of the layer below. */
static void multiply_back(const Layer *l, long m, long rows, const float *slopes, float *below, uint32_t *pairs) {
    const float *panels = l->turned_panels + m * panel_size(l->out, l->in);
    if (!l->half) {
        product(0, rows, l->in, l->out, slopes, l->out, 1, panels, below, l->in, NULL, 0);
        return;
    }
    round_rows(rows, l->out, slopes, (uint16_t *)pairs);
    product(1, rows, l->in, even(l->out) / 2, pairs, even(l->out) / 2, 1, panels, below, l->in, NULL, 0);
}

/* The last columns of slopes W^T of the first layer, added to rows row[r] of `result` (rows, inputs). */
static void add_input_slopes(const Layer *l, long m, long rows, const long *row, const float *slopes, float *result,
                             long inputs) {
    const float *weight = l->weight + m * l->in * l->out;
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < inputs; i++) {
            const long from = l->in - inputs + i;
            const float *line = weight + (l->turned ? from : from * l->out);
            float sum = 0.0f;
            if (l->turned) for (long j = 0; j < l->out; j++) sum += slopes[r * l->out + j] * line[j * l->in];
            else for (long j = 0; j < l->out; j++) sum += slopes[r * l->out + j] * line[j];
            result[row[r] * inputs + i] += sum;
        }
}

static void clear_slopes(const Layer *layers, long count, long members) {
    for (long index = 0; index < count; index++) {
        const Layer l = layers[index];
        memset(l.weight_slope, 0, sizeof(float) * members * l.in * l.out);
        memset(l.bias_slope, 0, sizeof(float) * members * l.out);
        if (l.normed) memset(l.gain_slope, 0, sizeof(float) * members * l.out);
        if (l.normed) memset(l.shift_slope, 0, sizeof(float) * members * l.out);
    }
}

/* The next rows of `slopes` from *start on, at most BLOCK; with `all`, those too whose slopes are zero. */
static long take_rows(const float *slopes, long width, long rows, int all, long *start, long *row, float *taken) {
    long count = 0;
    for (; *start < rows && count < BLOCK; ++*start) {
        const float *line = slopes + *start * width;
        int wanted = all;
        for (long j = 0; j < width; j++) wanted |= line[j] != 0.0f;
        if (!wanted) continue;
        memcpy(taken + count * width, line, sizeof(float) * width);
        row[count++] = *start;
    }
    return count;
}

/* Backward pass of the latest `forward` of `rows` rows, of which the `used` first ones had a part in the loss.
 *
 * x: (rows, in). slopes: (members, used, out) by the outputs. parameters: overwrite the parameters' gradients.
 * result: (used, inputs), zeros; gets the gradient by the last columns of x, summed over the members. */
void backward(const Layer *layers, long count, long members, const float *x, long rows, long used, const float *slopes,
              long parameters, float *result, long inputs, const Scratch *scratch) {
    if (parameters) clear_slopes(layers, count, members);
    const long last = layers[count - 1].out;
    long row[BLOCK], block;
    for (long m = 0; m < members; m++)
        for (long start = 0;;) {
            float *now = scratch->slopes[0], *next = scratch->slopes[1];
            block = take_rows(slopes + m * used * last, last, used, parameters != 0, &start, row, now);
            if (!block) break;
            for (long index = count - 1; index >= 0; index--) {
                const Layer l = layers[index];
                const long at = m * rows;
                const float *outputs = l.outputs + at * l.out;
                if (l.normed)
                    through_norm(block, row, l.out, outputs, l.sums + at * l.out, l.scales + at, l.gain + m * l.out,
                                 now, parameters ? l.gain_slope + m * l.out : NULL, l.shift_slope + m * l.out);
                else if (index + 1 < count) through_relu(block, row, l.out, outputs, now);
                const float *below = index ? layers[index - 1].outputs + at * l.in : x;
                if (parameters) add_slopes(&l, m, block, below + row[0] * l.in, now, scratch);
                if (!index) break;
                multiply_back(&l, m, block, now, next, scratch->pairs);
                float *swap = now;
                now = next;
                next = swap;
            }
            if (inputs) add_input_slopes(layers, m, block, row, now, result, inputs);
        }
}

/* Whether layers may be `half`. */
long has_half(void) {
#if defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}

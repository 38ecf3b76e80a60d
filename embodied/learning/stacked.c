/* Perceptrons forward and backward, several of one shape: the arithmetic of stacked.py without its many small calls.
 *
 * Rows are taken in blocks that pass through all layers while they lie in the nearest caches. Products keep a tile of
 * the result in registers; the right-hand matrix is packed in panels of its columns (Goto and van de Geijn 2008,
 * "Anatomy of high-performance matrix multiplication"). Matrices are row-major. Compiled at first use by compiled.py.
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
    /* Made by refresh: panels of the matrix and of its transpose, without the mean where normed; that bias. */
    float *panels, *turned_panels, *base;
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

/* The matrix whose number (i, j) lies at from[i * row + j * column], less mean[i] or mean[j], in panels. */
static void pack(int half, long rows, long columns, const float *from, long row, long column, const float *row_mean,
                 const float *column_mean, float *panels) {
    const long depth = half ? even(rows) / 2 : rows;
    for (long first = 0; first < columns; first += PANEL) {
        const long width = least(PANEL, columns - first);
        word *to = (word *)panels + first * depth;
        if (half || width < PANEL) memset(to, 0, sizeof(word) * PANEL * depth);
        for (long i = 0; i < rows; i++) {
            const float *source = from + i * row + first * column;
            float line[PANEL];
            if (column == 1) for (long j = 0; j < width; j++) line[j] = source[j];
            else for (long j = 0; j < width; j++) line[j] = source[j * column];
            if (row_mean) for (long j = 0; j < width; j++) line[j] -= row_mean[i];
            if (column_mean) for (long j = 0; j < width; j++) line[j] -= column_mean[first + j];
            word *place = to + (half ? i / 2 : i) * PANEL;
            if (!half) for (long j = 0; j < width; j++) place[j].f = line[j];
            else if (i % 2 == 0) for (long j = 0; j < width; j++) place[j].u = rounded(line[j]);
            else for (long j = 0; j < width; j++) place[j].u |= rounded(line[j]) << 16;
        }
    }
}

/* ---- networks ---- */

/* Panels and bases of the parameters as they are now; those of the transposes where `backwards`. */
void refresh(const Layer *layers, long count, long members, long backwards) {
    for (long index = 0; index < count; index++) {
        const Layer l = layers[index];
        const long row = l.turned ? 1 : l.out, column = l.turned ? l.in : 1;
        const long size = panel_size(l.in, l.out), turned_size = panel_size(l.out, l.in);
        for (long m = 0; m < members; m++) {
            const float *weight = l.weight + m * l.in * l.out, *bias = l.bias + m * l.out;
            float mean[l.in], bias_mean = 0.0f, *base = l.base + m * l.out;
            for (long i = 0; i < l.in; i++) {
                float sum = 0.0f;
                if (l.normed) for (long j = 0; j < l.out; j++) sum += weight[i * row + j * column];
                mean[i] = sum / l.out;
            }
            if (l.normed) for (long j = 0; j < l.out; j++) bias_mean += bias[j] / l.out;
            for (long j = 0; j < l.out; j++) base[j] = bias[j] - bias_mean;
            pack(l.half, l.in, l.out, weight, row, column, mean, NULL, l.panels + m * size);
            if (backwards && index)
                pack(l.half, l.out, l.in, weight, column, row, NULL, mean, l.turned_panels + m * turned_size);
        }
    }
}

/* Rows of floats as rows of bfloat16 numbers of even length. */
static void round_rows(long rows, long width, const float *from, uint16_t *to) {
    const long padded = even(width);
    for (long r = 0; r < rows; r++) {
        for (long j = 0; j < width; j++) to[r * padded + j] = rounded(from[r * width + j]);
        if (padded > width) to[r * padded + width] = 0;
    }
}

/* Word (k, j) holds the numbers of rows 2 k and 2 k + 1 in column j. */
static void pair_rows(long rows, long width, const float *from, uint32_t *to) {
    for (long r = 0; r < rows; r += 2) {
        const float *first = from + r * width, *second = first + (r + 1 < rows ? width : 0);
        const uint32_t there = r + 1 < rows ? 0xffffffffu : 0;
        for (long j = 0; j < width; j++)
            to[r / 2 * width + j] = rounded(first[j]) | ((rounded(second[j]) << 16) & there);
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

static void normalise(long rows, long width, const float *sums, const float *gain, const float *shift, float *scales,
                      float *outputs) {
    for (long r = 0; r < rows; r++) {
        const float *x = sums + r * width;
        float *y = outputs + r * width, squares = 0.0f;
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
                multiply(&l, block, below, l.panels + m * panel_size(l.in, l.out), sums, scratch->pairs);
                if (l.normed)
                    normalise(block, l.out, sums, l.gain + m * l.out, l.shift + m * l.out, l.scales + at, outputs);
                else if (index + 1 < count)
                    for (long j = 0; j < block * l.out; j++) outputs[j] = outputs[j] < 0.0f ? 0.0f : outputs[j];
                below = outputs;
            }
        }
}

/* From the gradient after relu to the one before the product, in place; Ba et al. 2016, arXiv 1607.06450. */
static void through_norm(long rows, long width, const float *outputs, const float *sums, const float *scales,
                         const float *gain, float *slopes, float *gain_slope, float *shift_slope) {
    for (long r = 0; r < rows; r++) {
        const float *x = sums + r * width, *y = outputs + r * width, scale = scales[r];
        float *g = slopes + r * width, mean = 0.0f, along = 0.0f;
        for (long j = 0; j < width; j++) {
            const float masked = y[j] > 0.0f ? g[j] : 0.0f, part = masked * x[j] * scale, inner = masked * gain[j];
            if (gain_slope) {
                gain_slope[j] += part;
                shift_slope[j] += masked;
            }
            mean += inner;
            along += part * gain[j];
            g[j] = inner;
        }
        mean /= width;
        along *= scale / width;
        for (long j = 0; j < width; j++) g[j] = scale * (g[j] - mean - x[j] * along);
    }
}

/* Adds a block's part to the gradients of weights and bias. */
static void add_slopes(const Layer *l, long m, long rows, const float *x, const float *slopes, const Scratch *scratch) {
    float *bias_slope = l->bias_slope + m * l->out;
    for (long r = 0; r < rows; r++)
        for (long j = 0; j < l->out; j++) bias_slope[j] += slopes[r * l->out + j];
    const float *left = l->turned ? slopes : x, *right = l->turned ? x : slopes;
    const long high = l->turned ? l->out : l->in, wide = l->turned ? l->in : l->out;
    const void *terms = left;
    if (l->half) {
        pair_rows(rows, high, left, scratch->pairs);
        terms = scratch->pairs;
    }
    pack(l->half, rows, wide, right, wide, 1, NULL, NULL, scratch->panels);
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

/* The last columns of slopes W^T of the first layer, added to `result` (rows, inputs). */
static void add_input_slopes(const Layer *l, long m, long rows, const float *slopes, float *result, long inputs) {
    const float *weight = l->weight + m * l->in * l->out;
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < inputs; i++) {
            const long from = l->in - inputs + i;
            const float *line = weight + (l->turned ? from : from * l->out);
            float sum = 0.0f;
            if (l->turned) for (long j = 0; j < l->out; j++) sum += slopes[r * l->out + j] * line[j * l->in];
            else for (long j = 0; j < l->out; j++) sum += slopes[r * l->out + j] * line[j];
            result[r * inputs + i] += sum;
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

/* Backward pass of the latest `forward` of `rows` rows, of which the `used` first ones had a part in the loss.
 *
 * x: (rows, in). slopes: (members, used, out) by the outputs. parameters: overwrite the parameters' gradients.
 * result: (used, inputs), zeros; gets the gradient by the last columns of x, summed over the members. */
void backward(const Layer *layers, long count, long members, const float *x, long rows, long used, const float *slopes,
              long parameters, float *result, long inputs, const Scratch *scratch) {
    if (parameters) clear_slopes(layers, count, members);
    const long last = layers[count - 1].out;
    for (long m = 0; m < members; m++)
        for (long start = 0; start < used; start += BLOCK) {
            const long block = least(BLOCK, used - start), at = m * rows + start;
            float *now = scratch->slopes[0], *next = scratch->slopes[1];
            memcpy(now, slopes + (m * used + start) * last, sizeof(float) * block * last);
            for (long index = count - 1; index >= 0; index--) {
                const Layer l = layers[index];
                const float *outputs = l.outputs + at * l.out;
                if (l.normed)
                    through_norm(block, l.out, outputs, l.sums + at * l.out, l.scales + at, l.gain + m * l.out, now,
                                 parameters ? l.gain_slope + m * l.out : NULL, l.shift_slope + m * l.out);
                else if (index + 1 < count)
                    for (long j = 0; j < block * l.out; j++) now[j] = outputs[j] > 0.0f ? now[j] : 0.0f;
                const float *below = index ? layers[index - 1].outputs + at * l.in : x + start * l.in;
                if (parameters) add_slopes(&l, m, block, below, now, scratch);
                if (!index) break;
                multiply_back(&l, m, block, now, next, scratch->pairs);
                float *swap = now;
                now = next;
                next = swap;
            }
            if (inputs) add_input_slopes(layers, m, block, now, result + start * inputs, inputs);
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
